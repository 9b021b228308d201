//! Everything the engine can be asked: commands change state, queries only read it. One file per verb under
//! `commands/` and `queries/` implements each.

use std::time::Duration;

use crate::array::{ArrayAccepted, ArrayInfo, NewArray};
use crate::backlog::{PassedThresholds, Thresholds};
use crate::blob::Blob;
pub use crate::cursor::{ArrayCursor, Cursor};
use crate::demand::{Devices, Quantity};
use crate::dependency::{DependencyInfo, WaitOn};
pub use crate::gauges::{Gauges, QueueGauge};
use crate::id::{SessionId, TaskId};
use crate::name::Name;
pub use crate::new_task::NewTask;
use crate::rate::Rate;
pub use crate::registration::{OnClose, Unnamed, WorkerAbout, WorkerSpec, WorkerStats};
use crate::schedule::{NewSchedule, ScheduleInfo};
use crate::state::{StateName, TaskState, Wanted};
use crate::task::Checkpoint;
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::trace::TraceContext;
use crate::why::Why;

/// The sender of a command or query. The hub fills it in from the handshake; the engine trusts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The session that sent it.
    pub session: SessionId,
    /// The namespace.
    pub namespace: Name,
    /// The name under which clients can watch its submissions.
    pub identity: Name,
}

