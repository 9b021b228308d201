//! The JSON documents inside commands, checked field by field. Errors name the wrong field.

mod action;
mod array;
mod base64;
mod challenge;
mod error;
mod identifier;
mod options;
mod outputs;
mod reconciliation;
mod registration;
mod schedule;
mod statistics;
mod submission;
mod template;
mod update;

pub(crate) use action::SubmittedAction;
pub(crate) use array::ArrayDocument;
pub(crate) use base64::{bytes_field, decode_base64, encode_base64};
pub(crate) use challenge::Challenge;
pub(crate) use error::DocumentError;
pub(crate) use identifier::check_worker_id;
pub(crate) use options::{AfterJob, NotBefore, TaskOptions};
pub(crate) use outputs::Outputs;
pub(crate) use reconciliation::{DeclaredDocument, ReconciliationDocument};
pub(crate) use registration::{Capabilities, WorkerRegistration};
pub(crate) use schedule::ScheduleDocument;
pub(crate) use statistics::Statistics;
pub(crate) use submission::{JobSubmission, JobWork, pushed_name};
pub(crate) use template::JobTemplate;
pub(crate) use update::{JobReport, JobUpdate};
