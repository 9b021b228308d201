//! Converts events to the wire.

use std::time::Duration;

use tenure_hub::words::{Blob, Event, EventData, EventSubject, Threshold};
use tenure_wire::event::{Detail, EventKind};
use tenure_wire::task::Ended;
use tenure_wire::words::StateName;

use super::answer::reason;
use super::schedule::skip_reason;
use super::word::{lost_reason, next, rate, span, task, threshold, time, wanted_word};

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
        EventSubject::Task { id, attempt, terms } => {
            told.task = Some(task(*id));
            told.attempt = *attempt;
            if let Some(element) = terms.element(*id) {
                let more = told.more.get_or_insert_default();
                more.array = Some(task(element.array));
                more.index = Some(element.index);
            }
        }
        EventSubject::Array { id, name, .. } => {
            let more = told.more.get_or_insert_default();
            more.array = Some(task(*id));
            more.name.clone_from(name);
        }
        // The accessors above cover these.
        EventSubject::Worker { .. } | EventSubject::Queue { .. } => {}
        EventSubject::Schedule { namespace: _, schedule } => {
            told.more.get_or_insert_default().schedule = Some(schedule.clone());
        }
        EventSubject::Tag { namespace: _, tag } => told.more.get_or_insert_default().tag = Some(tag.clone()),
        EventSubject::Share { namespace: _, share } => {
            told.more.get_or_insert_default().share = Some(share.clone());
        }
    }
    told
}

