//! The worker: runs tasks in the program's handlers, and sends heartbeats and reports to the broker meanwhile.
//!
//! The connection has its own thread, so heartbeats go out even if a handler blocks every thread of the program's
//! runtime.
//! Handlers put their outcomes into the `outbox`; the attempt table tracks every attempt that is held and every report
//! that is not answered yet; the `link` moves both over the connection and through reconnects.

mod attempt_table;
mod builder;
mod context;
mod handle;
mod lease_guard;
mod link;
mod occupancy;
mod outbox;
mod outcome;
mod pending_checkpoint;
mod process_stats;
mod report;
mod run;
mod signal;
mod stop_request;
mod unreported;
mod waiting;

pub use builder::{Worker, WorkerBuilder};
pub use context::{Context, NOTE_BYTES_MAX};
pub use handle::{WorkerHandle, WorkerStats};
pub(crate) use lease_guard::{ClockTime, LeaseClock};
pub use outcome::{Failure, IntoOutcome, MESSAGE_BYTES_MAX, Outcome};
pub use pending_checkpoint::Receipt;
pub use run::Finish;
pub use signal::Interrupt;
pub use unreported::Unreported;
pub use waiting::AttemptWait;
