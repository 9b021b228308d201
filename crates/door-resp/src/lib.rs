//! The RESP door: any Redis client, and the worker registration protocol.
//!
//! Bytes become commands in [`codec`] and [`command`], keys and JSON become typed values in [`key`] and
//! [`shapes`]. Nothing here reads a clock or a socket.

pub mod channel;
pub mod codec;
pub mod command;
pub mod errand;
pub mod fuzz;
pub mod glob;
pub mod key;
mod server;
pub mod session;
mod settings;
pub mod shapes;
pub mod throttle;
pub mod translate;
pub mod upkeep;
pub mod worker;

pub use server::serve;
pub use settings::Settings;
