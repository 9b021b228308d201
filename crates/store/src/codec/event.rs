//! An event as bytes. Its number is its place in the sequence and is not written; whom it concerns is written by the
//! record, because a task's identity is shared with the task's new state.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::event::{About, Event, Kind, LostReason, Next};
use tenure_engine::state::{StateName, Wanted};
use tenure_engine::{Name, Terms, Threshold, Thresholds, Why};

use super::Base;
use super::dictionary::Dictionary;
use super::page::Page;
use super::put;
use super::record::{AboutView, RecordView};
use super::settings::{encode_thresholds, take_limit_number, take_thresholds};
use super::take::{Malformed, Take};
use super::task::take_percent;

/// The event of a record. `terms` are the page's, decoded.
pub(crate) fn event(
    record: &RecordView<'_>,
    number: u64,
    page: &Page<'_>,
    terms: &[Arc<Terms>],
) -> Result<Event, Malformed> {
    let mut take = Take::new(record.event);
    let at = take.time(&page.base)?;
    let about = match &record.about {
        AboutView::Nobody => return Err(Malformed("a record without an event has no event")),
        AboutView::Task(identity) => About::Task {
            id: identity.id,
            attempt: identity.attempt,
            terms: terms
                .get(identity.terms as usize)
                .cloned()
                .ok_or(Malformed("terms are not in the page"))?,
        },
        AboutView::Worker => {
            About::Worker { namespace: page.name(&mut take)?, worker: page.name(&mut take)? }
        }
        AboutView::Queue => About::Queue { namespace: page.name(&mut take)?, queue: page.name(&mut take)? },
        AboutView::Tag => About::Tag { namespace: page.name(&mut take)?, tag: page.name(&mut take)? },
    };
    let kind = take_kind(&mut take, page)?;
    if !take.is_empty() {
        return Err(Malformed("an event is longer than it should be"));
    }
    Ok(Event { seq: number, at, about, kind })
}

pub(super) fn encode_event(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, event: &Event) {
    put::time(out, base, event.at);
    match &event.about {
        About::Task { .. } => {}
        About::Worker { namespace, worker: name }
        | About::Queue { namespace, queue: name }
        | About::Tag { namespace, tag: name } => {
            put_name(out, book, namespace);
            put_name(out, book, name);
        }
    }
    encode_kind(out, book, base, &event.kind);
}

