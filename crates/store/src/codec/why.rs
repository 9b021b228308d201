//! The encoding of a reason why a task waits, in the event of its submission.

use tenure_engine::{Quantity, Why};

use super::Base;
use super::dictionary::Dictionary;
use super::event::{put_name, put_names, state_code, take_names, take_state_name};
use super::page::RecordPage;
use super::put;
use super::settings::{encode_rate, take_rate};
use super::take::{ByteCursor, Malformed};

pub(super) fn encode_why(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, why: Option<&Why>) {
    let Some(why) = why else { return out.push(0) };
    out.push(why_code(why));
    match why {
        Why::Held | Why::Paused | Why::AwaitingDisk | Why::AwaitingJournal => {}
        Why::NotWaiting { state } => out.push(state_code(*state)),
        // A task that waits for others has no answer to its submission, so this is never written.
        Why::Dependencies { open, .. } | Why::Suspended { open, .. } => put::varint(out, u64::from(*open)),
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
        Why::Draining { workers } | Why::NoWorkerAsks { workers } => put::varint(out, u64::from(*workers)),
        Why::TagLimit { tag, limit, in_use } => {
            put_name(out, book, tag);
            put::varint(out, u64::from(*limit));
            put::varint(out, u64::from(*in_use));
        }
        Why::ArrayLimit { array, limit, in_use } => {
            out.extend_from_slice(array.as_bytes());
            put::varint(out, u64::from(*limit));
            put::varint(out, u64::from(*in_use));
        }

        Why::TagRate { tag: name, rate, next_at } | Why::QueueRate { queue: name, rate, next_at } => {
            put_name(out, book, name);
            encode_rate(out, *rate);
            put::time(out, base, *next_at);
        }
        Why::AllFull { workers, slots } => {
            put::varint(out, u64::from(*workers));
            put::varint(out, u64::from(*slots));
        }
        Why::AwaitingSlot { worker } => put_name(out, book, worker),
        Why::AwaitingAcceptance { worker, since } => {
            put_name(out, book, worker);
            put::time(out, base, *since);
        }
        Why::Short { resource, needed, free: has, worker }
        | Why::TooLarge { resource, needed, total: has, worker } => {
            put_name(out, book, resource);
            put::varint(out, needed.0);
            put::varint(out, has.0);
            put_name(out, book, worker);
        }
        Why::Reserved { worker, task } => {
            put_name(out, book, worker);
            out.extend_from_slice(task.as_bytes());
        }
    }
}

pub(super) fn take_why(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<Option<Why>, Malformed> {
    let base = &page.base;
    Ok(Some(match take.byte()? {
        0 => return Ok(None),
        1 => Why::NotWaiting { state: take_state_name(take)? },
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
        13 => Why::NoWorkerAsks { workers: take.small()? },
        14 => Why::AwaitingAcceptance { worker: page.name(take)?, since: take.time(base)? },
        15 => Why::AwaitingDisk,
        16 => Why::Dependencies { open: take.small()?, some: Vec::new() },
        19 => Why::Short {
            resource: page.name(take)?,
            needed: Quantity(take.varint()?),
            free: Quantity(take.varint()?),
            worker: page.name(take)?,
        },
        20 => Why::TooLarge {
            resource: page.name(take)?,
            needed: Quantity(take.varint()?),
            total: Quantity(take.varint()?),
            worker: page.name(take)?,
        },
        21 => Why::Reserved { worker: page.name(take)?, task: take.id()? },
        17 => Why::Suspended { open: take.small()?, some: Vec::new() },
        18 => Why::AwaitingSlot { worker: page.name(take)? },
        22 => Why::ArrayLimit { array: take.id()?, limit: take.small()?, in_use: take.small()? },
        25 => Why::TagRate { tag: page.name(take)?, rate: take_rate(take)?, next_at: take.time(base)? },
        26 => Why::QueueRate { queue: page.name(take)?, rate: take_rate(take)?, next_at: take.time(base)? },
        27 => Why::AwaitingJournal,
        _ => return Err(Malformed("an unknown reason for waiting")),
    }))
}

/// The codes are part of the format.
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
        Why::NoWorkerAsks { .. } => 13,
        Why::AwaitingAcceptance { .. } => 14,
        Why::AwaitingDisk => 15,
        Why::Dependencies { .. } => 16,
        Why::Short { .. } => 19,
        Why::TooLarge { .. } => 20,
        Why::Reserved { .. } => 21,
        Why::Suspended { .. } => 17,
        Why::AwaitingSlot { .. } => 18,
        Why::ArrayLimit { .. } => 22,
        Why::TagRate { .. } => 25,
        Why::QueueRate { .. } => 26,
        Why::AwaitingJournal => 27,
    }
}