/// A change that a peer asks of the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    // Clients. Where a command names a task, `Release` to `Move` take an array as well: they apply to all of
    // its elements to which they can.
    /// Submit tasks.
    Submit(Vec<NewTask>),
    /// Submit an array.
    SubmitArray(Box<NewArray>),
    /// How many elements may be held at once. `None`: no limit.
    LimitArray {
        /// The array.
        array: TaskId,
        /// The limit; `None` removes it.
        limit: Option<u32>,
    },
    /// Make a created task ready.
    Release {
        /// The task, or an array where the command takes one.
        task: TaskId,
    },
    /// Cancel a task; a worker that holds it gets an intent.
    Cancel {
        /// The task, or an array where the command takes one.
        task: TaskId,
        /// A reason for people, shown with the task.
        reason: Option<Box<str>>,
    },
    /// A worker that can stops a running task in place, unless its attempt should end.
    Pause {
        /// The task, or an array where the command takes one.
        task: TaskId,
        /// A reason for people, shown with the task.
        reason: Option<Box<str>>,
        /// End the attempt instead of stopping it in place.
        terminate: bool,
    },
    /// Make a paused task ready, or continue one that is stopped in place.
    Resume {
        /// The task, or an array where the command takes one.
        task: TaskId,
    },
    /// Run an ended task again.
    Retry {
        /// The task, or an array where the command takes one.
        task: TaskId,
    },
    /// Change the queue, priority or tags of a task.
    Move {
        /// The task, or an array where the command takes one.
        task: TaskId,
        /// The fields to change.
        to: Move,
    },
    /// The client that submitted these tasks is gone and cannot come back. Tasks with an `abandon_after`
    /// expire if they do not start within that time.
    Abandon(Vec<TaskId>),
    /// Set how many tasks with a tag run at once.
    SetLimit {
        /// The tag.
        tag: Name,
        /// The limit; `None` removes it.
        limit: Option<u32>,
    },
    /// `None` removes the rate.
    SetTagRate {
        /// The tag.
        tag: Name,
        /// The rate; `None` removes it.
        rate: Option<Rate>,
    },
    /// Set how many tasks of a queue are handed out in a period.
    SetQueueRate {
        /// The queue.
        queue: Name,
        /// The rate; `None` removes it.
        rate: Option<Rate>,
    },
    /// `None` resets the key to the default weight.
    SetShare {
        /// The share key.
        share: Name,
        /// The weight; `None` for the default.
        weight: Option<u32>,
    },
    /// Hand out no tasks of a queue.
    PauseQueue {
        /// The queue.
        queue: Name,
    },
    /// Hand out tasks of a queue again.
    ResumeQueue {
        /// The queue.
        queue: Name,
    },
    /// `None` resets the queue to the broker's default thresholds.
    SetThresholds {
        /// The queue.
        queue: Name,
        /// The thresholds.
        thresholds: Option<Thresholds>,
    },
    /// Creates a schedule, or changes the one of this name.
    SetSchedule(Box<NewSchedule>),
    /// Skip the due times of a schedule.
    PauseSchedule {
        /// The name of the schedule.
        schedule: Name,
    },
    /// Submit at the due times of a schedule again.
    ResumeSchedule {
        /// The name of the schedule.
        schedule: Name,
    },
    /// Delete a schedule. Its tasks stay.
    RemoveSchedule {
        /// The name of the schedule.
        schedule: Name,
    },
    /// Submits the task of a schedule now, whatever its times.
    RunSchedule {
        /// The name of the schedule.
        schedule: Name,
    },
    /// Let a worker drain.
    DrainWorker {
        /// The name of the worker.
        worker: Name,
    },
    /// End the quarantine of a worker.
    ClearWorker {
        /// The name of the worker.
        worker: Name,
    },

    // Workers.
    /// A worker offers its slots, or returns with the attempts it holds.
    Register(Box<WorkerSpec>),
    /// A worker's sign of life.
    Heartbeat {
        /// All attempts that it holds; `None` if it does not list them.
        held: Option<Vec<Held>>,
        /// Figures about its machine, if it sends any.
        stats: Option<Box<WorkerStats>>,
    },
    /// A worker has started attempts.
    Start(Vec<Held>),
    /// A worker reports how far an attempt is.
    Progress {
        /// The attempt.
        held: Held,
        /// How far the attempt is, from 0 to 100.
        percent: Option<u8>,
        /// A sentence for people.
        note: Option<Box<str>>,
    },
    /// The latest checkpoint. It replaces the previous one; an empty one removes it.
    Checkpoint {
        /// The attempt.
        held: Held,
        /// Where the checkpoint is; empty removes it.
        checkpoint: Blob,
    },
    /// The attempt waits for other tasks to end and takes no slot until then. Said again, it replaces what the
    /// attempt waits for; this is how a worker that reconnects makes sure of it.
    Suspend {
        /// The attempt.
        held: Held,
        /// The tasks, or the client, that the attempt waits for.
        on: WaitOn,
    },
    /// A worker has completed attempts.
    Complete(Vec<Completion>),
    /// An attempt has failed.
    Fail(AttemptFailure),
    /// The worker has carried out an intent (cancel or pause).
    Confirm {
        /// The attempt.
        held: Held,
        /// The intent.
        wanted: Wanted,
        /// The result so far, which may be empty.
        result: Blob,
    },
    /// A worker returns a task unfinished.
    GiveBack {
        /// The attempt.
        held: Held,
        /// A reason for people, shown with the task.
        reason: Option<Box<str>>,
    },
    /// The door could not hand the task to the worker. No part of the task has left the broker, so it becomes
    /// ready again whatever its `on_lost` policy, even if it counts as started.
    Undelivered {
        /// The attempt.
        held: Held,
        /// A reason for people, shown with the task.
        reason: Option<Box<str>>,
    },
    /// The worker does not hold these attempts. A running one counts as crashed; an unconfirmed one becomes
    /// ready again.
    Forgotten(Vec<Held>),
    /// A pulling worker asks for one task, from the first of these queues that has one.
    Ask {
        /// The queues, most wanted first.
        queues: Vec<Name>,
    },
    /// The pulling worker withdraws its request.
    Unask,
    /// The worker takes no new tasks and leaves when its last one has ended.
    Drain,
    /// The worker disconnects on purpose. Its tasks go back without counting as crashes.
    Leave,
    /// Sent by the hub: the peer's connection is closed.
    SessionClosed,
}

/// The fields of a waiting task to change. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// The new queue.
    pub queue: Option<Name>,
    /// The new priority.
    pub priority: Option<i32>,
    /// The new tags, which replace the old ones.
    pub tags: Option<Vec<Name>>,
}

