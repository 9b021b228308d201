//! The JSON documents inside commands, checked field by field. Errors name the wrong field.

mod action;
mod base64;
mod challenge;
mod error;
mod identifier;
mod options;
mod outputs;
mod registration;
mod statistics;
mod submission;
mod update;

pub(crate) use action::SubmittedAction;
pub(crate) use base64::{bytes_field, decode_base64, encode_base64};
pub(crate) use challenge::Challenge;
pub(crate) use error::ShapeError;
pub(crate) use identifier::check_worker_id;
pub(crate) use options::{AfterJob, NotBefore, TaskOptions};
pub(crate) use outputs::Outputs;
pub(crate) use registration::{Capabilities, WorkerRegistration};
pub(crate) use statistics::Statistics;
pub(crate) use submission::{JobSubmission, JobWork, pushed_name};
pub(crate) use update::{JobReport, JobUpdate};
