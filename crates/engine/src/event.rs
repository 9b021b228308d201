//! Events: the facts that watchers receive. One global sequence without gaps, carried by the records.

use std::sync::Arc;
use std::time::Duration;

use crate::backlog::Threshold;
use crate::blob::Blob;
use crate::id::TaskId;
pub use crate::lost_reason::{LostReason, Next};
use crate::name::Name;
use crate::rate::Rate;
use crate::refusal::Refusal;
use crate::schedule::SkipReason;
use crate::state::Wanted;
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::why::Why;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number: without holes, the same for every watcher.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The subject of the event.
    pub about: EventSubject,
    /// The kind of the event, with its details.
    pub kind: EventData,
}

/// The subject of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSubject {
    /// One attempt of a task; attempt 0 before the first.
    Task {
        /// Its id.
        id: TaskId,
        /// The number of the attempt.
        attempt: u32,
        /// Its terms.
        terms: Arc<Terms>,
    },
    /// A worker.
    Worker {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        worker: Name,
    },
    /// A queue.
    Queue {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        queue: Name,
    },
    /// A tag.
    Tag {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        tag: Name,
    },
    /// A schedule.
    Schedule {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        schedule: Name,
    },
    /// An array as a whole.
    Array {
        /// Its id.
        id: TaskId,
        /// Its namespace.
        namespace: Name,
        /// Its queue.
        queue: Name,
        /// The identity of the client that submitted it.
        submitter: Name,
        /// Its idempotency key.
        name: Option<Name>,
    },
    /// A share key.
    Share {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        share: Name,
    },
}

