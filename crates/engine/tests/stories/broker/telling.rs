//! What the engine says, as lines that a story can hear. A task is `#7`, its second attempt `#7/2`; a line that goes to
//! one session begins with an arrow.

use std::collections::BTreeMap;

use tenure_engine::event::{About, Kind, Next};
use tenure_engine::state::Wanted;
use tenure_engine::{Blob, Event, Notice, SessionId, TaskId};

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
                let name = names.get(session).map_or("nobody", String::as_str);
                format!("-> {name}: {}", tell_notice(notice))
            }
            Said::Freed(blob) => format!("freed {}+{}", blob.at(), blob.bytes()),
        }
    }
}

fn tell_event(event: &Event) -> String {
    let about = match &event.about {
        About::Task { id, attempt: 0, .. } => label(*id),
        About::Task { id, attempt, .. } => format!("{}/{attempt}", label(*id)),
        About::Worker { worker, .. } => worker.to_string(),
        About::Queue { queue, .. } => format!("queue {queue}"),
        About::Tag { tag, .. } => format!("tag {tag}"),
    };
    format!("{about} {}", tell_kind(&event.kind))
}

fn tell_kind(kind: &Kind) -> String {
    match kind {
        Kind::Submitted { unserved: None } => "submitted".into(),
        Kind::Submitted { unserved: Some(why) } => format!("submitted, {}", why.code()),
        Kind::Released => "released".into(),
        Kind::Due => "due".into(),
        Kind::Assigned { worker } => format!("assigned to {worker}"),
        Kind::Started { worker } => format!("started by {worker}"),
        Kind::Progress { percent, note } => {
            let percent = percent.map_or(String::new(), |percent| format!(" {percent}%"));
            format!("progress{percent}{}", because(note.as_deref()))
        }
        Kind::Checkpoint { bytes } => format!("checkpoint of {bytes}"),
        Kind::GivenBack { worker, reason } => format!("given back by {worker}{}", because(reason.as_deref())),
        Kind::TakenBack { worker } => format!("taken back from {worker}"),
        Kind::HolderLost { worker, reason, lease_until } => {
            format!("holder {worker} lost, {}, believed until {lease_until}", reason.as_str())
        }
        Kind::HolderReturned { worker } => format!("holder {worker} returned"),
        Kind::Crashed { worker, reason, next, budget_left } => {
            format!("crashed on {worker}, {}: {}, {budget_left} left", reason.as_str(), tell_next(*next))
        }
        Kind::CancelRequested { reason } => format!("cancel requested{}", because(reason.as_deref())),
        Kind::PauseRequested { reason } => format!("pause requested{}", because(reason.as_deref())),
        Kind::IntentDelivered { wanted, worker } => format!("{} delivered to {worker}", tell_wanted(*wanted)),
        Kind::Paused { reason } => format!("paused{}", because(reason.as_deref())),
        Kind::Resumed => "resumed".into(),
        Kind::Retried => "retried".into(),
        Kind::Moved => "moved".into(),
        Kind::Completed { worker, .. } => format!("completed by {worker}"),
        Kind::Failed { worker, exit_code, message, next, .. } => {
            let worker = worker.as_deref().unwrap_or("nobody");
            format!(
                "failed by {worker} with {exit_code}{}: {}",
                because(message.as_deref()),
                tell_next(*next)
            )
        }
        Kind::Expired => "expired".into(),
        Kind::Cancelled { reason, forced: false } => format!("cancelled{}", because(reason.as_deref())),
        Kind::Cancelled { reason, forced: true } => {
            format!("cancelled by force{}", because(reason.as_deref()))
        }
        Kind::WorkerRegistered => "registered".into(),
        Kind::WorkerLost { reason } => format!("lost, {}", reason.as_str()),
        Kind::WorkerReturned => "returned".into(),
        Kind::WorkerLeft => "left".into(),
        Kind::WorkerDraining => "draining".into(),
        Kind::WorkerQuarantined { until, crashes } => {
            format!("quarantined until {until} after crash {crashes}")
        }
        Kind::WorkerCleared => "cleared".into(),
        Kind::QueuePaused => "paused".into(),
        Kind::QueueResumed => "resumed".into(),
        Kind::QueueUnserved { needs } => format!("unserved{}", with(needs)),
        Kind::QueueServed { needs } => format!("served{}", with(needs)),
        Kind::QueueBacklog { threshold, depth, age } => {
            format!("backlog by {}: {depth} ready, for {} ms", threshold.as_str(), age.as_millis())
        }
        Kind::QueueBacklogCleared { threshold, depth, age } => {
            format!("backlog by {} cleared: {depth} ready, for {} ms", threshold.as_str(), age.as_millis())
        }
        Kind::QueueThresholdsSet { depth, age } => {
            let depth = depth.map_or("none".into(), |depth| depth.to_string());
            let age = age.map_or("none".into(), |age| format!("{} ms", age.as_millis()));
            format!("thresholds: depth {depth}, age {age}")
        }
        Kind::LimitSet { limit: Some(limit) } => format!("limited to {limit}"),
        Kind::LimitSet { limit: None } => "unlimited".into(),
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
        Notice::Wanted { task, attempt, wanted, reason } => {
            format!("{} {}/{attempt}{}", tell_wanted(*wanted), label(*task), because(reason.as_deref()))
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
