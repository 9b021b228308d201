//! Progress lines on a command's stdout: `::progress 42 reading`, or `tenure:progress 42 reading`.

const MARKS: [&str; 2] = ["::progress", "tenure:progress"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// 0 to 100, if it was said.
    pub(crate) percent: Option<u8>,
    pub(crate) note: String,
}

/// The progress that a line tells of. A number above 100 is taken as 100.
pub(crate) fn parse(line: &str) -> Option<Progress> {
    let rest = MARKS.iter().find_map(|mark| line.trim_start().strip_prefix(mark))?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim();
    let (first, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let number = first.strip_suffix('%').unwrap_or(first).parse::<f64>();
    match number {
        Ok(number) if number.is_finite() => {
            let percent = number.clamp(0.0, 100.0) as u8;
            Some(Progress { percent: Some(percent), note: after.trim().to_owned() })
        }
        _ if rest.is_empty() => None,
        _ => Some(Progress { percent: None, note: rest.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_number_a_note_or_both() {
        let told = |line| parse(line).map(|progress| (progress.percent, progress.note));
        assert_eq!(told("::progress 42 half way"), Some((Some(42), "half way".to_owned())));
        assert_eq!(told("tenure:progress 7%"), Some((Some(7), String::new())));
        assert_eq!(told("::progress 99.9 nearly\r"), Some((Some(99), "nearly".to_owned())));
        assert_eq!(told("::progress reading"), Some((None, "reading".to_owned())));
        assert_eq!(told("::progress 4000"), Some((Some(100), String::new())));
        for line in ["progress 42", "::progression 42", "::progress", "a ::progress 42", ""] {
            assert_eq!(told(line), None, "{line}");
        }
    }
}
