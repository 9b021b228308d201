//! The encoding of all state besides tasks: worker health, queue settings, tag limits, weights of share keys.

use std::time::Duration;

use tenure_engine::record::{LimitSetting, QueueSetting, ShareSetting, WorkerHealth};
use tenure_engine::{
    ArrayRecord, Change, Name, PassedThresholds, Rate, ScheduleProgress, ScheduleSetting, Thresholds,
};

use super::Base;
use super::array::{encode_array, take_array};
use super::dictionary::Dictionary;
use super::page::RecordPage;
use super::put;
use super::schedule;
use super::take::{ByteCursor, Malformed};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Worker(WorkerHealth),
    Queue(QueueSetting),
    Limit(LimitSetting),
    Schedule(Box<ScheduleSetting>, ScheduleProgress),
    ScheduleProgress(ScheduleProgress),
    Array(Box<ArrayRecord>),
    Share(ShareSetting),
    NamespaceLeft(Name),
}

pub(super) const WORKER: u8 = 3;
const QUEUE: u8 = 4;
const LIMIT: u8 = 5;
/// A worker with a profile. The encoding of workers without one is unchanged from older versions.
const WORKER_WITH_PROFILE: u8 = 6;
/// A queue with its own thresholds or a backlog. The encoding of other queues is unchanged from older
/// versions.
const QUEUE_WITH_THRESHOLDS: u8 = 7;
pub(super) const ARRAY: u8 = 10;
const LIMIT_WITH_RATE: u8 = 14;
/// A queue with a rate. Thresholds and backlogs are written before it.
const QUEUE_WITH_RATE: u8 = 15;
pub(super) const SHARE: u8 = 16;
pub(super) const NAMESPACE_LEFT: u8 = 17;

/// A setting with its code in front, as in a snapshot. Skips tasks and empty changes, which are not settings.
pub(crate) fn encode_setting(
    out: &mut Vec<u8>,
    book: &mut Dictionary,
    base: &Base,
    change: Change<'_>,
) -> bool {
    match change {
        Change::Worker(worker) => {
            out.push(worker_code(worker));
            encode_worker(out, book, base, worker);
        }
        Change::Queue(queue) => {
            out.push(queue_code(queue));
            encode_queue(out, book, base, queue);
        }
        Change::Limit(limit) => {
            out.push(limit_code(limit));
            encode_limit(out, book, limit);
        }
        Change::Schedule { schedule, progress } => {
            out.push(schedule::SCHEDULE);
            schedule::encode_schedule(out, book, base, schedule, progress);
        }
        Change::ScheduleProgress(progress) => {
            out.push(schedule::SCHEDULE_PROGRESS);
            schedule::encode_progress(out, book, base, progress);
        }
        Change::Array(array) => {
            out.push(ARRAY);
            encode_array(out, book, base, array);
        }

        Change::Share(share) => {
            out.push(SHARE);
            encode_share(out, book, share);
        }
        Change::NamespaceLeft(namespace) => {
            out.push(NAMESPACE_LEFT);
            put::varint(out, u64::from(book.name(namespace)));
        }
        Change::Task { .. } | Change::Nothing => return false,
    }
    true
}

