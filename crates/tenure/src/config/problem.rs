//! A problem in the configuration, and its source.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, the variable or the flag.
    from: String,
    what: String,
}

impl Problem {
    pub(crate) fn new(from: impl Into<String>, what: impl Into<String>) -> Problem {
        Problem { from: from.into(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.from, self.what)
    }
}

/// All of them, one per line, so that a user can correct the file in one pass.
pub(crate) fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
