//! `JOB.UPDATE`: a worker's report on a job it holds.

use bytes::Bytes;
use serde_json::Value;
use tenure_plans::{Document, SchemaError, TEXT_BYTES_MAX};

use super::outputs::Outputs;

const WHAT: &str = "Invalid update";
const UPDATE_BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobUpdate {
    pub report: Option<JobReport>,
    /// The worker's id as it claims. It counts only if that worker holds the job.
    pub worker: Option<String>,
    pub attempt: Option<u64>,
    pub progress_percent: Option<f64>,
    pub current_task: Option<u64>,
    pub error: Option<String>,
    pub exit_code: Option<i32>,
    pub outputs: Outputs,
}

/// The status a worker may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobReport {
    Running,
    Completed,
    Failed,
    /// It stopped because a client wanted it.
    Cancelled,
    Paused,
}

impl JobReport {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Paused => "paused",
        }
    }

    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        [Self::Running, Self::Completed, Self::Failed, Self::Cancelled, Self::Paused]
            .into_iter()
            .find(|report| report.word().as_bytes() == word)
    }
}

impl JobUpdate {
    /// A status and nothing else.
    pub(crate) fn of(report: JobReport) -> Self {
        Self {
            report: Some(report),
            worker: None,
            attempt: None,
            progress_percent: None,
            current_task: None,
            error: None,
            exit_code: None,
            outputs: Outputs::default(),
        }
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self, SchemaError> {
        let mut object = Document::parse(WHAT, json, UPDATE_BYTES_MAX)?;
        let report = match object.text("status", TEXT_BYTES_MAX)? {
            None => None,
            Some(word) => Some(JobReport::parse(word.as_bytes()).ok_or_else(|| {
                object.invalid("status is not running, completed, failed, cancelled or paused")
            })?),
        };
        let attempt = object.integer("attempt", 1..=i64::MAX)?.map(i64::unsigned_abs);
        let current_task = object.integer("current_task", 0..=i64::MAX)?.map(i64::unsigned_abs);
        let exit_code = object.integer("exit_code", i64::from(i32::MIN)..=i64::from(i32::MAX))?;
        let update = Self {
            report,
            worker: object.text("worker_id", TEXT_BYTES_MAX)?,
            attempt,
            progress_percent: object.number("progress_percent", 0.0..=100.0)?,
            current_task,
            error: object.text("error", TEXT_BYTES_MAX)?.filter(|error| !error.is_empty()),
            exit_code: exit_code.map(|code| i32::try_from(code).expect("within the limit")),
            outputs: outputs(&mut object)?,
        };
        update.check_end(&object)?;
        // Times such as `started_at` come from the worker; the broker uses its own clock.
        if update.says_nothing() {
            return Err(object.invalid("neither a status nor progress nor results"));
        }
        Ok(update)
    }

    fn says_nothing(&self) -> bool {
        self.report.is_none()
            && self.progress_percent.is_none()
            && self.current_task.is_none()
            && self.outputs.is_empty()
    }

    /// An error or an exit code must come with an end, and must not contradict the status.
    fn check_end(&self, object: &Document) -> Result<(), SchemaError> {
        match self.report {
            Some(JobReport::Completed) if self.error.is_some() => {
                Err(object.invalid("a completed job has no error, report failed"))
            }
            Some(JobReport::Completed) if self.exit_code.is_some_and(|code| code != 0) => {
                Err(object.invalid("a completed job has exit_code 0, report failed"))
            }
            None | Some(JobReport::Running) if self.error.is_some() || self.exit_code.is_some() => {
                Err(object.invalid("error and exit_code belong to a job that ends"))
            }
            _ => Ok(()),
        }
    }
}

fn outputs(object: &mut Document) -> Result<Outputs, SchemaError> {
    let result = object.take("result").map(|result| match result {
        Value::String(text) => Bytes::from(text),
        other => Bytes::from(other.to_string()),
    });
    let task_results = match object.take("task_results") {
        None => None,
        Some(steps @ Value::Array(_)) => {
            if !steps.as_array().is_some_and(|steps| steps.iter().all(Value::is_object)) {
                return Err(object.invalid("task_results has an entry that is not an object"));
            }
            Some(Bytes::from(steps.to_string()))
        }
        Some(_) => return Err(object.invalid("task_results is not a list")),
    };
    Ok(Outputs {
        result,
        task_results,
        stdout: object.text("stdout", UPDATE_BYTES_MAX)?.map(Bytes::from),
        stderr: object.text("stderr", UPDATE_BYTES_MAX)?.map(Bytes::from),
        ..Outputs::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<JobUpdate, String> {
        JobUpdate::parse(json.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_start_a_step_and_an_end() {
        let start = r#"{"status":"running","worker_id":"worker-001","started_at":"2025-11-17T10:00:00Z"}"#;
        let start = parse(start).unwrap();
        assert_eq!((start.report, start.worker.as_deref()), (Some(JobReport::Running), Some("worker-001")));

        let step = parse(r#"{"current_task":2,"progress_percent":40,"attempt":3}"#).unwrap();
        assert_eq!((step.current_task, step.progress_percent, step.attempt), (Some(2), Some(40.0), Some(3)));

        let end =
            parse(r#"{"status":"completed","task_results":[{"task_number":1,"exit_code":0}]}"#).unwrap();
        assert_eq!(end.outputs.stored(), r#"{"task_results":[{"exit_code":0,"task_number":1}]}"#);

        let end = parse(r#"{"status":"failed","error":"Task 2 timed out","exit_code":124}"#).unwrap();
        assert_eq!((end.error.as_deref(), end.exit_code), (Some("Task 2 timed out"), Some(124)));
    }

    #[test]
    fn everything_that_came_out_is_kept() {
        let end = parse(r#"{"status":"completed","result":"plain","stdout":"x"}"#).unwrap();
        assert_eq!(end.outputs.stored(), r#"{"result":"plain","stdout":"x"}"#);
        let end =
            parse(r#"{"status":"completed","stdout":"x","stderr":"y","exit_code":0,"error":""}"#).unwrap();
        assert_eq!(end.outputs.stored(), r#"{"stderr":"y","stdout":"x"}"#);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, why) in [
            ("{}", "neither a status nor progress nor results"),
            (r#"{"worker_id":"w"}"#, "neither a status nor progress nor results"),
            (r#"{"status":"done"}"#, "status is not running, completed, failed, cancelled or paused"),
            (r#"{"progress_percent":101}"#, "progress_percent is not between 0 and 100"),
            (r#"{"status":"running","attempt":0}"#, "attempt is not between 1 and 9223372036854775807"),
            (r#"{"task_results":{}}"#, "task_results is not a list"),
            (r#"{"task_results":[1]}"#, "task_results has an entry that is not an object"),
            (r#"{"stdout":1}"#, "stdout is not a string"),
            (r#"{"status":"completed","exit_code":3}"#, "a completed job has exit_code 0, report failed"),
            (r#"{"status":"completed","error":"no"}"#, "a completed job has no error, report failed"),
            (r#"{"progress_percent":1,"exit_code":0}"#, "error and exit_code belong to a job that ends"),
            ("[]", "not a JSON object"),
        ] {
            assert_eq!(parse(json).unwrap_err(), format!("Invalid update: {why}"));
        }
    }
}
