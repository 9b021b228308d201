//! Tasks: as they are submitted, as a worker gets them, and as people look at them.

use bytes::Bytes;

use crate::Name;
use crate::id::TaskId;
use crate::schema::{message, row};
use crate::time::Timestamp;
use crate::why::Why;
use crate::words::{OnLost, PauseCause, StateName, Wanted};

message! {
    /// What many tasks have in common. A frame carries each distinct set once; its tasks refer to it by position.
    pub struct Terms {
        queue: Name,
        /// Capabilities a worker must offer.
        needs: Vec<Name>,
        /// Tags to be counted under.
        tags: Vec<Name>,
        on_lost: OnLost = OnLost::Requeue,
        /// The crash with this number is one too many.
        crash_budget: u16 = 3,
        /// How often a reported failure is tried again.
        retries: u16,
        /// The delay before the first retry; it doubles with each further one.
        backoff_first_ms: u64 = 1_000,
        backoff_max_ms: u64 = 300_000,
        /// How long an assigned task may stay unconfirmed, if not as long as the broker's setting says.
        accept_timeout_ms: Option<u64>,
        /// How long one attempt may run, if not as long as it takes.
        run_limit_ms: Option<u64>,
        /// How long a worker may take to stop it once it is cancelled, if not as long as the broker's setting says; 0
        /// is as long as it takes.
        cancel_timeout_ms: Option<u64>,
        /// Who is told. Filled in by the broker; what a client puts here is not looked at.
        submitter: Option<Name>,
    }
}

impl Terms {
    pub fn new(queue: impl Into<Name>) -> Terms {
        Terms {
            queue: queue.into(),
            needs: Vec::new(),
            tags: Vec::new(),
            on_lost: OnLost::Requeue,
            crash_budget: 3,
            retries: 0,
            backoff_first_ms: 1_000,
            backoff_max_ms: 300_000,
            accept_timeout_ms: None,
            run_limit_ms: None,
            cancel_timeout_ms: None,
            submitter: None,
        }
    }
}

row! {
    /// One task to submit.
    #[derive(Default)]
    pub struct NewTask {
        /// Chosen by the client, or left to the broker.
        id: Option<TaskId>,
        body: Bytes,
        /// The position of its terms in the same frame.
        terms: u32,
        /// Higher first. Unless given: the parent's plus one for a child, else zero.
        priority: Option<i32>,
        /// Hold it back until it is released.
        hold: bool,
        /// Makes the submission idempotent.
        name: Option<Name>,
        parent: Option<TaskId>,
        not_before: Option<Timestamp>,
        /// If it has not started by then, it fails.
        expires_at: Option<Timestamp>,
    }
}

row! {
    /// One task for a worker. The attempt goes back with every report.
    pub struct Assignment {
        task: TaskId,
        attempt: u32,
        body: Bytes,
        /// The position of its terms in the same frame.
        terms: u32,
        priority: i32,
        submitted_at: Timestamp,
        name: Option<Name>,
        parent: Option<TaskId>,
        crashes: u16,
        failures: u16,
        /// How large the checkpoint of an earlier attempt is, if there is one.
        checkpoint_bytes: u64,
    }
}

row! {
    /// One attempt that a worker holds, as it presents it.
    #[derive(Copy, Eq, Hash)]
    pub struct Held {
        task: TaskId,
        attempt: u32,
    }
}

row! {
    /// A task that is done.
    pub struct Completion {
        task: TaskId,
        attempt: u32,
        result: Bytes,
    }
}

row! {
    /// A task that was accepted, in the order of the submission.
    pub struct Accepted {
        task: TaskId,
        state: StateName,
        /// The submission was known already, by its name.
        known: bool,
        /// Why no live worker can take it, if that is so.
        unserved: Option<Why>,
    }
}

message! {
    /// A task as a person sees it. Of `until`, `holding`, `aside` and `end`, the one that belongs to its state is
    /// there.
    pub struct TaskInfo {
        id: TaskId,
        state: StateName,
        name: Option<Name>,
        terms: Terms,
        parent: Option<TaskId>,
        children: u32,
        priority: i32,
        /// 0 if it was never assigned.
        attempt: u32,
        crashes: u16,
        failures: u16,
        submitted_at: Timestamp,
        not_before: Option<Timestamp>,
        expires_at: Option<Timestamp>,
        /// Workers that crashed on it, newest last.
        crashed_on: Vec<Name>,
        body_bytes: u64,
        checkpoint: Option<Checkpoint>,
        /// Delayed until then.
        until: Option<Timestamp>,
        /// Assigned or running.
        holding: Option<Box<Holding>>,
        /// Paused.
        aside: Option<PauseInfo>,
        /// Completed, failed or cancelled.
        end: Option<Box<End>>,
    }
}

message! {
    /// Who holds a task and what is asked of the holder.
    pub struct Holding {
        worker: Name,
        since: Timestamp,
        started_at: Option<Timestamp>,
        intent: Option<Intent>,
        progress: Option<Progress>,
    }
}

message! {
    /// What somebody wants of a task that is held.
    pub struct Intent {
        wanted: Wanted,
        reason: Option<Box<str>>,
        /// Whether the holder was connected to hear of it.
        delivered: bool,
    }
}

message! {
    /// What a worker last said of a running task.
    pub struct Progress {
        /// 0 to 100, if the worker knows.
        percent: Option<u8>,
        note: Option<Box<str>>,
        at: Timestamp,
    }
}

message! {
    /// How far a worker got with a task.
    pub struct Checkpoint {
        /// The attempt that saved it.
        attempt: u32,
        at: Timestamp,
        bytes: u64,
    }
}

message! {
    /// Why a task is paused.
    pub struct PauseInfo {
        since: Timestamp,
        why: PauseCause,
        reason: Option<Box<str>>,
    }
}

message! {
    /// How a task ended.
    pub struct End {
        at: Timestamp,
        /// The number of the event that tells of the end.
        event: u64,
        exit_code: i32,
        result_bytes: u64,
        message: Option<Box<str>>,
        /// Who held it last.
        worker: Option<Name>,
    }
}

row! {
    /// What became of a task that somebody waited for.
    pub struct Ended {
        task: TaskId,
        state: StateName,
        exit_code: i32,
        at: Timestamp,
        message: Option<Box<str>>,
        worker: Option<Name>,
        result_bytes: u64,
        /// There if results were asked for and this one fitted into the frame; else it can be fetched.
        result: Option<Bytes>,
    }
}
