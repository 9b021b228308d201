//! A task as JSON.

use serde_json::{Value, json};
use tenure_hub::words::{
    Accepted, DependencyInfo, Devices, End, Holding, PauseInfo, StateName, TaskInfo, TaskState,
};

use super::resources::quantities;
use super::why::why;
use super::word::{millis, pause_cause, some_millis, some_time, texts, time, wanted};

pub(crate) fn task(task: &TaskInfo) -> Value {
    let terms = &task.terms;
    let element = terms.element(task.id);
    let (since, until) = match &task.state {
        TaskState::Created
        | TaskState::Waiting { .. }
        | TaskState::Assigned(_)
        | TaskState::Running(_)
        | TaskState::Suspended(_)
        | TaskState::Paused(_)
        | TaskState::Completed(_)
        | TaskState::Failed(_)
        | TaskState::Cancelled(_) => (None, None),
        TaskState::Delayed { until } => (None, Some(*until)),
        TaskState::Ready { since } => (Some(*since), None),
    };
    json!({
        "id": task.id.to_string(),
        "name": task.name.as_deref(),
        "state": task.state.name().as_str(),
        "priority": task.priority,
        "attempt": task.attempt,
        "crashes": task.crashes,
        "failures": task.failures,
        "crashed_on": texts(&task.crashed_on),
        "parent": task.parent.map(|parent| parent.to_string()),
        "children": task.children,
        "array": element.map(|element| element.array.to_string()),
        "index": element.map(|element| element.index),
        "after": task.after.iter().map(dependency).collect::<Vec<_>>(),
        "submitted_at": time(task.submitted_at),
        "reconciliation": task.reconciliation.as_deref(),
        "not_before": some_time(task.not_before),
        "expires_at": some_time(task.expires_at),
        "body_bytes": task.body.bytes(),
        "checkpoint": task.checkpoint.as_ref().map(|checkpoint| json!({
            "attempt": checkpoint.attempt, "at": time(checkpoint.at), "bytes": checkpoint.blob.bytes(),
        })),
        "ready_since": some_time(since),
        "until": some_time(until),
        "holding": task.state.holding().map(|held| holding(held, task.devices.as_deref())),
        "suspension": match &task.state {
            TaskState::Suspended(suspension) => {
                json!({ "since": time(suspension.since), "open": suspension.open() })
            }
            _ => Value::Null,
        },
        "pause": task.state.pause().as_ref().map(pause),
        "end": task.state.end().map(end),
        "queue": &*terms.queue,
        "needs": texts(&terms.needs),
        "tags": texts(&terms.tags),
        "share": terms.share.as_deref(),
        "submitter": &*terms.submitter,
        "on_lost": terms.on_lost.as_str(),
        "crash_budget": terms.crash_budget,
        "retries": terms.retries,
        "backoff_first_ms": millis(terms.backoff.first),
        "backoff_max_ms": millis(terms.backoff.max),
        "accept_timeout_ms": some_millis(terms.accept_timeout),
        "run_limit_ms": some_millis(terms.run_limit),
        "cancel_timeout_ms": some_millis(terms.cancel_timeout),
        "on_broken": terms.on_broken.as_str(),
        "slots": terms.demand.slots,
        "resources": quantities(terms.demand.resources.iter().map(|of| (&of.name, of.quantity))),
        "traceparent": task.trace.as_ref().map(ToString::to_string),
        "tracestate": task.trace.as_ref().and_then(|trace| trace.state.as_deref()),
    })
}

/// A task that another one waits or waited for.
pub(super) fn dependency(info: &DependencyInfo) -> Value {
    json!({
        "task": info.task.to_string(), "name": info.name.as_deref(), "condition": info.condition.as_str(),
        "progress": info.progress.as_str(), "state": info.state.map(StateName::as_str),
        "result_bytes": info.result_bytes,
    })
}

/// The worker that holds a task.
fn holding(holding: &Holding, devices: Option<&Devices>) -> Value {
    json!({
        "worker": &*holding.worker,
        "since": time(holding.since),
        "started_at": some_time(holding.started_at),
        "wanted": holding.intent.as_ref().map(|intent| json!({
            "wanted": wanted(intent.wanted), "reason": intent.reason, "delivered": intent.delivered,
        })),
        "progress": holding.progress.as_ref().map(|progress| json!({
            "percent": progress.percent, "note": progress.note, "at": time(progress.at),
        })),
        "cpus": devices.map_or(&[][..], |devices| &devices.cpus),
        "gpus": devices.map_or(&[][..], |devices| &devices.gpus),
    })
}

fn pause(pause: &PauseInfo) -> Value {
    json!({ "since": time(pause.since), "why": pause_cause(pause.why), "reason": pause.reason })
}

/// How a task ended.
fn end(end: &End) -> Value {
    json!({
        "at": time(end.at), "event": end.event, "exit_code": end.exit_code, "message": end.message,
        "worker": end.worker.as_deref(), "result_bytes": end.result.bytes(),
    })
}

pub(crate) fn accepted(accepted: &Accepted) -> Value {
    json!({
        "task": accepted.task.to_string(),
        "state": accepted.state.as_str(),
        "known": accepted.known,
        "unserved": accepted.unserved.as_ref().map(why),
    })
}