/// The kind of an event, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventData {
    // About a task, in the order of its life.
    /// `unserved` gives the reason if no live worker can take the task.
    Submitted {
        /// Why no live worker can take it, if none can.
        unserved: Option<Why>,
        /// The key prefix of the reconciliation that submitted it.
        reconciliation: Option<Name>,
    },
    /// A client released a task that was held back.
    Released,
    /// The last task it waited for has ended.
    DependenciesMet,
    /// A delayed task's time has come.
    Due,
    /// The broker sent the task to a worker.
    Assigned {
        /// The worker.
        worker: Name,
    },
    /// The worker confirmed that it runs the task.
    Started {
        /// The worker.
        worker: Name,
    },
    /// The worker reported progress.
    Progress {
        /// How far the attempt is, from 0 to 100.
        percent: Option<u8>,
        /// A sentence for people.
        note: Option<Box<str>>,
    },
    /// The worker has saved a checkpoint.
    Checkpoint {
        /// The size of the checkpoint.
        bytes: u32,
    },
    /// The attempt waits for this many tasks and takes no slot meanwhile.
    Suspended {
        /// The worker.
        worker: Name,
        /// How many tasks it waits for.
        open: u32,
    },
    /// The tasks that the attempt waited for have ended, and it has a slot again.
    Continued {
        /// The worker.
        worker: Name,
    },
    /// The worker returned the task unfinished.
    GivenBack {
        /// The worker.
        worker: Name,
        /// The reason, for people.
        reason: Option<Box<str>>,
    },
    /// Not confirmed in time, or a worker with more free slots takes it.
    TakenBack {
        /// The worker.
        worker: Name,
    },
    /// The holder went silent or its connection closed. If it does not return by `lease_until`, the task
    /// follows its policy.
    HolderLost {
        /// The worker.
        worker: Name,
        /// Why the broker considers it lost.
        reason: LostReason,
        /// Until when the worker may return.
        lease_until: Timestamp,
    },
    /// The lost holder returned in time and continues.
    HolderReturned {
        /// The worker.
        worker: Name,
    },
    /// The attempt ended without a report.
    Crashed {
        /// The worker.
        worker: Name,
        /// Why the broker considers the attempt dead.
        reason: LostReason,
        /// The next step for the task.
        next: Next,
        /// How many more crashes the task survives.
        budget_left: u16,
    },
    /// A client wants to cancel a task that a worker holds.
    CancelRequested {
        /// The reason, for people.
        reason: Option<Box<str>>,
    },
    /// A client wants to pause a task that a worker holds.
    PauseRequested {
        /// The reason, for people.
        reason: Option<Box<str>>,
    },
    /// The worker has received the intent.
    IntentDelivered {
        /// The intent.
        wanted: Wanted,
        /// The worker.
        worker: Name,
    },
    /// The task is paused until a client resumes it.
    Paused {
        /// The reason, for people.
        reason: Option<Box<str>>,
    },
    /// A client resumed the task.
    Resumed,
    /// A client runs the ended task again.
    Retried,
    /// A client changed the priority, queue or tags while the task waited, or the task has come from another group.
    Moved,
    /// The task completed.
    Completed {
        /// The worker.
        worker: Name,
        /// Where the result is.
        result: Blob,
    },
    /// An attempt failed; `next` says what follows.
    Failed {
        /// The worker that ran it, if one did.
        worker: Option<Name>,
        /// The exit code; never 0.
        exit_code: i32,
        /// The cause of the failure, for people.
        message: Option<Box<str>>,
        /// The next step for the task.
        next: Next,
        /// Where the result is; may be empty.
        result: Blob,
    },
    /// The task did not start before its expiry.
    Expired,
    /// The task was cancelled.
    Cancelled {
        /// The reason, for people.
        reason: Option<Box<str>>,
        /// The broker did not wait for the worker to stop.
        forced: bool,
    },

    // About a worker.
    /// A worker registered that the broker did not know.
    WorkerRegistered,
    /// A worker is considered dead.
    WorkerLost {
        /// Why.
        reason: LostReason,
    },
    /// A lost worker came back.
    WorkerReturned,
    /// A worker left in order.
    WorkerLeft,
    /// A worker takes no new tasks.
    WorkerDraining,
    /// A worker crashed too often and gets no tasks for a while.
    WorkerQuarantined {
        /// When the quarantine ends.
        until: Timestamp,
        /// How many crashes led to it.
        crashes: u32,
    },
    /// The quarantine of a worker has ended.
    WorkerCleared,

    // About a queue.
    /// A client paused the queue.
    QueuePaused,
    /// A client resumed the queue.
    QueueResumed,
    /// Tasks wait, but no live worker can take them.
    QueueUnserved {
        /// The capabilities that no live worker offers.
        needs: Vec<Name>,
    },
    /// A worker that can take the tasks is back.
    QueueServed {
        /// The capabilities that a worker offers again.
        needs: Vec<Name>,
    },
    /// The number of ready tasks, or the age of one of them, has reached the threshold. `depth` is the number
    /// of ready tasks, `age` how long the longest-waiting one has been ready.
    QueueBacklog {
        /// Which threshold.
        threshold: Threshold,
        /// The number of ready tasks.
        depth: u64,
        /// How long the longest-waiting task has been ready.
        age: Duration,
    },
    /// The queue is at half of the threshold or below, or the threshold was removed.
    QueueBacklogCleared {
        /// Which threshold.
        threshold: Threshold,
        /// The number of ready tasks.
        depth: u64,
        /// How long the longest-waiting task has been ready.
        age: Duration,
    },
    /// The thresholds in force for the queue from now on.
    QueueThresholdsSet {
        /// A number of ready tasks.
        depth: Option<u32>,
        /// How long a task may be ready.
        age: Option<Duration>,
    },

    /// The rate of a queue changed.
    QueueRateSet {
        /// The rate; `None`: no rate.
        rate: Option<Rate>,
    },

    // About a tag.
    /// The limit of a tag changed.
    LimitSet {
        /// How many tasks may be held at once; `None`: any number.
        limit: Option<u32>,
    },

    // About a schedule.
    /// It was created or changed.
    ScheduleSet,
    /// It has submitted its task for this due time.
    ScheduleFired {
        /// The due time.
        due: Timestamp,
        /// The submitted task.
        task: TaskId,
    },
    /// It submits nothing for these due times.
    ScheduleSkipped {
        /// Why.
        reason: SkipReason,
        /// The first skipped due time.
        from: Timestamp,
        /// The last skipped due time.
        to: Timestamp,
    },
    /// A client paused the schedule.
    SchedulePaused,
    /// A client resumed the schedule.
    ScheduleResumed,
    /// A client removed the schedule.
    ScheduleRemoved,
    // About an array.
    /// Its elements follow.
    ArraySubmitted {
        /// The number of elements.
        size: u32,
    },
    /// The last element has ended. If an element is retried, the array ends again.
    ArrayEnded {
        /// How many elements completed.
        completed: u32,
        /// How many elements failed.
        failed: u32,
        /// How many elements were cancelled.
        cancelled: u32,
    },
    /// The limit of an array changed.
    ArrayLimitSet {
        /// How many elements may be held at once; `None`: any number.
        limit: Option<u32>,
    },
    /// The rate of a tag changed.
    RateSet {
        /// The rate; `None`: no rate.
        rate: Option<Rate>,
    },

    // About a share key.
    /// The weight of a share key changed.
    ShareSet {
        /// The weight; `None`: the default.
        weight: Option<u32>,
    },
}

