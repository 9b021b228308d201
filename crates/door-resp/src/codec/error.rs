//! Protocol errors. The broker answers each and then closes the connection.

use super::reply::Reply;

/// Broken framing: the rest of the stream cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum ProtocolError {
    #[error("invalid multibulk length")]
    ArrayLength,
    #[error("invalid bulk length")]
    BulkLength,
    #[error("too big count string")]
    LengthTooLong,
    #[error("expected '$', got '{}'", quoted(*.0))]
    ExpectedBulk(u8),
    #[error("expected CRLF after a bulk string")]
    ExpectedLineEnd,
    #[error("too many arguments, at most {max}")]
    TooManyArguments { max: usize },
    #[error("argument too long, at most {max} bytes")]
    ArgumentTooLong { max: usize },
    #[error("message too long, at most {max} bytes")]
    MessageTooLong { max: usize },
    #[error("too big inline request, at most {max} bytes")]
    InlineTooLong { max: usize },
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    #[error("this is not an HTTP port")]
    Http,
    /// Only replies nest; a nested command is refused with [`ProtocolError::ExpectedBulk`].
    #[error("nested too deeply")]
    TooDeep,
    #[error("unknown type byte '{}'", quoted(*.0))]
    UnknownType(u8),
    #[error("malformed value")]
    Malformed,
}

impl ProtocolError {
    /// The reply that the peer gets before the connection is closed.
    pub fn reply(self) -> Reply {
        Reply::error(format!("ERR Protocol error: {self}"))
    }
}

fn quoted(byte: u8) -> String {
    std::ascii::escape_default(byte).to_string()
}
