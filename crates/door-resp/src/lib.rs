//! The RESP door: any Redis client, and the worker registration protocol.
//!
//! Bytes become commands in `codec` and `command`, keys and JSON become typed values in `key` and `shapes`, commands become
//! questions to the broker in `translate`, and `session` is one connection's conversation. Only `server` reads a clock or
//! a socket.

mod channel;
mod codec;
mod command;
mod flow;
mod fuzz;
mod glob;
mod key;
mod rights;
mod server;
mod session;
mod settings;
mod shapes;
#[doc(hidden)]
pub mod testing;
mod translate;
mod upkeep;
mod worker;

pub use server::serve;
pub use settings::Settings;
