//! Converts events to the messages of `proto/`.

use tenure_hub::words::{Event, EventData, EventSubject, LostReason, Next};

use super::answer::{rate, why};
use super::word::{millis, text, texts, wanted_word};
use crate::proto::tenure::v1 as pb;
use crate::proto::tenure::v1::watch_response::News;

pub(crate) fn event(event: &Event) -> News {
    let (task, attempt) = match &event.about {
        EventSubject::Task { id, attempt, terms: _ } => (id.to_string(), *attempt),
        EventSubject::Worker { .. }
        | EventSubject::Queue { .. }
        | EventSubject::Tag { .. }
        | EventSubject::Schedule { .. }
        | EventSubject::Array { .. }
        | EventSubject::Share { .. } => (String::new(), 0),
    };
    let mut detail = detail(&event.kind);
    if let EventSubject::Tag { tag, .. } = &event.about {
        detail.get_or_insert_default().tag = tag.to_string();
    }
    if let EventSubject::Schedule { schedule, .. } = &event.about {
        detail.get_or_insert_default().schedule = schedule.to_string();
    }
    if let EventSubject::Array { id, name, .. } = &event.about {
        let detail = detail.get_or_insert_default();
        detail.array = id.to_string();
        detail.name = text(name.as_deref());
    } else if let EventSubject::Task { id, terms, .. } = &event.about
        && let Some(element) = terms.element(*id)
    {
        let detail = detail.get_or_insert_default();
        detail.array = element.array.to_string();
        detail.index = Some(element.index);
    }

    if let EventSubject::Share { share, .. } = &event.about {
        detail.get_or_insert_default().share = share.to_string();
    }
    News::Event(pb::Event {
        seq: event.seq,
        at: event.at.0,
        kind: event.kind.as_str().to_owned(),
        task,
        attempt,
        queue: text(event.queue().map(|queue| &**queue)),
        submitter: text(event.submitter().map(|submitter| &**submitter)),
        worker: text(event.worker().map(|worker| &**worker)),
        detail,
    })
}

/// Events from `from` on are gone; `oldest` is the first that is kept.
pub(crate) fn gap(from: u64, oldest: u64) -> News {
    let to = oldest.saturating_sub(1);
    News::Gap(pb::EventGap { from, to, first: from, last: to })
}

/// The details of an event beyond its subject.
#[expect(clippy::too_many_lines, reason = "a table")]
fn detail(kind: &EventData) -> Option<pb::EventDetail> {
    let blank = pb::EventDetail::default;
    Some(match kind {
        EventData::Submitted { unserved: None, reconciliation: None } => return None,
        EventData::Submitted { unserved, reconciliation } => pb::EventDetail {
            unserved: unserved.as_ref().map(why),
            reconciliation: reconciliation.as_deref().map(str::to_owned),
            ..blank()
        },
        EventData::Progress { percent, note } => {
            pb::EventDetail { percent: percent.map(u32::from), note: text(note.as_deref()), ..blank() }
        }
        EventData::Checkpoint { bytes } => pb::EventDetail { checkpoint_bytes: u64::from(*bytes), ..blank() },
        EventData::GivenBack { worker: _, reason }
        | EventData::CancelRequested { reason }
        | EventData::PauseRequested { reason }
        | EventData::Paused { reason } => {
            pb::EventDetail { reason: reason.as_deref()?.to_owned(), ..blank() }
        }
        EventData::HolderLost { worker: _, reason, lease_until } => {
            pb::EventDetail { lease_until: Some(lease_until.0), ..lost(*reason) }
        }
        EventData::Crashed { worker: _, reason, next, budget_left } => pb::EventDetail {
            lost: reason.as_str().to_owned(),
            budget_left: Some(u32::from(*budget_left)),
            ..then(*next)
        },
        EventData::IntentDelivered { wanted, worker: _ } => {
            pb::EventDetail { wanted: wanted_word(*wanted).to_owned(), ..blank() }
        }
        EventData::Completed { worker: _, result } => {
            pb::EventDetail { result_bytes: u64::from(result.bytes()), ..blank() }
        }
        EventData::Failed { worker: _, exit_code, message, next, result } => pb::EventDetail {
            exit_code: Some(*exit_code),
            message: text(message.as_deref()),
            result_bytes: u64::from(result.bytes()),
            ..then(*next)
        },
        EventData::Cancelled { reason, forced } => {
            pb::EventDetail { reason: text(reason.as_deref()), forced: *forced, ..blank() }
        }
        EventData::WorkerLost { reason } => lost(*reason),
        EventData::WorkerQuarantined { until, crashes } => {
            pb::EventDetail { until: Some(until.0), crashes: Some(*crashes), ..blank() }
        }
        EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => {
            pb::EventDetail { needs: texts(needs), ..blank() }
        }
        EventData::QueueBacklog { threshold, depth, age }
        | EventData::QueueBacklogCleared { threshold, depth, age } => pb::EventDetail {
            threshold: threshold.as_str().to_owned(),
            depth: Some(*depth),
            age_ms: Some(millis(*age)),
            ..blank()
        },
        EventData::QueueThresholdsSet { depth, age } => {
            pb::EventDetail { depth: depth.map(u64::from), age_ms: age.map(millis), ..blank() }
        }
        EventData::ScheduleFired { due, task } => {
            pb::EventDetail { due: Some(due.0), fired_task: task.to_string(), ..blank() }
        }
        EventData::ScheduleSkipped { reason, from, to } => pb::EventDetail {
            skipped: reason.as_str().to_owned(),
            skipped_from: Some(from.0),
            skipped_to: Some(to.0),
            ..blank()
        },
        EventData::Suspended { open, .. } => pb::EventDetail { open: Some(*open), ..blank() },
        EventData::LimitSet { limit } | EventData::ArrayLimitSet { limit } => {
            pb::EventDetail { limit: *limit, ..blank() }
        }
        EventData::ArraySubmitted { size } => pb::EventDetail { size: Some(*size), ..blank() },
        EventData::ArrayEnded { completed, failed, cancelled } => pb::EventDetail {
            completed: Some(*completed),
            failed: Some(*failed),
            cancelled: Some(*cancelled),
            ..blank()
        },
        EventData::QueueRateSet { rate: set } | EventData::RateSet { rate: set } => {
            pb::EventDetail { rate: set.map(rate), ..blank() }
        }
        EventData::ShareSet { weight } => pb::EventDetail { weight: *weight, ..blank() },
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
        | EventData::ScheduleRemoved => return None,
    })
}

fn lost(reason: LostReason) -> pb::EventDetail {
    pb::EventDetail { lost: reason.as_str().to_owned(), ..pb::EventDetail::default() }
}

fn then(next: Next) -> pb::EventDetail {
    let retry_at = match next {
        Next::RetriedAt(at) => Some(at.0),
        Next::Requeued | Next::Paused | Next::Failed | Next::Cancelled => None,
    };
    pb::EventDetail { next: next.as_str().to_owned(), retry_at, ..pb::EventDetail::default() }
}
