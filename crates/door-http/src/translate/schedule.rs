//! A schedule: its JSON, and what the hub makes of it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::words::{CatchUp, Command, Name, NewSchedule, Overlap, Refusal, ScheduleInfo};

use super::submission::TaskInput;
use super::word::{millis, some_millis, some_time, texts, time};

/// A schedule, as a client writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleInput {
    when: String,
    #[serde(default)]
    zone: Option<String>,
    #[serde(default)]
    catch_up: Option<String>,
    #[serde(default)]
    overlap: Option<String>,
    #[serde(default)]
    jitter_ms: Option<u64>,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    expires_after_ms: Option<u64>,
    task: TaskInput,
}

impl ScheduleInput {
    pub(crate) fn command(self, name: Name) -> Result<Command, Refusal> {
        let catch_up = word("catch_up", "is none of none, last and all", self.catch_up, CatchUp::parse)?;
        let why = "is none of skip, queue and cancel-old";
        let overlap = word("overlap", why, self.overlap, Overlap::parse)?;
        let submission = self.task.submission()?;
        Ok(Command::SetSchedule(Box::new(NewSchedule {
            zone: self.zone.map(Into::into),
            catch_up,
            overlap,
            jitter: Duration::from_millis(self.jitter_ms.unwrap_or(0)),
            paused: self.paused,
            expires_after: self.expires_after_ms.map(Duration::from_millis),
            body: submission.body.as_ref().into(),
            ..NewSchedule::new(name, self.when, submission.task)
        })))
    }
}

fn word<T: Default>(
    what: &'static str,
    why: &'static str,
    given: Option<String>,
    parse: fn(&str) -> Option<T>,
) -> Result<T, Refusal> {
    match given {
        None => Ok(T::default()),
        Some(text) => parse(&text).ok_or(Refusal::BadValue { what, why }),
    }
}

pub(crate) fn schedule(info: &ScheduleInfo) -> Value {
    let (set, progress) = (&info.schedule, &info.progress);
    json!({
        "schedule": &*set.name,
        "state": progress.state.as_str(),
        "when": set.when,
        "zone": set.zone.as_deref(),
        "catch_up": set.catch_up.as_str(),
        "overlap": set.overlap.as_str(),
        "jitter_ms": millis(set.jitter),
        "created_at": time(set.created_at),
        "next": info.next.iter().copied().map(time).collect::<Vec<_>>(),
        "last_due": some_time(progress.last_due),
        "last_task": progress.last_task.map(|task| task.to_string()),
        "fired": progress.fired,
        "skipped": progress.skipped,
        "queue": &*set.terms.queue,
        "needs": texts(&set.terms.needs),
        "tags": texts(&set.terms.tags),
        "submitter": &*set.terms.submitter,
        "priority": set.priority,
        "retries": set.terms.retries,
        "expires_after_ms": some_millis(set.expires_after),
        "body_bytes": set.body.len(),
    })
}
