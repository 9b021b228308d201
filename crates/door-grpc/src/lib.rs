//! The gRPC door: tasks and workers for every language that speaks gRPC, and the existing pub/sub service with gap
//! recovery on the same port.
//!
//! [`codec`] decodes messages, `translate` converts them for the hub, `session` is one peer's session, `services` maps
//! each method to a session, `authentication` decides which peers are admitted, `flow` limits the memory of a
//! connection, and [`server`] is the only file with sockets.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

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
