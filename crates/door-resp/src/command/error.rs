//! Errors in a command's arguments, in the wording that Redis clients know.

use tenure_plans::SchemaError;

use super::jobs::JobStatus;
use crate::codec::Reply;
use crate::json::DocumentError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("ERR unknown command '{0}'")]
    UnknownCommand(String),
    #[error("ERR unknown command '{command}': {instead}")]
    NotOffered { command: String, instead: &'static str },
    #[error("ERR unknown subcommand '{subcommand}' of '{command}'")]
    UnknownSubcommand { command: &'static str, subcommand: String },
    #[error("ERR wrong number of arguments for '{0}' command")]
    WrongNumberOfArguments(&'static str),
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    #[error("ERR offset must be a non-negative integer, not '{0}'")]
    Offset(String),
    #[error("ERR limit must be a positive integer, not '{0}'")]
    Limit(String),
    #[error("ERR limit must be > 0")]
    LimitZero,
    #[error("ERR value is not a valid float")]
    NotAFloat,
    #[error("ERR min or max is not a float")]
    NotARange,
    #[error("ERR timeout is not a float or out of range")]
    TimeoutNotAFloat,
    #[error("ERR timeout is not an integer or out of range")]
    TimeoutNotAnInteger,
    #[error("ERR timeout is negative")]
    TimeoutNegative,
    #[error("ERR invalid cursor")]
    Cursor,
    #[error("ERR DB index is out of range")]
    Database,
    #[error("NOPROTO unsupported protocol version")]
    ProtocolVersion,
    #[error("ERR Protocol version is not an integer or out of range")]
    ProtocolVersionNotAnInteger,
    #[error("ERR AUTH key cannot be empty")]
    EmptyKey,
    #[error("ERR Invalid stream ID specified as stream command argument")]
    StreamId,
    #[error("ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.")]
    UnbalancedStreams,
    #[error("ERR No such stream: '{0}', the streams are events and events:<queue or job>")]
    NoSuchStream(String),
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// Clients can neither push to these queues nor pop from them.
    #[error("WRONGTYPE '{0}' is kept for the broker")]
    Kept(String),
    #[error("ERR '{0}' is not a queue, queues are queue:<name>")]
    NotAQueue(String),
    #[error(
        "ERR '{0}' cannot be set, only job:<id>:status|stdout|stderr|result and worker:<id>:tools|tags|alive can"
    )]
    NotWritable(String),
    /// The broker renders this key, and no command on values changes it.
    #[error("ERR '{0}' is a view of the broker's jobs and workers: this command is for other keys")]
    IsView(String),
    #[error("ERR {0}")]
    Instead(&'static str),
    #[error("ERR Invalid {what}: {why}")]
    InvalidId { what: &'static str, why: &'static str },
    #[error("ERR Invalid status: {0}, the statuses are {words}", words = JobStatus::words())]
    UnknownStatus(String),
    /// A bare word may also be an id.
    #[error(
        "ERR Invalid status: {word}, and there is no {what} of that id; the statuses are {words}",
        words = JobStatus::words()
    )]
    NeitherStatusNor { word: String, what: &'static str },
    #[error("ERR too many {what}, at most {max}")]
    TooMany { what: &'static str, max: usize },
    #[error("ERR {0}")]
    Document(#[from] DocumentError),
    #[error("ERR {0}")]
    Schema(#[from] SchemaError),
}

impl CommandError {
    pub(crate) fn reply(&self) -> Reply {
        Reply::error(self.to_string())
    }
}

/// An untrusted peer's bytes for an error message: short, printable, one line.
pub(super) fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 128;
    let head = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    String::from_utf8_lossy(head).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
