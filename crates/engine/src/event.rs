//! Events: the facts that watchers receive. One global sequence without gaps, carried by the records.

use std::sync::Arc;
use std::time::Duration;

use crate::backlog::Threshold;
use crate::blob::Blob;
use crate::id::TaskId;
use crate::name::Name;
use crate::rate::Rate;
use crate::schedule::SkipReason;
use crate::state::Wanted;
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::why::Why;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    pub at: Timestamp,
    pub about: EventSubject,
    pub kind: EventData,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSubject {
    Task { id: TaskId, attempt: u32, terms: Arc<Terms> },
    Worker { namespace: Name, worker: Name },
    Queue { namespace: Name, queue: Name },
    Tag { namespace: Name, tag: Name },
    Schedule { namespace: Name, schedule: Name },
    Array { id: TaskId, namespace: Name, queue: Name, submitter: Name, name: Option<Name> },
    Share { namespace: Name, share: Name },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventData {
    // About a task, in the order of its life.
    /// `unserved` gives the reason if no live worker can take the task.
    Submitted {
        unserved: Option<Why>,
    },
    Released,
    /// The last task it waited for has ended.
    DependenciesMet,
    /// A delayed task's time has come.
    Due,
    Assigned {
        worker: Name,
    },
    Started {
        worker: Name,
    },
    Progress {
        percent: Option<u8>,
        note: Option<Box<str>>,
    },
    /// The worker has saved a checkpoint.
    Checkpoint {
        bytes: u32,
    },
    /// The attempt waits for this many tasks and takes no slot meanwhile.
    Suspended {
        worker: Name,
        open: u32,
    },
    /// What the attempt waited for has ended, and it has a slot again.
    Continued {
        worker: Name,
    },
    /// The worker returned the task unfinished.
    GivenBack {
        worker: Name,
        reason: Option<Box<str>>,
    },
    /// Not confirmed in time, or a worker with more free slots takes it.
    TakenBack {
        worker: Name,
    },
    /// The holder went silent or its connection closed. If it does not return by `lease_until`, the task
    /// follows its policy.
    HolderLost {
        worker: Name,
        reason: LostReason,
        lease_until: Timestamp,
    },
    /// The lost holder returned in time and continues.
    HolderReturned {
        worker: Name,
    },
    /// The attempt ended without a report.
    Crashed {
        worker: Name,
        reason: LostReason,
        next: Next,
        budget_left: u16,
    },
    CancelRequested {
        reason: Option<Box<str>>,
    },
    PauseRequested {
        reason: Option<Box<str>>,
    },
    /// The worker has received the intent.
    IntentDelivered {
        wanted: Wanted,
        worker: Name,
    },
    Paused {
        reason: Option<Box<str>>,
    },
    Resumed,
    Retried,
    /// A client changed the priority, queue or tags while the task waited.
    Moved,
    Completed {
        worker: Name,
        result: Blob,
    },
    Failed {
        worker: Option<Name>,
        exit_code: i32,
        message: Option<Box<str>>,
        next: Next,
        result: Blob,
    },
    /// The task did not start before its expiry.
    Expired,
    Cancelled {
        reason: Option<Box<str>>,
        forced: bool,
    },

    // About a worker.
    WorkerRegistered,
    WorkerLost {
        reason: LostReason,
    },
    WorkerReturned,
    WorkerLeft,
    WorkerDraining,
    WorkerQuarantined {
        until: Timestamp,
        crashes: u32,
    },
    WorkerCleared,

    // About a queue.
    QueuePaused,
    QueueResumed,
    /// Tasks wait, but no live worker can take them.
    QueueUnserved {
        needs: Vec<Name>,
    },
    /// A worker that can take the tasks is back.
    QueueServed {
        needs: Vec<Name>,
    },
    /// The number of ready tasks, or the age of one of them, has reached the threshold. `depth` is the number
    /// of ready tasks, `age` how long the longest-waiting one has been ready.
    QueueBacklog {
        threshold: Threshold,
        depth: u64,
        age: Duration,
    },
    /// The queue is at half of the threshold or below, or the threshold was removed.
    QueueBacklogCleared {
        threshold: Threshold,
        depth: u64,
        age: Duration,
    },
    /// The thresholds in force for the queue from now on.
    QueueThresholdsSet {
        depth: Option<u32>,
        age: Option<Duration>,
    },

    QueueRateSet {
        rate: Option<Rate>,
    },

    // About a tag.
    LimitSet {
        limit: Option<u32>,
    },

    // About a schedule.
    /// It was created or changed.
    ScheduleSet,
    /// It has submitted its task for this due time.
    ScheduleFired {
        due: Timestamp,
        task: TaskId,
    },
    /// It submits nothing for these due times.
    ScheduleSkipped {
        reason: SkipReason,
        from: Timestamp,
        to: Timestamp,
    },
    SchedulePaused,
    ScheduleResumed,
    ScheduleRemoved,
    // About an array.
    /// Its elements follow.
    ArraySubmitted {
        size: u32,
    },
    /// The last element has ended. If an element is retried, the array ends again.
    ArrayEnded {
        completed: u32,
        failed: u32,
        cancelled: u32,
    },
    ArrayLimitSet {
        limit: Option<u32>,
    },
    RateSet {
        rate: Option<Rate>,
    },

    // About a share key.
    ShareSet {
        weight: Option<u32>,
    },
}

/// Why the broker considers a worker or an attempt dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    ConnectionClosed,
    HeartbeatMissed,
    RunLimit,
    /// The worker itself reported the crash.
    WorkerSaidSo,
    /// The worker is alive but reports that it no longer holds the task.
    Forgotten,
    /// The broker restarted and the worker did not return in time.
    NotBackAfterRestart,
}

