//! The gRPC door: tasks and workers for every language that speaks gRPC, and the existing pub/sub service with gap
//! recovery on the same port.
//!
//! Bytes become messages in [`codec`], messages become the hub's words in `translate`, `session` holds one peer's
//! conversation, `services` says which conversation each method is, `authentication` who may come in, `flow` how much of it a
//! connection may have under way, and [`server`] is the only file that knows sockets.

mod authentication;
pub mod codec;
mod flow;
pub mod proto;
pub mod server;
mod services;
mod session;
mod settings;
mod translate;

pub use server::serve;
pub use settings::Settings;
