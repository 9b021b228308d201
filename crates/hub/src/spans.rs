//! Spans: how long a task of a trace waited, and how long each attempt ran. The hub describes them once they are on disk,
//! and a part outside exports them.
//!
//! The id of a span follows from the task and the attempt, so the broker stores none, and the broker can send a worker the span of its
//! attempt before that has ended.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use foldhash::fast::FixedState;
use tenure_engine::event::EventData;
use tenure_engine::record::StateChange;
use tenure_engine::{Change, Event, Name, StateName, TaskId, TaskState, Timestamp, TraceContext};
use tokio::sync::mpsc;

use crate::counters::Counters;
use crate::stats::AttemptOutcome;

/// How many spans may wait for their export.
const SPANS_WAITING_MAX: usize = 16_384;

/// One span.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRecord {
    pub kind: TaskSpan,
    pub trace_id: [u8; 16],
    pub id: [u8; 8],
    pub parent: [u8; 8],
    /// Whether the parent is a span of the submitter.
    pub parent_is_remote: bool,
    pub state: Option<Box<str>>,
    pub begun: Timestamp,
    pub ended: Timestamp,
    pub task: TaskId,
    pub attempt: u32,
    pub namespace: Name,
    pub queue: Name,
    pub worker: Option<Name>,
    pub outcome: Option<AttemptOutcome>,
}

/// The subject of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSpan {
    /// The broker accepts the task.
    Submit,
    /// The task is ready and waits for a worker.
    Wait,
    /// A worker holds the task.
    Attempt,
}

impl TaskSpan {
    /// The name of the span.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskSpan::Submit => "submit",
            TaskSpan::Wait => "wait",
            TaskSpan::Attempt => "attempt",
        }
    }

    /// Never zero, which stands for no span.
    fn id(self, task: TaskId, attempt: u32) -> [u8; 8] {
        let mut hasher = FixedState::with_seed(SEED).build_hasher();
        hasher.write(task.as_bytes());
        hasher.write_u32(attempt);
        hasher.write_u8(self as u8);
        hasher.finish().max(1).to_be_bytes()
    }
}

/// Any number: ids must differ from each other, and need not be secret.
const SEED: u64 = 0x7465_6e75_7265;

/// Where the hub puts spans. It never waits: if too many are there already, a span is dropped and counted.
#[derive(Clone, Debug)]
pub struct SpanSink {
    spans: mpsc::Sender<SpanRecord>,
    counters: Arc<Counters>,
}

impl SpanSink {
    /// The sink, and where its spans come out.
    pub fn new() -> (SpanSink, mpsc::Receiver<SpanRecord>) {
        let (spans, received) = mpsc::channel(SPANS_WAITING_MAX);
        (SpanSink { spans, counters: Arc::new(Counters::new("otlp")) }, received)
    }

    /// The counters: spans exported, dropped and refused.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn put(&self, span: SpanRecord) {
        if self.spans.try_send(span).is_err() {
            self.counters.count("spans_dropped");
        }
    }
}

/// The span of a submission, if its task has a trace that is recorded.
pub(crate) fn of_submission(event: &Event, change: &Change<'_>) -> Option<SpanRecord> {
    let (EventData::Submitted { .. }, Change::Task { task, terms, .. }) = (&event.kind, change) else {
        return None;
    };
    let trace = task.trace().filter(|trace| trace.is_sampled())?;
    Some(SpanRecord {
        kind: TaskSpan::Submit,
        trace_id: trace.trace_id,
        id: TaskSpan::Submit.id(task.id, 0),
        parent: trace.parent,
        parent_is_remote: true,
        state: trace.state.clone(),
        begun: event.at,
        ended: event.at,
        task: task.id,
        attempt: 0,
        namespace: terms.namespace.clone(),
        queue: terms.queue.clone(),
        worker: None,
        outcome: None,
    })
}

/// The span that ends with a change of state, if one does.
pub(crate) fn of_change(change: &StateChange<'_>) -> Option<SpanRecord> {
    let trace = change.trace.filter(|trace| trace.is_sampled())?;
    let next = change.next.name();
    let (kind, attempt, begun, worker, outcome) = match change.before {
        TaskState::Ready { since } if next == StateName::Assigned => {
            let worker = change.next.holding().map(|holding| holding.worker.clone());
            (TaskSpan::Wait, change.attempt, *since, worker, None)
        }
        before if before.name().is_held() && !next.is_held() => {
            let holding = before.holding()?;
            let outcome = AttemptOutcome::of(change.kind);
            let begun = holding.started_at.unwrap_or(holding.since);
            (TaskSpan::Attempt, change.attempt, begun, Some(holding.worker.clone()), Some(outcome))
        }
        _ => return None,
    };
    Some(SpanRecord {
        kind,
        trace_id: trace.trace_id,
        id: kind.id(change.id, attempt),
        parent: TaskSpan::Submit.id(change.id, 0),
        parent_is_remote: false,
        state: trace.state.clone(),
        begun,
        ended: change.now,
        task: change.id,
        attempt,
        namespace: change.terms.namespace.clone(),
        queue: change.terms.queue.clone(),
        worker,
        outcome,
    })
}

/// Makes the span of the attempt the parent of the spans of the worker.
pub(crate) fn hand_over(trace: &mut TraceContext, task: TaskId, attempt: u32) {
    if trace.is_sampled() {
        trace.parent = TaskSpan::Attempt.id(task, attempt);
    }
}
