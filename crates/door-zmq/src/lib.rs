//! The ZeroMQ doors of Tenure.
//!
//! Two old protocols come in over ZeroMQ: *Majordomo* in three dialects and the small *READY/PING/PONG* dialogue.
//! ZeroMQ itself is only a way to frame messages (ZMTP), and this crate speaks it with a codec of its own, because a
//! broker must know which peer closed its connection and must bound whatever an untrusted peer sends.
//!
//! Reading order: [`codec`] turns bytes into multipart messages, [`mdp`] and [`pingpong`] turn messages into words,
//! [`body`] says how a body of several frames becomes one, `translate` turns words into requests to the hub and events
//! into words, `session` holds one peer's conversation, `server` has the sockets. All but the last are pure: no socket,
//! no clock.

pub mod body;
pub mod codec;
mod lost_workers;
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
