//! Plans and actions: the schema of stored lists of commands. Pure: no clock, no I/O.
//!
//! A [`Plan`] has an id and a list of [`PlanTasks`]: commands that run one after the other on one worker, each of
//! which may read the output of an earlier one. An [`Action`] runs a stored plan once per input. [`PlanJob`] is the
//! body of one job of a plan: a door renders it, a worker reads it. [`Document`] parses JSON field by field, and
//! every error names the field.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod action;
mod document;
mod error;
mod id;
mod job;
mod plan;
mod task;
mod time;

pub use action::{ACTION_INPUTS_MAX, Action};
pub use document::{Document, TEXT_BYTES_MAX, is_name};
pub use error::SchemaError;
pub use id::{ID_BYTES_MAX, check_id, check_id_length, is_plain};
pub use job::{OfAction, PlanJob};
pub use plan::{PLAN_BYTES_MAX, Plan};
pub use task::{PLAN_TASKS_MAX, PlanTask, PlanTasks};
pub use time::{format_time, parse_time};