/// How a task ended, if the event alone says it: the common case, which needs no second query.
pub(crate) fn ended_by(event: &Event) -> Option<(Ended, Blob)> {
    let (EventSubject::Task { id, .. }, EventData::Completed { worker, result }) =
        (&event.about, &event.kind)
    else {
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

/// The kind of an event, and its details beyond its subject.
#[expect(clippy::too_many_lines, reason = "a table")]
fn kind(kind: &EventData) -> (EventKind, Option<Detail>) {
    let blank = Detail::default;
    match kind {
        EventData::Submitted { unserved: None, reconciliation: None } => (EventKind::Submitted, None),
        EventData::Submitted { unserved, reconciliation } => {
            let (unserved, reconciliation) = (unserved.as_ref().map(reason), reconciliation.clone());
            (EventKind::Submitted, Some(Detail { unserved, reconciliation, ..blank() }))
        }
        EventData::Released => (EventKind::Released, None),
        EventData::DependenciesMet => (EventKind::DependenciesMet, None),
        EventData::Due => (EventKind::Due, None),
        EventData::Assigned { worker: _ } => (EventKind::Assigned, None),
        EventData::Started { worker: _ } => (EventKind::Started, None),
        EventData::Progress { percent, note } => {
            (EventKind::Progress, Some(Detail { percent: *percent, note: note.clone(), ..blank() }))
        }
        EventData::Checkpoint { bytes } => {
            (EventKind::Checkpoint, Some(Detail { bytes: u64::from(*bytes), ..blank() }))
        }
        EventData::Suspended { worker: _, open } => {
            (EventKind::Suspended, Some(Detail { open: Some(*open), ..blank() }))
        }
        EventData::Continued { worker: _ } => (EventKind::Continued, None),
        EventData::GivenBack { worker: _, reason } => (EventKind::GivenBack, because(reason.as_deref())),
        EventData::TakenBack { worker: _ } => (EventKind::TakenBack, None),
        EventData::HolderLost { worker: _, reason, lease_until } => {
            let (lost, lease_until) = (Some(lost_reason(*reason)), Some(time(*lease_until)));
            (EventKind::HolderLost, Some(Detail { lost, lease_until, ..blank() }))
        }
        EventData::HolderReturned { worker: _ } => (EventKind::HolderReturned, None),
        EventData::Crashed { worker: _, reason, next: then, budget_left } => {
            let (next, retry_at) = next(*then);
            let lost = Some(lost_reason(*reason));
            let budget_left = Some(*budget_left);
            (EventKind::Crashed, Some(Detail { lost, next: Some(next), retry_at, budget_left, ..blank() }))
        }
        EventData::CancelRequested { reason } => (EventKind::CancelRequested, because(reason.as_deref())),
        EventData::PauseRequested { reason } => (EventKind::PauseRequested, because(reason.as_deref())),
        EventData::IntentDelivered { wanted, worker: _ } => {
            (EventKind::IntentDelivered, Some(Detail { wanted: Some(wanted_word(*wanted)), ..blank() }))
        }
        EventData::Paused { reason } => (EventKind::Paused, because(reason.as_deref())),
        EventData::Resumed => (EventKind::Resumed, None),
        EventData::Retried => (EventKind::Retried, None),
        EventData::Moved => (EventKind::Moved, None),
        EventData::Completed { worker: _, result } => {
            let result_bytes = u64::from(result.bytes());
            (EventKind::Completed, (result_bytes > 0).then(|| Detail { result_bytes, ..blank() }))
        }
        EventData::Failed { worker: _, exit_code, message, next: then, result } => {
            let (next, retry_at) = next(*then);
            let (exit_code, result_bytes) = (Some(*exit_code), u64::from(result.bytes()));
            let message = message.clone();
            let detail = Detail { exit_code, message, next: Some(next), retry_at, result_bytes, ..blank() };
            (EventKind::Failed, Some(detail))
        }
        EventData::Expired => (EventKind::Expired, None),
        EventData::Cancelled { reason, forced } => {
            let said = reason.is_some() || *forced;
            let detail = || Detail { reason: reason.clone(), forced: *forced, ..blank() };
            (EventKind::Cancelled, said.then(detail))
        }
        EventData::WorkerRegistered => (EventKind::WorkerRegistered, None),
        EventData::WorkerLost { reason } => {
            (EventKind::WorkerLost, Some(Detail { lost: Some(lost_reason(*reason)), ..blank() }))
        }
        EventData::WorkerReturned => (EventKind::WorkerReturned, None),
        EventData::WorkerLeft => (EventKind::WorkerLeft, None),
        EventData::WorkerDraining => (EventKind::WorkerDraining, None),
        EventData::WorkerQuarantined { until, crashes } => {
            let detail = Detail { until: Some(time(*until)), crashes: Some(*crashes), ..blank() };
            (EventKind::WorkerQuarantined, Some(detail))
        }
        EventData::WorkerCleared => (EventKind::WorkerCleared, None),
        EventData::QueuePaused => (EventKind::QueuePaused, None),
        EventData::QueueResumed => (EventKind::QueueResumed, None),
        EventData::QueueUnserved { needs } => {
            (EventKind::QueueUnserved, Some(Detail { needs: needs.clone(), ..blank() }))
        }
        EventData::QueueServed { needs } => {
            (EventKind::QueueServed, Some(Detail { needs: needs.clone(), ..blank() }))
        }
        EventData::QueueBacklog { threshold, depth, age } => {
            (EventKind::QueueBacklog, Some(backlog(*threshold, *depth, *age)))
        }
        EventData::QueueBacklogCleared { threshold, depth, age } => {
            (EventKind::QueueBacklogCleared, Some(backlog(*threshold, *depth, *age)))
        }
        EventData::QueueThresholdsSet { depth, age } => {
            let detail = Detail { depth: depth.map(u64::from), age_ms: age.map(span), ..blank() };
            (EventKind::QueueThresholdsSet, Some(detail))
        }
        EventData::ScheduleSet => (EventKind::ScheduleSet, None),
        EventData::ScheduleFired { due, task: fired } => {
            let detail = Detail { due: Some(time(*due)), task: Some(task(*fired)), ..blank() };
            (EventKind::ScheduleFired, Some(detail))
        }
        EventData::ScheduleSkipped { reason, from, to } => {
            let (skipped, from, to) = (Some(skip_reason(*reason)), Some(time(*from)), Some(time(*to)));
            (EventKind::ScheduleSkipped, Some(Detail { skipped, from, to, ..blank() }))
        }
        EventData::SchedulePaused => (EventKind::SchedulePaused, None),
        EventData::ScheduleResumed => (EventKind::ScheduleResumed, None),
        EventData::ScheduleRemoved => (EventKind::ScheduleRemoved, None),
        EventData::QueueRateSet { rate: set } => {
            (EventKind::QueueRateSet, Some(Detail { rate: set.map(rate), ..blank() }))
        }
        EventData::RateSet { rate: set } => {
            (EventKind::RateSet, Some(Detail { rate: set.map(rate), ..blank() }))
        }
        EventData::ShareSet { weight } => (EventKind::ShareSet, Some(Detail { weight: *weight, ..blank() })),
        EventData::LimitSet { limit } => (EventKind::LimitSet, Some(Detail { limit: *limit, ..blank() })),
        EventData::ArraySubmitted { size } => {
            (EventKind::ArraySubmitted, Some(Detail { size: Some(*size), ..blank() }))
        }
        EventData::ArrayEnded { completed, failed, cancelled } => {
            let (completed, failed, cancelled) = (Some(*completed), Some(*failed), Some(*cancelled));
            (EventKind::ArrayEnded, Some(Detail { completed, failed, cancelled, ..blank() }))
        }
        EventData::ArrayLimitSet { limit } => {
            (EventKind::ArrayLimitSet, Some(Detail { limit: *limit, ..blank() }))
        }
    }
}

fn backlog(passed: Threshold, depth: u64, age: Duration) -> Detail {
    let (threshold, age_ms) = (Some(threshold(passed)), Some(span(age)));
    Detail { threshold, depth: Some(depth), age_ms, ..Detail::default() }
}

fn because(reason: Option<&str>) -> Option<Detail> {
    reason.map(|reason| Detail { reason: Some(reason.into()), ..Detail::default() })
}
