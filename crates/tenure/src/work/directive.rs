//! Lines on stdout with which a command talks to its worker: progress for people, and checkpoints for the next
//! attempt.

use super::progress::{self, Progress};

const CHECKPOINT_MARKS: [&str; 2] = ["::checkpoint", "tenure:checkpoint"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Directive {
    Progress(Progress),
    /// To be saved; empty removes the last checkpoint.
    Checkpoint(String),
}

/// The directive in a line of output, if there is one.
pub(crate) fn parse(line: &str) -> Option<Directive> {
    let checkpoint = CHECKPOINT_MARKS.iter().find_map(|mark| line.trim_start().strip_prefix(mark));
    match checkpoint {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
            Some(Directive::Checkpoint(rest.trim().to_owned()))
        }
        _ => progress::parse(line).map(Directive::Progress),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_the_rest_of_its_line() {
        for (line, expected) in [
            ("::checkpoint row 2000", Some("row 2000")),
            ("tenure:checkpoint {\"row\": 7}\r", Some("{\"row\": 7}")),
            ("::checkpoint", Some("")),
            ("::checkpoints 7", None),
            ("a ::checkpoint 7", None),
        ] {
            assert_eq!(parse(line), expected.map(|text| Directive::Checkpoint(text.to_owned())), "{line}");
        }
        assert!(matches!(parse("::progress 7"), Some(Directive::Progress(_))));
    }
}
