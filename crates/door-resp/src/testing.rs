//! The interface for tests, benches and fuzz targets of this crate. Not for other users: it changes without notice.

pub use crate::channel::ChannelAct;
pub use crate::codec::{Decoder, ProtocolError, RawCommand, Reply, RespLimits, Version, encode, read_reply};
pub use crate::fuzz::fuzz;
pub use crate::namespace_timer::NamespaceTimer;
pub use crate::session::{RespAdmission, RespAuthenticator, Session, SessionOutput};

/// The side of a worker.
pub mod worker {
    pub use crate::worker::{RespCallReply, RespWorker, RespWorkerCall, RespWorkerOutput};
}

/// Checks whether the grammar accepts a command; if not, returns the error for the peer.
pub fn understand(request: &RawCommand<'_>) -> Result<(), String> {
    crate::command::Command::parse(request).map(drop).map_err(|error| error.to_string())
}

/// The names of all commands, in lower case.
pub fn command_names() -> impl ExactSizeIterator<Item = &'static str> {
    crate::command::TABLE.iter().map(|entry| entry.name)
}
