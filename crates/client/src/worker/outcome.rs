//! The outcome that a handler returns.

use std::fmt::Display;

use bytes::Bytes;

/// Maximum length of a failure message; the rest is cut off.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// How a handler's attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done, and this is its result.
    Completed(Bytes),
    /// The work went wrong; the task is retried as its terms say.
    Failed(Failure),
    /// The handler has carried out the cancellation.
    Cancelled(Bytes),
    /// The handler has carried out the pause.
    Paused(Bytes),
    /// Unfinished, for another worker.
    GivenBack(Option<Box<str>>),
}

impl Outcome {
    /// The work is done, with this result.
    pub fn complete(result: impl Into<Bytes>) -> Outcome {
        Outcome::Completed(result.into())
    }

    /// The work failed. The broker retries it if the task has retries left, unless the failure is
    /// [final](Failure::last).
    pub fn fail(failure: impl Into<Failure>) -> Outcome {
        Outcome::Failed(failure.into())
    }

    /// Confirms a cancellation, with whatever is worth keeping.
    pub fn cancelled(result: impl Into<Bytes>) -> Outcome {
        Outcome::Cancelled(result.into())
    }

    /// Confirms a pause, with what the next attempt can continue from.
    pub fn paused(result: impl Into<Bytes>) -> Outcome {
        Outcome::Paused(result.into())
    }

    /// Returns the task unfinished: another worker may take it, and it counts neither as crash nor as failure.
    pub fn give_back(reason: &str) -> Outcome {
        Outcome::GivenBack(Some(reason.into()))
    }
}

/// Why the work failed. Any error with a text converts to it, with exit code 1, so `?` works in handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(crate) exit_code: i32,
    pub(crate) message: Box<str>,
    pub(crate) result: Bytes,
    pub(crate) is_final: bool,
    pub(crate) crashed: bool,
}

impl Failure {
    /// The exit code of a failure is never 0, and -1 means cancelled: both become 1.
    pub fn new(exit_code: i32, message: impl Into<String>) -> Failure {
        let exit_code = if matches!(exit_code, 0 | -1) { 1 } else { exit_code };
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Failure { exit_code, message: message.into(), result: Bytes::new(), is_final: false, crashed: false }
    }

    /// Marks the failure as final: a retry would not help.
    #[must_use]
    pub fn last(mut self) -> Failure {
        self.is_final = true;
        self
    }

    /// Adds a result worth keeping despite the failure.
    #[must_use]
    pub fn result(mut self, result: impl Into<Bytes>) -> Failure {
        self.result = result.into();
        self
    }

    /// Marks the failure as a crash: the process that did the work died.
    #[must_use]
    pub fn crashed(mut self) -> Failure {
        self.crashed = true;
        self
    }
}

// `Failure` has no `Display`, so this impl does not overlap with `From<T> for T`.
impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(1, error.to_string())
    }
}

/// A value that a handler may return.
pub trait IntoOutcome {
    /// Converts the return value of a handler.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: IntoOutcome, E: Into<Failure>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(done) => done.into_outcome(),
            Err(error) => Outcome::Failed(error.into()),
        }
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Completed(Bytes::new())
    }
}

macro_rules! results {
    ($($kind:ty),*) => {
        $(impl IntoOutcome for $kind {
            fn into_outcome(self) -> Outcome {
                Outcome::Completed(self.into())
            }
        })*
    };
}

results!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_may_return_what_it_has() {
        fn parse(text: &str) -> Result<String, Failure> {
            let number: i32 = text.parse()?;
            if number < 0 {
                return Err(Failure::new(7, "below zero").last());
            }
            Ok(number.to_string())
        }
        assert_eq!(parse("42").into_outcome(), Outcome::complete("42"));
        assert_eq!(parse("-1").into_outcome(), Outcome::Failed(Failure::new(7, "below zero").last()));
        let Outcome::Failed(failure) = parse("x").into_outcome() else { panic!("it failed") };
        assert_eq!((failure.exit_code, &*failure.message), (1, "invalid digit found in string"));
        assert_eq!(().into_outcome(), Outcome::complete(""));
    }

    #[test]
    fn exit_codes_and_messages_stay_within_what_the_broker_takes() {
        assert_eq!(Failure::new(0, "").exit_code, 1);
        assert_eq!(Failure::new(-1, "").exit_code, 1);
        assert_eq!(Failure::new(-9, "").exit_code, -9);
        let long = "é".repeat(MESSAGE_BYTES_MAX);
        let cut = Failure::new(1, long).message;
        assert!(cut.len() <= MESSAGE_BYTES_MAX && cut.chars().all(|letter| letter == 'é'));
    }
}