fn encode_kind(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, kind: &Kind) {
    out.push(kind_code(kind));
    match kind {
        Kind::Released
        | Kind::Due
        | Kind::Resumed
        | Kind::Retried
        | Kind::Moved
        | Kind::Expired
        | Kind::WorkerRegistered
        | Kind::WorkerReturned
        | Kind::WorkerLeft
        | Kind::WorkerDraining
        | Kind::WorkerCleared
        | Kind::QueuePaused
        | Kind::QueueResumed => {}
        Kind::Submitted { unserved } => encode_why(out, book, base, unserved.as_ref()),
        Kind::Assigned { worker }
        | Kind::Started { worker }
        | Kind::TakenBack { worker }
        | Kind::HolderReturned { worker } => put_name(out, book, worker),
        Kind::Progress { percent, note } => {
            put::varint(out, percent.map_or(0, |percent| u64::from(percent) + 1));
            put::maybe_text(out, note.as_deref());
        }
        Kind::Checkpoint { bytes } => put::varint(out, u64::from(*bytes)),
        Kind::GivenBack { worker, reason } => {
            put_name(out, book, worker);
            put::maybe_text(out, reason.as_deref());
        }
        Kind::HolderLost { worker, reason, lease_until } => {
            put_name(out, book, worker);
            out.push(lost_code(*reason));
            put::time(out, base, *lease_until);
        }
        Kind::Crashed { worker, reason, next, budget_left } => {
            put_name(out, book, worker);
            out.push(lost_code(*reason));
            encode_next(out, base, *next);
            put::varint(out, u64::from(*budget_left));
        }
        Kind::CancelRequested { reason } | Kind::PauseRequested { reason } | Kind::Paused { reason } => {
            put::maybe_text(out, reason.as_deref());
        }
        Kind::IntentDelivered { wanted, worker } => {
            out.push(match wanted {
                Wanted::Cancel => 1,
                Wanted::Pause => 2,
            });
            put_name(out, book, worker);
        }
        Kind::Completed { worker, result } => {
            put_name(out, book, worker);
            put::blob(out, base, *result);
        }
        Kind::Failed { worker, exit_code, message, next, result } => {
            put::varint(out, worker.as_ref().map_or(0, |worker| u64::from(book.name(worker)) + 1));
            put::signed(out, i64::from(*exit_code));
            put::maybe_text(out, message.as_deref());
            encode_next(out, base, *next);
            put::blob(out, base, *result);
        }
        Kind::Cancelled { reason, forced } => {
            put::maybe_text(out, reason.as_deref());
            out.push(u8::from(*forced));
        }
        Kind::WorkerLost { reason } => out.push(lost_code(*reason)),
        Kind::WorkerQuarantined { until, crashes } => {
            put::time(out, base, *until);
            put::varint(out, u64::from(*crashes));
        }
        Kind::QueueUnserved { needs } | Kind::QueueServed { needs } => put_names(out, book, needs),
        Kind::QueueBacklog { threshold, depth, age }
        | Kind::QueueBacklogCleared { threshold, depth, age } => {
            out.push(threshold_code(*threshold));
            put::varint(out, *depth);
            put::span(out, *age);
        }
        Kind::QueueThresholdsSet { depth, age } => encode_thresholds(out, *depth, *age),
        Kind::LimitSet { limit } => put::varint(out, limit.map_or(0, |limit| u64::from(limit) + 1)),
    }
}

/// The numbers of the kinds are part of the format: a new kind takes a new number, an old one is never given away.
fn kind_code(kind: &Kind) -> u8 {
    match kind {
        Kind::Submitted { .. } => 1,
        Kind::Released => 2,
        Kind::Due => 3,
        Kind::Assigned { .. } => 4,
        Kind::Started { .. } => 5,
        Kind::Progress { .. } => 6,
        Kind::GivenBack { .. } => 7,
        Kind::TakenBack { .. } => 8,
        Kind::HolderLost { .. } => 9,
        Kind::HolderReturned { .. } => 10,
        Kind::Crashed { .. } => 11,
        Kind::CancelRequested { .. } => 12,
        Kind::PauseRequested { .. } => 13,
        Kind::IntentDelivered { .. } => 14,
        Kind::Paused { .. } => 15,
        Kind::Resumed => 16,
        Kind::Retried => 17,
        Kind::Moved => 18,
        Kind::Completed { .. } => 19,
        Kind::Failed { .. } => 20,
        Kind::Expired => 21,
        Kind::Cancelled { .. } => 22,
        Kind::Checkpoint { .. } => 23,
        Kind::WorkerRegistered => 40,
        Kind::WorkerLost { .. } => 41,
        Kind::WorkerReturned => 42,
        Kind::WorkerLeft => 43,
        Kind::WorkerDraining => 44,
        Kind::WorkerQuarantined { .. } => 45,
        Kind::WorkerCleared => 46,
        Kind::QueuePaused => 60,
        Kind::QueueResumed => 61,
        Kind::QueueUnserved { .. } => 62,
        Kind::QueueServed { .. } => 63,
        Kind::QueueBacklog { .. } => 64,
        Kind::QueueBacklogCleared { .. } => 65,
        Kind::QueueThresholdsSet { .. } => 66,
        Kind::LimitSet { .. } => 80,
    }
}

