//! Converts notices for a worker and for a caller to the wire.

use bytes::Bytes;
use tenure_hub::CallAnswer;
use tenure_hub::words::{Assignment, DependencyInfo, Resource, StopWhy, TaskId, Terms, WaitEnd, Wanted};
use tenure_wire::address::Answered;
use tenure_wire::notice::{Continue, IntentNotice, Stop};
use tenure_wire::task as wire_task;
use tenure_wire::words::CallOutcome;

use super::word::{
    condition, dependency_progress, name, on_broken, on_lost, span, stop_why, task, time, wanted_word,
};

pub(crate) fn terms(terms: &Terms) -> wire_task::Terms {
    wire_task::Terms {
        queue: terms.queue.clone(),
        needs: terms.needs.clone(),
        tags: terms.tags.clone(),
        on_lost: on_lost(terms.on_lost),
        crash_budget: terms.crash_budget,
        retries: terms.retries,
        backoff_first_ms: span(terms.backoff.first),
        backoff_max_ms: span(terms.backoff.max),
        accept_timeout_ms: terms.accept_timeout.map(span),
        run_limit_ms: terms.run_limit.map(span),
        cancel_timeout_ms: terms.cancel_timeout.map(span),
        on_broken: on_broken(terms.on_broken),
        slots: terms.demand.slots,
        resources: terms.demand.resources.iter().map(resource).collect(),
        share: terms.share.clone(),
        submitter: Some(terms.submitter.clone()),
    }
}

fn resource(resource: &Resource) -> wire_task::Resource {
    wire_task::Resource { name: resource.name.clone(), quantity: resource.quantity.0 }
}

/// A task that another one waits or waited for.
pub(super) fn dependency(info: &DependencyInfo) -> wire_task::DependencyInfo {
    wire_task::DependencyInfo {
        task: task(info.task),
        condition: condition(info.condition),
        progress: dependency_progress(info.progress),
        state: info.state.map(name),
        name: info.name.clone(),
        result_bytes: u64::from(info.result_bytes),
    }
}

/// A task, with its body and the index of its terms in the frame.
pub(crate) fn assignment(assignment: Assignment, body: Bytes, terms: u32) -> wire_task::Assignment {
    let element = assignment.terms.element(assignment.task);
    wire_task::Assignment {
        task: task(assignment.task),
        attempt: assignment.attempt,
        body,
        terms,
        priority: assignment.priority,
        submitted_at: time(assignment.submitted_at),
        name: assignment.name,
        parent: assignment.parent.map(task),
        crashes: assignment.crashes,
        failures: assignment.failures,
        checkpoint_bytes: u64::from(assignment.checkpoint.bytes()),
        after: assignment.after.iter().map(dependency).collect(),
        cpus: assignment.devices.cpus,
        gpus: assignment.devices.gpus,
        traceparent: assignment.trace.as_ref().map(|trace| trace.to_string().into()),
        tracestate: assignment.trace.and_then(|trace| trace.state),
        array: element.map(|element| task(element.array)),
        index: element.map_or(0, |element| element.index),
    }
}

pub(crate) fn wanted(
    id: TaskId,
    attempt: u32,
    wanted: Wanted,
    in_place: bool,
    reason: Option<Box<str>>,
) -> tenure_wire::Notice {
    let wanted = wanted_word(wanted);
    tenure_wire::Notice::Wanted(IntentNotice { task: task(id), attempt, wanted, reason, in_place })
}

pub(crate) fn continued(id: TaskId, attempt: u32, ends: &[WaitEnd]) -> tenure_wire::Notice {
    let end = |end: &WaitEnd| wire_task::WaitEnd { task: task(end.task), state: name(end.state) };
    let ends = ends.iter().map(end).collect();
    tenure_wire::Notice::Continue(Continue { task: task(id), attempt, ends })
}

pub(crate) fn stop(id: TaskId, attempt: u32, why: StopWhy) -> tenure_wire::Notice {
    tenure_wire::Notice::Stop(Stop { task: task(id), attempt, why: stop_why(why) })
}

pub(crate) fn call_answered(answer: CallAnswer) -> Answered {
    let (outcome, body) = match answer {
        CallAnswer::Result(body) => (CallOutcome::Result, body),
        CallAnswer::Error(body) => (CallOutcome::Error, body),
        CallAnswer::Cancelled => (CallOutcome::Cancelled, Bytes::new()),
        CallAnswer::Pending => (CallOutcome::Pending, Bytes::new()),
    };
    Answered { outcome, body }
}
