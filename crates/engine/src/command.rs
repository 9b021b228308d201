//! Everything the engine can be asked: commands change state, queries only read it. One file per verb under
//! `commands/` and `queries/` implements each.

use std::time::Duration;

use crate::backlog::{Passed, Thresholds};
use crate::blob::Blob;
use crate::id::{SessionId, TaskId};
use crate::name::Name;
use crate::state::{StateName, TaskState, Wanted};
use crate::task::Checkpoint;
use crate::terms::{Backoff, OnLost, Terms};
use crate::time::Timestamp;
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
    // Clients.
    Submit(Vec<NewTask>),
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
    pub parent: Option<TaskId>,
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
            parent: None,
            hold: false,
            not_before: None,
            expires_at: None,
            on_lost: OnLost::default(),
            crash_budget: 3,
            retries: 0,
            backoff: Backoff::default(),
            crash_backoff: None,
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

/// A worker's registration. The defaults are those of the native door; other doors set their own.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSpec {
    pub worker: Name,
    /// Distinguishes successive processes with the same worker name: only the same instance may take over its
    /// own live session. Zero means that the door cannot tell; then every registration counts as a new
    /// process.
    pub instance: u64,
    /// The name of the key behind the session, filled in by the hub. While the worker is connected or may
    /// come back, only sessions of the same key can register its id.
    pub owner: Option<Name>,
    pub queues: Vec<Name>,
    pub capabilities: Vec<Name>,
    pub slots: u32,
    /// The worker asks for tasks instead of being sent tasks up to its slots.
    pub pulls: bool,
    pub heartbeat: Duration,
    /// The broker declares the worker lost after this much silence.
    pub lost_after: Duration,
    /// The same while the worker holds a task, for workers that are silent while they compute.
    pub busy_lost_after: Option<Duration>,
    /// How long after the last sign of life the broker still accepts the worker's attempts as alive.
    pub lease: Duration,
    pub on_close: OnClose,
    /// The worker's description of itself in its door's format. Stored until the worker leaves or is cleared.
    /// `None` keeps the stored one.
    pub profile: Option<Box<str>>,
    /// A lost worker stays in the list, for people to see, until it comes back or is cleared.
    pub remembered: bool,
    /// The worker's name may change with each connection. If the name is unknown and the worker gives its
    /// host, it takes over the crash record of a gone worker of the same door and host.
    pub inherits_crashes: bool,
    /// The worker cannot confirm a start: its protocol has no message for it, and the worker begins as soon
    /// as it gets the body. For such a worker a task that must not run twice by itself (`on_lost` is pause or
    /// fail) is `running` from its assignment on: `assigned` and `started` go to disk in one batch, and the
    /// notice with the body leaves after it. If the worker or the broker dies from then on, the task follows
    /// its policy instead of going to another worker. A task that may be requeued still waits for the door's
    /// `Start`, and costs no crash if that never comes. For the other tasks `Start` changes nothing, so the
    /// door need not tell them apart.
    pub starts_on_assign: bool,
    /// The attempts the worker still holds from an earlier session, whether it pulls or not. The broker
    /// answers each with continue or stop. Unless `unnamed` says otherwise the list is complete: a running
    /// attempt that is missing from it has crashed, and if this is a new process (see `instance`), so has the
    /// worker; an attempt that is only assigned goes to another worker. If a door's protocol reports that a
    /// process has restarted, the door registers the worker with an empty list, on the existing session or on
    /// a new one.
    pub held: Vec<Held>,
    /// What happens to attempts that are missing from `held`.
    pub unnamed: Unnamed,
    pub about: WorkerAbout,
}

/// What a registration says about attempts it does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// The worker does not hold them.
    #[default]
    Gone,
    /// The door cannot tell, or they are on their way to the worker. They stay as they are, neither confirmed
    /// nor crashed, and the worker's signs of life extend them, until a report or [`Command::Forgotten`]
    /// settles them.
    Open,
}

/// Whether a worker's tasks die when its connection closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnClose {
    /// The tasks may still be running, so the lease has to run out first.
    #[default]
    MayStillRun,
    /// The tasks are dead, so the lease ends at once.
    TasksDie,
}

/// A worker's description of itself, for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerAbout {
    pub host: Option<Box<str>>,
    pub platform: Option<Box<str>>,
    pub version: Option<Box<str>>,
    pub door: Option<&'static str>,
}

