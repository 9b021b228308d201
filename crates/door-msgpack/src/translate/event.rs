//! Events, in the wire's words.

use std::time::Duration;

use tenure_hub::words::{About, Blob, Event, Kind, Threshold};
use tenure_wire::event::{Detail, EventKind};
use tenure_wire::task::Ended;
use tenure_wire::words::StateName;

use super::answer::reason;
use super::word::{lost_reason, next, span, task, threshold, time, wanted_word};

/// The kinds of events with which a task may end.
pub(crate) const KINDS_OF_ENDS: [&str; 5] = ["completed", "failed", "expired", "cancelled", "crashed"];

pub(crate) fn event(event: &Event) -> tenure_wire::event::Event {
    let (kind, detail) = kind(&event.kind);
    let mut told = tenure_wire::event::Event {
        seq: event.seq,
        at: time(event.at),
        kind,
        task: None,
        attempt: 0,
        queue: event.queue().cloned(),
        submitter: event.submitter().cloned(),
        worker: event.worker().cloned(),
        more: detail.map(Box::new),
    };
    match &event.about {
        About::Task { id, attempt, terms: _ } => {
            told.task = Some(task(*id));
            told.attempt = *attempt;
        }
        // The accessors above have said it all.
        About::Worker { .. } | About::Queue { .. } => {}
        About::Tag { namespace: _, tag } => told.more.get_or_insert_default().tag = Some(tag.clone()),
    }
    told
}

/// How a task ended, if the event alone says it all: the common case, and the one without a second question.
pub(crate) fn ended_by(event: &Event) -> Option<(Ended, Blob)> {
    let (About::Task { id, .. }, Kind::Completed { worker, result }) = (&event.about, &event.kind) else {
        return None;
    };
    let row = Ended {
        task: task(*id),
        state: StateName::Completed,
        exit_code: 0,
        at: time(event.at),
        message: None,
        worker: Some(worker.clone()),
        result_bytes: u64::from(result.bytes()),
        result: None,
    };
    Some((row, *result))
}

