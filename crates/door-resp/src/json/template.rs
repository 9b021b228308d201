//! Jobs inside other documents: the template of a schedule, the elements of an array, the tasks of a reconciliation.

use bytes::Bytes;
use serde_json::Value;
use tenure_plans::{Document, SchemaError};

use super::options::TaskOptions;
use super::submission::{JobSubmission, JobWork};

/// The longest text in one of these documents.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// A job that is not submitted by itself: it has a body, and neither a plan nor a parent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobTemplate {
    pub name: Option<String>,
    pub body: Bytes,
    pub options: TaskOptions,
}

impl JobTemplate {
    /// The field `job` of a document.
    pub(crate) fn take(object: &mut Document) -> Result<Option<JobTemplate>, SchemaError> {
        object.take("job").map(|job| JobTemplate::parse(object, &job)).transpose()
    }

    fn parse(object: &Document, job: &Value) -> Result<JobTemplate, SchemaError> {
        let JobSubmission { name, work, parent, options } = JobSubmission::parse(job.to_string().as_bytes())?;
        let JobWork::Body(body) = work else {
            return Err(object.invalid("job has a plan; only a body is possible here"));
        };
        if parent.is_some() || options.needs_described.is_some() {
            return Err(object.invalid("job has a parent or needs_described, which is not possible here"));
        }
        Ok(JobTemplate { name, body, options })
    }
}

/// A field that is true or false; absent means false.
pub(crate) fn flag(object: &mut Document, field: &str) -> Result<bool, SchemaError> {
    match object.take(field) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(object.invalid(format!("{field} is neither true nor false"))),
    }
}
