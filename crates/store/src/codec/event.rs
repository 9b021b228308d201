//! The encoding of an event. Its number follows from its place in the sequence and is not written. The record
//! writes the subject, because an event shares the task's identity with the task's new state.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::event::{Event, EventData, EventSubject, LostReason, Next};
use tenure_engine::state::{StateName, Wanted};
use tenure_engine::{Name, SkipReason, Terms, Threshold, Thresholds};

use super::Base;
use super::dictionary::Dictionary;
use super::page::RecordPage;
use super::put;
use super::record::{AboutView, RecordView};
use super::settings::{
    encode_maybe_rate, encode_thresholds, take_limit_number, take_maybe_rate, take_thresholds,
};
use super::take::{ByteCursor, Malformed};
use super::task::take_percent;
use super::why::{encode_why, take_why};

/// Decodes the event of a record. `terms` are the decoded terms of the page.
pub(crate) fn event(
    record: &RecordView<'_>,
    number: u64,
    page: &RecordPage<'_>,
    terms: &[Arc<Terms>],
) -> Result<Event, Malformed> {
    let mut take = ByteCursor::new(record.event);
    let at = take.time(&page.base)?;
    let about = match &record.about {
        AboutView::Nothing => return Err(Malformed("a record without an event has no event")),
        AboutView::Task(identity) => EventSubject::Task {
            id: identity.id,
            attempt: identity.attempt,
            terms: terms
                .get(identity.terms as usize)
                .cloned()
                .ok_or(Malformed("terms are not in the page"))?,
        },
        AboutView::Worker => {
            EventSubject::Worker { namespace: page.name(&mut take)?, worker: page.name(&mut take)? }
        }
        AboutView::Queue => {
            EventSubject::Queue { namespace: page.name(&mut take)?, queue: page.name(&mut take)? }
        }
        AboutView::Schedule => {
            EventSubject::Schedule { namespace: page.name(&mut take)?, schedule: page.name(&mut take)? }
        }
        AboutView::Tag => EventSubject::Tag { namespace: page.name(&mut take)?, tag: page.name(&mut take)? },
        AboutView::Array => EventSubject::Array {
            id: take.id()?,
            namespace: page.name(&mut take)?,
            queue: page.name(&mut take)?,
            submitter: page.name(&mut take)?,
            name: page.maybe_name(&mut take)?,
        },
    };
    let kind = take_kind(&mut take, page)?;
    if !take.is_empty() {
        return Err(Malformed("an event is longer than it should be"));
    }
    let about = match (about, &kind) {
        (EventSubject::Tag { namespace, tag }, EventData::ShareSet { .. }) => {
            EventSubject::Share { namespace, share: tag }
        }
        (about, _) => about,
    };
    Ok(Event { seq: number, at, about, kind })
}

