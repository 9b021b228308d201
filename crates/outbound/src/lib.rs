//! What leaves the broker by itself.
//!
//! A **hook** delivers chosen events: a webhook posts them to an address, a command hook starts a program for each. It
//! reads the events as every watcher does, so it delays nothing, and it keeps its place on disk, so a restart forgets
//! nothing ([`hooks`]). [`SpanExport`] sends the spans of traced tasks to a collector.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

pub mod hooks;
mod http_client;
mod roots;
mod spans;
mod target;

pub use http_client::PostError;
pub use roots::{RootsFault, TrustedRoots};
pub use spans::{SpanExport, SpanExportSettings};
pub use target::{HttpTarget, TargetFault};
