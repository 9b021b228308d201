//! Bytes to commands and replies to bytes, without I/O.
//!
//! [`Decoder`] takes whatever a socket delivers and lends complete [`RawCommand`]s; it never looks at a byte
//! twice and never reserves memory because an untrusted peer named a large number. [`Reply`] is every shape an
//! answer can have and knows how to write itself in RESP2 and RESP3.

mod decoder;
mod encode;
mod error;
mod inline;
mod limits;
mod raw_command;
mod reader;
mod reply;

pub use decoder::Decoder;
pub(crate) use encode::bulks;
pub use encode::{Version, encode};
pub use error::ProtocolError;
pub use limits::RespLimits;
pub use raw_command::RawCommand;
pub use reader::read_reply;
pub use reply::Reply;
