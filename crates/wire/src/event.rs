//! Events: numbered facts that a watcher receives in order; a gap names those that are missing.

use crate::Name;
use crate::id::TaskId;
use crate::rate::Rate;
use crate::schedule::SkipReason;
use crate::schema::{message, row, words};
use crate::time::Timestamp;
use crate::why::Why;
use crate::words::{LostReason, Next, Threshold, Wanted};

words! {
    /// The kind of an event, by its stable name.
    pub enum EventKind {
        // About a task, in the order of its life.
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

        // About a worker.
        WorkerRegistered = "worker-registered",
        WorkerLost = "worker-lost",
        WorkerReturned = "worker-returned",
        WorkerLeft = "worker-left",
        WorkerDraining = "worker-draining",
        WorkerQuarantined = "worker-quarantined",
        WorkerCleared = "worker-cleared",

        // About a queue.
        QueuePaused = "queue-paused",
        QueueResumed = "queue-resumed",
        QueueUnserved = "queue-unserved",
        QueueServed = "queue-served",
        QueueBacklog = "queue-backlog",
        QueueBacklogCleared = "queue-backlog-cleared",
        QueueThresholdsSet = "queue-thresholds-set",
        QueueRateSet = "queue-rate-set",

        // About a tag.
        LimitSet = "limit-set",

        // About a schedule.
        ScheduleSet = "schedule-set",
        ScheduleFired = "schedule-fired",
        ScheduleSkipped = "schedule-skipped",
        SchedulePaused = "schedule-paused",
        ScheduleResumed = "schedule-resumed",
        ScheduleRemoved = "schedule-removed",
        // About an array.
        ArraySubmitted = "array-submitted",
        ArrayEnded = "array-ended",
        ArrayLimitSet = "array-limit-set",
        RateSet = "rate-set",
        ShareSet = "share-set",
    }
}

row! {
    /// One fact.
    pub struct Event {
        /// One global sequence. A watcher with a filter sees holes in it, but it always increases.
        seq: u64,
        at: Timestamp,
        kind: EventKind,
        task: Option<TaskId>,
        attempt: u32,
        queue: Option<Name>,
        submitter: Option<Name>,
        worker: Option<Name>,
        /// Details that only some kinds have.
        more: Option<Box<Detail>>,
    }
}

impl Event {
    /// Whether a task has ended with this event.
    pub fn is_end(&self) -> bool {
        let next = self.more.as_ref().and_then(|more| more.next.as_ref());
        match self.kind {
            EventKind::Completed | EventKind::Expired | EventKind::Cancelled => true,
            EventKind::Failed => next == Some(&Next::Failed),
            EventKind::Crashed => matches!(next, Some(Next::Failed | Next::Cancelled)),
            _ => false,
        }
    }
}

message! {
    /// Details that only some kinds of events have.
    #[derive(Default)]
    pub struct Detail {
        /// Submitted: why no live worker can take it, if that is so.
        unserved: Option<Why>,
        /// Progress.
        percent: Option<u8>,
        note: Option<Box<str>>,
        /// Checkpoint: its size.
        bytes: u64,
        /// The reason that a client or worker gave.
        reason: Option<Box<str>>,
        /// Why the broker counts a worker or an attempt as lost.
        lost: Option<LostReason>,
        /// Until when a lost worker may return to the attempt.
        lease_until: Option<Timestamp>,
        /// The next step for a task whose attempt is over, and when, if it is retried later.
        next: Option<Next>,
        retry_at: Option<Timestamp>,
        /// Crashes that the task can still survive.
        budget_left: Option<u16>,
        wanted: Option<Wanted>,
        exit_code: Option<i32>,
        message: Option<Box<str>>,
        result_bytes: u64,
        /// Cancelled without the worker's confirmation.
        forced: bool,
        /// Quarantined until.
        until: Option<Timestamp>,
        crashes: Option<u32>,
        /// The capabilities that make up the ready queue in question.
        needs: Vec<Name>,
        tag: Option<Name>,
        /// The tag's new limit; absent if it has none now.
        limit: Option<u32>,
        /// Which threshold a queue has crossed, in either direction.
        threshold: Option<Threshold>,
        /// How many tasks of a queue are ready, or the threshold.
        depth: Option<u64>,
        /// How long one task has been ready, or the threshold.
        age_ms: Option<u64>,
        /// Suspended: how many of the tasks it waits for have not ended.
        open: Option<u32>,
        schedule: Option<Name>,
        /// The due time of a schedule that fired, and the task it submitted.
        due: Option<Timestamp>,
        task: Option<TaskId>,
        /// Why a schedule skips due times, the first of them and the last.
        skipped: Option<SkipReason>,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        /// The array that the event is about, or whose element it is about, and the index of that element.
        array: Option<TaskId>,
        index: Option<u32>,
        /// The name of the array.
        name: Option<Name>,
        /// How many elements an array has, and how many of them ended in which way.
        size: Option<u32>,
        completed: Option<u32>,
        failed: Option<u32>,
        cancelled: Option<u32>,
        /// The new rate of a tag or queue; absent if it has none now.
        rate: Option<Rate>,
        share: Option<Name>,
        /// The new weight of a share key; absent if it has the default now.
        weight: Option<u32>,
        /// Submitted: the key prefix of the reconciliation that submitted the task.
        reconciliation: Option<Name>,
    }
}