pub(super) fn encode_event(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, event: &Event) {
    put::time(out, base, event.at);
    match &event.about {
        EventSubject::Task { .. } => {}
        EventSubject::Worker { namespace, worker: name }
        | EventSubject::Queue { namespace, queue: name }
        | EventSubject::Tag { namespace, tag: name }
        | EventSubject::Schedule { namespace, schedule: name }
        | EventSubject::Share { namespace, share: name } => {
            put_name(out, book, namespace);
            put_name(out, book, name);
        }
        EventSubject::Array { id, namespace, queue, submitter, name } => {
            out.extend_from_slice(id.as_bytes());
            for name in [namespace, queue, submitter] {
                put_name(out, book, name);
            }
            put::varint(out, name.as_ref().map_or(0, |name| u64::from(book.name(name)) + 1));
        }
    }
    encode_kind(out, book, base, &event.kind);
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn encode_kind(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, kind: &EventData) {
    out.push(kind_code(kind));
    match kind {
        EventData::Released
        | EventData::DependenciesMet
        | EventData::Due
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
        EventData::Submitted { unserved, reconciliation } => {
            if let Some(prefix) = reconciliation {
                put::text(out, prefix);
            }
            encode_why(out, book, base, unserved.as_ref());
        }
        EventData::Suspended { worker, open } => {
            put_name(out, book, worker);
            put::varint(out, u64::from(*open));
        }
        EventData::Assigned { worker }
        | EventData::Started { worker }
        | EventData::Continued { worker }
        | EventData::TakenBack { worker }
        | EventData::HolderReturned { worker } => put_name(out, book, worker),
        EventData::Progress { percent, note } => {
            put::varint(out, percent.map_or(0, |percent| u64::from(percent) + 1));
            put::maybe_text(out, note.as_deref());
        }
        EventData::Checkpoint { bytes } => put::varint(out, u64::from(*bytes)),
        EventData::GivenBack { worker, reason } => {
            put_name(out, book, worker);
            put::maybe_text(out, reason.as_deref());
        }
        EventData::HolderLost { worker, reason, lease_until } => {
            put_name(out, book, worker);
            out.push(lost_code(*reason));
            put::time(out, base, *lease_until);
        }
        EventData::Crashed { worker, reason, next, budget_left } => {
            put_name(out, book, worker);
            out.push(lost_code(*reason));
            encode_next(out, base, *next);
            put::varint(out, u64::from(*budget_left));
        }
        EventData::CancelRequested { reason }
        | EventData::PauseRequested { reason }
        | EventData::Paused { reason } => {
            put::maybe_text(out, reason.as_deref());
        }
        EventData::IntentDelivered { wanted, worker } => {
            out.push(match wanted {
                Wanted::Cancel => 1,
                Wanted::Pause => 2,
            });
            put_name(out, book, worker);
        }
        EventData::Completed { worker, result } => {
            put_name(out, book, worker);
            put::blob(out, base, *result);
        }
        EventData::Failed { worker, exit_code, message, next, result } => {
            put::varint(out, worker.as_ref().map_or(0, |worker| u64::from(book.name(worker)) + 1));
            put::signed(out, i64::from(*exit_code));
            put::maybe_text(out, message.as_deref());
            encode_next(out, base, *next);
            put::blob(out, base, *result);
        }
        EventData::Cancelled { reason, forced } => {
            put::maybe_text(out, reason.as_deref());
            out.push(u8::from(*forced));
        }
        EventData::WorkerLost { reason } => out.push(lost_code(*reason)),
        EventData::WorkerQuarantined { until, crashes } => {
            put::time(out, base, *until);
            put::varint(out, u64::from(*crashes));
        }
        EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => put_names(out, book, needs),
        EventData::QueueBacklog { threshold, depth, age }
        | EventData::QueueBacklogCleared { threshold, depth, age } => {
            out.push(threshold_code(*threshold));
            put::varint(out, *depth);
            put::span(out, *age);
        }
        EventData::QueueThresholdsSet { depth, age } => encode_thresholds(out, *depth, *age),
        EventData::ScheduleFired { due, task } => {
            put::time(out, base, *due);
            out.extend_from_slice(task.as_bytes());
        }
        EventData::ScheduleSkipped { reason, from, to } => {
            out.push(skip_code(*reason));
            put::time(out, base, *from);
            put::time(out, base, *to);
        }
        EventData::LimitSet { limit: number }
        | EventData::ArrayLimitSet { limit: number }
        | EventData::ShareSet { weight: number } => {
            put::varint(out, number.map_or(0, |number| u64::from(number) + 1));
        }
        EventData::ArraySubmitted { size } => put::varint(out, u64::from(*size)),
        EventData::ArrayEnded { completed, failed, cancelled } => {
            for number in [completed, failed, cancelled] {
                put::varint(out, u64::from(*number));
            }
        }
        EventData::QueueRateSet { rate } | EventData::RateSet { rate } => encode_maybe_rate(out, *rate),
    }
}

/// The codes are part of the format: a new kind gets a new code, and codes are never reused.
fn kind_code(kind: &EventData) -> u8 {
    match kind {
        EventData::Submitted { reconciliation: None, .. } => 1,
        EventData::Submitted { reconciliation: Some(_), .. } => 27,
        EventData::Released => 2,
        EventData::Due => 3,
        EventData::Assigned { .. } => 4,
        EventData::Started { .. } => 5,
        EventData::Progress { .. } => 6,
        EventData::GivenBack { .. } => 7,
        EventData::TakenBack { .. } => 8,
        EventData::HolderLost { .. } => 9,
        EventData::HolderReturned { .. } => 10,
        EventData::Crashed { .. } => 11,
        EventData::CancelRequested { .. } => 12,
        EventData::PauseRequested { .. } => 13,
        EventData::IntentDelivered { .. } => 14,
        EventData::Paused { .. } => 15,
        EventData::Resumed => 16,
        EventData::Retried => 17,
        EventData::Moved => 18,
        EventData::Completed { .. } => 19,
        EventData::Failed { .. } => 20,
        EventData::Expired => 21,
        EventData::Cancelled { .. } => 22,
        EventData::Checkpoint { .. } => 23,
        EventData::DependenciesMet => 24,
        EventData::Suspended { .. } => 25,
        EventData::Continued { .. } => 26,
        EventData::WorkerRegistered => 40,
        EventData::WorkerLost { .. } => 41,
        EventData::WorkerReturned => 42,
        EventData::WorkerLeft => 43,
        EventData::WorkerDraining => 44,
        EventData::WorkerQuarantined { .. } => 45,
        EventData::WorkerCleared => 46,
        EventData::QueuePaused => 60,
        EventData::QueueResumed => 61,
        EventData::QueueUnserved { .. } => 62,
        EventData::QueueServed { .. } => 63,
        EventData::QueueBacklog { .. } => 64,
        EventData::QueueBacklogCleared { .. } => 65,
        EventData::QueueThresholdsSet { .. } => 66,
        EventData::QueueRateSet { .. } => 67,
        EventData::LimitSet { .. } => 80,
        EventData::ScheduleSet => 100,
        EventData::ScheduleFired { .. } => 101,
        EventData::ScheduleSkipped { .. } => 102,
        EventData::SchedulePaused => 103,
        EventData::ScheduleResumed => 104,
        EventData::ScheduleRemoved => 105,
        EventData::ArraySubmitted { .. } => 90,
        EventData::ArrayEnded { .. } => 91,
        EventData::ArrayLimitSet { .. } => 92,
        EventData::RateSet { .. } => 81,
        EventData::ShareSet { .. } => 82,
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn take_kind(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<EventData, Malformed> {
    let base = &page.base;
    Ok(match take.byte()? {
        1 => EventData::Submitted { unserved: take_why(take, page)?, reconciliation: None },
        2 => EventData::Released,
        3 => EventData::Due,
        4 => EventData::Assigned { worker: page.name(take)? },
        5 => EventData::Started { worker: page.name(take)? },
        6 => EventData::Progress { percent: take_percent(take)?, note: take.maybe_text()? },
        7 => EventData::GivenBack { worker: page.name(take)?, reason: take.maybe_text()? },
        8 => EventData::TakenBack { worker: page.name(take)? },
        9 => {
            let (worker, reason) = (page.name(take)?, take_lost(take)?);
            EventData::HolderLost { worker, reason, lease_until: take.time(base)? }
        }
        10 => EventData::HolderReturned { worker: page.name(take)? },
        11 => {
            let (worker, reason) = (page.name(take)?, take_lost(take)?);
            EventData::Crashed { worker, reason, next: take_next(take, base)?, budget_left: take.small()? }
        }
        12 => EventData::CancelRequested { reason: take.maybe_text()? },
        13 => EventData::PauseRequested { reason: take.maybe_text()? },
        14 => {
            let wanted = match take.byte()? {
                1 => Wanted::Cancel,
                2 => Wanted::Pause,
                _ => return Err(Malformed("an unknown intent")),
            };
            EventData::IntentDelivered { wanted, worker: page.name(take)? }
        }
        15 => EventData::Paused { reason: take.maybe_text()? },
        16 => EventData::Resumed,
        17 => EventData::Retried,
        18 => EventData::Moved,
        19 => EventData::Completed { worker: page.name(take)?, result: take.blob(base)? },
        20 => EventData::Failed {
            worker: page.maybe_name(take)?,
            exit_code: take.small_signed()?,
            message: take.maybe_text()?,
            next: take_next(take, base)?,
            result: take.blob(base)?,
        },
        21 => EventData::Expired,
        22 => EventData::Cancelled { reason: take.maybe_text()?, forced: take.flag()? },
        23 => EventData::Checkpoint { bytes: take.small()? },
        24 => EventData::DependenciesMet,
        25 => EventData::Suspended { worker: page.name(take)?, open: take.small()? },
        26 => EventData::Continued { worker: page.name(take)? },
        27 => {
            let reconciliation = Some(take.text()?.into());
            EventData::Submitted { unserved: take_why(take, page)?, reconciliation }
        }
        40 => EventData::WorkerRegistered,
        41 => EventData::WorkerLost { reason: take_lost(take)? },
        42 => EventData::WorkerReturned,
        43 => EventData::WorkerLeft,
        44 => EventData::WorkerDraining,
        45 => EventData::WorkerQuarantined { until: take.time(base)?, crashes: take.small()? },
        46 => EventData::WorkerCleared,
        60 => EventData::QueuePaused,
        61 => EventData::QueueResumed,
        62 => EventData::QueueUnserved { needs: take_names(take, page)? },
        63 => EventData::QueueServed { needs: take_names(take, page)? },
        64 => {
            let (threshold, depth, age) = take_backlog(take)?;
            EventData::QueueBacklog { threshold, depth, age }
        }
        65 => {
            let (threshold, depth, age) = take_backlog(take)?;
            EventData::QueueBacklogCleared { threshold, depth, age }
        }
        66 => {
            let Thresholds { depth, age } = take_thresholds(take)?;
            EventData::QueueThresholdsSet { depth, age }
        }
        67 => EventData::QueueRateSet { rate: take_maybe_rate(take)? },
        80 => EventData::LimitSet { limit: take_limit_number(take)? },
        100 => EventData::ScheduleSet,
        101 => EventData::ScheduleFired { due: take.time(base)?, task: take.id()? },
        102 => {
            let code = take.byte()?;
            let reason = SkipReason::ALL.iter().copied().find(|reason| skip_code(*reason) == code);
            let reason = reason.ok_or(Malformed("an unknown reason to skip a due time"))?;
            EventData::ScheduleSkipped { reason, from: take.time(base)?, to: take.time(base)? }
        }
        103 => EventData::SchedulePaused,
        104 => EventData::ScheduleResumed,
        105 => EventData::ScheduleRemoved,
        90 => EventData::ArraySubmitted { size: take.small()? },
        91 => {
            let (completed, failed) = (take.small()?, take.small()?);
            EventData::ArrayEnded { completed, failed, cancelled: take.small()? }
        }
        92 => EventData::ArrayLimitSet { limit: take_limit_number(take)? },
        81 => EventData::RateSet { rate: take_maybe_rate(take)? },
        82 => EventData::ShareSet { weight: take_limit_number(take)? },
        _ => return Err(Malformed("an unknown kind of event")),
    })
}

fn skip_code(reason: SkipReason) -> u8 {
    match reason {
        SkipReason::Missed => 1,
        SkipReason::Overlap => 2,
        SkipReason::Exists => 3,
        SkipReason::Refused => 4,
    }
}

fn threshold_code(threshold: Threshold) -> u8 {
    match threshold {
        Threshold::Depth => 1,
        Threshold::Age => 2,
    }
}

fn take_backlog(take: &mut ByteCursor<'_>) -> Result<(Threshold, u64, Duration), Malformed> {
    let code = take.byte()?;
    let threshold = Threshold::ALL.into_iter().find(|threshold| threshold_code(*threshold) == code);
    Ok((threshold.ok_or(Malformed("an unknown threshold"))?, take.varint()?, take.span()?))
}

fn lost_code(reason: LostReason) -> u8 {
    match reason {
        LostReason::ConnectionClosed => 1,
        LostReason::HeartbeatMissed => 2,
        LostReason::RunLimit => 3,
        LostReason::WorkerSaidSo => 4,
        LostReason::Forgotten => 5,
        LostReason::NotBackAfterRestart => 7,
    }
}

fn take_lost(take: &mut ByteCursor<'_>) -> Result<LostReason, Malformed> {
    let code = take.byte()?;
    LostReason::ALL
        .into_iter()
        .find(|reason| lost_code(*reason) == code)
        .ok_or(Malformed("an unknown reason for a lost worker"))
}

fn encode_next(out: &mut Vec<u8>, base: &Base, next: Next) {
    match next {
        Next::Requeued => out.push(1),
        Next::RetriedAt(at) => {
            out.push(2);
            put::time(out, base, at);
        }
        Next::Paused => out.push(3),
        Next::Failed => out.push(4),
        Next::Cancelled => out.push(5),
    }
}

fn take_next(take: &mut ByteCursor<'_>, base: &Base) -> Result<Next, Malformed> {
    Ok(match take.byte()? {
        1 => Next::Requeued,
        2 => Next::RetriedAt(take.time(base)?),
        3 => Next::Paused,
        4 => Next::Failed,
        5 => Next::Cancelled,
        _ => return Err(Malformed("an unknown state after an attempt")),
    })
}

/// The codes are part of the format, whatever the order of the states.
pub(super) fn state_code(state: StateName) -> u8 {
    match state {
        StateName::Created => 0,
        StateName::Delayed => 1,
        StateName::Ready => 2,
        StateName::Assigned => 3,
        StateName::Running => 4,
        StateName::Paused => 5,
        StateName::Completed => 6,
        StateName::Failed => 7,
        StateName::Cancelled => 8,
        StateName::Waiting => 9,
        StateName::Suspended => 10,
    }
}

pub(super) fn take_state_name(take: &mut ByteCursor<'_>) -> Result<StateName, Malformed> {
    let code = take.byte()?;
    let state = StateName::ALL.into_iter().find(|state| state_code(*state) == code);
    state.ok_or(Malformed("an unknown state of a task"))
}

pub(super) fn put_name(out: &mut Vec<u8>, book: &mut Dictionary, name: &Name) {
    put::varint(out, u64::from(book.name(name)));
}

pub(super) fn put_names(out: &mut Vec<u8>, book: &mut Dictionary, names: &[Name]) {
    put::varint(out, names.len() as u64);
    names.iter().for_each(|name| put_name(out, book, name));
}

pub(super) fn take_names(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<Vec<Name>, Malformed> {
    let count = take.count()?;
    (0..count).map(|_| page.name(take)).collect()
}
