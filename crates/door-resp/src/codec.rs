//! Decodes commands and encodes replies, without I/O.
//!
//! [`Decoder`] takes whatever a socket delivers and lends complete [`RawCommand`]s. It scans each byte once and never
//! reserves memory because an untrusted peer announced a large number. [`Reply`] covers every kind of reply and
//! encodes itself in RESP2 and RESP3.

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
