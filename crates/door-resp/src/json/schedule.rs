//! `SCHEDULE.SET`: when a schedule is due, and the job that it submits.

use std::time::Duration;

use tenure_plans::{Document, SchemaError};

use super::template::{JobTemplate, TEXT_BYTES_MAX, flag};

const WHAT: &str = "Invalid schedule";
const SCHEDULE_BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduleDocument {
    pub when: String,
    pub zone: Option<String>,
    pub catch_up: Option<String>,
    pub overlap: Option<String>,
    pub jitter: Option<Duration>,
    pub paused: bool,
    pub start_within: Option<Duration>,
    pub job: JobTemplate,
}

impl ScheduleDocument {
    pub(crate) fn parse(json: &[u8]) -> Result<ScheduleDocument, SchemaError> {
        let mut object = Document::parse(WHAT, json, SCHEDULE_BYTES_MAX)?;
        let when = object.required_text("when", TEXT_BYTES_MAX)?;
        let zone = object.text("zone", TEXT_BYTES_MAX)?;
        let catch_up = object.text("catch_up", TEXT_BYTES_MAX)?;
        let overlap = object.text("overlap", TEXT_BYTES_MAX)?;
        let jitter = object.seconds("jitter")?;
        let start_within = object.seconds("start_within")?;
        let paused = flag(&mut object, "paused")?;
        let job = JobTemplate::take(&mut object)?;
        let job = object.required("job", job)?;
        object.end()?;
        Ok(ScheduleDocument { when, zone, catch_up, overlap, jitter, paused, start_within, job })
    }
}