/// Figures that come with a heartbeat, for people to read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerStats {
    pub cpu_percent: Option<f32>,
    pub memory_used: Option<u64>,
    pub memory_total: Option<u64>,
    /// Further fields of the worker's protocol, as text.
    pub more: Vec<(Box<str>, Box<str>)>,
}

impl WorkerSpec {
    pub fn new(worker: impl Into<Name>, queues: Vec<Name>, slots: u32) -> WorkerSpec {
        WorkerSpec {
            worker: worker.into(),
            instance: 0,
            owner: None,
            queues,
            capabilities: Vec::new(),
            slots,
            pulls: false,
            heartbeat: Duration::from_secs(5),
            lost_after: Duration::from_secs(15),
            busy_lost_after: None,
            lease: Duration::from_secs(30),
            on_close: OnClose::default(),
            profile: None,
            remembered: false,
            inherits_crashes: false,
            starts_on_assign: false,
            held: Vec::new(),
            unnamed: Unnamed::default(),
            about: WorkerAbout::default(),
        }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done,
    Submitted(Vec<Result<Accepted, crate::Refusal>>),
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
    Counts,
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
    pub submitter: Option<Name>,
    pub submitted_after: Option<Timestamp>,
    pub submitted_before: Option<Timestamp>,
    /// From the previous page.
    pub cursor: Option<Cursor>,
    pub limit: usize,
}

/// Where a list continues. Opaque to callers: it only prints and parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The listed state, if the list is about a single one.
    pub(crate) state: Option<StateName>,
    pub(crate) after: ListPlace,
}

/// A position in the walk over the tasks of one state, over those of several, or over the children of one
/// task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub(crate) part: u32,
    pub(crate) weight: i64,
    pub(crate) number: u64,
}

/// How a cursor that is not about a single state prints its state.
const ANY_STATE: &str = "any";

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ListPlace { part, weight, number } = self.after;
        write!(f, "{}:{part}:{weight}:{number}", self.state.map_or(ANY_STATE, StateName::as_str))
    }
}

impl std::str::FromStr for Cursor {
    type Err = crate::Refusal;

    fn from_str(text: &str) -> Result<Cursor, crate::Refusal> {
        let parse = || {
            let mut parts = text.split(':');
            let state = match parts.next()? {
                ANY_STATE => None,
                state => Some(StateName::parse(state)?),
            };
            let part = parts.next()?.parse().ok()?;
            let weight = parts.next()?.parse().ok()?;
            let number = parts.next()?.parse().ok()?;
            Some(Cursor { state, after: ListPlace { part, weight, number } })
        };
        parse().ok_or(crate::Refusal::BadValue { what: "cursor", why: "is not one that a list gave out" })
    }
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
    Counts(Box<Counts>),
}

/// A task as people and doors see it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskInfo {
    pub id: TaskId,
    pub name: Option<Name>,
    pub terms: std::sync::Arc<Terms>,
    pub parent: Option<TaskId>,
    pub children: u32,
    pub priority: i32,
    pub attempt: u32,
    pub crashes: u16,
    pub failures: u16,
    pub submitted_at: Timestamp,
    pub not_before: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub crashed_on: Vec<Name>,
    pub body: Blob,
    pub checkpoint: Option<Checkpoint>,
    pub state: TaskState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    pub queue: Name,
    pub paused: bool,
    /// Indexed by `StateName`.
    pub counts: [u64; 9],
    pub live_workers: u32,
    pub ever_served: bool,
    pub unserved_since: Option<Timestamp>,
    /// When the next task to be assigned was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// The thresholds in force: the queue's own, else the broker's defaults.
    pub thresholds: Thresholds,
    pub passed: Passed,
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
    pub pulls: bool,
    pub held: Vec<Held>,
    /// Attempts that are over but that the worker still lists: each occupies a slot.
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
}

/// Metrics of the whole broker, across all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Indexed by `StateName`.
    pub by_state: [u64; 9],
    /// When the oldest waiting task was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// Queues that have passed a threshold.
    pub backlogged_queues: u64,
    /// Tags that have a limit, with their namespaces.
    pub limits: Vec<(Name, LimitInfo)>,
}

/// Counts that the engine keeps up to date with every change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Indexed by `StateName`, for the peer's namespace.
    pub by_state: [u64; 9],
    pub live_workers: u64,
    pub lost_workers: u64,
    pub last_event: u64,
}
