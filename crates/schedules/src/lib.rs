//! When a schedule is due: cron expressions with time zones, intervals, and jitter.
//!
//! The crate is pure. Times come in and go out as milliseconds since 1970, and the time-zone data is compiled
//! in, so the same question has the same answer on every machine. [`Timing`] is the entrance; `cron.rs` reads
//! expressions, `wall_clock.rs` carries them through changes of the clock.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod cron;
mod error;
mod interval;
mod jitter;
mod timing;
mod wall_clock;

pub use cron::CronExpression;
pub use error::TimingError;
pub use jitter::jitter;
pub use timing::{DueTimes, Timing};
