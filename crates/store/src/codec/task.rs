//! The encoding of a task. Its identity (id, attempt, terms) is separate, because a record shares it with its
//! event.

use std::time::Duration;

use tenure_engine::state::{
    End, Holding, Intent, PauseCause, PauseInfo, Progress, StopInPlace, Suspension, Wanted,
};
use tenure_engine::{
    Checkpoint, Condition, Dependency, DependencyProgress, Devices, EdgeList, Extras, Task, TaskId,
    TaskState, Terms, TermsKey, Timestamp, TraceContext,
};

use super::Base;
use super::dictionary::Dictionary;
use super::fields::{encode_field, take_fields};
use super::page::RecordPage;
use super::put;
use super::take::{ByteCursor, Malformed};

/// The task's id, its attempt and its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskIdentity {
    pub(crate) id: TaskId,
    pub(crate) attempt: u32,
    /// An index into the page's terms.
    pub(crate) terms: u32,
}

impl TaskIdentity {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        put::varint(out, u64::from(self.attempt));
        put::varint(out, u64::from(self.terms));
    }

    pub(super) fn take(take: &mut ByteCursor<'_>) -> Result<TaskIdentity, Malformed> {
        Ok(TaskIdentity { id: take.id()?, attempt: take.small()?, terms: take.small()? })
    }
}

/// A task as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskRecord {
    pub(crate) task: Task,
    pub(crate) after: Vec<Dependency>,
}

/// A task with its identity, as in a snapshot. The terms must stay in memory until the page is written.
pub(crate) fn encode_whole_task(
    out: &mut Vec<u8>,
    book: &mut Dictionary,
    base: &Base,
    task: &Task,
    terms: &Terms,
    after: &[Dependency],
) {
    let terms = book.terms_in_place(terms);
    TaskIdentity { id: task.id, attempt: task.attempt, terms }.encode(out);
    encode_task(out, book, base, task, after);
}

pub(crate) fn whole_task(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
    keys: &[TermsKey],
) -> Result<TaskRecord, Malformed> {
    let identity = TaskIdentity::take(take)?;
    let key = keys.get(identity.terms as usize).ok_or(Malformed("a task's terms are not in its page"))?;
    take_task(take, page, identity, *key)
}

const STATE_BITS: u8 = 0x0f;
const HAS_BODY: u8 = 0x10;
const HAS_PRIORITY: u8 = 0x20;
const HAS_TROUBLE: u8 = 0x40;
const HAS_EXTRAS: u8 = 0x80;

pub(super) fn encode_task(
    out: &mut Vec<u8>,
    book: &mut Dictionary,
    base: &Base,
    task: &Task,
    after: &[Dependency],
) {
    let troubled = task.crashes > 0 || task.failures > 0;
    let code = state_code(&task.state, task.submitted_at);
    let mut head = code;
    head |= if task.body.is_empty() { 0 } else { HAS_BODY };
    head |= if task.priority == 0 { 0 } else { HAS_PRIORITY };
    head |= if troubled { HAS_TROUBLE } else { 0 };
    let has_extras = task.extras.is_some() || task.devices().is_some() || !after.is_empty();
    head |= if has_extras { HAS_EXTRAS } else { 0 };
    out.push(head);
    put::distance(out, base.event, task.age);
    put::time(out, base, task.submitted_at);
    if !task.body.is_empty() {
        put::blob(out, base, task.body);
    }
    if task.priority != 0 {
        put::signed(out, i64::from(task.priority));
    }
    if troubled {
        put::varint(out, u64::from(task.crashes));
        put::varint(out, u64::from(task.failures));
    }
    match &task.state {
        TaskState::Ready { .. } if code == READY => {}
        state => encode_state(out, book, base, state),
    }
    if has_extras {
        encode_extras(out, book, base, task, after);
    }
}

