//! Why a text is not a timing: which field is wrong, what it may be, and an example.

use std::fmt;

/// A text that says no times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimingError {
    /// `minute`, `hour`, `day of the month`, `month`, `day of the week`, `time zone`, `interval`, or `cron expression` for
    /// the whole.
    pub field: &'static str,
    /// What is wrong with the field.
    pub why: String,
    /// A text that is right.
    pub example: &'static str,
}

impl TimingError {
    pub(crate) fn new(field: &'static str, why: impl Into<String>, example: &'static str) -> TimingError {
        TimingError { field, why: why.into(), example }
    }
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; for example {}", self.field, self.why, self.example)
    }
}

impl std::error::Error for TimingError {}
