//! Converts requests to the hub's types, and refuses values that the hub does not know.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{
    After, AfterTask, AttemptFailure, Backoff, Blob, Command, Demand, EventFilter, Held, ListQuery, Move,
    NewArray, NewTask, Quantity, Query, Rate, Refusal, Resource, TaskId, Timestamp, TraceContext, WaitOn,
    Wanted, WorkerAbout, WorkerSpec, WorkerStats,
};
use tenure_hub::{ArraySubmission, Done, LogPiece, OutputStream, Submission, fresh_id};

use super::word::{
    from_condition, from_on_broken, from_on_close, from_on_lost, from_state, from_wanted, id, name, names,
    some_id, some_name, some_text,
};
use crate::proto::tenure::v1 as pb;

/// A rate. Without a burst, it has the usual one.
pub(crate) fn rate(rate: &pb::Rate) -> Rate {
    let usual = Rate::new(rate.count, Duration::from_millis(rate.period_ms));
    Rate { burst: rate.burst.unwrap_or(usual.burst), ..usual }
}

/// Default page size.
const PAGE: usize = 100;

/// The terms of a submission, prepared once for all tasks that share them.
pub(crate) struct SubmitTemplate(Result<NewTask, Refusal>);

impl SubmitTemplate {
    pub(crate) fn new(terms: pb::Terms) -> SubmitTemplate {
        SubmitTemplate(SubmitTemplate::understand(terms))
    }

    fn understand(terms: pb::Terms) -> Result<NewTask, Refusal> {
        let plain = NewTask::new(TaskId([0; 16]), name(terms.queue));
        Ok(NewTask {
            needs: names(terms.needs),
            tags: names(terms.tags),
            share: some_name(terms.share),
            on_lost: from_on_lost(&terms.on_lost)?,
            crash_budget: terms.crash_budget.map_or(Ok(plain.crash_budget), |n| small("crash_budget", n))?,
            retries: small("retries", terms.retries)?,
            backoff: Backoff {
                first: duration_or(terms.backoff_first_ms, plain.backoff.first),
                max: duration_or(terms.backoff_max_ms, plain.backoff.max),
            },
            accept_timeout: terms.accept_timeout_ms.map(Duration::from_millis),
            run_limit: terms.run_limit_ms.map(Duration::from_millis),
            cancel_timeout: terms.cancel_timeout_ms.map(Duration::from_millis),
            on_broken: from_on_broken(&terms.on_broken)?,
            demand: Demand { slots: terms.slots.unwrap_or(1), resources: resources(terms.resources) },
            ..plain
        })
    }

    /// The template itself, for a schedule.
    pub(crate) fn into_task(self) -> Result<NewTask, Refusal> {
        self.0
    }

    /// One task of a submission. Its terms must be among those of its request.
    pub(crate) fn submission(templates: &[SubmitTemplate], task: pb::NewTask) -> Result<Submission, Refusal> {
        let Some(SubmitTemplate(template)) = templates.get(task.terms as usize) else {
            return Err(Refusal::BadValue {
                what: "terms",
                why: "is not a position in the terms of this request",
            });
        };
        let template = template.as_ref().map_err(Refusal::clone)?;
        check_size("bytes of body", &task.body)?;
        let new = NewTask {
            id: some_id("id", &task.id)?.unwrap_or_else(fresh_id),
            name: some_name(task.name),
            priority: task.priority,
            parent: some_id("parent", &task.parent)?,
            after: task.after.into_iter().map(after).collect::<Result<_, _>>()?,
            hold: task.hold,
            not_before: task.not_before.map(Timestamp),
            expires_at: task.expires_at.map(Timestamp),
            trace: trace(&task.traceparent, &task.tracestate)?,
            ..template.clone()
        };
        Ok(Submission::new(new, task.body))
    }
}

fn trace(parent: &str, state: &str) -> Result<Option<Box<TraceContext>>, Refusal> {
    let parent = Some(parent).filter(|parent| !parent.is_empty());
    parent.map(|parent| TraceContext::parse(parent, Some(state)).map(Box::new)).transpose()
}