pub(super) fn take_task(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
    identity: TaskIdentity,
    terms: TermsKey,
) -> Result<TaskRecord, Malformed> {
    let base = &page.base;
    let head = take.byte()?;
    let age = take.distance(base.event)?;
    let submitted_at = take.time(base)?;
    let body = if head & HAS_BODY == 0 { tenure_engine::Blob::EMPTY } else { take.blob(base)? };
    let priority = if head & HAS_PRIORITY == 0 { 0 } else { take.small_signed()? };
    let (crashes, failures) = if head & HAS_TROUBLE == 0 { (0, 0) } else { (take.small()?, take.small()?) };
    let state = match head & STATE_BITS {
        READY => TaskState::Ready { since: submitted_at },
        code => take_state(take, page, code)?,
    };
    let mut devices = None;
    let (extras, after) =
        if head & HAS_EXTRAS == 0 { (None, Vec::new()) } else { take_extras(take, page, &mut devices)? };
    let mut task = Task {
        id: identity.id,
        body,
        terms,
        priority,
        attempt: identity.attempt,
        crashes,
        failures,
        edges: EdgeList::EMPTY,
        age,
        submitted_at,
        state,
        extras,
    };
    if let Some(devices) = devices {
        task.restore_devices(devices);
    }
    Ok(TaskRecord { task, after })
}

const READY: u8 = 2;
const READY_SINCE: u8 = 9;
/// Suspended, and stopped in place by its worker.
const STOPPED: u8 = 12;

fn state_code(state: &TaskState, submitted_at: Timestamp) -> u8 {
    match state {
        TaskState::Created => 0,
        TaskState::Delayed { .. } => 1,
        // Most tasks are ready since their submission, and that time is already written.
        TaskState::Ready { since } if *since == submitted_at => READY,
        TaskState::Ready { .. } => READY_SINCE,
        TaskState::Assigned(_) => 3,
        TaskState::Running(_) => 4,
        TaskState::Paused(_) => 5,
        TaskState::Completed(_) => 6,
        TaskState::Failed(_) => 7,
        TaskState::Cancelled(_) => 8,
        TaskState::Waiting { .. } => 10,
        TaskState::Suspended(suspension) if suspension.stop.is_some() => STOPPED,
        TaskState::Suspended(_) => 11,
    }
}

fn encode_state(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, state: &TaskState) {
    match state {
        // The open dependencies are counted when the engine is restored.
        TaskState::Created | TaskState::Waiting { .. } => {}
        TaskState::Ready { since: at } | TaskState::Delayed { until: at } => put::time(out, base, *at),
        TaskState::Assigned(holding) | TaskState::Running(holding) => {
            encode_holding(out, book, base, holding);
        }
        TaskState::Suspended(suspension) => {
            encode_holding(out, book, base, &suspension.holding);
            put::time(out, base, suspension.since);
            if let Some(stop) = &suspension.stop {
                out.push(u8::from(stop.is_resumed));
                put::maybe_text(out, stop.reason.as_deref());
            }
        }
        TaskState::Paused(pause) => {
            put::time(out, base, pause.since);
            out.push(match pause.why {
                PauseCause::Asked => 0,
                PauseCause::WorkerLost => 1,
                PauseCause::CrashBudget => 2,
                PauseCause::DependencyBroken => 3,
            });
            put::maybe_text(out, pause.reason.as_deref());
        }
        TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => {
            put::time(out, base, end.at);
            put::distance(out, base.event, end.event);
            put::signed(out, i64::from(end.exit_code));
            put::blob(out, base, end.result);
            put::maybe_text(out, end.message.as_deref());
            put::varint(out, end.worker.as_ref().map_or(0, |worker| u64::from(book.name(worker)) + 1));
        }
    }
}

fn encode_holding(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, holding: &Holding) {
    put::varint(out, u64::from(book.name(&holding.worker)));
    put::time(out, base, holding.since);
    put::maybe_time(out, base, holding.started_at);
    encode_intent(out, holding.intent.as_ref());
    encode_progress(out, base, holding.progress.as_ref());
}

