//! An event as JSON, with the field names of the native protocol. Absent fields are omitted. Times are
//! milliseconds since 1970.

use std::time::Duration;

use serde_json::{Map, Value};
use tenure_engine::event::{EventData, EventSubject, LostReason, Next};
use tenure_engine::state::Wanted;
use tenure_engine::{Blob, Event, Name};

/// For longer results the event has only the size; a client can fetch the result itself.
pub(super) const RESULT_BYTES_MAX: u32 = 64 * 1024;

/// The result of an event, if it is short enough to include.
pub(super) fn result_of(event: &Event) -> Option<Blob> {
    match &event.kind {
        EventData::Completed { result, .. } | EventData::Failed { result, .. } => {
            Some(*result).filter(|result| !result.is_empty() && result.bytes() <= RESULT_BYTES_MAX)
        }
        _ => None,
    }
}

/// `result` is what [`result_of`] returned. It is included only if it is text.
pub(crate) fn event_json(event: &Event, result: Option<&[u8]>) -> String {
    let mut fields = Fields(Map::new());
    fields.add("seq", event.seq);
    fields.add("at", event.at.millis());
    fields.add("kind", event.kind.as_str());
    if let EventSubject::Task { id, attempt, .. } = &event.about {
        fields.add("task", id.to_string());
        if *attempt > 0 {
            fields.add("attempt", *attempt);
        }
    }
    if let EventSubject::Array { id, name, .. } = &event.about {
        fields.add("array", id.to_string());
        fields.maybe("name", name.as_deref());
    } else if let EventSubject::Task { id, terms, .. } = &event.about
        && let Some(element) = terms.element(*id)
    {
        fields.add("array", element.array.to_string());
        fields.add("index", element.index);
    }
    fields.maybe("queue", event.queue().map(|name| &**name));
    fields.maybe("submitter", event.submitter().map(|name| &**name));
    fields.maybe("worker", event.worker().map(|name| &**name));
    if let EventSubject::Tag { tag, .. } = &event.about {
        fields.add("tag", &**tag);
    }
    if let EventSubject::Schedule { schedule, .. } = &event.about {
        fields.add("schedule", &**schedule);
    }

    if let EventSubject::Share { share, .. } = &event.about {
        fields.add("share", &**share);
    }
    fields.details(&event.kind);
    fields.maybe("result", result.and_then(|bytes| std::str::from_utf8(bytes).ok()));
    Value::Object(fields.0).to_string()
}

/// The event without a result.
pub fn event_as_json(event: &Event) -> String {
    event_json(event, None)
}

fn wanted_word(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Cancel => "cancel",
        Wanted::Pause => "pause",
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn maybe(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    fn lost(&mut self, reason: LostReason) {
        self.add("lost", reason.as_str());
    }

    fn next(&mut self, next: Next) {
        self.add("next", next.as_str());
        if let Next::RetriedAt(at) = next {
            self.add("retry_at", at.millis());
        }
    }

    fn result_bytes(&mut self, result: Blob) {
        if !result.is_empty() {
            self.add("result_bytes", result.bytes());
        }
    }

    fn needs(&mut self, needs: &[Name]) {
        self.add("needs", needs.iter().map(|name| Value::from(&**name)).collect::<Vec<Value>>());
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    fn details(&mut self, kind: &EventData) {
        match kind {
            EventData::Submitted { unserved, reconciliation } => {
                self.maybe("reconciliation", reconciliation.as_deref());
                self.maybe("unserved", unserved.as_ref().map(ToString::to_string));
            }
            EventData::Progress { percent, note } => {
                self.maybe("percent", *percent);
                self.maybe("note", note.as_deref());
            }
            EventData::Checkpoint { bytes } => self.add("bytes", *bytes),
            EventData::GivenBack { reason, .. }
            | EventData::CancelRequested { reason }
            | EventData::PauseRequested { reason }
            | EventData::Paused { reason } => self.maybe("reason", reason.as_deref()),
            EventData::HolderLost { reason, lease_until, .. } => {
                self.lost(*reason);
                self.add("lease_until", lease_until.millis());
            }
            EventData::Crashed { reason, next, budget_left, .. } => {
                self.lost(*reason);
                self.next(*next);
                self.add("budget_left", *budget_left);
            }
            EventData::Suspended { open, .. } => self.add("open", *open),
            EventData::IntentDelivered { wanted, .. } => self.add("wanted", wanted_word(*wanted)),
            EventData::Completed { result, .. } => self.result_bytes(*result),
            EventData::Failed { exit_code, message, next, result, .. } => {
                self.add("exit_code", *exit_code);
                self.maybe("message", message.as_deref());
                self.next(*next);
                self.result_bytes(*result);
            }
            EventData::Cancelled { reason, forced } => {
                self.maybe("reason", reason.as_deref());
                self.add("forced", *forced);
            }
            EventData::WorkerLost { reason } => self.lost(*reason),
            EventData::WorkerQuarantined { until, crashes } => {
                self.add("until", until.millis());
                self.add("crashes", *crashes);
            }
            EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => self.needs(needs),
            EventData::QueueBacklog { threshold, depth, age }
            | EventData::QueueBacklogCleared { threshold, depth, age } => {
                self.add("threshold", threshold.as_str());
                self.add("depth", *depth);
                self.add("age_ms", millis(*age));
            }
            EventData::QueueThresholdsSet { depth, age } => {
                self.maybe("depth", *depth);
                self.maybe("age_ms", age.map(millis));
            }
            EventData::QueueRateSet { rate } | EventData::RateSet { rate } => {
                self.maybe("rate", rate.map(|rate| rate.to_string()));
            }
            EventData::ShareSet { weight } => self.maybe("weight", *weight),
            EventData::ScheduleFired { due, task } => {
                self.add("due", due.millis());
                self.add("task", task.to_string());
            }
            EventData::ScheduleSkipped { reason, from, to } => {
                self.add("skipped", reason.as_str());
                self.add("from", from.millis());
                self.add("to", to.millis());
            }
            EventData::LimitSet { limit } | EventData::ArrayLimitSet { limit } => {
                self.maybe("limit", *limit);
            }
            EventData::ArraySubmitted { size } => self.add("size", *size),
            EventData::ArrayEnded { completed, failed, cancelled } => {
                self.add("completed", *completed);
                self.add("failed", *failed);
                self.add("cancelled", *cancelled);
            }
            EventData::Released
            | EventData::DependenciesMet
            | EventData::Due
            | EventData::Assigned { .. }
            | EventData::Started { .. }
            | EventData::Continued { .. }
            | EventData::TakenBack { .. }
            | EventData::HolderReturned { .. }
            | EventData::Resumed
            | EventData::Retried
            | EventData::Moved
            | EventData::Expired
            | EventData::WorkerRegistered
            | EventData::WorkerReturned
            | EventData::WorkerLeft
            | EventData::WorkerDraining
            | EventData::WorkerCleared
            | EventData::QueuePaused
            | EventData::QueueResumed
            | EventData::ScheduleSet
            | EventData::SchedulePaused
            | EventData::ScheduleResumed
            | EventData::ScheduleRemoved => {}
        }
    }
}
