//! `ARRAY.SUBMIT`: many jobs as one.

use bytes::Bytes;
use serde_json::Value;
use tenure_plans::{Document, SchemaError};

use super::template::JobTemplate;

const WHAT: &str = "Invalid array";
const ARRAY_BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArrayDocument {
    pub job: JobTemplate,
    pub size: u32,
    pub first: u32,
    pub step: u32,
    pub limit: Option<u32>,
    /// One for each element, or none.
    pub bodies: Vec<Bytes>,
}

impl ArrayDocument {
    pub(crate) fn parse(json: &[u8]) -> Result<ArrayDocument, SchemaError> {
        let mut object = Document::parse(WHAT, json, ARRAY_BYTES_MAX)?;
        let size = count(&mut object, "size")?;
        let first = count(&mut object, "first")?.unwrap_or(0);
        let step = count(&mut object, "step")?.unwrap_or(1);
        let limit = count(&mut object, "limit")?;
        let bodies = bodies(&mut object)?;
        let job = JobTemplate::take(&mut object)?;
        let job = object.required("job", job)?;
        let given = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
        let size = match size {
            None if given == 0 => return Err(object.invalid("neither size nor bodies")),
            None => given,
            Some(size) if given > 0 && given != size => {
                return Err(object.invalid("bodies must have one entry for each element"));
            }
            Some(size) => size,
        };
        if given > 0 && !job.body.is_empty() {
            return Err(object.invalid("job has a body besides bodies"));
        }
        object.end()?;
        Ok(ArrayDocument { job, size, first, step, limit, bodies })
    }
}

fn count(object: &mut Document, field: &str) -> Result<Option<u32>, SchemaError> {
    let number = object.integer(field, 0..=i64::from(u32::MAX))?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

/// A text stands for its bytes, any other value for its JSON text.
fn bodies(object: &mut Document) -> Result<Vec<Bytes>, SchemaError> {
    match object.take("bodies") {
        None => Ok(Vec::new()),
        Some(Value::Array(bodies)) => Ok(bodies
            .into_iter()
            .map(|body| match body {
                Value::String(text) => Bytes::from(text),
                other => Bytes::from(other.to_string()),
            })
            .collect()),
        Some(_) => Err(object.invalid("bodies is not a list")),
    }
}