/// One attempt that a worker claims to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The task.
    pub task: TaskId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// A completed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The attempt.
    pub held: Held,
    /// Where the result is.
    pub result: Blob,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    /// The attempt.
    pub held: Held,
    /// Never 0; -1 is a cancellation and is refused here.
    pub exit_code: i32,
    /// The cause of the failure, for people.
    pub message: Option<Box<str>>,
    /// Where the result is; may be empty.
    pub result: Blob,
    /// The worker reports that the process died, not that the work failed: counts against the crash budget.
    pub crashed: bool,
    /// A retry would not help.
    pub is_final: bool,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done; there is nothing to add.
    Done,
    /// For each task, in order: its acceptance or its refusal.
    Submitted(Vec<Result<Accepted, crate::Refusal>>),
    /// The array is accepted as a whole.
    ArraySubmitted(Box<ArrayAccepted>),
    /// For each attempt presented: whether the worker may continue it.
    Held(Vec<Result<(), crate::Refusal>>),
    /// The terms in force from now on.
    Registered {
        /// For each attempt presented: whether the worker may continue it.
        held: Vec<Result<(), crate::Refusal>>,
        /// The broker knew the worker already.
        returned: bool,
    },
}

/// A task that was accepted.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub task: TaskId,
    /// A task with this name and the same request already existed.
    pub known: bool,
    pub state: StateName,
    /// The reason, if no live worker can take the task.
    pub unserved: Option<Why>,
}

/// A question that a peer asks of the engine.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
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
#[allow(missing_docs, reason = "the fields are words of the glossary")]
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

/// The answer to a query.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Task(Box<TaskInfo>),
    Why {
        why: Why,
        /// The key prefix of the reconciliation that submitted it.
        reconciliation: Option<Name>,
    },
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
#[allow(missing_docs, reason = "the fields are words of the glossary")]
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
    /// The key prefix of the reconciliation that submitted it.
    pub reconciliation: Option<Name>,
    pub state: TaskState,
}

/// A queue as people and doors see it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    pub queue: Name,
    pub paused: bool,
    /// Indexed by `StateName`.
    pub counts: [u64; StateName::COUNT],
    /// The ready tasks by priority, the highest first: at most 20 priorities, those with the most tasks.
    pub ready_by_priority: Vec<(i32, u64)>,
    pub live_workers: u32,
    pub ever_served: bool,
    pub unserved_since: Option<Timestamp>,
    /// Since when the longest-waiting task has been ready. Without a threshold, only the next task of each
    /// ready queue is considered.
    pub oldest_ready: Option<Timestamp>,
    /// The thresholds in force: the queue's own, else the broker's defaults.
    pub thresholds: Thresholds,
    pub passed: PassedThresholds,
    pub rate: Option<Rate>,
}

/// A worker as people and doors see it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
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
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    pub name: Name,
    pub used: Quantity,
    pub total: Quantity,
}

/// Whether a worker is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PresenceName {
    /// It is connected, or was a moment ago.
    Live,
    /// Silent or disconnected. Its lease may still be running.
    Lost,
    /// Gone, but kept for its health record.
    Gone,
}

impl PresenceName {
    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            PresenceName::Live => "live",
            PresenceName::Lost => "lost",
            PresenceName::Gone => "gone",
        }
    }
}

/// A limit as people and doors see it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitInfo {
    pub tag: Name,
    pub limit: Option<u32>,
    pub in_use: u32,
    pub rate: Option<Rate>,
}

/// A share key that has tasks or a weight.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareInfo {
    pub share: Name,
    pub weight: u32,
    /// How many of its tasks are ready.
    pub ready: u64,
}

/// Counts that the engine keeps up to date with every change.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Indexed by `StateName`, for the peer's namespace.
    pub by_state: [u64; StateName::COUNT],
    pub live_workers: u64,
    pub lost_workers: u64,
    pub last_event: u64,
}
