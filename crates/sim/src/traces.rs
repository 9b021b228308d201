//! Traces: what a submitter gives to its task reaches the worker of every attempt, through crashes, retries and
//! restarts of the broker.

use std::collections::BTreeMap;

use tenure_hub::words::{NewTask, TaskId, TraceContext};

#[derive(Debug, Default)]
pub(crate) struct TraceChecker {
    given: BTreeMap<TaskId, TraceContext>,
}

impl TraceChecker {
    /// The trace of a task, if it has one: it follows from the id, so that it takes no random number.
    pub(crate) fn of(task: TaskId) -> Option<Box<TraceContext>> {
        let [first, .., last] = task.0;
        let state = last.is_multiple_of(4).then(|| format!("vendor={first}").into());
        let context = TraceContext { trace_id: task.0, parent: [first | 1; 8], flags: last & 1, state };
        (!first.is_multiple_of(3)).then(|| Box::new(context))
    }

    pub(crate) fn submitted(&mut self, task: &NewTask) {
        if let Some(trace) = &task.trace {
            self.given.insert(task.id, (**trace).clone());
        }
    }

    /// Returns what is wrong with the trace that came with an attempt.
    pub(crate) fn handed_out(&self, task: TaskId, trace: Option<&TraceContext>) -> Option<String> {
        let given = self.given.get(&task);
        (given != trace).then(|| format!("{task} was submitted with trace {given:?} and came with {trace:?}"))
    }
}
