//! Everything the engine can be asked: commands change state, queries only read it. One file per verb under
//! `commands/` and `queries/` implements each.

use std::time::Duration;

use crate::array::{ArrayAccepted, ArrayInfo, NewArray};
use crate::backlog::{Passed, Thresholds};
use crate::blob::Blob;
pub use crate::cursor::{ArrayCursor, Cursor};
use crate::demand::{Demand, Devices, Quantity};
use crate::dependency::{After, DependencyInfo, OnBroken, WaitOn};
pub use crate::gauges::{Gauges, QueueGauge};
use crate::id::{SessionId, TaskId};
use crate::name::Name;
use crate::rate::Rate;
pub use crate::registration::{OnClose, Unnamed, WorkerAbout, WorkerSpec, WorkerStats};
use crate::schedule::{NewSchedule, ScheduleInfo};
use crate::state::{StateName, TaskState, Wanted};
use crate::task::Checkpoint;
use crate::terms::{Backoff, OnLost, Terms};
use crate::time::Timestamp;
use crate::trace::TraceContext;
use crate::why::Why;

/// The sender of a command or query. The hub fills it in from the handshake; the engine trusts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub session: SessionId,
    pub namespace: Name,
    /// The name under which clients can watch its submissions.
    pub identity: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    // Clients. Where a command names a task, `Release` to `Move` take an array as well: they apply to all of
    // its elements to which they can.
    Submit(Vec<NewTask>),
    SubmitArray(Box<NewArray>),
    /// How many elements may be held at once. `None`: no limit.
    LimitArray {
        array: TaskId,
        limit: Option<u32>,
    },
    Release {
        task: TaskId,
    },
    Cancel {
        task: TaskId,
        reason: Option<Box<str>>,
    },
    Pause {
        task: TaskId,
        reason: Option<Box<str>>,
    },
    Resume {
        task: TaskId,
    },
    Retry {
        task: TaskId,
    },
    Move {
        task: TaskId,
        to: Move,
    },
    /// The client that submitted these tasks is gone and cannot come back. Tasks with an `abandon_after`
    /// expire if they do not start within that time.
    Abandon(Vec<TaskId>),
    SetLimit {
        tag: Name,
        limit: Option<u32>,
    },
    /// `None` removes the rate.
    SetTagRate {
        tag: Name,
        rate: Option<Rate>,
    },
    SetQueueRate {
        queue: Name,
        rate: Option<Rate>,
    },
    /// `None` resets the key to the default weight.
    SetShare {
        share: Name,
        weight: Option<u32>,
    },
    PauseQueue {
        queue: Name,
    },
    ResumeQueue {
        queue: Name,
    },
    /// `None` resets the queue to the broker's default thresholds.
    SetThresholds {
        queue: Name,
        thresholds: Option<Thresholds>,
    },
    /// Creates a schedule, or changes the one of this name.
    SetSchedule(Box<NewSchedule>),
    PauseSchedule {
        schedule: Name,
    },
    ResumeSchedule {
        schedule: Name,
    },
    RemoveSchedule {
        schedule: Name,
    },
    /// Submits the task of a schedule now, whatever its times.
    RunSchedule {
        schedule: Name,
    },
    DrainWorker {
        worker: Name,
    },
    ClearWorker {
        worker: Name,
    },

    // Workers.
    Register(Box<WorkerSpec>),
    Heartbeat {
        held: Option<Vec<Held>>,
        stats: Option<Box<WorkerStats>>,
    },
    Start(Vec<Held>),
    Progress {
        held: Held,
        percent: Option<u8>,
        note: Option<Box<str>>,
    },
    /// The latest checkpoint. It replaces the previous one; an empty one removes it.
    Checkpoint {
        held: Held,
        checkpoint: Blob,
    },
    /// The attempt waits for other tasks to end and takes no slot until then. Said again, it replaces what the
    /// attempt waits for; this is how a worker that reconnects makes sure of it.
    Suspend {
        held: Held,
        on: WaitOn,
    },
    Complete(Vec<Completion>),
    Fail(AttemptFailure),
    /// The worker has carried out an intent (cancel or pause).
    Confirm {
        held: Held,
        wanted: Wanted,
        result: Blob,
    },
    GiveBack {
        held: Held,
        reason: Option<Box<str>>,
    },
    /// The door could not hand the task to the worker. No part of the task has left the broker, so it becomes
    /// ready again whatever its `on_lost` policy, even if it counts as started.
    Undelivered {
        held: Held,
        reason: Option<Box<str>>,
    },
    /// The worker does not hold these attempts. A running one counts as crashed; an unconfirmed one becomes
    /// ready again.
    Forgotten(Vec<Held>),
    /// A pulling worker asks for one task, from the first of these queues that has one.
    Ask {
        queues: Vec<Name>,
    },
    /// The pulling worker withdraws its request.
    Unask,
    Drain,
    Leave,
    /// Sent by the hub: the peer's connection is closed.
    SessionClosed,
}

