//! Converts notices for a worker to the messages of `proto/`.

use bytes::Bytes;
use tenure_hub::words::{Assignment, DependencyInfo, StateName, StopWhy, TaskId, Terms, WaitEnd, Wanted};

use super::word::{millis, text, texts, wanted_word};
use crate::proto::tenure::v1 as pb;
use crate::proto::tenure::v1::broker_message::Message;

pub(super) fn terms(terms: &Terms) -> pb::Terms {
    pb::Terms {
        queue: terms.queue.to_string(),
        needs: texts(&terms.needs),
        tags: texts(&terms.tags),
        on_lost: terms.on_lost.as_str().to_owned(),
        crash_budget: Some(u32::from(terms.crash_budget)),
        retries: u32::from(terms.retries),
        backoff_first_ms: Some(millis(terms.backoff.first)),
        backoff_max_ms: Some(millis(terms.backoff.max)),
        accept_timeout_ms: terms.accept_timeout.map(millis),
        run_limit_ms: terms.run_limit.map(millis),
        cancel_timeout_ms: terms.cancel_timeout.map(millis),
        submitter: terms.submitter.to_string(),
        on_broken: terms.on_broken.as_str().to_owned(),
        slots: Some(terms.demand.slots),
        resources: terms.demand.resources.iter().map(|of| (of.name.to_string(), of.quantity.0)).collect(),
        share: text(terms.share.as_deref()),
    }
}

/// A task that another one waits or waited for.
pub(super) fn dependency(info: &DependencyInfo) -> pb::Dependency {
    pb::Dependency {
        task: info.task.to_string(),
        condition: info.condition.to_string(),
        progress: info.progress.as_str().to_owned(),
        state: text(info.state.map(StateName::as_str)),
        name: text(info.name.as_deref()),
        result_bytes: u64::from(info.result_bytes),
    }
}

/// The numbers of cpus or gpus.
pub(super) fn numbers(numbers: &[u16]) -> Vec<u32> {
    numbers.iter().copied().map(u32::from).collect()
}

/// Work, with its body.
pub(crate) fn assign(assignment: &Assignment, body: Bytes) -> Message {
    let element = assignment.terms.element(assignment.task);
    Message::Assign(pb::Assign {
        task: assignment.task.to_string(),
        attempt: assignment.attempt,
        body,
        terms: Some(terms(&assignment.terms)),
        priority: assignment.priority,
        submitted_at: assignment.submitted_at.0,
        name: text(assignment.name.as_deref()),
        parent: assignment.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        crashes: u32::from(assignment.crashes),
        failures: u32::from(assignment.failures),
        checkpoint_bytes: u64::from(assignment.checkpoint.bytes()),
        after: assignment.after.iter().map(dependency).collect(),
        cpus: numbers(&assignment.devices.cpus),
        gpus: numbers(&assignment.devices.gpus),
        traceparent: assignment.trace.as_ref().map(ToString::to_string).unwrap_or_default(),
        tracestate: text(assignment.trace.as_ref().and_then(|trace| trace.state.as_deref())),
        array: element.map(|element| element.array.to_string()).unwrap_or_default(),
        index: element.map(|element| element.index),
    })
}

pub(crate) fn continued(task: TaskId, attempt: u32, ends: &[WaitEnd]) -> Message {
    let end = |end: &WaitEnd| pb::WaitEnd { task: end.task.to_string(), state: end.state.to_string() };
    let ends = ends.iter().map(end).collect();
    Message::Continue(pb::Continue { task: task.to_string(), attempt, ends })
}

pub(crate) fn wanted(
    task: TaskId,
    attempt: u32,
    wanted: Wanted,
    in_place: bool,
    reason: Option<&str>,
) -> Message {
    let wanted = wanted_word(wanted).to_owned();
    Message::Wanted(pb::Wanted { task: task.to_string(), attempt, wanted, reason: text(reason), in_place })
}

pub(crate) fn stop(task: TaskId, attempt: u32, why: StopWhy) -> Message {
    Message::Stop(pb::Stop { task: task.to_string(), attempt, why: why.as_str().to_owned() })
}