impl LostReason {
    pub const ALL: [LostReason; 6] = [
        LostReason::ConnectionClosed,
        LostReason::HeartbeatMissed,
        LostReason::RunLimit,
        LostReason::WorkerSaidSo,
        LostReason::Forgotten,
        LostReason::NotBackAfterRestart,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            LostReason::ConnectionClosed => "connection-closed",
            LostReason::HeartbeatMissed => "heartbeat-missed",
            LostReason::RunLimit => "run-limit",
            LostReason::WorkerSaidSo => "worker-said-so",
            LostReason::Forgotten => "forgotten",
            LostReason::NotBackAfterRestart => "not-back-after-restart",
        }
    }
}

/// What happens next to a task whose attempt is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    Requeued,
    RetriedAt(Timestamp),
    Paused,
    Failed,
    Cancelled,
}

impl Next {
    pub fn as_str(self) -> &'static str {
        match self {
            Next::Requeued => "requeued",
            Next::RetriedAt(_) => "retried",
            Next::Paused => "paused",
            Next::Failed => "failed",
            Next::Cancelled => "cancelled",
        }
    }
}

impl EventData {
    /// The stable name, the same in every door.
    pub fn as_str(&self) -> &'static str {
        match self {
            EventData::Submitted { .. } => "submitted",
            EventData::Released => "released",
            EventData::DependenciesMet => "dependencies-met",
            EventData::Due => "due",
            EventData::Assigned { .. } => "assigned",
            EventData::Started { .. } => "started",
            EventData::Progress { .. } => "progress",
            EventData::Checkpoint { .. } => "checkpoint",
            EventData::Suspended { .. } => "suspended",
            EventData::Continued { .. } => "continued",
            EventData::GivenBack { .. } => "given-back",
            EventData::TakenBack { .. } => "taken-back",
            EventData::HolderLost { .. } => "holder-lost",
            EventData::HolderReturned { .. } => "holder-returned",
            EventData::Crashed { .. } => "crashed",
            EventData::CancelRequested { .. } => "cancel-requested",
            EventData::PauseRequested { .. } => "pause-requested",
            EventData::IntentDelivered { .. } => "intent-delivered",
            EventData::Paused { .. } => "paused",
            EventData::Resumed => "resumed",
            EventData::Retried => "retried",
            EventData::Moved => "moved",
            EventData::Completed { .. } => "completed",
            EventData::Failed { .. } => "failed",
            EventData::Expired => "expired",
            EventData::Cancelled { .. } => "cancelled",
            EventData::WorkerRegistered => "worker-registered",
            EventData::WorkerLost { .. } => "worker-lost",
            EventData::WorkerReturned => "worker-returned",
            EventData::WorkerLeft => "worker-left",
            EventData::WorkerDraining => "worker-draining",
            EventData::WorkerQuarantined { .. } => "worker-quarantined",
            EventData::WorkerCleared => "worker-cleared",
            EventData::QueuePaused => "queue-paused",
            EventData::QueueResumed => "queue-resumed",
            EventData::QueueUnserved { .. } => "queue-unserved",
            EventData::QueueServed { .. } => "queue-served",
            EventData::QueueBacklog { .. } => "queue-backlog",
            EventData::QueueBacklogCleared { .. } => "queue-backlog-cleared",
            EventData::QueueThresholdsSet { .. } => "queue-thresholds-set",
            EventData::QueueRateSet { .. } => "queue-rate-set",
            EventData::LimitSet { .. } => "limit-set",
            EventData::ScheduleSet => "schedule-set",
            EventData::ScheduleFired { .. } => "schedule-fired",
            EventData::ScheduleSkipped { .. } => "schedule-skipped",
            EventData::SchedulePaused => "schedule-paused",
            EventData::ScheduleResumed => "schedule-resumed",
            EventData::ScheduleRemoved => "schedule-removed",
            EventData::ArraySubmitted { .. } => "array-submitted",
            EventData::ArrayEnded { .. } => "array-ended",
            EventData::ArrayLimitSet { .. } => "array-limit-set",
            EventData::RateSet { .. } => "rate-set",
            EventData::ShareSet { .. } => "share-set",
        }
    }

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

    pub fn queue(&self) -> Option<&Name> {
        match &self.about {
            EventSubject::Task { terms, .. } => Some(&terms.queue),
            EventSubject::Queue { queue, .. } | EventSubject::Array { queue, .. } => Some(queue),
            _ => None,
        }
    }

    pub fn submitter(&self) -> Option<&Name> {
        match &self.about {
            EventSubject::Task { terms, .. } => Some(&terms.submitter),
            EventSubject::Array { submitter, .. } => Some(submitter),
            _ => None,
        }
    }

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
    pub fn matches(&self, event: &Event) -> bool {
        self.task.is_none_or(|task| event.task() == Some(task) || event.array() == Some(task))
            && self.queue.as_ref().is_none_or(|queue| event.queue() == Some(queue))
            && self.submitter.as_ref().is_none_or(|submitter| event.submitter() == Some(submitter))
            && self.worker.as_ref().is_none_or(|worker| event.worker() == Some(worker))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| **kind == *event.kind.as_str()))
    }
}