/// One task to submit.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// Chosen by the client or made by the hub.
    pub id: TaskId,
    pub name: Option<Name>,
    pub queue: Name,
    /// Default: the parent's priority plus one for a child, else zero.
    pub priority: Option<i32>,
    pub needs: Vec<Name>,
    pub tags: Vec<Name>,
    pub demand: Demand,
    /// With whom the task takes turns: a user, a project.
    pub share: Option<Name>,
    pub parent: Option<TaskId>,
    /// The tasks that have to end before this one may run.
    pub after: Vec<After>,
    pub on_broken: OnBroken,
    /// Hold the task back until a client releases it.
    pub hold: bool,
    pub not_before: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub on_lost: OnLost,
    pub crash_budget: u16,
    pub retries: u16,
    pub backoff: Backoff,
    pub crash_backoff: Option<Backoff>,
    pub accept_timeout: Option<Duration>,
    pub run_limit: Option<Duration>,
    /// An attempt that exceeds its run limit counts as a failure instead of a crash.
    pub overrun_fails: bool,
    pub cancel_timeout: Option<Duration>,
    pub abandon_after: Option<Duration>,
    pub body: Blob,
    /// The trace that the task belongs to. It does not distinguish two submissions of one name.
    pub trace: Option<Box<TraceContext>>,
    /// A stable hash of the body's bytes, needed only if the task has a name.
    pub body_digest: u64,
}

impl NewTask {
    /// A task in one queue with default terms.
    pub fn new(id: TaskId, queue: impl Into<Name>) -> NewTask {
        NewTask {
            id,
            name: None,
            queue: queue.into(),
            priority: None,
            needs: Vec::new(),
            tags: Vec::new(),
            demand: Demand::default(),
            share: None,
            parent: None,
            after: Vec::new(),
            on_broken: OnBroken::default(),
            hold: false,
            not_before: None,
            expires_at: None,
            on_lost: OnLost::default(),
            crash_budget: 3,
            retries: 0,
            backoff: Backoff::default(),
            crash_backoff: None,
            trace: None,
            accept_timeout: None,
            run_limit: None,
            overrun_fails: false,
            cancel_timeout: None,
            abandon_after: None,
            body: Blob::EMPTY,
            body_digest: 0,
        }
    }
}

/// What to change about a waiting task. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    pub queue: Option<Name>,
    pub priority: Option<i32>,
    pub tags: Option<Vec<Name>>,
}

/// One attempt that a worker claims to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    pub task: TaskId,
    pub attempt: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub held: Held,
    pub result: Blob,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    pub held: Held,
    /// Never 0; -1 is a cancellation and is refused here.
    pub exit_code: i32,
    pub message: Option<Box<str>>,
    pub result: Blob,
    /// The worker reports that the process died, not that the work failed: counts against the crash budget.
    pub crashed: bool,
    /// A retry would not help.
    pub is_final: bool,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done,
    Submitted(Vec<Result<Accepted, crate::Refusal>>),
    ArraySubmitted(Box<ArrayAccepted>),
    /// For each attempt presented: whether the worker may continue it.
    Held(Vec<Result<(), crate::Refusal>>),
    /// The terms in force from now on.
    Registered {
        held: Vec<Result<(), crate::Refusal>>,
        returned: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub task: TaskId,
    /// A task with this name and the same request already existed.
    pub known: bool,
    pub state: StateName,
    /// The reason, if no live worker can take the task.
    pub unserved: Option<Why>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    Show {
        task: TaskId,
    },
    Find {
        name: Name,
    },
    Explain {
        task: TaskId,
    },
    List(Box<ListQuery>),
    /// Reads all tasks, one slice at a time. A task keeps its slot, so a task that exists throughout the scan
    /// appears exactly once.
    ScanTasks {
        from: u32,
        limit: usize,
    },
    ScanWorkers {
        from: u32,
        limit: usize,
    },
    Queues,
    /// One queue, or none if it does not exist.
    Queue {
        queue: Name,
    },
    Workers,
    /// One worker, or none if it does not exist.
    Worker {
        worker: Name,
    },
    Limits,
    Schedules,
    Schedule {
        schedule: Name,
    },
    Shares,
    Counts,
    Array {
        array: TaskId,
    },
    FindArray {
        name: Name,
    },
    /// The arrays, newest first.
    Arrays {
        cursor: Option<ArrayCursor>,
        limit: usize,
    },
}