/// An array to submit.
pub(crate) fn array_submission(request: pb::SubmitArrayRequest) -> Result<ArraySubmission, Refusal> {
    let template = [SubmitTemplate::new(request.terms.unwrap_or_default())];
    let task = pb::NewTask { terms: 0, ..request.task.unwrap_or_default() };
    let Submission { task, body } = SubmitTemplate::submission(&template, task)?;
    let bodies = request.bodies;
    if !bodies.is_empty() && !body.is_empty() {
        return Err(Refusal::BadValue {
            what: "body",
            why: "cannot be combined with one body for each element",
        });
    }
    if !bodies.is_empty() && bodies.len() != request.size as usize {
        return Err(Refusal::BadValue { what: "bodies", why: "must have one entry for each element" });
    }
    let (size, first, step, limit) = (request.size, request.first, request.step.unwrap_or(1), request.limit);
    let array = NewArray { task, size, first, step, limit, bodies: Vec::new() };
    Ok(ArraySubmission::new(array, body, bodies))
}

pub(crate) fn array_query(request: pb::ArrayRequest) -> Result<Query, Refusal> {
    use pb::array_request::Array;
    match request.array {
        Some(Array::Id(text)) => Ok(Query::Array { array: id(&text)? }),
        Some(Array::Name(text)) => Ok(Query::FindArray { name: name(text) }),
        None => Err(Refusal::BadValue { what: "array", why: "is named by its id or its name" }),
    }
}

pub(crate) fn arrays_query(request: &pb::ListArraysRequest) -> Result<Query, Refusal> {
    let cursor = if request.cursor.is_empty() { None } else { Some(request.cursor.parse()?) };
    Ok(Query::Arrays { cursor, limit: if request.limit == 0 { PAGE } else { request.limit as usize } })
}

fn after(after: pb::After) -> Result<After, Refusal> {
    use pb::after::Task;
    let task = match after.task {
        Some(Task::Id(text)) => AfterTask::Id(id(&text)?),
        Some(Task::Name(text)) => AfterTask::Name(name(text)),
        Some(Task::Index(index)) => AfterTask::Index(index),
        None => return Err(Refusal::BadValue { what: "after", why: "names no task" }),
    };
    Ok(After { task, condition: from_condition(&after.condition)? })
}

pub(crate) fn held(held: &[pb::Attempt]) -> Result<Vec<Held>, Refusal> {
    held.iter().map(|held| one_held(&held.task, held.attempt)).collect()
}

/// A report of success.
pub(crate) fn about_end(done: pb::Completion) -> Result<Done, Refusal> {
    check_size("bytes of result", &done.result)?;
    Ok(Done { held: one_held(&done.task, done.attempt)?, result: done.result })
}

pub(crate) fn failure(failed: pb::Fail) -> Result<(AttemptFailure, Bytes), Refusal> {
    check_size("bytes of result", &failed.result)?;
    let failure = AttemptFailure {
        held: one_held(&failed.task, failed.attempt)?,
        exit_code: failed.exit_code.unwrap_or(1),
        message: some_text(failed.message),
        result: Blob::EMPTY,
        crashed: failed.crashed,
        is_final: failed.is_final,
    };
    Ok((failure, failed.result))
}

pub(crate) fn saved_checkpoint(saved: pb::SaveCheckpoint) -> Result<(Held, Bytes), Refusal> {
    check_size("bytes of checkpoint", &saved.checkpoint)?;
    Ok((one_held(&saved.task, saved.attempt)?, saved.checkpoint))
}

pub(crate) fn log_piece(appended: pb::AppendLog) -> Result<(Held, LogPiece), Refusal> {
    let stream = u8::try_from(appended.stream).ok().and_then(OutputStream::of);
    let stream =
        stream.ok_or(Refusal::BadValue { what: "stream", why: "is neither 1 (stdout) nor 2 (stderr)" })?;
    let held = one_held(&appended.task, appended.attempt)?;
    Ok((held, LogPiece { stream, offset: appended.offset, bytes: appended.bytes }))
}

/// What a worker confirms.
pub(crate) fn confirmed(confirm: &pb::Confirm) -> Result<(Held, Wanted), Refusal> {
    check_size("bytes of result", &confirm.result)?;
    Ok((one_held(&confirm.task, confirm.attempt)?, from_wanted(&confirm.wanted)?))
}

pub(crate) fn progress(report: pb::Progress) -> Result<Command, Refusal> {
    let percent = report.percent.map(|percent| {
        u8::try_from(percent).map_err(|_| Refusal::BadValue { what: "percent", why: "is more than 100" })
    });
    let held = one_held(&report.task, report.attempt)?;
    Ok(Command::Progress { held, percent: percent.transpose()?, note: some_text(report.note) })
}

