//! ZMTP 3.0 and 3.1 for a ROUTER: bytes in, multipart messages out, no I/O.
//!
//! A connection goes through a greeting (64 bytes that name version and security mechanism), a handshake (NULL or
//! PLAIN, ending with the peer's socket type and identity) and then traffic (messages, and PING/PONG commands between
//! their frames). [`Peer`] is the whole state machine: feed it what was read, take [`Event`]s from it, send what it
//! wrote. Every length an untrusted peer names is checked against [`Limits`] before anything is kept for it.

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
pub use event::{Admission, Event, Secret, SocketType};
pub use identity::{IDENTITY_BYTES_MAX, Identity};
pub use limits::Limits;
pub use peer::Peer;
pub use probe::fuzz;
