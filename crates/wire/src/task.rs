//! Tasks: as submitted, as assigned to a worker, and as shown to people.

use bytes::Bytes;

use crate::Name;
use crate::id::TaskId;
use crate::schema::{message, row};
use crate::time::Timestamp;
use crate::why::Why;
use crate::words::{Condition, DependencyProgress, OnBroken, OnLost, PauseCause, StateName, Wanted};

message! {
    /// The properties that many tasks share. A frame carries each distinct set once; its tasks refer to it by position.
    pub struct Terms {
        queue: Name,
        /// Capabilities a worker must offer.
        needs: Vec<Name>,
        /// Tags whose limits apply.
        tags: Vec<Name>,
        on_lost: OnLost = OnLost::Requeue,
        /// The broker does not requeue the task after the crash of this number.
        crash_budget: u16 = 3,
        /// How often the broker retries the task after a reported failure.
        retries: u16,
        /// The delay before the first retry; it doubles with each further one.
        backoff_first_ms: u64 = 1_000,
        backoff_max_ms: u64 = 300_000,
        /// How long an assigned task may stay unconfirmed. Absent: the broker's setting.
        accept_timeout_ms: Option<u64>,
        /// How long one attempt may run. Absent: no limit.
        run_limit_ms: Option<u64>,
        /// How long a worker may take to stop the task after a cancellation. Absent: the broker's setting; 0: no
        /// limit.
        cancel_timeout_ms: Option<u64>,
        /// How the broker proceeds if a dependency ends otherwise than it should.
        on_broken: OnBroken = OnBroken::Cancel,
        /// How many slots it occupies. 0: a light slot instead.
        slots: u32 = 1,
        /// The quantities it needs.
        resources: Vec<Resource>,
        /// The share key: with whom the tasks take turns in their queue.
        share: Option<Name>,
        /// The submitter, who can watch the task. The broker sets it and ignores a client's value.
        submitter: Option<Name>,
    }
}

impl Terms {
    /// The default terms of a queue.
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
            on_broken: OnBroken::Cancel,
            slots: 1,
            resources: Vec::new(),
            share: None,
            submitter: None,
        }
    }
}

row! {
    /// A quantity of a resource.
    #[derive(Eq)]
    pub struct Resource {
        name: Name,
        /// In thousandths. Memory is counted in bytes.
        quantity: u64,
    }
}

row! {
    /// One task to submit.
    #[derive(Default)]
    pub struct NewTask {
        /// The client chooses it, or else the broker.
        id: Option<TaskId>,
        body: Bytes,
        /// The index of its terms in the same frame.
        terms: u32,
        /// Higher runs first. Default: the parent's priority plus one for a child, otherwise 0.
        priority: Option<i32>,
        /// Hold the task until a client releases it.
        hold: bool,
        /// The idempotency key.
        name: Option<Name>,
        parent: Option<TaskId>,
        not_before: Option<Timestamp>,
        /// The task fails if it has not started by then.
        expires_at: Option<Timestamp>,
        /// The tasks that have to end before it may run.
        after: Vec<After>,
        /// The trace that it belongs to, as the W3C recommendation writes it.
        traceparent: Option<Box<str>>,
        tracestate: Option<Box<str>>,
    }
}

row! {
    /// A task to wait for, by its id, by its name, or by the index of an earlier task of the same frame.
    pub struct After {
        task: Option<TaskId>,
        condition: Condition = Condition::Completed,
        name: Option<Name>,
        index: Option<u32>,
    }
}

row! {
    /// A dependency as shown to people and workers.
    pub struct DependencyInfo {
        task: TaskId,
        condition: Condition = Condition::Completed,
        progress: DependencyProgress = DependencyProgress::Open,
        /// State, name and size of the result, as far as the broker still knows the task.
        state: Option<StateName>,
        name: Option<Name>,
        result_bytes: u64,
    }
}

