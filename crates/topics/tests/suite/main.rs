//! The promises of topics, as stories and against a model.
//!
//! One program for all files: each further one would compile the shared parts and be linked again.

#[path = "../common/mod.rs"]
mod common;
mod groups_and_requests;
mod keeping;
mod model;
mod page;
mod policies;
mod publishing;
mod restarting;
mod resuming;
mod retained_and_ttl;
mod shards;
mod unread;
