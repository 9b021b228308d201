//! Events: filters for streams and channels, and the conversion of events.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Event, EventData, EventFilter, EventSubject, LostReason, Name, Next};

use super::lookup::{AfterFind, LookupResult, find};
use super::names::{DEFAULT_QUEUE, is_reserved, known_as};
use super::render::{time, wanted};
use crate::codec::Reply;
use crate::command::{BlockFor, EventsCommand, ReadFrom, XRead};
use crate::flow::{EventStream, FlowStep, Follow};
use crate::key::EventsKey;

/// Streams whose names are being looked up: each belongs to a job or a queue.
#[derive(Debug)]
pub(crate) struct Resolving {
    /// In reverse order, without the one that is being looked up.
    left: Vec<(Bytes, EventsKey, ReadFrom)>,
    current: Option<(Bytes, String, ReadFrom)>,
    found: Vec<EventStream>,
    count: usize,
    block: Option<BlockFor>,
    range_to: Option<u64>,
}

impl Resolving {
    fn go(mut self: Box<Self>) -> FlowStep {
        while let Some((name, key, from)) = self.left.pop() {
            match key {
                EventsKey::All => {
                    self.found.push(EventStream { name, filter: EventFilter::default(), from, job: None });
                }
                EventsKey::Of(id) => {
                    self.current = Some((name, id.clone(), from));
                    return find(&id, AfterFind::Stream(self));
                }
            }
        }
        let Self { found: streams, count, block, range_to, .. } = *self;
        FlowStep::Follow(Follow { streams, count, block, range_to })
    }

    pub(super) fn found(mut self: Box<Self>, task: LookupResult) -> FlowStep {
        if let Some((name, id, from)) = self.current.take() {
            self.found.push(match task {
                Ok(task) => {
                    let filter = EventFilter { task: Some(task.id), ..EventFilter::default() };
                    EventStream { name, filter, from, job: Some(id) }
                }
                Err(_) => {
                    let queue = if id == "ready" { DEFAULT_QUEUE } else { &id };
                    let filter = EventFilter { queue: Some(Name::from(queue)), ..EventFilter::default() };
                    EventStream { name, filter, from, job: None }
                }
            });
        }
        self.go()
    }
}

/// The session handles subscriptions, so they never come here.
pub(super) fn start(command: EventsCommand) -> FlowStep {
    let (left, count, block, range_to) = match command {
        EventsCommand::Read(XRead { streams, count, block }) => {
            (streams.into_iter().rev().collect(), count, block, None)
        }
        EventsCommand::Range { stream, from, to, count } => {
            let from = from.checked_sub(1).map_or(ReadFrom::After(0), ReadFrom::After);
            (vec![(Bytes::new(), stream, from)], count, None, Some(to))
        }
        EventsCommand::Logs(_)
        | EventsCommand::Subscribe(_)
        | EventsCommand::Unsubscribe(_)
        | EventsCommand::SubscribePattern(_)
        | EventsCommand::UnsubscribePattern(_)
        | EventsCommand::Publish { .. } => return FlowStep::error("ERR not a command for the broker"),
    };
    Box::new(Resolving { left, current: None, found: Vec::new(), count, block, range_to }).go()
}

/// Whether an event is about a job, and not about a task that stores a plan or an action.
pub(crate) fn is_of_jobs(event: &Event) -> bool {
    !event.queue().is_some_and(|queue| is_reserved(queue))
}

/// An event as an entry of a stream: its number, and its fields as texts.
pub(crate) fn event_entry(event: &Event, job: Option<&str>) -> Reply {
    let fields = event_fields(event, job);
    let mut texts = Vec::with_capacity(fields.len() * 2);
    for (field, value) in fields {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        texts.push(Reply::bulk(field));
        texts.push(Reply::bulk(text));
    }
    Reply::array([Reply::bulk(format!("{}-0", event.seq)), Reply::Array(texts)])
}

/// An event as the message of a channel.
pub(crate) fn event_json(event: &Event, job: Option<&str>) -> String {
    Value::Object(event_fields(event, job)).to_string()
}

