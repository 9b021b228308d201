//! Records: what the store must keep, and the port through which the engine emits it.
//!
//! A record is the whole new state of one thing plus the event that explains it. Applying a record replaces
//! the old state, so in recovery the last one wins. The engine passes records by reference at the moment of
//! the change; the receiver encodes or copies what it needs, so a task in flight costs no allocation.

use crate::array::ArrayRecord;
use crate::backlog::{PassedThresholds, Thresholds};
use crate::blob::Blob;
use crate::dependency::Dependency;
use crate::event::{Event, EventData};
use crate::id::{SessionId, TaskId};
use crate::name::Name;
use crate::notice::Notice;
use crate::rate::Rate;
use crate::schedule::{ScheduleProgress, ScheduleSetting};
use crate::state::TaskState;
use crate::task::Task;
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// An entity that a record replaces, with its new state.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    Task {
        task: &'a Task,
        terms: &'a Terms,
        after: &'a [Dependency],
    },
    /// The health of a worker.
    Worker(&'a WorkerHealth),
    /// The settings of a queue.
    Queue(&'a QueueSetting),
    /// The limit of a tag.
    Limit(&'a LimitSetting),
    /// A schedule that a client has set.
    Schedule {
        schedule: &'a ScheduleSetting,
        progress: &'a ScheduleProgress,
    },
    /// A schedule has come further. Its body and terms are not written again.
    ScheduleProgress(&'a ScheduleProgress),
    /// An array.
    Array(&'a ArrayRecord),
    /// The weight of a share key.
    Share(&'a ShareSetting),
    /// Everything of a namespace is gone: another group has it now, or its copy here is replaced.
    NamespaceLeft(&'a Name),
    /// An event without a change of state.
    Nothing,
}

/// The stored part of a worker, kept even while it is away. Everything else about a worker is presence:
/// soft state, never stored.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerHealth {
    pub namespace: Name,
    pub worker: Name,
    pub crashes: u32,
    pub last_crash: Option<Timestamp>,
    /// The crashes inside the quarantine window, oldest first.
    pub recent_crashes: Vec<Timestamp>,
    pub quarantined_until: Option<Timestamp>,
    /// The worker's description of itself in its door's format, until it leaves or is cleared.
    pub profile: Option<Box<str>>,
}

/// The settings of a queue.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSetting {
    pub namespace: Name,
    pub queue: Name,
    pub paused: bool,
    /// Whether a worker has ever served the queue.
    pub ever_served: bool,
    /// When the last live worker was lost, if there is none now.
    pub unserved_since: Option<Timestamp>,
    /// The queue's own thresholds. `None`: the broker's defaults.
    pub thresholds: Option<Thresholds>,
    /// The backlogs that were announced and are not cleared yet.
    pub passed: PassedThresholds,
    pub rate: Option<Rate>,
}

impl QueueSetting {
    /// The settings of a queue that no client has set.
    pub(crate) fn new(namespace: Name, queue: Name) -> QueueSetting {
        QueueSetting {
            namespace,
            queue,
            paused: false,
            ever_served: false,
            unserved_since: None,
            thresholds: None,
            passed: PassedThresholds::default(),
            rate: None,
        }
    }
}

/// The limit and the rate of a tag.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSetting {
    pub namespace: Name,
    pub tag: Name,
    pub limit: Option<u32>,
    pub rate: Option<Rate>,
}

/// The weight of a share key.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSetting {
    pub namespace: Name,
    pub share: Name,
    /// `None`: the default weight.
    pub weight: Option<u32>,
}

/// A change of a task's state, for statistics.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug)]
pub struct StateChange<'a> {
    pub now: Timestamp,
    pub id: TaskId,
    pub attempt: u32,
    pub terms: &'a Terms,
    pub submitted_at: Timestamp,
    pub trace: Option<&'a TraceContext>,
    pub before: &'a TaskState,
    pub next: &'a TaskState,
    /// The event that explains the change.
    pub kind: &'a EventData,
}

/// The port between the engine and the outside. The hub journals the records and delivers the notices once
/// the records are on disk; a test only collects them.
pub trait Output {
    /// A change, with the event that explains it.
    fn record(&mut self, event: Event, change: Change<'_>);
    /// A notice for a session.
    fn notice(&mut self, to: SessionId, notice: Notice);
    /// Stores the body of a task that a schedule submits, and says where it is.
    fn body(&mut self, bytes: &[u8]) -> Blob;
    /// A task is about to change its state; its record follows. A start, which keeps its holder, has only the record.
    fn changes(&mut self, _change: StateChange<'_>) {}
    /// These bytes are no longer needed: their task is forgotten, they are the result of an attempt before
    /// a retry, or a checkpoint that is obsolete. This is not journaled: recovery reaches the same conclusion
    /// from the tasks it finds.
    fn freed(&mut self, blob: Blob);
}
