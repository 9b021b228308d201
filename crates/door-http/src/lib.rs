//! The HTTP door: a JSON API for clients, workers and operators, live events, metrics and the dashboard.
//!
//! ```text
//! server (sockets, one request after the other) → guard (Host, origin, key) → routes/* (one file per resource)
//!     → session (requests to the hub) → translate (the hub's types as JSON, refusals as problems)
//! ```
//!
//! `codec` reads what a request carries (query string, JSON, bytes) within named limits, `call` is what a handler gets,
//! `reply` builds responses, `dashboard` renders the pages for people, and [`server`] is the only file with sockets.

// A task has more fields than `json!` expands by default.
#![recursion_limit = "256"]
#![warn(missing_docs)]
#![warn(clippy::too_many_lines)]

mod authentication;
mod call;
mod codec;
mod dashboard;
mod guard;
mod login;
mod memory;
mod problem;
mod reply;
mod routes;
pub mod server;
mod session;
mod settings;
mod status;
mod translate;

pub use routes::endpoint_list;
pub use server::serve;
pub use settings::Settings;
pub use status::{BrokerStatus, StandbyStatus, StatusDoor};