fn event_fields(event: &Event, job: Option<&str>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("event".into(), event.kind.as_str().into());
    fields.insert("sequence".into(), event.seq.into());
    fields.insert("at".into(), time(event.at));
    match &event.about {
        EventSubject::Task { id, attempt, terms } => {
            fields.insert("job_id".into(), known_as(job, *id).into());
            fields.insert("queue".into(), (*terms.queue).into());
            if *attempt > 0 {
                fields.insert("attempt".into(), (*attempt).into());
            }
        }
        EventSubject::Worker { worker, .. } => {
            fields.insert("worker_id".into(), (**worker).into());
        }
        EventSubject::Queue { queue, .. } => {
            fields.insert("queue".into(), (**queue).into());
        }
        EventSubject::Tag { tag, .. } => {
            fields.insert("tag".into(), (**tag).into());
        }
        EventSubject::Schedule { schedule, .. } => {
            fields.insert("schedule".into(), (**schedule).into());
        }
        EventSubject::Array { id, queue, .. } => {
            fields.insert("array_id".into(), id.to_string().into());
            fields.insert("queue".into(), (**queue).into());
        }

        EventSubject::Share { share, .. } => {
            fields.insert("share".into(), (**share).into());
        }
    }
    if let Some(status) = status_after(&event.kind) {
        fields.insert("status".into(), status.into());
    }
    if let Some(worker) = event.worker() {
        fields.insert("worker_id".into(), (**worker).into());
    }
    add_details(&event.kind, &mut fields);
    fields
}

/// The status a job has after this event, where the event changes it.
fn status_after(kind: &EventData) -> Option<&'static str> {
    match kind {
        EventData::Submitted { .. }
        | EventData::Released
        | EventData::DependenciesMet
        | EventData::Due
        | EventData::Resumed
        | EventData::Retried => Some("pending"),
        EventData::GivenBack { .. } | EventData::TakenBack { .. } => Some("pending"),
        EventData::Assigned { .. }
        | EventData::Started { .. }
        | EventData::Progress { .. }
        | EventData::Checkpoint { .. }
        | EventData::Suspended { .. }
        | EventData::Continued { .. } => Some("running"),
        EventData::HolderLost { .. } | EventData::HolderReturned { .. } => Some("running"),
        EventData::CancelRequested { .. }
        | EventData::PauseRequested { .. }
        | EventData::IntentDelivered { .. } => Some("running"),
        EventData::Paused { .. } => Some("paused"),
        EventData::Completed { .. } => Some("completed"),
        EventData::Crashed { next: Next::Failed, .. } => Some("dead"),
        EventData::Failed { next, .. } | EventData::Crashed { next, .. } => Some(after(*next)),
        EventData::Expired => Some("failed"),
        EventData::Cancelled { .. } => Some("cancelled"),
        EventData::Moved
        | EventData::WorkerRegistered
        | EventData::WorkerLost { .. }
        | EventData::WorkerReturned
        | EventData::WorkerLeft
        | EventData::WorkerDraining
        | EventData::WorkerQuarantined { .. }
        | EventData::WorkerCleared
        | EventData::QueuePaused
        | EventData::QueueResumed
        | EventData::QueueUnserved { .. }
        | EventData::QueueServed { .. }
        | EventData::QueueBacklog { .. }
        | EventData::QueueBacklogCleared { .. }
        | EventData::QueueThresholdsSet { .. }
        | EventData::LimitSet { .. }
        | EventData::ScheduleSet
        | EventData::ScheduleFired { .. }
        | EventData::ScheduleSkipped { .. }
        | EventData::SchedulePaused
        | EventData::ScheduleResumed
        | EventData::ScheduleRemoved
        | EventData::ArraySubmitted { .. }
        | EventData::ArrayEnded { .. }
        | EventData::ArrayLimitSet { .. }
        | EventData::QueueRateSet { .. }
        | EventData::RateSet { .. }
        | EventData::ShareSet { .. } => None,
    }
}

