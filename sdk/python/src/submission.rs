//! A submission from the keyword arguments of Python: a dict with one entry for everything that is said.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tenure_client::{After, Condition, OnBroken, OnLost, Quantity, Submission, TaskId, Timestamp};

use crate::error;

/// Reads a submission. A key that is not known is refused by name, so that nothing is passed over in silence.
pub(crate) fn read(said: &Bound<'_, PyDict>) -> PyResult<Submission> {
    let Some(queue) = said.get_item("queue")? else {
        return Err(error::bad_setting("the submission", "names no queue"));
    };
    let mut submission = Submission::to(queue.extract::<String>()?);
    let mut backoff = (None, None);
    for (key, value) in said {
        if value.is_none() {
            continue;
        }
        submission = match key.extract::<String>()?.as_str() {
            "queue" => submission,
            "body" => submission.body(bytes(&value)?),
            "name" => submission.name(value.extract::<String>()?),
            "id" => submission.id(task_id(&value.extract::<String>()?)?),
            "priority" => submission.priority(value.extract()?),
            "needs" => submission.needs(value.extract::<Vec<String>>()?),
            "tags" => submission.tags(value.extract::<Vec<String>>()?),
            "slots" => submission.slots(value.extract()?),
            "resources" => {
                for (name, quantity) in quantities(&value)? {
                    submission = submission.resource(name, quantity);
                }
                submission
            }
            "share" => submission.share(value.extract::<String>()?),
            "parent" => submission.parent(task_id(&value.extract::<String>()?)?),
            "after" => {
                for row in value.extract::<Vec<AfterRow>>()? {
                    submission = submission.after(after(row)?);
                }
                submission
            }
            "on_broken" => submission.on_broken(on_broken(&value.extract::<String>()?)?),
            "traceparent" => submission.traceparent(value.extract::<String>()?),
            "tracestate" => submission.tracestate(value.extract::<String>()?),
            "hold" => submission.hold(value.extract()?),
            "not_before_ms" => submission.not_before(Timestamp(value.extract()?)),
            "expires_at_ms" => submission.expires_at(Timestamp(value.extract()?)),
            "on_lost" => submission.on_lost(on_lost(&value.extract::<String>()?)?),
            "crash_budget" => submission.crash_budget(value.extract()?),
            "retries" => submission.retries(value.extract()?),
            "backoff_first_ms" => {
                backoff.0 = Some(value.extract()?);
                submission
            }
            "backoff_max_ms" => {
                backoff.1 = Some(value.extract()?);
                submission
            }
            "accept_timeout_ms" => submission.accept_timeout(span(&value)?),
            "run_limit_ms" => submission.run_limit(span(&value)?),
            "cancel_timeout_ms" => submission.cancel_timeout(span(&value)?),
            unknown => return Err(error::bad_setting("the submission", &format!("knows no `{unknown}`"))),
        };
    }
    if let (Some(first), Some(longest)) = backoff {
        submission = submission.backoff(Duration::from_millis(first), Duration::from_millis(longest));
    }
    Ok(submission)
}

pub(crate) fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    Ok(Bytes::copy_from_slice(value.cast::<PyBytes>()?.as_bytes()))
}

/// A dict of texts: each quantity as a person writes it.
pub(crate) fn quantities(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Quantity)>> {
    let read = |(name, text): (String, String)| match Quantity::parse(&text) {
        Ok(quantity) => Ok((name, quantity)),
        Err(why) => Err(error::bad_setting(&name, &why.to_string())),
    };
    value.extract::<BTreeMap<String, String>>()?.into_iter().map(read).collect()
}

pub(crate) fn task_id(text: &str) -> PyResult<TaskId> {
    text.parse().map_err(|_| error::bad_setting("the task id", &format!("`{text}` is not a UUID")))
}

/// A task to wait for: its id, its name or its index, and how it has to end. One of the three is there.
type AfterRow = (Option<String>, Option<String>, Option<u32>, String);

fn after((task, name, index, condition): AfterRow) -> PyResult<After> {
    let after = match (task, name, index) {
        (Some(task), None, None) => After::task(task_id(&task)?),
        (None, Some(name), None) => After::name(name),
        (None, None, Some(index)) => After::index(index),
        _ => {
            return Err(error::bad_setting("after", "names a task by one of its id, its name and its index"));
        }
    };
    match Condition::from(condition.as_str()) {
        Condition::Completed => Ok(after),
        Condition::Ended => Ok(after.ended()),
        Condition::Failed => Ok(after.failed()),
        Condition::Other(_) => {
            let why = format!("has the condition `{condition}`: say completed, ended or failed");
            Err(error::bad_setting("after", &why))
        }
    }
}

fn on_broken(word: &str) -> PyResult<OnBroken> {
    match OnBroken::from(word) {
        OnBroken::Other(_) => {
            Err(error::bad_setting("on_broken", &format!("is `{word}`: say cancel, run or hold")))
        }
        known => Ok(known),
    }
}

fn span(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Ok(Duration::from_millis(value.extract()?))
}

fn on_lost(word: &str) -> PyResult<OnLost> {
    match OnLost::from(word) {
        OnLost::Other(_) => {
            Err(error::bad_setting("on_lost", &format!("is `{word}`: say requeue, pause or fail")))
        }
        known => Ok(known),
    }
}