fn take_kind(take: &mut Take<'_>, page: &Page<'_>) -> Result<Kind, Malformed> {
    let base = &page.base;
    Ok(match take.byte()? {
        1 => Kind::Submitted { unserved: take_why(take, page)? },
        2 => Kind::Released,
        3 => Kind::Due,
        4 => Kind::Assigned { worker: page.name(take)? },
        5 => Kind::Started { worker: page.name(take)? },
        6 => Kind::Progress { percent: take_percent(take)?, note: take.maybe_text()? },
        7 => Kind::GivenBack { worker: page.name(take)?, reason: take.maybe_text()? },
        8 => Kind::TakenBack { worker: page.name(take)? },
        9 => {
            let (worker, reason) = (page.name(take)?, take_lost(take)?);
            Kind::HolderLost { worker, reason, lease_until: take.time(base)? }
        }
        10 => Kind::HolderReturned { worker: page.name(take)? },
        11 => {
            let (worker, reason) = (page.name(take)?, take_lost(take)?);
            Kind::Crashed { worker, reason, next: take_next(take, base)?, budget_left: take.small()? }
        }
        12 => Kind::CancelRequested { reason: take.maybe_text()? },
        13 => Kind::PauseRequested { reason: take.maybe_text()? },
        14 => {
            let wanted = match take.byte()? {
                1 => Wanted::Cancel,
                2 => Wanted::Pause,
                _ => return Err(Malformed("an unknown intent")),
            };
            Kind::IntentDelivered { wanted, worker: page.name(take)? }
        }
        15 => Kind::Paused { reason: take.maybe_text()? },
        16 => Kind::Resumed,
        17 => Kind::Retried,
        18 => Kind::Moved,
        19 => Kind::Completed { worker: page.name(take)?, result: take.blob(base)? },
        20 => Kind::Failed {
            worker: page.maybe_name(take)?,
            exit_code: take.small_signed()?,
            message: take.maybe_text()?,
            next: take_next(take, base)?,
            result: take.blob(base)?,
        },
        21 => Kind::Expired,
        22 => Kind::Cancelled { reason: take.maybe_text()?, forced: take.flag()? },
        23 => Kind::Checkpoint { bytes: take.small()? },
        40 => Kind::WorkerRegistered,
        41 => Kind::WorkerLost { reason: take_lost(take)? },
        42 => Kind::WorkerReturned,
        43 => Kind::WorkerLeft,
        44 => Kind::WorkerDraining,
        45 => Kind::WorkerQuarantined { until: take.time(base)?, crashes: take.small()? },
        46 => Kind::WorkerCleared,
        60 => Kind::QueuePaused,
        61 => Kind::QueueResumed,
        62 => Kind::QueueUnserved { needs: take_names(take, page)? },
        63 => Kind::QueueServed { needs: take_names(take, page)? },
        64 => {
            let (threshold, depth, age) = take_backlog(take)?;
            Kind::QueueBacklog { threshold, depth, age }
        }
        65 => {
            let (threshold, depth, age) = take_backlog(take)?;
            Kind::QueueBacklogCleared { threshold, depth, age }
        }
        66 => {
            let Thresholds { depth, age } = take_thresholds(take)?;
            Kind::QueueThresholdsSet { depth, age }
        }
        80 => Kind::LimitSet { limit: take_limit_number(take)? },
        _ => return Err(Malformed("an unknown kind of event")),
    })
}

fn threshold_code(threshold: Threshold) -> u8 {
    match threshold {
        Threshold::Depth => 1,
        Threshold::Age => 2,
    }
}

