//! Errors in bytes from an untrusted peer. Every error says what was expected and where.

use std::fmt;

use thiserror::Error;

/// The stream cannot be decoded any further: the connection must be closed.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("a frame of {length} bytes was announced, at most {limit} are allowed")]
    TooLong { length: usize, limit: usize },
}

/// One frame is not a valid message. Later frames can still be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The message's number, or 0 if not even that could be read.
    pub number: u64,
    /// The message's kind, as far as it could be read.
    pub kind: Option<Box<str>>,
    /// The fault in it.
    pub problem: Problem,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind}: {}", self.problem),
            None => write!(f, "the frame is not a message: {}", self.problem),
        }
    }
}

impl std::error::Error for DecodeError {}

/// The fault in a value, and where it is in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(Box<(ValueFault, String)>);

/// The fault in a value. The message continues a sentence that begins with the name of the value.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueFault {
    #[error("ends in the middle of a value")]
    Truncated,
    #[error("is missing")]
    Missing,
    #[error("should be {expected}, not {found}")]
    Unexpected { expected: &'static str, found: &'static str },
    #[error("is a number out of range")]
    OutOfRange,
    #[error("has {count} entries, at most {limit} are allowed")]
    TooMany { count: usize, limit: usize },
    #[error("is text that is not UTF-8")]
    NotText,
    #[error("is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("nests deeper than {limit} levels")]
    TooDeep { limit: usize },
    #[error("is not a task id: 16 bytes, or a UUID as text")]
    NotAnId,
    #[error("is followed by {bytes} more bytes")]
    Trailing { bytes: usize },
}

impl Problem {
    /// Where in the message the problem is, such as `tasks[3].body`; empty for the message itself.
    pub fn at(&self) -> &str {
        &self.0.1
    }

    /// The fault.
    pub fn what(&self) -> &ValueFault {
        &self.0.0
    }

    /// Adds the field that contains the problem to its path.
    #[cold]
    pub(crate) fn in_field(mut self, name: &str) -> Problem {
        let path = &mut self.0.1;
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        path.insert_str(0, dot);
        path.insert_str(0, name);
        self
    }

    /// Adds the list entry that contains the problem to its path.
    #[cold]
    pub(crate) fn in_entry(mut self, index: usize) -> Problem {
        let path = &mut self.0.1;
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        path.insert_str(0, &format!("[{index}]{dot}"));
        self
    }
}

impl From<ValueFault> for Problem {
    #[cold]
    fn from(what: ValueFault) -> Problem {
        Problem(Box::new((what, String::new())))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at().is_empty() {
            return write!(f, "it {}", self.what());
        }
        write!(f, "`{}` {}", self.at(), self.what())
    }
}

impl std::error::Error for Problem {}