fn after(next: Next) -> &'static str {
    match next {
        Next::Requeued => "pending",
        Next::RetriedAt(_) => "scheduled",
        Next::Paused => "paused",
        Next::Failed => "failed",
        Next::Cancelled => "cancelled",
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn add_details(kind: &EventData, fields: &mut Map<String, Value>) {
    let mut add = |field: &str, value: Value| {
        if !value.is_null() {
            fields.insert(field.into(), value);
        }
    };
    let text = |text: &Option<Box<str>>| text.as_deref().map_or(Value::Null, Value::from);
    let lost = |reason: &LostReason| Value::from(reason.as_str());
    match kind {
        EventData::Submitted { unserved, reconciliation } => {
            add("reconciliation", reconciliation.as_deref().map_or(Value::Null, Value::from));
            add("unserved", unserved.as_ref().map_or(Value::Null, |why| super::render::why(why).into()));
        }
        EventData::Progress { percent, note } => {
            add("progress_percent", (*percent).into());
            let step = note.as_deref().and_then(super::names::current_task);
            add("current_task", step.into());
            if step.is_none() {
                add("note", text(note));
            }
        }
        EventData::Checkpoint { bytes } => add("bytes", (*bytes).into()),
        EventData::GivenBack { reason, .. }
        | EventData::CancelRequested { reason }
        | EventData::PauseRequested { reason }
        | EventData::Paused { reason } => add("reason", text(reason)),
        EventData::Cancelled { reason, forced } => {
            add("reason", text(reason));
            add("forced", (*forced).into());
        }
        EventData::HolderLost { reason, lease_until, .. } => {
            add("reason", lost(reason));
            add("lease_until", time(*lease_until));
        }
        EventData::Crashed { reason, next, budget_left, .. } => {
            add("reason", lost(reason));
            add("next", next.as_str().into());
            add("budget_left", (*budget_left).into());
        }
        EventData::Failed { exit_code, message, next, .. } => {
            add("exit_code", (*exit_code).into());
            add("error", text(message));
            add("next", next.as_str().into());
            if let Next::RetriedAt(at) = next {
                add("run_at", time(*at));
            }
        }
        EventData::Suspended { open, .. } => add("open", (*open).into()),
        EventData::IntentDelivered { wanted: what, .. } => add("wanted", wanted(*what).into()),
        EventData::WorkerLost { reason } => add("reason", lost(reason)),
        EventData::WorkerQuarantined { until, crashes } => {
            add("until", time(*until));
            add("crashes", (*crashes).into());
        }
        EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => {
            add("needs", json!(needs.iter().map(|need| &**need).collect::<Vec<_>>()));
        }
        EventData::QueueBacklog { threshold, depth, age }
        | EventData::QueueBacklogCleared { threshold, depth, age } => {
            add("threshold", threshold.as_str().into());
            add("depth", (*depth).into());
            add("oldest_job_age_seconds", age.as_secs_f64().into());
        }
        EventData::QueueThresholdsSet { depth, age } => {
            add("depth", (*depth).into());
            add("age_seconds", age.map(|age| age.as_secs_f64()).into());
        }
        EventData::QueueRateSet { rate } | EventData::RateSet { rate } => {
            add("rate", rate.map(|rate| rate.to_string()).into());
        }
        EventData::ShareSet { weight } => add("weight", (*weight).into()),
        EventData::ScheduleFired { due, task } => {
            add("due", time(*due));
            add("job_id", task.to_string().into());
        }
        EventData::ScheduleSkipped { reason, from, to } => {
            add("reason", reason.as_str().into());
            add("from", time(*from));
            add("to", time(*to));
        }
        EventData::LimitSet { limit } | EventData::ArrayLimitSet { limit } => add("limit", (*limit).into()),
        EventData::ArraySubmitted { size } => add("size", (*size).into()),
        EventData::ArrayEnded { completed, failed, cancelled } => {
            add("completed", (*completed).into());
            add("failed", (*failed).into());
            add("cancelled", (*cancelled).into());
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
        | EventData::Completed { .. }
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
