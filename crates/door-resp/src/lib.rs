//! The RESP door: any Redis client, and the worker registration protocol.
//!
//! The path of a command: `codec` makes words of bytes, `command` a typed command of the words; `rights` says what it
//! needs of the key; `translate` turns it into the first step of its flow; `flow` has the states in which it waits for
//! the hub, the disk or a worker; `session` is one connection with its replies in order. `worker` is the side of a
//! worker that outlives connections. All of that is pure. Only `server` reads a clock or a socket.

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