row! {
    /// One task for a worker. Every report carries the attempt.
    pub struct Assignment {
        task: TaskId,
        attempt: u32,
        body: Bytes,
        /// The index of its terms in the same frame.
        terms: u32,
        priority: i32,
        submitted_at: Timestamp,
        name: Option<Name>,
        parent: Option<TaskId>,
        crashes: u16,
        failures: u16,
        /// The size of an earlier attempt's checkpoint, if there is one.
        checkpoint_bytes: u64,
        /// The tasks it waited for; the worker can fetch their results.
        after: Vec<DependencyInfo>,
        /// The numbers of the cpus and gpus that belong to the attempt.
        cpus: Vec<u16>,
        gpus: Vec<u16>,
        /// The trace that it belongs to; with tracing on, the span of this attempt.
        traceparent: Option<Box<str>>,
        tracestate: Option<Box<str>>,
        /// The array of which it is an element, and its index there.
        array: Option<TaskId>,
        index: u32,
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
    /// How a task ended that a suspended attempt waited for.
    pub struct WaitEnd {
        task: TaskId,
        state: StateName,
    }
}

row! {
    /// A completed task.
    pub struct Completion {
        task: TaskId,
        attempt: u32,
        result: Bytes,
    }
}

row! {
    /// An accepted task, in the order of the submission.
    pub struct Accepted {
        task: TaskId,
        state: StateName,
        /// A task of this name existed already.
        known: bool,
        /// Why no live worker can take it, if that is so.
        unserved: Option<Why>,
    }
}

message! {
    /// A task as shown to people. Of `until`, `holding`, `pause` and `end`, only the one for its state is set.
    pub struct TaskInfo {
        id: TaskId,
        state: StateName,
        name: Option<Name>,
        terms: Terms,
        parent: Option<TaskId>,
        children: u32,
        /// The array of which it is an element, and its index there.
        array: Option<TaskId>,
        index: Option<u32>,
        /// The tasks that it waits or waited for.
        after: Vec<DependencyInfo>,
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
        /// The trace that it belongs to.
        traceparent: Option<Box<str>>,
        tracestate: Option<Box<str>>,
        /// The key prefix of the reconciliation that submitted it.
        reconciliation: Option<Name>,
        /// Delayed until then.
        until: Option<Timestamp>,
        /// Assigned, running or suspended.
        holding: Option<Box<Holding>>,
        /// Since when the attempt is suspended, and how many of the tasks it waits for have not ended.
        suspended_since: Option<Timestamp>,
        open: Option<u32>,
        /// Paused.
        pause | aside: Option<PauseInfo>,
        /// Completed, failed or cancelled.
        end: Option<Box<End>>,
    }
}

message! {
    /// Which worker holds a task, and what a client wants of it.
    pub struct Holding {
        worker: Name,
        since: Timestamp,
        started_at: Option<Timestamp>,
        intent: Option<Intent>,
        progress: Option<Progress>,
        /// The numbers of the cpus and gpus that belong to the attempt.
        cpus: Vec<u16>,
        gpus: Vec<u16>,
    }
}

message! {
    /// The intent of a client for a task that a worker holds.
    pub struct Intent {
        wanted: Wanted,
        reason: Option<Box<str>>,
        /// Whether the worker was connected to receive it.
        delivered: bool,
    }
}

message! {
    /// The last progress report of a running task.
    pub struct Progress {
        /// 0 to 100, if the worker knows.
        percent: Option<u8>,
        note: Option<Box<str>>,
        at: Timestamp,
    }
}

message! {
    /// The checkpoint of a task.
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
        /// The number of the event that reports the end.
        event: u64,
        exit_code: i32,
        result_bytes: u64,
        message: Option<Box<str>>,
        /// The last worker that held it.
        worker: Option<Name>,
    }
}

row! {
    /// The outcome of a task that a client waits for.
    pub struct Ended {
        task: TaskId,
        state: StateName,
        exit_code: i32,
        at: Timestamp,
        message: Option<Box<str>>,
        worker: Option<Name>,
        result_bytes: u64,
        /// Set if results were requested and this one fits into the frame; otherwise the client fetches it.
        result: Option<Bytes>,
    }
}
