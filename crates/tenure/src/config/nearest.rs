//! "Did you mean …": the known word that is nearest to an unknown one.

/// A message lists all known words if there are at most this many.
const TOLD_MAX: usize = 20;

/// Says that a word is unknown, and which one was probably meant, or which there are.
pub(crate) fn unknown<'a>(what: &str, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("`{word}` is not a known {what}: did you mean `{near}`?"),
        None if known.len() <= TOLD_MAX => {
            format!("`{word}` is not a known {what}; known are {}", known.join(", "))
        }
        None => format!("`{word}` is not a known {what}"),
    }
}

pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this likeness a suggestion would only puzzle.
    const LIKENESS_MIN: f64 = 0.6;
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::jaro_winkler(word, candidate)
                    .max(strsim::normalized_damerau_levenshtein(word, candidate)),
                candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_and_nonsense_is_not() {
        assert_eq!(nearest("snyc", ["sync", "log", "grpc"]), Some("sync"));
        assert_eq!(nearest("endedkept", ["ended_kept", "events_kept"]), Some("ended_kept"));
        assert_eq!(nearest("zzzzqqqq", ["sync", "log"]), None);
        assert_eq!(nearest("colour", ["queue", "worker", "before"]), None);
        assert!(unknown("word", "zzzzqqqq", ["sync", "log"]).ends_with("known are sync, log"));
    }
}