fn take_state(take: &mut ByteCursor<'_>, page: &RecordPage<'_>, code: u8) -> Result<TaskState, Malformed> {
    Ok(match code {
        0 => TaskState::Created,
        1 => TaskState::Delayed { until: take.time(&page.base)? },
        3 => TaskState::Assigned(Box::new(take_holding(take, page)?)),
        4 => TaskState::Running(Box::new(take_holding(take, page)?)),
        5 => TaskState::Paused(Box::new(take_pause(take, page)?)),
        6 => TaskState::Completed(Box::new(take_end(take, page)?)),
        7 => TaskState::Failed(Box::new(take_end(take, page)?)),
        8 => TaskState::Cancelled(Box::new(take_end(take, page)?)),
        READY_SINCE => TaskState::Ready { since: take.time(&page.base)? },
        10 => TaskState::Waiting { open: 0 },
        11 => {
            let holding = take_holding(take, page)?;
            TaskState::Suspended(Box::new(Suspension::restored(holding, take.time(&page.base)?, None)))
        }
        STOPPED => {
            let holding = take_holding(take, page)?;
            let since = take.time(&page.base)?;
            let is_resumed = take.flag()?;
            let stop = StopInPlace { is_resumed, reason: take.maybe_text()? };
            TaskState::Suspended(Box::new(Suspension::restored(holding, since, Some(stop))))
        }
        _ => return Err(Malformed("an unknown state of a task")),
    })
}