/// Gives every variant its stable name once: for [`EventData::as_str`], and for the list of all names.
macro_rules! event_kinds {
    ($($variant:ident = $name:literal),* $(,)?) => {
        impl EventData {
            /// The names of all kinds of events, by which a client selects what it watches.
            pub const KINDS: &'static [&'static str] = &[$($name),*];

            /// The stable name, the same in every door.
            pub fn as_str(&self) -> &'static str {
                match self {
                    $(EventData::$variant { .. } => $name,)*
                }
            }
        }
    };
}

event_kinds! {
    Submitted = "submitted",
    Released = "released",
    DependenciesMet = "dependencies-met",
    Due = "due",
    Assigned = "assigned",
    Started = "started",
    Progress = "progress",
    Checkpoint = "checkpoint",
    Suspended = "suspended",
    Continued = "continued",
    GivenBack = "given-back",
    TakenBack = "taken-back",
    HolderLost = "holder-lost",
    HolderReturned = "holder-returned",
    Crashed = "crashed",
    CancelRequested = "cancel-requested",
    PauseRequested = "pause-requested",
    IntentDelivered = "intent-delivered",
    Paused = "paused",
    Resumed = "resumed",
    Retried = "retried",
    Moved = "moved",
    Completed = "completed",
    Failed = "failed",
    Expired = "expired",
    Cancelled = "cancelled",
    WorkerRegistered = "worker-registered",
    WorkerLost = "worker-lost",
    WorkerReturned = "worker-returned",
    WorkerLeft = "worker-left",
    WorkerDraining = "worker-draining",
    WorkerQuarantined = "worker-quarantined",
    WorkerCleared = "worker-cleared",
    QueuePaused = "queue-paused",
    QueueResumed = "queue-resumed",
    QueueUnserved = "queue-unserved",
    QueueServed = "queue-served",
    QueueBacklog = "queue-backlog",
    QueueBacklogCleared = "queue-backlog-cleared",
    QueueThresholdsSet = "queue-thresholds-set",
    QueueRateSet = "queue-rate-set",
    LimitSet = "limit-set",
    ScheduleSet = "schedule-set",
    ScheduleFired = "schedule-fired",
    ScheduleSkipped = "schedule-skipped",
    SchedulePaused = "schedule-paused",
    ScheduleResumed = "schedule-resumed",
    ScheduleRemoved = "schedule-removed",
    ArraySubmitted = "array-submitted",
    ArrayEnded = "array-ended",
    ArrayLimitSet = "array-limit-set",
    RateSet = "rate-set",
    ShareSet = "share-set",
}

