//! Hooks: chosen events, delivered at least once.
//!
//! ```text
//! event log → EventSource (a watch of the hub) → Deliveries (a few at a time, each retried) → webhook or command
//!                                                     ↓ all before this number are done
//!                                               HookLedger → the hook's file on disk
//! ```

mod body;
mod command;
mod delivery;
mod retry;
mod runner;
mod settings;
mod signature;
mod source;
mod webhook;

pub use runner::HookRunner;
pub use settings::{CommandSettings, HookSecret, HookSettings, HookTarget, WebhookSettings};
pub use signature::signature;