/// Which tasks to list. An unset field matches everything. Tasks come grouped by state: waiting ones by ready
/// queue in the order in which they will run, held ones by worker, ended ones in the order in which they
/// ended, all others oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    pub states: Vec<StateName>,
    pub queue: Option<Name>,
    pub tag: Option<Name>,
    pub worker: Option<Name>,
    pub parent: Option<TaskId>,
    /// The elements of this array, in the order of their indexes.
    pub array: Option<TaskId>,
    /// Leave out the elements of arrays.
    pub without_elements: bool,
    pub submitter: Option<Name>,
    pub submitted_after: Option<Timestamp>,
    pub submitted_before: Option<Timestamp>,
    /// The first or the last digits of the task's id, or a part of its name.
    pub search: Option<Box<str>>,
    /// A list of one state in which tasks neither wait in a ready queue nor are held begins at its other end.
    pub newest_first: bool,
    /// From the previous page.
    pub cursor: Option<Cursor>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Task(Box<TaskInfo>),
    Why(Why),
    /// A page with a cursor may be short or even empty: the search continues with the next page.
    Tasks {
        tasks: Vec<TaskInfo>,
        next: Option<Cursor>,
    },
    /// A slice of all tasks and the start of the next one. A slice may be short or even empty while there is
    /// a next one.
    ScannedTasks {
        tasks: Vec<TaskInfo>,
        next: Option<u32>,
    },
    ScannedWorkers {
        workers: Vec<WorkerInfo>,
        next: Option<u32>,
    },
    Queues(Vec<QueueInfo>),
    Workers(Vec<WorkerInfo>),
    Limits(Vec<LimitInfo>),
    Schedules(Vec<ScheduleInfo>),
    Shares(Vec<ShareInfo>),
    Counts(Box<Counts>),
    Array(Box<ArrayInfo>),
    Arrays {
        arrays: Vec<ArrayInfo>,
        next: Option<ArrayCursor>,
    },
}

/// A task as people and doors see it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskInfo {
    pub id: TaskId,
    pub name: Option<Name>,
    pub terms: std::sync::Arc<Terms>,
    pub parent: Option<TaskId>,
    pub children: u32,
    pub after: Vec<DependencyInfo>,
    pub priority: i32,
    pub attempt: u32,
    pub crashes: u16,
    pub failures: u16,
    pub submitted_at: Timestamp,
    pub not_before: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub crashed_on: Vec<Name>,
    /// The cpus and gpus of the current attempt.
    pub devices: Option<Box<Devices>>,
    pub body: Blob,
    pub checkpoint: Option<Checkpoint>,
    pub trace: Option<Box<TraceContext>>,
    pub state: TaskState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    pub queue: Name,
    pub paused: bool,
    /// Indexed by `StateName`.
    pub counts: [u64; StateName::COUNT],
    pub live_workers: u32,
    pub ever_served: bool,
    pub unserved_since: Option<Timestamp>,
    /// When the next task to be assigned was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// The thresholds in force: the queue's own, else the broker's defaults.
    pub thresholds: Thresholds,
    pub passed: Passed,
    pub rate: Option<Rate>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WorkerInfo {
    pub worker: Name,
    pub presence: PresenceName,
    pub since: Timestamp,
    pub last_seen: Timestamp,
    pub queues: Vec<Name>,
    pub capabilities: Vec<Name>,
    pub slots: u32,
    /// The sum of what the held tasks weigh.
    pub slots_used: u32,
    pub light_slots: u32,
    pub light_used: u32,
    /// By name.
    pub resources: Vec<ResourceInfo>,
    pub pulls: bool,
    pub held: Vec<Held>,
    /// How many of them are suspended: these take no slot.
    pub suspended: u32,
    /// Attempts that are over but that the worker still lists: each occupies what it did.
    pub stopping: Vec<Held>,
    pub draining: bool,
    pub crashes: u32,
    pub last_crash: Option<Timestamp>,
    pub quarantined_until: Option<Timestamp>,
    pub heartbeat: Duration,
    pub lost_after: Duration,
    pub lease: Duration,
    pub about: WorkerAbout,
    pub stats: Option<WorkerStats>,
    pub profile: Option<Box<str>>,
}

/// A resource of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    pub name: Name,
    pub used: Quantity,
    pub total: Quantity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PresenceName {
    Live,
    /// Silent or disconnected. Its lease may still be running.
    Lost,
    /// Gone, but kept for its health record.
    Gone,
}

impl PresenceName {
    pub fn as_str(self) -> &'static str {
        match self {
            PresenceName::Live => "live",
            PresenceName::Lost => "lost",
            PresenceName::Gone => "gone",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitInfo {
    pub tag: Name,
    pub limit: Option<u32>,
    pub in_use: u32,
    pub rate: Option<Rate>,
}

/// A share key that has tasks or a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareInfo {
    pub share: Name,
    pub weight: u32,
    /// How many of its tasks are ready.
    pub ready: u64,
}

/// Counts that the engine keeps up to date with every change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Indexed by `StateName`, for the peer's namespace.
    pub by_state: [u64; StateName::COUNT],
    pub live_workers: u64,
    pub lost_workers: u64,
    pub last_event: u64,
}
