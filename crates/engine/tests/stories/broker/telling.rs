//! What the engine says, as lines that a story can hear. A task is `#7`, its second attempt `#7/2`; a line that goes to
//! one session begins with an arrow.

use std::collections::BTreeMap;

use tenure_engine::event::{EventData, EventSubject, Next};
use tenure_engine::state::Wanted;
use tenure_engine::{Blob, Event, Notice, SessionId, TaskId, WaitEnd};

#[derive(Clone, Debug)]
pub(crate) enum Said {
    Event(Event),
    Notice(SessionId, Notice),
    Freed(Blob),
}

impl Said {
    pub(crate) fn tell(&self, names: &BTreeMap<SessionId, String>) -> String {
        match self {
            Said::Event(event) => tell_event(event),
            Said::Notice(session, notice) => {
                let name = names.get(session).map_or("no session", String::as_str);
                format!("-> {name}: {}", tell_notice(notice))
            }
            Said::Freed(blob) => format!("freed {}+{}", blob.at(), blob.bytes()),
        }
    }
}

fn tell_event(event: &Event) -> String {
    let about = match &event.about {
        EventSubject::Task { id, attempt: 0, .. } => label(*id),
        EventSubject::Task { id, attempt, .. } => format!("{}/{attempt}", label(*id)),
        EventSubject::Worker { worker, .. } => worker.to_string(),
        EventSubject::Queue { queue, .. } => format!("queue {queue}"),
        EventSubject::Tag { tag, .. } => format!("tag {tag}"),
        EventSubject::Schedule { schedule, .. } => format!("schedule {schedule}"),
        EventSubject::Array { name: Some(name), .. } => format!("array {name}"),
        EventSubject::Array { id, .. } => format!("array {}", label(*id)),
        EventSubject::Share { share, .. } => format!("share {share}"),
    };
    format!("{about} {}", tell_kind(&event.kind))
}

