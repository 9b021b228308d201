//! ZMTP 3.0 and 3.1 for a ROUTER: bytes in, multipart messages out, no I/O.
//!
//! A connection goes through a greeting (64 bytes that name version and security mechanism), a handshake (NULL or
//! PLAIN, ending with the peer's socket type and identity) and then traffic (messages, and PING/PONG commands
//! between their frames). [`ZmtpPeer`] is the whole state machine: feed it the bytes that were read, take
//! [`ZmtpEvent`]s from it, and send what it wrote. Every length that an untrusted peer announces is checked against
//! [`ZmtpLimits`] before memory is allocated for it.

mod assembly;
mod command;
mod error;
mod event;
mod frame;
mod greeting;
mod identity;
mod limits;
mod metadata;
mod peer;
mod probe;

pub use error::CodecError;
pub use event::{PeerAdmission, Secret, SocketType, ZmtpEvent};
pub(crate) use identity::is_random;
pub use identity::{IDENTITY_BYTES_MAX, Identity};
pub use limits::ZmtpLimits;
pub use peer::ZmtpPeer;
pub use probe::fuzz;
