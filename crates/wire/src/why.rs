//! The exact reason why a task is not running.

use std::fmt;

use crate::Name;
use crate::id::TaskId;
use crate::rate::Rate;
use crate::schema::{message, row, words};
use crate::time::Timestamp;
use crate::words::{Condition, StateName};

words! {
    /// The stable code of a reason, the same through every door.
    pub enum WhyCode {
        NotWaiting = "not-waiting",
        Held = "held",
        Dependencies = "dependencies",
        NotBefore = "not-before",
        Paused = "paused",
        QueuePaused = "queue-paused",
        NoWorkerEver = "no-worker-ever",
        AllLost = "all-lost",
        NeedsUnmet = "needs-unmet",
        Quarantined = "quarantined",
        Draining = "draining",
        TagLimit = "tag-limit",
        TagRate = "tag-rate",
        QueueRate = "queue-rate",
        AllFull = "all-full",
        ResourcesShort = "resources-short",
        TooLarge = "too-large",
        Reserved = "reserved",
        NoWorkerAsks = "nobody-asks",
        AwaitingAcceptance = "awaiting-acceptance",
        AwaitingDisk = "awaiting-disk",
        AwaitingJournal = "awaiting-journal",
        Suspended = "suspended",
        AwaitingSlot = "awaiting-slot",
        ArrayLimit = "array-limit",
    }
}

message! {
    /// Only the fields that belong to the code are set.
    pub struct Why {
        code: WhyCode,
        /// A sentence for people.
        message: Box<str>,
        state: Option<StateName>,
        queue: Option<Name>,
        worker: Option<Name>,
        tag: Option<Name>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
        /// Capabilities that no live worker of the queue offers.
        missing: Vec<Name>,
        workers: Option<u32>,
        slots: Option<u32>,
        limit: Option<u32>,
        in_use: Option<u32>,
        /// The resource that is short, and quantities of it in thousandths: needed, free on the worker, and in total.
        resource: Option<Name>,
        needed: Option<u64>,
        free: Option<u64>,
        total: Option<u64>,
        /// The task for which a worker keeps room.
        task: Option<TaskId>,
        rate: Option<Rate>,
        /// When the rate has a token.
        next_at: Option<Timestamp>,
        /// How many tasks it waits for, and some of them.
        open: Option<u32>,
        some: Vec<WaitedFor>,
        /// The array that is at its limit.
        array: Option<TaskId>,
        /// The key prefix of the reconciliation that submitted the task.
        reconciliation: Option<Name>,
    }
}

row! {
    /// A task that another one waits for.
    pub struct WaitedFor {
        task: TaskId,
        condition: Condition = Condition::Completed,
        state: Option<StateName>,
        name: Option<Name>,
    }
}

impl Why {
    /// A reason without further fields.
    pub fn new(code: WhyCode, message: impl Into<Box<str>>) -> Why {
        Why {
            code,
            message: message.into(),
            state: None,
            queue: None,
            worker: None,
            tag: None,
            since: None,
            until: None,
            missing: Vec::new(),
            workers: None,
            slots: None,
            limit: None,
            in_use: None,
            resource: None,
            needed: None,
            free: None,
            total: None,
            task: None,
            rate: None,
            next_at: None,
            open: None,
            some: Vec::new(),
            array: None,
            reconciliation: None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
