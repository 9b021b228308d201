//! Converts requests to the hub's types, and refuses values that the hub does not know.

use bytes::Bytes;
use tenure_hub::limits::{BODY_BYTES_MAX, LIGHT_SLOTS_DEFAULT};
use tenure_hub::words::{
    After, AfterTask, AttemptFailure, Backoff, Command, Demand, EventFilter, Held, ListQuery, Move, NewArray,
    NewTask, Quantity, Query, Refusal, Resource, TaskId, Thresholds, TraceContext, Unnamed, WaitOn,
    WorkerAbout, WorkerSpec, WorkerStats,
};
use tenure_hub::{ArraySubmission, CallAnswer, Done, LogPiece, OutputStream, Submission, fresh_id};
use tenure_wire::event::EventKind;
use tenure_wire::task::Completion;
use tenure_wire::words::CallOutcome;
use tenure_wire::{Code, array, request, task, worker};

use super::word::{
    from_condition, from_name, from_on_broken, from_on_close, from_on_lost, from_rate, from_span, from_time,
    from_wanted, id,
};

/// The terms of a submission, prepared once for all tasks that share them.
pub(crate) struct Template(Result<NewTask, Refusal>);

impl Template {
    pub(crate) fn new(terms: task::Terms) -> Template {
        let on_lost = match from_on_lost(&terms.on_lost) {
            Ok(on_lost) => on_lost,
            Err(refusal) => return Template(Err(refusal)),
        };
        let on_broken = match from_on_broken(&terms.on_broken) {
            Ok(on_broken) => on_broken,
            Err(refusal) => return Template(Err(refusal)),
        };
        Template(Ok(NewTask {
            on_broken,
            demand: Demand {
                slots: terms.slots,
                resources: terms.resources.into_iter().map(resource).collect(),
            },
            needs: terms.needs,
            tags: terms.tags,
            share: terms.share,
            on_lost,
            crash_budget: terms.crash_budget,
            retries: terms.retries,
            backoff: Backoff {
                first: from_span(terms.backoff_first_ms),
                max: from_span(terms.backoff_max_ms),
            },
            accept_timeout: terms.accept_timeout_ms.map(from_span),
            run_limit: terms.run_limit_ms.map(from_span),
            cancel_timeout: terms.cancel_timeout_ms.map(from_span),
            ..NewTask::new(TaskId([0; 16]), terms.queue)
        }))
    }

    /// The template itself, for a schedule.
    pub(crate) fn into_task(self) -> Result<NewTask, Refusal> {
        self.0
    }

    /// One task of a submission. Its terms must be among those of its frame.
    pub(crate) fn submission(templates: &[Template], task: task::NewTask) -> Result<Submission, Refusal> {
        let Some(Template(template)) = templates.get(task.terms as usize) else {
            return Err(Refusal::BadValue {
                what: "terms",
                why: "is not a position in the terms of this frame",
            });
        };
        let template = template.as_ref().map_err(Refusal::clone)?;
        check_size("bytes of body", &task.body)?;
        let new = NewTask {
            id: task.id.map_or_else(fresh_id, id),
            name: task.name,
            priority: task.priority,
            parent: task.parent.map(id),
            after: task.after.into_iter().map(after).collect::<Result<_, _>>()?,
            hold: task.hold,
            not_before: task.not_before.map(from_time),
            expires_at: task.expires_at.map(from_time),
            trace: trace(task.traceparent.as_deref(), task.tracestate.as_deref())?,
            ..template.clone()
        };
        Ok(Submission::new(new, task.body))
    }
}

fn resource(resource: task::Resource) -> Resource {
    Resource { name: resource.name, quantity: Quantity(resource.quantity) }
}

fn trace(parent: Option<&str>, state: Option<&str>) -> Result<Option<Box<TraceContext>>, Refusal> {
    parent.map(|parent| TraceContext::parse(parent, state).map(Box::new)).transpose()
}

