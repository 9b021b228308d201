//! An event as JSON.

use serde_json::{Map, Value, json};
use tenure_hub::words::{Event, EventData, EventSubject, LostReason, Name, Next, Why};

use super::broker::rate;
use super::why::why;
use super::word::{millis, some_millis, texts, time, wanted};

pub(crate) fn event(event: &Event) -> Value {
    let schedule = match &event.about {
        EventSubject::Schedule { schedule, .. } => Some(&**schedule),
        EventSubject::Task { .. }
        | EventSubject::Worker { .. }
        | EventSubject::Queue { .. }
        | EventSubject::Tag { .. }
        | EventSubject::Array { .. }
        | EventSubject::Share { .. } => None,
    };
    let (task, attempt, tag) = match &event.about {
        EventSubject::Task { id, attempt, terms: _ } => (Some(id.to_string()), Some(*attempt), None),
        EventSubject::Worker { .. }
        | EventSubject::Queue { .. }
        | EventSubject::Schedule { .. }
        | EventSubject::Array { .. }
        | EventSubject::Share { .. } => (None, None, None),
        EventSubject::Tag { tag, .. } => (None, None, Some(&**tag)),
    };
    let index = match &event.about {
        EventSubject::Task { id, terms, .. } => terms.element(*id).map(|element| element.index),
        _ => None,
    };
    let share = match &event.about {
        EventSubject::Share { share, .. } => Some(&**share),
        _ => None,
    };
    let mut told = json!({
        "seq": event.seq,
        "at": time(event.at),
        "kind": event.kind.as_str(),
        "task": task,
        "attempt": attempt,
        "queue": event.queue().map(|queue| &**queue),
        "submitter": event.submitter().map(|submitter| &**submitter),
        "worker": event.worker().map(|worker| &**worker),
        "tag": tag,
        "schedule": schedule,
        "array": event.array().map(|array| array.to_string()),
        "index": index,
        "more": more(&event.kind),
    });
    if let (Some(share), Some(fields)) = (share, told.as_object_mut()) {
        fields.insert("share".into(), share.into());
    }
    told
}

/// Events from `from` on are gone; `oldest` is the first that is kept.
pub(crate) fn gap(from: u64, oldest: u64) -> Value {
    json!({ "from": from, "to": oldest.saturating_sub(1), "oldest": oldest })
}

fn submitted(unserved: Option<&Why>, reconciliation: &Option<Name>) -> Value {
    let mut more = json!({ "unserved": unserved.map(why) });
    if let Some(prefix) = reconciliation {
        more["reconciliation"] = (**prefix).into();
    }
    more
}

/// What an event says beside its subject.
fn more(kind: &EventData) -> Value {
    match kind {
        EventData::Submitted { unserved, reconciliation } => submitted(unserved.as_ref(), reconciliation),
        EventData::Progress { percent, note } => json!({ "percent": percent, "note": note }),
        EventData::Checkpoint { bytes } => json!({ "bytes": bytes }),
        EventData::GivenBack { worker: _, reason }
        | EventData::CancelRequested { reason }
        | EventData::PauseRequested { reason }
        | EventData::Paused { reason } => json!({ "reason": reason }),
        EventData::HolderLost { worker: _, reason, lease_until } => {
            json!({ "lost": reason.as_str(), "lease_until": time(*lease_until) })
        }
        EventData::Crashed { worker: _, reason, next, budget_left } => {
            let mut more = then(*next);
            more.insert("lost".to_owned(), reason.as_str().into());
            more.insert("budget_left".to_owned(), (*budget_left).into());
            more.into()
        }
        EventData::Suspended { worker: _, open } => json!({ "open": open }),
        EventData::IntentDelivered { wanted: what, worker: _ } => json!({ "wanted": wanted(*what) }),
        EventData::Completed { worker: _, result } => json!({ "result_bytes": result.bytes() }),
        EventData::Failed { worker: _, exit_code, message, next, result } => {
            let mut more = then(*next);
            more.insert("exit_code".to_owned(), (*exit_code).into());
            more.insert("message".to_owned(), message.as_deref().into());
            more.insert("result_bytes".to_owned(), result.bytes().into());
            more.into()
        }
        EventData::Cancelled { reason, forced } => json!({ "reason": reason, "forced": forced }),
        EventData::WorkerLost { reason } => lost(*reason),
        EventData::WorkerQuarantined { until, crashes } => {
            json!({ "until": time(*until), "crashes": crashes })
        }
        EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => {
            json!({ "needs": texts(needs) })
        }
        EventData::QueueBacklog { threshold, depth, age }
        | EventData::QueueBacklogCleared { threshold, depth, age } => {
            json!({ "threshold": threshold.as_str(), "depth": depth, "age_ms": millis(*age) })
        }
        EventData::QueueThresholdsSet { depth, age } => {
            json!({ "depth": depth, "age_ms": some_millis(*age) })
        }
        EventData::QueueRateSet { rate: set } | EventData::RateSet { rate: set } => {
            json!({ "rate": set.as_ref().map(rate) })
        }
        EventData::ShareSet { weight } => json!({ "weight": weight }),
        EventData::ScheduleFired { due, task } => json!({ "due": time(*due), "task": task.to_string() }),
        EventData::ScheduleSkipped { reason, from, to } => {
            json!({ "skipped": reason.as_str(), "from": time(*from), "to": time(*to) })
        }
        EventData::LimitSet { limit } | EventData::ArrayLimitSet { limit } => json!({ "limit": limit }),
        EventData::ArraySubmitted { size } => json!({ "size": size }),
        EventData::ArrayEnded { completed, failed, cancelled } => {
            json!({ "completed": completed, "failed": failed, "cancelled": cancelled })
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
        | EventData::ScheduleRemoved => json!({}),
    }
}

fn lost(reason: LostReason) -> Value {
    json!({ "lost": reason.as_str() })
}

/// What becomes of a task whose attempt is over.
fn then(next: Next) -> Map<String, Value> {
    let mut more = Map::new();
    more.insert("next".to_owned(), next.as_str().into());
    match next {
        Next::RetriedAt(at) => {
            more.insert("retry_at".to_owned(), time(at));
        }
        Next::Requeued | Next::Paused | Next::Failed | Next::Cancelled => {}
    }
    more
}
