//! The MessagePack door: the native protocol, and the older message dialect in [`xmessage`].
//!
//! [`codec`] decodes messages, `translate` converts them for the hub, [`session`] is one peer's session, and
//! [`server`] is the only file with sockets. Every door has these files, in this order.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

pub mod codec;
mod frames;
mod pending;
pub mod server;
pub mod session;
mod settings;
mod translate;
pub mod xmessage;

#[cfg(unix)]
pub use server::serve_unix;
pub use server::{NativeStandby, serve};
pub use settings::Settings;