/// An array to submit.
pub(crate) fn array_submission(submit: array::SubmitArray) -> Result<ArraySubmission, Refusal> {
    let Template(template) = Template::new(submit.terms);
    check_size("bytes of body", &submit.body)?;
    let task = NewTask {
        id: submit.id.map_or_else(fresh_id, id),
        name: submit.name,
        priority: submit.priority,
        parent: submit.parent.map(id),
        after: submit.after.into_iter().map(after).collect::<Result<_, _>>()?,
        hold: submit.hold,
        not_before: submit.not_before.map(from_time),
        expires_at: submit.expires_at.map(from_time),
        trace: trace(submit.traceparent.as_deref(), submit.tracestate.as_deref())?,
        ..template?
    };
    let bodies = submit.bodies.0;
    if !bodies.is_empty() && !submit.body.is_empty() {
        return Err(Refusal::BadValue {
            what: "body",
            why: "cannot be combined with one body for each element",
        });
    }
    if !bodies.is_empty() && bodies.len() != submit.size as usize {
        return Err(Refusal::BadValue { what: "bodies", why: "must have one entry for each element" });
    }
    let (size, first, step, limit) = (submit.size, submit.first, submit.step, submit.limit);
    let array = NewArray { task, size, first, step, limit, bodies: Vec::new() };
    Ok(ArraySubmission::new(array, submit.body, bodies))
}

pub(crate) fn arrays_query(query: array::ArraysQuery) -> Result<Query, Refusal> {
    let cursor = query.cursor.map(|cursor| cursor.parse()).transpose()?;
    Ok(Query::Arrays { cursor, limit: query.limit as usize })
}

fn after(after: task::After) -> Result<After, Refusal> {
    let task = match (after.task, after.name, after.index) {
        (Some(task), None, None) => AfterTask::Id(id(task)),
        (None, Some(name), None) => AfterTask::Name(name),
        (None, None, Some(index)) => AfterTask::Index(index),
        _ => {
            return Err(Refusal::BadValue {
                what: "after",
                why: "names a task by exactly one of its id, its name and its index",
            });
        }
    };
    Ok(After { task, condition: from_condition(&after.condition)? })
}

pub(crate) fn held(held: task::Held) -> Held {
    Held { task: id(held.task), attempt: held.attempt }
}

/// A report of success.
pub(crate) fn about_end(done: Completion) -> Result<Done, Refusal> {
    check_size("bytes of result", &done.result)?;
    Ok(Done { held: Held { task: id(done.task), attempt: done.attempt }, result: done.result })
}

pub(crate) fn failure(failed: worker::FailureReport) -> Result<(AttemptFailure, Bytes), Refusal> {
    check_size("bytes of result", &failed.result)?;
    let failure = AttemptFailure {
        held: Held { task: id(failed.task), attempt: failed.attempt },
        exit_code: failed.exit_code,
        message: failed.message,
        result: tenure_hub::words::Blob::EMPTY,
        crashed: failed.crashed,
        is_final: failed.is_final,
    };
    Ok((failure, failed.result))
}

pub(crate) fn log_piece(appended: request::AppendLog) -> Result<(Held, LogPiece), Refusal> {
    let stream = OutputStream::of(appended.stream)
        .ok_or(Refusal::BadValue { what: "stream", why: "is neither 1 (stdout) nor 2 (stderr)" })?;
    let held = Held { task: id(appended.task), attempt: appended.attempt };
    Ok((held, LogPiece { stream, offset: appended.offset, bytes: appended.bytes }))
}

pub(crate) fn save_checkpoint(saved: request::SaveCheckpoint) -> Result<(Held, Bytes), Refusal> {
    check_size("bytes of checkpoint", &saved.checkpoint)?;
    Ok((Held { task: id(saved.task), attempt: saved.attempt }, saved.checkpoint))
}

pub(crate) fn suspend(suspend: request::Suspend) -> Command {
    let held = Held { task: id(suspend.task), attempt: suspend.attempt };
    let tasks = || suspend.on.into_iter().map(id).collect();
    let on = match (suspend.resume, suspend.children) {
        (true, _) => WaitOn::Resume,
        (false, true) => WaitOn::Children,
        (false, false) => WaitOn::Tasks(tasks()),
    };
    Command::Suspend { held, on }
}

/// What a worker confirms.
pub(crate) fn confirmed(confirm: &request::Confirm) -> Result<(Held, tenure_hub::words::Wanted), Refusal> {
    check_size("bytes of result", &confirm.result)?;
    Ok((Held { task: id(confirm.task), attempt: confirm.attempt }, from_wanted(&confirm.wanted)?))
}

pub(crate) fn set_thresholds(set: request::SetThresholds) -> Command {
    let thresholds =
        set.thresholds.map(|own| Thresholds { depth: own.depth, age: own.age_ms.map(from_span) });
    Command::SetThresholds { queue: set.queue, thresholds }
}