pub(crate) fn suspended(suspend: &pb::Suspend) -> Result<Command, Refusal> {
    let on = if suspend.resume {
        WaitOn::Resume
    } else if suspend.children {
        WaitOn::Children
    } else {
        WaitOn::Tasks(suspend.on.iter().map(|task| id(task)).collect::<Result<_, _>>()?)
    };
    Ok(Command::Suspend { held: one_held(&suspend.task, suspend.attempt)?, on })
}

pub(crate) fn given_back(back: pb::GiveBack) -> Result<Command, Refusal> {
    Ok(Command::GiveBack { held: one_held(&back.task, back.attempt)?, reason: some_text(back.reason) })
}

pub(crate) fn moved(to: pb::MoveRequest) -> Move {
    Move { queue: to.queue.map(name), priority: to.priority, tags: to.tags.map(|list| names(list.tags)) }
}

pub(crate) fn worker_spec(spec: pb::Register) -> Result<WorkerSpec, Refusal> {
    if spec.heartbeat_ms == Some(0) {
        return Err(Refusal::BadValue { what: "heartbeat_ms", why: "is 0: leave it out for the default" });
    }
    let plain = WorkerSpec::new(name(spec.worker), names(spec.queues), spec.slots.max(1));
    Ok(WorkerSpec {
        instance: spec.instance,
        capabilities: names(spec.capabilities),
        pulls: spec.pulls,
        light_slots: spec.light_slots.unwrap_or(plain.light_slots),
        resources: resources(spec.resources),
        heartbeat: duration_or(spec.heartbeat_ms, plain.heartbeat),
        lost_after: duration_or(spec.lost_after_ms, plain.lost_after),
        busy_lost_after: spec.busy_lost_after_ms.map(Duration::from_millis),
        lease: duration_or(spec.lease_ms, plain.lease),
        on_close: from_on_close(&spec.on_close)?,
        held: held(&spec.held)?,
        about: WorkerAbout {
            host: some_text(spec.host),
            platform: some_text(spec.platform),
            version: some_text(spec.version),
            door: Some("grpc"),
        },
        ..plain
    })
}

fn resources(resources: BTreeMap<String, u64>) -> Vec<Resource> {
    resources.into_iter().map(|(name, quantity)| Resource::new(name, Quantity(quantity))).collect()
}

pub(crate) fn worker_stats(stats: pb::WorkerStats) -> Result<WorkerStats, Refusal> {
    if stats.cpu_percent.is_some_and(|percent| !percent.is_finite()) {
        return Err(Refusal::BadValue { what: "cpu_percent", why: "is not a number" });
    }
    Ok(WorkerStats {
        cpu_percent: stats.cpu_percent,
        memory_used: stats.memory_used,
        memory_total: stats.memory_total,
        more: stats.more.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    })
}

pub(crate) fn list_query(query: pb::ListRequest) -> Result<ListQuery, Refusal> {
    Ok(ListQuery {
        states: query.states.iter().map(|state| from_state(state)).collect::<Result<_, _>>()?,
        queue: some_name(query.queue),
        tag: some_name(query.tag),
        worker: some_name(query.worker),
        parent: some_id("parent", &query.parent)?,
        array: some_id("array", &query.array)?,
        without_elements: query.without_elements,
        submitter: some_name(query.submitter),
        submitted_after: query.submitted_after.map(Timestamp),
        submitted_before: query.submitted_before.map(Timestamp),
        cursor: if query.cursor.is_empty() { None } else { Some(query.cursor.parse()?) },
        limit: if query.limit == 0 { PAGE } else { query.limit as usize },
        ..ListQuery::default()
    })
}

pub(crate) fn filter(watch: pb::WatchRequest) -> Result<EventFilter, Refusal> {
    let filter = EventFilter {
        task: some_id("task", &watch.task)?,
        queue: some_name(watch.queue),
        submitter: some_name(watch.submitter),
        worker: some_name(watch.worker),
        kinds: names(watch.kinds),
    };
    filter.check()?;
    Ok(filter)
}

fn duration_or(said: Option<u64>, default: Duration) -> Duration {
    said.map_or(default, Duration::from_millis)
}

fn one_held(task: &str, attempt: u32) -> Result<Held, Refusal> {
    Ok(Held { task: id(task)?, attempt })
}

fn small(what: &'static str, number: u32) -> Result<u16, Refusal> {
    u16::try_from(number).map_err(|_| Refusal::BadValue { what, why: "is more than 65535" })
}

fn check_size(what: &'static str, bytes: &Bytes) -> Result<(), Refusal> {
    if bytes.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooMany { what, limit: BODY_BYTES_MAX });
    }
    Ok(())
}