/// The name of what happened, and what goes with it beyond whom it concerns.
fn kind(kind: &Kind) -> (EventKind, Option<Detail>) {
    let blank = Detail::default;
    match kind {
        Kind::Submitted { unserved } => {
            let unserved = unserved.as_ref().map(reason);
            (EventKind::Submitted, unserved.map(|why| Detail { unserved: Some(why), ..blank() }))
        }
        Kind::Released => (EventKind::Released, None),
        Kind::Due => (EventKind::Due, None),
        Kind::Assigned { worker: _ } => (EventKind::Assigned, None),
        Kind::Started { worker: _ } => (EventKind::Started, None),
        Kind::Progress { percent, note } => {
            (EventKind::Progress, Some(Detail { percent: *percent, note: note.clone(), ..blank() }))
        }
        Kind::Checkpoint { bytes } => {
            (EventKind::Checkpoint, Some(Detail { bytes: u64::from(*bytes), ..blank() }))
        }
        Kind::GivenBack { worker: _, reason } => (EventKind::GivenBack, because(reason.as_deref())),
        Kind::TakenBack { worker: _ } => (EventKind::TakenBack, None),
        Kind::HolderLost { worker: _, reason, lease_until } => {
            let (lost, lease_until) = (Some(lost_reason(*reason)), Some(time(*lease_until)));
            (EventKind::HolderLost, Some(Detail { lost, lease_until, ..blank() }))
        }
        Kind::HolderReturned { worker: _ } => (EventKind::HolderReturned, None),
        Kind::Crashed { worker: _, reason, next: then, budget_left } => {
            let (next, retry_at) = next(*then);
            let lost = Some(lost_reason(*reason));
            let budget_left = Some(*budget_left);
            (EventKind::Crashed, Some(Detail { lost, next: Some(next), retry_at, budget_left, ..blank() }))
        }
        Kind::CancelRequested { reason } => (EventKind::CancelRequested, because(reason.as_deref())),
        Kind::PauseRequested { reason } => (EventKind::PauseRequested, because(reason.as_deref())),
        Kind::IntentDelivered { wanted, worker: _ } => {
            (EventKind::IntentDelivered, Some(Detail { wanted: Some(wanted_word(*wanted)), ..blank() }))
        }
        Kind::Paused { reason } => (EventKind::Paused, because(reason.as_deref())),
        Kind::Resumed => (EventKind::Resumed, None),
        Kind::Retried => (EventKind::Retried, None),
        Kind::Moved => (EventKind::Moved, None),
        Kind::Completed { worker: _, result } => {
            let result_bytes = u64::from(result.bytes());
            (EventKind::Completed, (result_bytes > 0).then(|| Detail { result_bytes, ..blank() }))
        }
        Kind::Failed { worker: _, exit_code, message, next: then, result } => {
            let (next, retry_at) = next(*then);
            let (exit_code, result_bytes) = (Some(*exit_code), u64::from(result.bytes()));
            let message = message.clone();
            let detail = Detail { exit_code, message, next: Some(next), retry_at, result_bytes, ..blank() };
            (EventKind::Failed, Some(detail))
        }
        Kind::Expired => (EventKind::Expired, None),
        Kind::Cancelled { reason, forced } => {
            let said = reason.is_some() || *forced;
            let detail = || Detail { reason: reason.clone(), forced: *forced, ..blank() };
            (EventKind::Cancelled, said.then(detail))
        }
        Kind::WorkerRegistered => (EventKind::WorkerRegistered, None),
        Kind::WorkerLost { reason } => {
            (EventKind::WorkerLost, Some(Detail { lost: Some(lost_reason(*reason)), ..blank() }))
        }
        Kind::WorkerReturned => (EventKind::WorkerReturned, None),
        Kind::WorkerLeft => (EventKind::WorkerLeft, None),
        Kind::WorkerDraining => (EventKind::WorkerDraining, None),
        Kind::WorkerQuarantined { until, crashes } => {
            let detail = Detail { until: Some(time(*until)), crashes: Some(*crashes), ..blank() };
            (EventKind::WorkerQuarantined, Some(detail))
        }
        Kind::WorkerCleared => (EventKind::WorkerCleared, None),
        Kind::QueuePaused => (EventKind::QueuePaused, None),
        Kind::QueueResumed => (EventKind::QueueResumed, None),
        Kind::QueueUnserved { needs } => {
            (EventKind::QueueUnserved, Some(Detail { needs: needs.clone(), ..blank() }))
        }
        Kind::QueueServed { needs } => {
            (EventKind::QueueServed, Some(Detail { needs: needs.clone(), ..blank() }))
        }
        Kind::QueueBacklog { threshold, depth, age } => {
            (EventKind::QueueBacklog, Some(backlog(*threshold, *depth, *age)))
        }
        Kind::QueueBacklogCleared { threshold, depth, age } => {
            (EventKind::QueueBacklogCleared, Some(backlog(*threshold, *depth, *age)))
        }
        Kind::QueueThresholdsSet { depth, age } => {
            let detail = Detail { depth: depth.map(u64::from), age_ms: age.map(span), ..blank() };
            (EventKind::QueueThresholdsSet, Some(detail))
        }
        Kind::LimitSet { limit } => (EventKind::LimitSet, Some(Detail { limit: *limit, ..blank() })),
    }
}

fn backlog(passed: Threshold, depth: u64, age: Duration) -> Detail {
    let (threshold, age_ms) = (Some(threshold(passed)), Some(span(age)));
    Detail { threshold, depth: Some(depth), age_ms, ..Detail::default() }
}

fn because(reason: Option<&str>) -> Option<Detail> {
    reason.map(|reason| Detail { reason: Some(reason.into()), ..Detail::default() })
}