fn take_backlog(take: &mut Take<'_>) -> Result<(Threshold, u64, Duration), Malformed> {
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

fn take_lost(take: &mut Take<'_>) -> Result<LostReason, Malformed> {
    let code = take.byte()?;
    LostReason::ALL.into_iter().find(|reason| lost_code(*reason) == code).ok_or(Malformed("an unknown loss"))
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

fn take_next(take: &mut Take<'_>, base: &Base) -> Result<Next, Malformed> {
    Ok(match take.byte()? {
        1 => Next::Requeued,
        2 => Next::RetriedAt(take.time(base)?),
        3 => Next::Paused,
        4 => Next::Failed,
        5 => Next::Cancelled,
        _ => return Err(Malformed("an unknown sequel of an attempt")),
    })
}

fn encode_why(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, why: Option<&Why>) {
    let Some(why) = why else { return out.push(0) };
    out.push(why_code(why));
    match why {
        Why::Held | Why::Paused | Why::AwaitingDisk => {}
        Why::NotWaiting { state } => out.push(*state as u8),
        Why::NotBefore { until } => put::time(out, base, *until),
        Why::QueuePaused { queue } | Why::NoWorkerEver { queue } => put_name(out, book, queue),
        Why::AllLost { queue, since } => {
            put_name(out, book, queue);
            put::time(out, base, *since);
        }
        Why::NeedsUnmet { missing } => put_names(out, book, missing),
        Why::Quarantined { worker, until } => {
            put_name(out, book, worker);
            put::time(out, base, *until);
        }
        Why::Draining { workers } | Why::NobodyAsks { workers } => put::varint(out, u64::from(*workers)),
        Why::TagLimit { tag, limit, in_use } => {
            put_name(out, book, tag);
            put::varint(out, u64::from(*limit));
            put::varint(out, u64::from(*in_use));
        }
        Why::AllFull { workers, slots } => {
            put::varint(out, u64::from(*workers));
            put::varint(out, u64::from(*slots));
        }
        Why::AwaitingAcceptance { worker, since } => {
            put_name(out, book, worker);
            put::time(out, base, *since);
        }
    }
}

fn why_code(why: &Why) -> u8 {
    match why {
        Why::NotWaiting { .. } => 1,
        Why::Held => 2,
        Why::NotBefore { .. } => 3,
        Why::Paused => 4,
        Why::QueuePaused { .. } => 5,
        Why::NoWorkerEver { .. } => 6,
        Why::AllLost { .. } => 7,
        Why::NeedsUnmet { .. } => 8,
        Why::Quarantined { .. } => 9,
        Why::Draining { .. } => 10,
        Why::TagLimit { .. } => 11,
        Why::AllFull { .. } => 12,
        Why::NobodyAsks { .. } => 13,
        Why::AwaitingAcceptance { .. } => 14,
        Why::AwaitingDisk => 15,
    }
}

fn take_why(take: &mut Take<'_>, page: &Page<'_>) -> Result<Option<Why>, Malformed> {
    let base = &page.base;
    Ok(Some(match take.byte()? {
        0 => return Ok(None),
        1 => {
            let code = usize::from(take.byte()?);
            Why::NotWaiting {
                state: *StateName::ALL.get(code).ok_or(Malformed("an unknown state of a task"))?,
            }
        }
        2 => Why::Held,
        3 => Why::NotBefore { until: take.time(base)? },
        4 => Why::Paused,
        5 => Why::QueuePaused { queue: page.name(take)? },
        6 => Why::NoWorkerEver { queue: page.name(take)? },
        7 => Why::AllLost { queue: page.name(take)?, since: take.time(base)? },
        8 => Why::NeedsUnmet { missing: take_names(take, page)? },
        9 => Why::Quarantined { worker: page.name(take)?, until: take.time(base)? },
        10 => Why::Draining { workers: take.small()? },
        11 => Why::TagLimit { tag: page.name(take)?, limit: take.small()?, in_use: take.small()? },
        12 => Why::AllFull { workers: take.small()?, slots: take.small()? },
        13 => Why::NobodyAsks { workers: take.small()? },
        14 => Why::AwaitingAcceptance { worker: page.name(take)?, since: take.time(base)? },
        15 => Why::AwaitingDisk,
        _ => return Err(Malformed("an unknown reason for waiting")),
    }))
}

fn put_name(out: &mut Vec<u8>, book: &mut Dictionary, name: &Name) {
    put::varint(out, u64::from(book.name(name)));
}

fn put_names(out: &mut Vec<u8>, book: &mut Dictionary, names: &[Name]) {
    put::varint(out, names.len() as u64);
    names.iter().for_each(|name| put_name(out, book, name));
}

fn take_names(take: &mut Take<'_>, page: &Page<'_>) -> Result<Vec<Name>, Malformed> {
    let count = take.count()?;
    (0..count).map(|_| page.name(take)).collect()
}