fn take_holding(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<Holding, Malformed> {
    let worker = page.name(take)?;
    let since = take.time(&page.base)?;
    let started_at = take.maybe_time(&page.base)?;
    let intent = take_intent(take)?;
    let progress = take_progress(take, page)?;
    Ok(Holding::restored(worker, since, started_at, intent, progress))
}

fn take_pause(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<PauseInfo, Malformed> {
    let since = take.time(&page.base)?;
    let why = match take.byte()? {
        0 => PauseCause::Asked,
        1 => PauseCause::WorkerLost,
        2 => PauseCause::CrashBudget,
        3 => PauseCause::DependencyBroken,
        _ => return Err(Malformed("an unknown reason for a pause")),
    };
    Ok(PauseInfo { since, why, reason: take.maybe_text()? })
}

fn take_end(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<End, Malformed> {
    Ok(End {
        at: take.time(&page.base)?,
        event: take.distance(page.base.event)?,
        exit_code: take.small_signed()?,
        result: take.blob(&page.base)?,
        message: take.maybe_text()?,
        worker: page.maybe_name(take)?,
    })
}

fn encode_intent(out: &mut Vec<u8>, intent: Option<&Intent>) {
    let Some(intent) = intent else { return out.push(0) };
    let wanted = match intent.wanted {
        Wanted::Cancel => 1,
        Wanted::Pause => 2,
    };
    out.push(wanted | u8::from(intent.delivered) << 2 | u8::from(intent.in_place) << 3);
    put::maybe_text(out, intent.reason.as_deref());
}

fn take_intent(take: &mut ByteCursor<'_>) -> Result<Option<Intent>, Malformed> {
    let head = take.byte()?;
    let wanted = match head & 3 {
        0 if head == 0 => return Ok(None),
        1 => Wanted::Cancel,
        2 => Wanted::Pause,
        _ => return Err(Malformed("an unknown intent")),
    };
    let (delivered, in_place) = (head & 4 != 0, head & 8 != 0);
    Ok(Some(Intent { wanted, in_place, delivered, reason: take.maybe_text()? }))
}

fn encode_progress(out: &mut Vec<u8>, base: &Base, progress: Option<&Progress>) {
    let Some(progress) = progress else { return out.push(0) };
    out.push(1);
    put::varint(out, progress.percent.map_or(0, |percent| u64::from(percent) + 1));
    put::maybe_text(out, progress.note.as_deref());
    put::time(out, base, progress.at);
}

fn take_progress(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<Option<Progress>, Malformed> {
    if !take.flag()? {
        return Ok(None);
    }
    let percent = take_percent(take)?;
    Ok(Some(Progress { percent, note: take.maybe_text()?, at: take.time(&page.base)? }))
}

pub(super) fn take_percent(take: &mut ByteCursor<'_>) -> Result<Option<u8>, Malformed> {
    match take.varint()? {
        0 => Ok(None),
        more => u8::try_from(more - 1).map(Some).map_err(|_| Malformed("a percentage is too large")),
    }
}

const HAS_NAME: u8 = 1;
const HAS_PARENT: u8 = 2;
const HAS_NOT_BEFORE: u8 = 4;
const HAS_EXPIRY: u8 = 8;
const HAS_CHECKPOINT: u8 = 16;
const HAS_AFTER: u8 = 32;
/// There are no extras besides the dependencies.
const ONLY_AFTER: u8 = 64;
/// Optional fields follow, with their length.
const HAS_FIELDS: u8 = 128;

fn encode_extras(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, task: &Task, after: &[Dependency]) {
    let none = Extras::default();
    let extras = match &task.extras {
        Some(extras) => &**extras,
        // The devices of an attempt are written among the extras.
        None if task.devices().is_some() => &none,
        None => {
            out.push(HAS_AFTER | ONLY_AFTER);
            return encode_after(out, after);
        }
    };
    let mut head = if after.is_empty() { 0 } else { HAS_AFTER };
    head |= if extras.name.is_some() { HAS_NAME } else { 0 };
    head |= if extras.parent.is_some() { HAS_PARENT } else { 0 };
    head |= if extras.not_before.is_some() { HAS_NOT_BEFORE } else { 0 };
    head |= if extras.expires_at.is_some() { HAS_EXPIRY } else { 0 };
    head |= if extras.checkpoint.is_some() { HAS_CHECKPOINT } else { 0 };
    let mut fields = Vec::new();
    encode_optional_extras(&mut fields, extras, task.devices());
    head |= if fields.is_empty() { 0 } else { HAS_FIELDS };
    out.push(head);
    // A task's name is unique, so the dictionary would not save anything.
    if let Some(name) = &extras.name {
        put::text(out, name);
    }
    put::varint(out, extras.fingerprint);
    if let Some(parent) = &extras.parent {
        out.extend_from_slice(parent.as_bytes());
    }
    let times = [extras.not_before, extras.expires_at];
    times.into_iter().flatten().for_each(|time: Timestamp| put::time(out, base, time));
    put::varint(out, extras.crashed_on.len() as u64);
    for worker in &extras.crashed_on {
        put::varint(out, u64::from(book.name(worker)));
    }
    if let Some(checkpoint) = &extras.checkpoint {
        put::varint(out, u64::from(checkpoint.attempt));
        put::time(out, base, checkpoint.at);
        put::blob(out, base, checkpoint.blob);
    }
    if !after.is_empty() {
        encode_after(out, after);
    }
    if !fields.is_empty() {
        put::measured(out, |out| out.extend_from_slice(&fields));
    }
}

const SUSPENDED_FOR: u8 = 1;
const DEVICES: u8 = 3;

/// The extras that few tasks have.
fn encode_optional_extras(out: &mut Vec<u8>, extras: &Extras, devices: Option<&Devices>) {
    if extras.suspended_for != Duration::ZERO {
        encode_field(out, SUSPENDED_FOR, |out| put::span(out, extras.suspended_for));
    }
    if let Some(devices) = devices {
        encode_field(out, DEVICES, |out| {
            for numbers in [&devices.cpus, &devices.gpus] {
                put::varint(out, numbers.len() as u64);
                numbers.iter().for_each(|number| put::varint(out, u64::from(*number)));
            }
        });
    }
    if let Some(trace) = &extras.trace {
        encode_field(out, TRACE, |out| encode_trace(out, trace));
    }
    if let Some(bytes) = extras.reconciled_prefix {
        encode_field(out, RECONCILED_PREFIX, |out| out.push(bytes));
    }
}

fn take_optional_extra(
    tag: u8,
    take: &mut ByteCursor<'_>,
    extras: &mut Extras,
    devices: &mut Option<Box<Devices>>,
) -> Result<(), Malformed> {
    match tag {
        SUSPENDED_FOR => extras.suspended_for = take.span()?,
        DEVICES => {
            let (cpus, gpus) = (take_numbers(take)?, take_numbers(take)?);
            *devices = Some(Box::new(Devices { cpus, gpus }));
        }
        TRACE => extras.trace = Some(Box::new(take_trace(take)?)),
        RECONCILED_PREFIX => extras.reconciled_prefix = Some(take.byte()?),
        _ => return Err(Malformed("an unknown field of a task")),
    }
    Ok(())
}

fn take_numbers(take: &mut ByteCursor<'_>) -> Result<Vec<u16>, Malformed> {
    let count = take.count()?;
    (0..count).map(|_| take.small()).collect()
}

const TRACE: u8 = 8;
const RECONCILED_PREFIX: u8 = 9;

fn encode_trace(out: &mut Vec<u8>, trace: &TraceContext) {
    out.extend_from_slice(&trace.trace_id);
    out.extend_from_slice(&trace.parent);
    out.push(trace.flags);
    put::maybe_text(out, trace.state.as_deref());
}

fn take_trace(take: &mut ByteCursor<'_>) -> Result<TraceContext, Malformed> {
    Ok(TraceContext {
        trace_id: take.array()?,
        parent: take.array()?,
        flags: take.byte()?,
        state: take.maybe_text()?,
    })
}

fn encode_after(out: &mut Vec<u8>, after: &[Dependency]) {
    put::varint(out, after.len() as u64);
    for dependency in after {
        let condition = match dependency.condition {
            Condition::Completed => 0,
            Condition::Ended => 1,
            Condition::Failed => 2,
            Condition::Waited => 3,
        };
        let progress = match dependency.progress {
            DependencyProgress::Open => 0,
            DependencyProgress::Met => 4,
            DependencyProgress::Broken => 8,
            DependencyProgress::Cancelled => 12,
        };
        out.push(condition | progress);
        out.extend_from_slice(dependency.task.as_bytes());
    }
}

fn take_after(take: &mut ByteCursor<'_>) -> Result<Vec<Dependency>, Malformed> {
    let count = take.count()?;
    let one = |_| {
        let head = take.byte()?;
        let condition = match head & 3 {
            0 => Condition::Completed,
            1 => Condition::Ended,
            2 => Condition::Failed,
            _ => Condition::Waited,
        };
        let progress = match head >> 2 {
            0 => DependencyProgress::Open,
            1 => DependencyProgress::Met,
            2 => DependencyProgress::Broken,
            3 => DependencyProgress::Cancelled,
            _ => return Err(Malformed("an unknown progress of a dependency")),
        };
        Ok(Dependency { task: take.id()?, condition, progress })
    };
    (0..count).map(one).collect()
}

fn take_extras(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
    devices: &mut Option<Box<Devices>>,
) -> Result<(Option<Box<Extras>>, Vec<Dependency>), Malformed> {
    let head = take.byte()?;
    if head & ONLY_AFTER != 0 {
        return Ok((None, take_after(take)?));
    }
    let mut extras = Extras::default();
    if head & HAS_NAME != 0 {
        extras.name = Some(take.text()?.into());
    }
    extras.fingerprint = take.varint()?;
    if head & HAS_PARENT != 0 {
        extras.parent = Some(take.id()?);
    }
    if head & HAS_NOT_BEFORE != 0 {
        extras.not_before = Some(take.time(&page.base)?);
    }
    if head & HAS_EXPIRY != 0 {
        extras.expires_at = Some(take.time(&page.base)?);
    }
    let count = take.count()?;
    extras.crashed_on = (0..count).map(|_| page.name(take)).collect::<Result<_, _>>()?;
    if head & HAS_CHECKPOINT != 0 {
        let (attempt, at) = (take.small()?, take.time(&page.base)?);
        extras.checkpoint = Some(Checkpoint { attempt, at, blob: take.blob(&page.base)? });
    }
    let after = if head & HAS_AFTER == 0 { Vec::new() } else { take_after(take)? };
    if head & HAS_FIELDS != 0 {
        let mut fields = ByteCursor::new(take.measured()?);
        take_fields(&mut fields, |tag, take| take_optional_extra(tag, take, &mut extras, devices))?;
    }
    let has_only_devices = devices.is_some() && extras == Extras::default();
    Ok(((!has_only_devices).then(|| Box::new(extras)), after))
}
