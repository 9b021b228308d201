//! The native protocol of Tenure: frames, messages and their fields, without any I/O.
//!
//! A frame is a length and one MessagePack value, `[number, kind, {fields}]`. The number connects a reply with its
//! request, so that many requests may be in flight and replies may come in any order. The kind is a name, so that an
//! unknown one can be refused by name. The fields are named, so that old and new peers understand each other. Entries
//! that come by the thousand (tasks, attempts, events) are arrays in a fixed order that only grows at its end.
//!
//! Reading order: [`frame`] splits a stream into frames, [`envelope`] reads and writes one, [`request`], [`reply`] and
//! [`notice`] are the messages, and the modules below them are their parts. `spec/native.md` describes the same for
//! authors of other clients.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod field;
mod pack;
mod reader;
mod schema;

pub mod address;
pub mod array;
pub mod envelope;
pub mod error;
pub mod event;
pub mod frame;
#[cfg(feature = "testing")]
pub mod fuzz;
pub mod hello;
pub mod hook;
pub mod id;
pub mod limits;
#[cfg(feature = "testing")]
#[allow(missing_docs, reason = "only tests use it")]
pub mod notation;
pub mod notice;
pub mod queue;
pub mod rate;
pub mod reconcile;
pub mod refusal;
pub mod reply;
pub mod request;
pub mod schedule;
pub mod task;
pub mod time;
pub mod topic;
pub mod value;
pub mod verdict;
pub mod why;
pub mod words;
pub mod worker;

pub use envelope::{
    FromBroker, ToBroker, decode_from_broker, decode_to_broker, encode_notice, encode_reply, encode_request,
};
pub use error::{DecodeError, FrameError, Problem, ValueFault};
pub use field::Field;
pub use frame::{Frames, split_frames};
#[cfg(feature = "testing")]
pub use fuzz::fuzz;
pub use id::TaskId;
pub use notice::Notice;
pub use reader::Reader;
pub use refusal::{Code, Refusal};
pub use reply::Reply;
pub use request::Request;
pub use time::Timestamp;

/// A name of a queue, capability, tag, worker, namespace, task or address. Shared, never copied.
pub type Name = std::sync::Arc<str>;

/// The version of the protocol that this crate speaks.
pub const VERSION: u32 = 1;

/// The default port of this protocol.
pub const DEFAULT_PORT: u16 = 7171;
