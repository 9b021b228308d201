//! The MessagePack door: the native protocol, and beside it the older message dialect in [`xmessage`].
//!
//! Bytes become messages in [`codec`], messages become the hub's words in `translate`, [`session`] holds one peer's
//! conversation, and [`server`] is the only file that knows sockets. Every door has these files, in this order.

pub mod codec;
mod frames;
mod pending;
pub mod server;
pub mod session;
mod settings;
mod translate;
pub mod xmessage;

pub use server::serve;
#[cfg(unix)]
pub use server::serve_unix;
pub use settings::Settings;
