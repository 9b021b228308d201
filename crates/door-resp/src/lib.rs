//! The RESP door: any Redis client, and the worker registration protocol.
//!
//! The path of a command: `codec` decodes words, `command` parses them into a typed command; `rights` names the
//! right it needs; `translate` turns it into the first step of its flow; `flow` has the states in which it waits
//! for the hub, the disk or a worker; `session` is one connection with its replies in order. `worker` is the state
//! of a worker that outlives connections. All of that is pure. Only `server` reads a clock or a socket.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod channel;
mod codec;
mod command;
mod flow;
mod fuzz;
mod glob;
mod json;
mod key;
mod namespace_timer;
mod ranking;
mod rights;
mod server;
mod session;
mod settings;
#[doc(hidden)]
pub mod testing;
mod translate;
mod worker;

pub use server::serve;
pub use settings::Settings;
