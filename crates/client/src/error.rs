//! Errors, grouped by what the program can do about them.

use std::time::Duration;

use tenure_wire::{Code, Refusal};

use crate::worker::Interrupt;

/// Start of the message of an interrupted wait.
pub(crate) const INTERRUPTED_WAIT: &str = "interrupted while waiting for other tasks: ";

/// Why a request has no reply, or not the expected one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The broker refused the request and changed nothing. The code is stable; the refusal carries the details.
    #[error("{0}")]
    Refused(Box<Refusal>),

    /// No broker answered. Nothing was sent.
    #[error(
        "no broker answered at {addresses} within {} s ({last}): is `tenure serve` running there?",
        waited.as_secs_f32()
    )]
    Unreachable {
        /// All addresses that were tried.
        addresses: Box<str>,
        /// How long the client tried.
        waited: Duration,
        /// The error of the last attempt.
        last: Box<str>,
    },

    /// The connection was lost after the request was sent and before the reply came, and the request is not safe to
    /// repeat. The broker may or may not have executed it.
    #[error(
        "the connection was lost before the broker answered `{verb}` ({why}); the broker may have executed it: check before you retry{}",
        if *verb == "submit" { " (submitting a task that has a name again is safe)" } else { "" }
    )]
    UnknownOutcome {
        /// The kind of the request.
        verb: &'static str,
        /// How the connection was lost.
        why: Box<str>,
    },

    /// The connection broke. Only users of [`Connection`](crate::Connection) see this error.
    #[error("the connection was lost ({why})")]
    Lost {
        /// How it was lost.
        why: Box<str>,
    },

    /// Nothing listens at the address, so no broker runs there. Only users of [`Connection`](crate::Connection) see this
    /// error.
    #[error("no broker runs there ({why})")]
    NotListening {
        /// Why the listener ended.
        why: Box<str>,
    },

    /// The peer does not speak the protocol as this client knows it.
    #[error("protocol error ({what}): check the address, and the versions of client and broker")]
    Protocol {
        /// The reason why the client could not understand the broker.
        what: Box<str>,
    },

    /// An address that cannot be used. Nothing was sent.
    #[error("`{address}` {why}: write host:port, host, or unix:/path")]
    BadAddress {
        /// The address as it was given.
        address: Box<str>,
        /// The fault in it.
        why: Box<str>,
    },

    /// Refused by the client before it sent anything.
    #[error("{what} has {bytes} bytes; the broker accepts at most {limit}")]
    TooLarge {
        /// The part that is too large, such as a body.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The size that the broker accepts.
        limit: usize,
    },

    /// Refused by the client before it sent anything.
    #[error("{what} {why}")]
    BadSetting {
        /// The setting or argument.
        what: &'static str,
        /// The fault in it.
        why: Box<str>,
    },

    /// The handler stopped waiting for other tasks, because its own should wind down. A handler that returns this error
    /// confirms the cancellation or the pause, or gives the task back.
    #[error("{INTERRUPTED_WAIT}{}", interrupt.as_str())]
    Interrupted {
        /// Why it should wind down.
        interrupt: Interrupt,
    },

    /// The program itself closed the client or the worker.
    #[error("this program closed it")]
    Closed,
}

impl Error {
    /// The refusal's stable code, if the broker refused.
    pub fn code(&self) -> Option<&Code> {
        self.refusal().map(|refusal| &refusal.code)
    }

    /// The whole refusal with its details, if the broker refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the broker refused with this code.
    pub fn is(&self, code: &Code) -> bool {
        self.code() == Some(code)
    }

    pub(crate) fn bad_address(address: &str, why: &str) -> Error {
        Error::BadAddress { address: address.trim().into(), why: why.into() }
    }

    pub(crate) fn lost(why: &str) -> Error {
        Error::Lost { why: why.into() }
    }

    pub(crate) fn protocol(what: impl Into<Box<str>>) -> Error {
        Error::Protocol { what: what.into() }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(Box::new(refusal))
    }
}

impl From<Box<Refusal>> for Error {
    fn from(refusal: Box<Refusal>) -> Error {
        Error::Refused(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_what_to_do() {
        let lost = Error::UnknownOutcome { verb: "submit", why: "connection reset".into() };
        assert!(lost.to_string().contains("that has a name"), "{lost}");
        let lost = Error::UnknownOutcome { verb: "cancel", why: "connection reset".into() };
        assert!(
            lost.to_string().contains("check before you retry") && !lost.to_string().contains("name"),
            "{lost}"
        );
        let gone = Error::Unreachable {
            addresses: "a:1, b:2".into(),
            waited: Duration::from_secs(30),
            last: "refused".into(),
        };
        assert!(gone.to_string().contains("tenure serve") && gone.to_string().contains("a:1, b:2"), "{gone}");
        let refused = Error::from(Refusal::new(Code::UnknownTask, "no such task"));
        assert!(refused.is(&Code::UnknownTask) && !Error::Closed.is(&Code::UnknownTask));
    }
}