pub(crate) fn setting(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<Setting, Malformed> {
    let code = take.byte()?;
    take_setting(take, page, code)
}

pub(super) fn take_setting(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
    code: u8,
) -> Result<Setting, Malformed> {
    match code {
        WORKER => take_worker(take, page).map(Setting::Worker),
        WORKER_WITH_PROFILE => {
            let mut worker = take_worker(take, page)?;
            worker.profile = Some(take.text()?.into());
            Ok(Setting::Worker(worker))
        }
        QUEUE => take_queue(take, page).map(Setting::Queue),
        QUEUE_WITH_THRESHOLDS => take_queue_with_thresholds(take, page).map(Setting::Queue),
        QUEUE_WITH_RATE => {
            let queue = take_queue_with_thresholds(take, page)?;
            Ok(Setting::Queue(QueueSetting { rate: Some(take_rate(take)?), ..queue }))
        }
        LIMIT => take_limit(take, page).map(Setting::Limit),
        schedule::SCHEDULE => {
            let (schedule, progress) = schedule::take_schedule(take, page)?;
            Ok(Setting::Schedule(Box::new(schedule), progress))
        }
        schedule::SCHEDULE_PROGRESS => schedule::take_progress(take, page).map(Setting::ScheduleProgress),
        ARRAY => Ok(Setting::Array(Box::new(take_array(take, page)?))),
        LIMIT_WITH_RATE => {
            let limit = take_limit(take, page)?;
            Ok(Setting::Limit(LimitSetting { rate: Some(take_rate(take)?), ..limit }))
        }
        SHARE => Ok(Setting::Share(ShareSetting {
            namespace: page.name(take)?,
            share: page.name(take)?,
            weight: take_limit_number(take)?,
        })),
        NAMESPACE_LEFT => Ok(Setting::NamespaceLeft(page.name(take)?)),
        _ => Err(Malformed("an unknown kind of setting")),
    }
}

pub(super) fn encode_worker(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, worker: &WorkerHealth) {
    put::varint(out, u64::from(book.name(&worker.namespace)));
    put::varint(out, u64::from(book.name(&worker.worker)));
    put::varint(out, u64::from(worker.crashes));
    put::maybe_time(out, base, worker.last_crash);
    put::varint(out, worker.recent_crashes.len() as u64);
    worker.recent_crashes.iter().for_each(|time| put::time(out, base, *time));
    put::maybe_time(out, base, worker.quarantined_until);
    if let Some(profile) = &worker.profile {
        put::text(out, profile);
    }
}

pub(super) fn worker_code(worker: &WorkerHealth) -> u8 {
    if worker.profile.is_some() { WORKER_WITH_PROFILE } else { WORKER }
}

fn take_worker(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<WorkerHealth, Malformed> {
    Ok(WorkerHealth {
        namespace: page.name(take)?,
        worker: page.name(take)?,
        crashes: take.small()?,
        last_crash: take.maybe_time(&page.base)?,
        recent_crashes: {
            let count = take.count()?;
            (0..count).map(|_| take.time(&page.base)).collect::<Result<_, _>>()?
        },
        quarantined_until: take.maybe_time(&page.base)?,
        profile: None,
    })
}

pub(super) fn encode_queue(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, queue: &QueueSetting) {
    put::varint(out, u64::from(book.name(&queue.namespace)));
    put::varint(out, u64::from(book.name(&queue.queue)));
    out.push(u8::from(queue.paused) | u8::from(queue.ever_served) << 1);
    put::maybe_time(out, base, queue.unserved_since);
    if queue_code(queue) != QUEUE {
        let PassedThresholds { depth, age } = queue.passed;
        out.push(u8::from(depth) | u8::from(age) << 1 | u8::from(queue.thresholds.is_some()) << 2);
        if let Some(Thresholds { depth, age }) = queue.thresholds {
            encode_thresholds(out, depth, age);
        }
    }
    if let Some(rate) = queue.rate {
        encode_rate(out, rate);
    }
}

pub(super) fn queue_code(queue: &QueueSetting) -> u8 {
    if queue.rate.is_some() {
        QUEUE_WITH_RATE
    } else if queue.thresholds.is_some() || queue.passed.any() {
        QUEUE_WITH_THRESHOLDS
    } else {
        QUEUE
    }
}

pub(super) fn encode_thresholds(out: &mut Vec<u8>, depth: Option<u32>, age: Option<Duration>) {
    put::varint(out, depth.map_or(0, |depth| u64::from(depth) + 1));
    put::maybe_span(out, age);
}

pub(super) fn take_thresholds(take: &mut ByteCursor<'_>) -> Result<Thresholds, Malformed> {
    Ok(Thresholds { depth: take_limit_number(take)?, age: take.maybe_span()? })
}

fn take_queue(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<QueueSetting, Malformed> {
    let (namespace, queue) = (page.name(take)?, page.name(take)?);
    let head = take.byte()?;
    if head > 3 {
        return Err(Malformed("an unknown setting of a queue"));
    }
    let unserved_since = take.maybe_time(&page.base)?;
    Ok(QueueSetting {
        namespace,
        queue,
        paused: head & 1 != 0,
        ever_served: head & 2 != 0,
        unserved_since,
        thresholds: None,
        passed: PassedThresholds::default(),
        rate: None,
    })
}

fn take_queue_with_thresholds(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
) -> Result<QueueSetting, Malformed> {
    let mut queue = take_queue(take, page)?;
    let head = take.byte()?;
    if head > 7 {
        return Err(Malformed("an unknown setting of a queue"));
    }
    queue.passed = PassedThresholds { depth: head & 1 != 0, age: head & 2 != 0 };
    if head & 4 != 0 {
        queue.thresholds = Some(take_thresholds(take)?);
    }
    Ok(queue)
}

pub(super) fn encode_limit(out: &mut Vec<u8>, book: &mut Dictionary, limit: &LimitSetting) {
    put::varint(out, u64::from(book.name(&limit.namespace)));
    put::varint(out, u64::from(book.name(&limit.tag)));
    put::varint(out, limit.limit.map_or(0, |limit| u64::from(limit) + 1));
    if let Some(rate) = limit.rate {
        encode_rate(out, rate);
    }
}

pub(super) fn limit_code(limit: &LimitSetting) -> u8 {
    if limit.rate.is_some() { LIMIT_WITH_RATE } else { LIMIT }
}

pub(super) fn encode_share(out: &mut Vec<u8>, book: &mut Dictionary, share: &ShareSetting) {
    put::varint(out, u64::from(book.name(&share.namespace)));
    put::varint(out, u64::from(book.name(&share.share)));
    put::varint(out, share.weight.map_or(0, |weight| u64::from(weight) + 1));
}

pub(super) fn encode_rate(out: &mut Vec<u8>, rate: Rate) {
    put::varint(out, u64::from(rate.count));
    put::span(out, rate.period);
    put::varint(out, u64::from(rate.burst));
}

pub(super) fn take_rate(take: &mut ByteCursor<'_>) -> Result<Rate, Malformed> {
    Ok(Rate { count: take.small()?, period: take.span()?, burst: take.small()? })
}

pub(super) fn encode_maybe_rate(out: &mut Vec<u8>, rate: Option<Rate>) {
    out.push(u8::from(rate.is_some()));
    if let Some(rate) = rate {
        encode_rate(out, rate);
    }
}

pub(super) fn take_maybe_rate(take: &mut ByteCursor<'_>) -> Result<Option<Rate>, Malformed> {
    if take.flag()? { take_rate(take).map(Some) } else { Ok(None) }
}

fn take_limit(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<LimitSetting, Malformed> {
    let (namespace, tag) = (page.name(take)?, page.name(take)?);
    Ok(LimitSetting { namespace, tag, limit: take_limit_number(take)?, rate: None })
}

pub(super) fn take_limit_number(take: &mut ByteCursor<'_>) -> Result<Option<u32>, Malformed> {
    match take.varint()? {
        0 => Ok(None),
        more => u32::try_from(more - 1).map(Some).map_err(|_| Malformed("a limit is too large")),
    }
}
