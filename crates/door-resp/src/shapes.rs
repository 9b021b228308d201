//! The JSON that travels inside commands, checked field by field. Each shape says what is wrong by name.

mod action;
mod base64;
mod challenge;
mod error;
mod identifier;
mod object;
mod options;
mod outputs;
mod plan;
mod registration;
mod statistics;
mod submission;
mod time;
mod update;

pub use action::{ACTION_INPUTS_MAX, Action};
pub use base64::{bytes_field, decode_base64, encode_base64};
pub use challenge::Challenge;
pub use error::ShapeError;
pub use identifier::{WORKER_ID_BYTES_MAX, check_worker_id};
pub use options::{LostPolicy, TaskOptions, When};
pub use outputs::Outputs;
pub use plan::{PLAN_BYTES_MAX, PLAN_TASKS_MAX, Plan, PlanTask};
pub use registration::{CAPABILITIES_MAX, Capabilities, Registration, SLOTS_MAX};
pub use statistics::Statistics;
pub use submission::{Submission, Work, pushed_name};
pub use time::{format_time, parse_time};
pub use update::{JobUpdate, Report};