impl EventData {
    /// The names of the kinds of events with which a task may end.
    pub const KINDS_OF_ENDS: [&'static str; 5] = ["completed", "failed", "expired", "cancelled", "crashed"];

    /// Whether this event ends a task.
    pub fn is_end(&self) -> bool {
        match self {
            EventData::Completed { .. } | EventData::Expired | EventData::Cancelled { .. } => true,
            EventData::Failed { next, .. } => *next == Next::Failed,
            EventData::Crashed { next, .. } => matches!(next, Next::Failed | Next::Cancelled),
            _ => false,
        }
    }
}

impl Event {
    /// The namespace in which it happened.
    pub fn namespace(&self) -> &Name {
        match &self.about {
            EventSubject::Task { terms, .. } => &terms.namespace,
            EventSubject::Worker { namespace, .. }
            | EventSubject::Queue { namespace, .. }
            | EventSubject::Tag { namespace, .. }
            | EventSubject::Schedule { namespace, .. }
            | EventSubject::Array { namespace, .. }
            | EventSubject::Share { namespace, .. } => namespace,
        }
    }

    /// The task it is about.
    pub fn task(&self) -> Option<TaskId> {
        match &self.about {
            EventSubject::Task { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The array that the event is about, or whose element it is about.
    pub fn array(&self) -> Option<TaskId> {
        match &self.about {
            EventSubject::Array { id, .. } => Some(*id),
            EventSubject::Task { terms, .. } => terms.array.map(|array| array.id),
            _ => None,
        }
    }

    /// The queue it is about, or that of its task.
    pub fn queue(&self) -> Option<&Name> {
        match &self.about {
            EventSubject::Task { terms, .. } => Some(&terms.queue),
            EventSubject::Queue { queue, .. } | EventSubject::Array { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// Who submitted its task or array.
    pub fn submitter(&self) -> Option<&Name> {
        match &self.about {
            EventSubject::Task { terms, .. } => Some(&terms.submitter),
            EventSubject::Array { submitter, .. } => Some(submitter),
            _ => None,
        }
    }

    /// The worker it is about, or that it names.
    pub fn worker(&self) -> Option<&Name> {
        if let EventSubject::Worker { worker, .. } = &self.about {
            return Some(worker);
        }
        match &self.kind {
            EventData::Assigned { worker }
            | EventData::Started { worker }
            | EventData::Suspended { worker, .. }
            | EventData::Continued { worker }
            | EventData::GivenBack { worker, .. }
            | EventData::TakenBack { worker }
            | EventData::HolderLost { worker, .. }
            | EventData::HolderReturned { worker }
            | EventData::Crashed { worker, .. }
            | EventData::IntentDelivered { worker, .. }
            | EventData::Completed { worker, .. } => Some(worker),
            EventData::Failed { worker, .. } => worker.as_ref(),
            _ => None,
        }
    }
}

/// Which events a watcher wants. Every field that is set must match.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// A task, or an array with all its elements.
    pub task: Option<TaskId>,
    pub queue: Option<Name>,
    pub submitter: Option<Name>,
    pub worker: Option<Name>,
    /// Names of event kinds; empty means all.
    pub kinds: Vec<Name>,
}

impl EventFilter {
    /// Refuses kinds that this broker does not have: the client would wait without end.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.kinds.iter().all(|kind| EventData::KINDS.contains(&&**kind)) {
            return Ok(());
        }
        Err(Refusal::BadValue { what: "kind", why: "is unknown; spec/tasks.md lists the kinds of events" })
    }

    /// Whether the filter lets the event pass.
    pub fn matches(&self, event: &Event) -> bool {
        self.task.is_none_or(|task| event.task() == Some(task) || event.array() == Some(task))
            && self.queue.as_ref().is_none_or(|queue| event.queue() == Some(queue))
            && self.submitter.as_ref().is_none_or(|submitter| event.submitter() == Some(submitter))
            && self.worker.as_ref().is_none_or(|worker| event.worker() == Some(worker))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| **kind == *event.kind.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_accepts_every_kind_that_an_event_may_have_and_no_other() {
        let filter = |kinds: &[&str]| EventFilter {
            kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
            ..EventFilter::default()
        };
        assert_eq!(filter(EventData::KINDS).check(), Ok(()));
        assert_eq!(filter(&EventData::KINDS_OF_ENDS).check(), Ok(()));
        assert!(matches!(
            filter(&["completed", "finished"]).check(),
            Err(Refusal::BadValue { what: "kind", .. })
        ));
    }
}
