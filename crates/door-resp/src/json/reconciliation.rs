//! `RECONCILE`: one page of what another store says about its tasks.

use serde_json::Value;
use tenure_plans::{Document, SchemaError};

use super::template::{JobTemplate, TEXT_BYTES_MAX, flag};

const WHAT: &str = "Invalid reconciliation";
const PAGE_BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReconciliationDocument {
    pub apply: bool,
    /// Milliseconds since 1970.
    pub as_of: Option<u64>,
    pub declared: Vec<DeclaredDocument>,
    pub list: bool,
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredDocument {
    pub name: String,
    pub there: Option<String>,
    pub job: Option<JobTemplate>,
}

impl ReconciliationDocument {
    pub(crate) fn parse(json: &[u8]) -> Result<ReconciliationDocument, SchemaError> {
        let mut object = Document::parse(WHAT, json, PAGE_BYTES_MAX)?;
        let apply = flag(&mut object, "apply")?;
        let list = flag(&mut object, "list")?;
        let as_of = object.time("as_of")?;
        object.take("as_of");
        let cursor = object.text("cursor", TEXT_BYTES_MAX)?;
        let declared = match object.take("declared") {
            None => Vec::new(),
            Some(Value::Array(declared)) => {
                declared.into_iter().map(DeclaredDocument::parse).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(object.invalid("declared is not a list")),
        };
        object.end()?;
        Ok(ReconciliationDocument { apply, as_of, declared, list, cursor })
    }
}

impl DeclaredDocument {
    fn parse(value: Value) -> Result<DeclaredDocument, SchemaError> {
        let mut object = Document::from_value(WHAT, value)?;
        let name = object.required_text("name", TEXT_BYTES_MAX)?;
        let there = object.text("there", TEXT_BYTES_MAX)?;
        let job = JobTemplate::take(&mut object)?;
        object.end()?;
        Ok(DeclaredDocument { name, there, job })
    }
}