fn tell_kind(kind: &EventData) -> String {
    match kind {
        EventData::Submitted { unserved: None, .. } => "submitted".into(),
        EventData::Submitted { unserved: Some(why), .. } => format!("submitted, {}", why.code()),
        EventData::Released => "released".into(),
        EventData::DependenciesMet => "dependencies met".into(),
        EventData::Due => "due".into(),
        EventData::Assigned { worker } => format!("assigned to {worker}"),
        EventData::Started { worker } => format!("started by {worker}"),
        EventData::Progress { percent, note } => {
            let percent = percent.map_or(String::new(), |percent| format!(" {percent}%"));
            format!("progress{percent}{}", because(note.as_deref()))
        }
        EventData::Checkpoint { bytes } => format!("checkpoint of {bytes}"),
        EventData::Suspended { worker, open } => format!("suspended by {worker}, waits for {open}"),
        EventData::Continued { worker } => format!("continued by {worker}"),
        EventData::GivenBack { worker, reason } => {
            format!("given back by {worker}{}", because(reason.as_deref()))
        }
        EventData::TakenBack { worker } => format!("taken back from {worker}"),
        EventData::HolderLost { worker, reason, lease_until } => {
            format!("holder {worker} lost, {}, believed until {lease_until}", reason.as_str())
        }
        EventData::HolderReturned { worker } => format!("holder {worker} returned"),
        EventData::Crashed { worker, reason, next, budget_left } => {
            format!("crashed on {worker}, {}: {}, {budget_left} left", reason.as_str(), tell_next(*next))
        }
        EventData::CancelRequested { reason } => format!("cancel requested{}", because(reason.as_deref())),
        EventData::PauseRequested { reason } => format!("pause requested{}", because(reason.as_deref())),
        EventData::IntentDelivered { wanted, worker } => {
            format!("{} delivered to {worker}", tell_wanted(*wanted))
        }
        EventData::Paused { reason } => format!("paused{}", because(reason.as_deref())),
        EventData::Resumed => "resumed".into(),
        EventData::Retried => "retried".into(),
        EventData::Moved => "moved".into(),
        EventData::Completed { worker, .. } => format!("completed by {worker}"),
        EventData::Failed { worker, exit_code, message, next, .. } => {
            let worker = worker.as_deref().unwrap_or("no worker");
            format!(
                "failed by {worker} with {exit_code}{}: {}",
                because(message.as_deref()),
                tell_next(*next)
            )
        }
        EventData::Expired => "expired".into(),
        EventData::Cancelled { reason, forced: false } => format!("cancelled{}", because(reason.as_deref())),
        EventData::Cancelled { reason, forced: true } => {
            format!("cancelled by force{}", because(reason.as_deref()))
        }
        EventData::WorkerRegistered => "registered".into(),
        EventData::WorkerLost { reason } => format!("lost, {}", reason.as_str()),
        EventData::WorkerReturned => "returned".into(),
        EventData::WorkerLeft => "left".into(),
        EventData::WorkerDraining => "draining".into(),
        EventData::WorkerQuarantined { until, crashes } => {
            format!("quarantined until {until} after crash {crashes}")
        }
        EventData::WorkerCleared => "cleared".into(),
        EventData::QueuePaused => "paused".into(),
        EventData::QueueResumed => "resumed".into(),
        EventData::QueueUnserved { needs } => format!("unserved{}", with(needs)),
        EventData::QueueServed { needs } => format!("served{}", with(needs)),
        EventData::QueueBacklog { threshold, depth, age } => {
            format!("backlog by {}: {depth} ready, for {} ms", threshold.as_str(), age.as_millis())
        }
        EventData::QueueBacklogCleared { threshold, depth, age } => {
            format!("backlog by {} cleared: {depth} ready, for {} ms", threshold.as_str(), age.as_millis())
        }
        EventData::QueueThresholdsSet { depth, age } => {
            let depth = depth.map_or("none".into(), |depth| depth.to_string());
            let age = age.map_or("none".into(), |age| format!("{} ms", age.as_millis()));
            format!("thresholds: depth {depth}, age {age}")
        }
        EventData::ArraySubmitted { size } => format!("submitted with {size} elements"),
        EventData::ArrayEnded { completed, failed, cancelled } => {
            format!("ended: {completed} completed, {failed} failed, {cancelled} cancelled")
        }
        EventData::ArrayLimitSet { limit } => format!("limited to {limit:?}"),
        EventData::QueueRateSet { rate: Some(rate) } | EventData::RateSet { rate: Some(rate) } => {
            format!("at a rate of {rate}")
        }
        EventData::QueueRateSet { rate: None } | EventData::RateSet { rate: None } => "at any rate".into(),
        EventData::ShareSet { weight: Some(weight) } => format!("has weight {weight}"),
        EventData::ShareSet { weight: None } => "has the default weight".into(),
        EventData::LimitSet { limit: Some(limit) } => format!("limited to {limit}"),
        EventData::LimitSet { limit: None } => "unlimited".into(),
        EventData::ScheduleSet => "set".into(),
        EventData::ScheduleFired { due, .. } => format!("fired for {}", due.rfc3339()),
        EventData::ScheduleSkipped { reason, from, to } if from == to => {
            format!("skipped {}, {reason}", from.rfc3339())
        }
        EventData::ScheduleSkipped { reason, from, to } => {
            format!("skipped {} to {}, {reason}", from.rfc3339(), to.rfc3339())
        }
        EventData::SchedulePaused => "paused".into(),
        EventData::ScheduleResumed => "resumed".into(),
        EventData::ScheduleRemoved => "removed".into(),
    }
}

fn tell_notice(notice: &Notice) -> String {
    match notice {
        Notice::Assign(assignment) => {
            let from = assignment.checkpoint;
            let from =
                if from.is_empty() { String::new() } else { format!(" from {}+{}", from.at(), from.bytes()) };
            format!("run {}/{}{from}", label(assignment.task), assignment.attempt)
        }
        Notice::Wanted { task, attempt, wanted, in_place, reason } => {
            let wanted =
                if *wanted == Wanted::Pause && !in_place { "pause and end" } else { tell_wanted(*wanted) };
            format!("{wanted} {}/{attempt}{}", label(*task), because(reason.as_deref()))
        }
        Notice::Continue { task, attempt, ends } => {
            let end = |end: &WaitEnd| format!(" {} {}", label(end.task), end.state);
            let ends: Vec<String> = ends.iter().map(end).collect();
            format!("continue {}/{attempt}:{}", label(*task), ends.join(","))
        }
        Notice::Stop { task, attempt, why } => format!("stop {}/{attempt}, {}", label(*task), why.as_str()),
        Notice::Drain => "drain".into(),
        Notice::Replaced { worker } => format!("replaced as {worker}"),
    }
}

fn tell_next(next: Next) -> String {
    match next {
        Next::RetriedAt(at) => format!("retried at {at}"),
        next => next.as_str().into(),
    }
}

fn tell_wanted(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Cancel => "cancel",
        Wanted::Pause => "pause",
    }
}

fn label(task: TaskId) -> String {
    format!("#{}", u128::from_be_bytes(task.0))
}

fn because(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| format!(" ({reason})"))
}

fn with(needs: &[tenure_engine::Name]) -> String {
    if needs.is_empty() { String::new() } else { format!(" with {}", needs.join(", ")) }
}