pub(crate) fn set_rate(set: request::SetRate) -> Result<Command, Refusal> {
    let rate = set.rate.map(from_rate);
    match (set.tag, set.queue) {
        (Some(tag), None) => Ok(Command::SetTagRate { tag, rate }),
        (None, Some(queue)) => Ok(Command::SetQueueRate { queue, rate }),
        _ => Err(Refusal::BadValue { what: "rate", why: "is for a tag or a queue: name one of them" }),
    }
}

pub(crate) fn moved(to: request::Move) -> Move {
    Move { queue: to.queue, priority: to.priority, tags: to.tags }
}

pub(crate) fn worker_spec(spec: worker::WorkerSpec) -> Result<WorkerSpec, Refusal> {
    Ok(WorkerSpec {
        worker: spec.worker,
        instance: spec.instance,
        queues: spec.queues,
        capabilities: spec.capabilities,
        slots: spec.slots,
        light_slots: spec.light_slots.unwrap_or(LIGHT_SLOTS_DEFAULT),
        resources: spec.resources.into_iter().map(resource).collect(),
        pulls: spec.pulls,
        heartbeat: from_span(spec.heartbeat_ms),
        lost_after: from_span(spec.lost_after_ms),
        busy_lost_after: spec.busy_lost_after_ms.map(from_span),
        lease: from_span(spec.lease_ms),
        on_close: from_on_close(&spec.on_close)?,
        profile: None,
        remembered: false,
        inherits_crashes: false,
        starts_on_assign: false,
        unnamed: Unnamed::Gone,
        owner: None,
        held: spec.held.into_iter().map(held).collect(),
        about: WorkerAbout {
            host: spec.host,
            platform: spec.platform,
            version: spec.version,
            door: Some("native"),
        },
    })
}

pub(crate) fn stats(stats: worker::WorkerStats) -> WorkerStats {
    WorkerStats {
        cpu_percent: stats.cpu_percent,
        memory_used: stats.memory_used,
        memory_total: stats.memory_total,
        more: stats.more.into_iter().collect(),
    }
}

pub(crate) fn list_query(query: request::ListQuery) -> Result<ListQuery, Refusal> {
    Ok(ListQuery {
        states: query.states.iter().map(from_name).collect::<Result<_, _>>()?,
        queue: query.queue,
        tag: query.tag,
        worker: query.worker,
        parent: query.parent.map(id),
        array: query.array.map(id),
        without_elements: query.without_elements,
        submitter: query.submitter,
        submitted_after: query.submitted_after.map(from_time),
        submitted_before: query.submitted_before.map(from_time),
        cursor: query.cursor.map(|cursor| cursor.parse()).transpose()?,
        limit: query.limit as usize,
        ..ListQuery::default()
    })
}

/// The refusal of a kind of event that this broker does not have: the client would wait without end.
pub(crate) fn unknown_kind(kinds: &[EventKind]) -> Option<tenure_wire::Refusal> {
    let unknown = kinds.iter().find(|kind| matches!(kind, EventKind::Other(_)))?;
    let known: Vec<&str> = EventKind::KNOWN.iter().map(EventKind::as_str).collect();
    let why = format!("{unknown} is not a known kind of event; the known kinds are {}", known.join(", "));
    Some(tenure_wire::Refusal {
        what: Some("kinds".into()),
        why: Some(why.as_str().into()),
        ..tenure_wire::Refusal::new(Code::BadValue, format!("kinds: {why}"))
    })
}

pub(crate) fn filter(watch: request::Watch) -> EventFilter {
    EventFilter {
        task: watch.task.map(id),
        queue: watch.queue,
        submitter: watch.submitter,
        worker: watch.worker,
        kinds: watch.kinds.iter().map(|kind| kind.as_str().into()).collect(),
    }
}

pub(crate) fn call_answer(outcome: &CallOutcome, body: Bytes) -> Result<CallAnswer, Refusal> {
    match outcome {
        CallOutcome::Result => Ok(CallAnswer::Result(body)),
        CallOutcome::Error => Ok(CallAnswer::Error(body)),
        CallOutcome::Cancelled => Ok(CallAnswer::Cancelled),
        CallOutcome::Pending => Ok(CallAnswer::Pending),
        CallOutcome::Other(_) => {
            Err(Refusal::BadValue { what: "outcome", why: "is none of result, error, cancelled and pending" })
        }
    }
}

fn check_size(what: &'static str, bytes: &Bytes) -> Result<(), Refusal> {
    if bytes.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooMany { what, limit: BODY_BYTES_MAX });
    }
    Ok(())
}
