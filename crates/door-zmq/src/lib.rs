//! The ZeroMQ doors of Tenure.
//!
//! Two older protocols use ZeroMQ: *Majordomo* in three dialects and the small *READY/PING/PONG* protocol. ZeroMQ
//! itself is only a way to frame messages (ZMTP). This crate has its own codec for it, because a broker must know
//! which peer closed its connection and must limit what an untrusted peer sends.
//!
//! Reading order: [`codec`] turns bytes into multipart messages, [`mdp`] and [`pingpong`] turn messages into typed
//! ones, [`body`] packs a body of several frames into one, `translate` converts to requests of the hub and from its
//! events, `session` is one peer's session, `server` has the sockets. All but the last are pure: no socket, no clock.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

pub mod body;
pub mod codec;
mod lost_workers;
#[allow(missing_docs, reason = "spec/mdp.md describes the messages and their fields")]
pub mod mdp;
pub mod pingpong;
mod registry;
mod rights;
mod server;
pub mod session;
mod settings;
mod translate;

pub use registry::Registry;
pub use server::{serve, serve_ping_pong};
pub use settings::{PingPongSettings, Settings, Transport};
