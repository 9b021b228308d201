//! Intervals: `every 15m`. Due times are whole intervals after the moment from which the schedule counts.

use crate::error::TimingError;

const FIELD: &str = "interval";
const EXAMPLE: &str = "every 15m";
const SECOND: u64 = 1_000;
/// Nothing useful is due more often: a task takes longer than that to submit and assign.
const INTERVAL_MIN: u64 = SECOND;
const INTERVAL_MAX: u64 = 10 * 365 * 24 * 3_600 * SECOND;

/// Reads `15m`, `90s`, `1h30m`, `2d`. In milliseconds.
pub(crate) fn parse(text: &str) -> Result<u64, TimingError> {
    let wrong = |why: String| Err(TimingError::new(FIELD, why, EXAMPLE));
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (mut total, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => SECOND,
            'm' => 60 * SECOND,
            'h' => 3_600 * SECOND,
            'd' => 24 * 3_600 * SECOND,
            _ => return wrong(format!("{c:?} is not a unit: write s, m, h or d")),
        };
        let Ok(count) = std::mem::take(&mut digits).parse::<u64>() else {
            return wrong(format!("there is no number before {c:?}"));
        };
        total = total.saturating_add(count.saturating_mul(unit));
    }
    if !digits.is_empty() {
        return wrong(format!("{digits} has no unit: write s, m, h or d behind it"));
    }
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&total) {
        return wrong("it is below one second or above ten years".to_owned());
    }
    Ok(total)
}

/// The first due time after `after`.
pub(crate) fn next_after(every: u64, anchor: u64, after: u64) -> Option<u64> {
    let passed = after.saturating_sub(anchor) / every;
    anchor.checked_add(every.checked_mul(passed.checked_add(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_add_up() {
        assert_eq!(parse("15m"), Ok(900_000));
        assert_eq!(parse("1h 30m"), Ok(5_400_000));
        assert_eq!(parse("2d"), Ok(172_800_000));
    }

    #[test]
    fn a_wrong_interval_says_what_is_wrong() {
        for (text, part) in
            [("15", "no unit"), ("m", "no number"), ("3w", "'w'"), ("", "below"), ("0s", "below")]
        {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("every 15m"), "{error}");
        }
    }

    #[test]
    fn due_times_are_whole_intervals_after_the_anchor() {
        assert_eq!(next_after(100, 1_000, 1_000), Some(1_100));
        assert_eq!(next_after(100, 1_000, 1_099), Some(1_100));
        assert_eq!(next_after(100, 1_000, 1_100), Some(1_200));
        assert_eq!(next_after(100, 1_000, 5), Some(1_100));
        assert_eq!(next_after(u64::MAX, 1_000, 5), None);
    }
}
