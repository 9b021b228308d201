//! What can be asked of the engine: commands change something, queries only look. One file per verb under
//! `commands/` and `queries/` holds what each does.

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

/// Who asks. The hub fills it in from the handshake; the engine believes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub session: SessionId,
    pub namespace: Name,
    /// The name under which its submissions can be watched.
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
    /// The submitter of these tasks is gone and cannot come back. Those with an `abandon_after` that have not started
    /// by then expire.
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
    /// `None` gives the queue the thresholds of all queues again.
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
    /// As far as it got. It takes the place of the one before; an empty one leaves none.
    Checkpoint {
        held: Held,
        checkpoint: Blob,
    },
    Complete(Vec<Completion>),
    Fail(AttemptFailure),
    /// The worker has done what an intent asked for.
    Confirm {
        held: Held,
        wanted: Wanted,
        result: Blob,
    },
    GiveBack {
        held: Held,
        reason: Option<Box<str>>,
    },
    /// The door could not hand the task to the worker: nothing of it has left the broker, so it waits again whatever
    /// its policy is, even if it counts as started.
    Undelivered {
        held: Held,
        reason: Option<Box<str>>,
    },
    /// The worker does not have these attempts, whatever was thought: what runs has crashed, what is unconfirmed waits
    /// again.
    Forgotten(Vec<Held>),
    /// A worker that fetches for itself has a free hand, for one task of the first queue that has one.
    Ask {
        queues: Vec<Name>,
    },
    /// It does not wait any longer.
    Unask,
    Drain,
    Leave,
    /// Told by the hub: the peer's connection is gone.
    SessionClosed,
}

/// One task to submit.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// Chosen by the client or made by the hub.
    pub id: TaskId,
    pub name: Option<Name>,
    pub queue: Name,
    /// Unless given: the parent's plus one for a child, else zero.
    pub priority: Option<i32>,
    pub needs: Vec<Name>,
    pub tags: Vec<Name>,
    pub parent: Option<TaskId>,
    /// Hold it back until it is released.
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
    /// An attempt that runs into its limit counts as a failure instead of as a crash.
    pub overrun_fails: bool,
    pub cancel_timeout: Option<Duration>,
    pub abandon_after: Option<Duration>,
    pub body: Blob,
    /// A stable hash of the body's bytes, needed only with a name.
    pub body_digest: u64,
}

impl NewTask {
    /// A task of one queue with default terms.
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

/// What to change about a waiting task; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    pub queue: Option<Name>,
    pub priority: Option<i32>,
    pub tags: Option<Vec<Name>>,
}

/// One attempt that a worker holds, as it presents it.
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
    /// The worker says that the process died rather than that the work failed: counts against the crash budget.
    pub crashed: bool,
    /// Trying again would not help.
    pub is_final: bool,
}

/// How a worker wants to be treated. The defaults are the native door's; other doors bring their own.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSpec {
    pub worker: Name,
    /// Tells one process of that name from the next: only the same instance takes over its own live session. Zero means
    /// that the door cannot tell; then every registration is that of a new process.
    pub instance: u64,
    /// Whose worker it is: the name of the key behind the session, filled in by the hub. While the worker is there or
    /// may come back, nobody else registers its id.
    pub owner: Option<Name>,
    pub queues: Vec<Name>,
    pub capabilities: Vec<Name>,
    pub slots: u32,
    /// Fetches work by asking instead of being sent work up to its slots.
    pub pulls: bool,
    pub heartbeat: Duration,
    /// Silence after which it is lost.
    pub lost_after: Duration,
    /// The same while it holds a task, for workers that are silent while they compute.
    pub busy_lost_after: Option<Duration>,
    /// How long after the last sign of life its attempts are still believed.
    pub lease: Duration,
    pub on_close: OnClose,
    /// What it says of itself in the words of its door: on disk until it leaves or is cleared. None leaves it as it is.
    pub profile: Option<Box<str>>,
    /// Once lost it stays in the list, for people to see, until it comes back or is cleared.
    pub remembered: bool,
    /// Its name may be new with each connection. If it is not known and says its host, it takes over the crashes of a
    /// worker of the same door and host that is gone.
    pub inherits_crashes: bool,
    /// The worker cannot confirm a start: its protocol has no message for it, and it begins as soon as it gets the
    /// body. For such a worker a task that must not run again by itself (`on_lost` is pause or fail) is `running` from
    /// its assignment on: `assigned` and `started` go to the disk in one batch, and the notice with the body leaves
    /// after it. If worker or broker dies at any moment from then on, the task follows its policy instead of waiting
    /// for another worker. A task that may be requeued still waits for the door's `Start`, which costs no crash if it
    /// never comes; for the others a `Start` changes nothing, so the door need not tell them apart.
    pub starts_on_assign: bool,
    /// What it brings along from before, whether it pulls or is sent its work: answered with go on or stop, attempt by
    /// attempt. Unless `unnamed` says otherwise the list is complete: a running attempt that is not in it has crashed,
    /// and if this is a new process (see `instance`), so has the worker; an attempt that is only assigned goes to
    /// another worker. A door whose protocol says that a process started afresh registers it with an empty list, on the
    /// session it has or on a new one.
    pub held: Vec<Held>,
    /// What becomes of attempts that are not in `held`.
    pub unnamed: Unnamed,
    pub about: WorkerAbout,
}

/// What a registration says about attempts that it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// The worker does not have them.
    #[default]
    Gone,
    /// The door cannot tell, or they are on their way to the worker. They stay as they are, neither confirmed nor
    /// crashed, and the worker's signs of life count for them, until a report or [`Command::Forgotten`] settles them.
    Open,
}

/// Whether tasks die with their worker's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnClose {
    /// They may still be running; the lease runs out first.
    #[default]
    MayStillRun,
    /// They are dead, and the lease ends at once.
    TasksDie,
}

/// What a worker tells of itself, for people to read.
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
    /// Whatever else the worker's protocol carries, as text.
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
    /// For each attempt presented: may it go on?
    Held(Vec<Result<(), crate::Refusal>>),
    /// The terms that hold from now on.
    Registered {
        held: Vec<Result<(), crate::Refusal>>,
        returned: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub task: TaskId,
    /// The submission was known already, by its name.
    pub known: bool,
    pub state: StateName,
    /// Why no live worker can take it, if that is so.
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
    /// All tasks, a slice at a time. A task keeps its place, so one that is there all the while is seen exactly once.
    ScanTasks {
        from: u32,
        limit: usize,
    },
    ScanWorkers {
        from: u32,
        limit: usize,
    },
    Queues,
    /// One queue, or none if nobody has heard of it.
    Queue {
        queue: Name,
    },
    Workers,
    /// One worker, or none if nobody has heard of it.
    Worker {
        worker: Name,
    },
    Limits,
    Counts,
}

/// Which tasks to list. What is not set matches everything. Tasks come grouped by state: waiting ones ready queue by
/// ready queue in the order in which they will run, held ones worker by worker, ended ones as they ended, all others
/// oldest first.
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
    /// From the page before.
    pub cursor: Option<Cursor>,
    pub limit: usize,
}

/// Where a list goes on. Opaque outside: it prints and parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The state that is listed, if it is one.
    pub(crate) state: Option<StateName>,
    pub(crate) after: ListPlace,
}

/// A place in the walk over the tasks of one state, over those of several, or over the children of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub(crate) part: u32,
    pub(crate) weight: i64,
    pub(crate) number: u64,
}

/// How a cursor prints that is not about one state.
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
    /// A page may be short, even empty, while there is a cursor: the search is not over.
    Tasks {
        tasks: Vec<TaskInfo>,
        next: Option<Cursor>,
    },
    /// A slice of all tasks, and the place of the next one. A slice may be short, even empty, while there is a next.
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

/// A task as a person or a door sees it.
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
    /// By `StateName` as index.
    pub counts: [u64; 9],
    pub live_workers: u32,
    pub ever_served: bool,
    pub unserved_since: Option<Timestamp>,
    /// When the task that is next in line was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// Those that hold, its own or those of all queues.
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
    /// Attempts that are over but that it still lists: each occupies a slot.
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
    /// Silent or disconnected; its lease may still run.
    Lost,
    /// Gone, kept for its health record.
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

/// Numbers of the whole broker, across all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// By `StateName` as index.
    pub by_state: [u64; 9],
    /// When the first of all waiting tasks was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// Queues that have passed a threshold.
    pub backlogged_queues: u64,
    /// Tags that have a limit, with their namespaces.
    pub limits: Vec<(Name, LimitInfo)>,
}

/// Numbers at a glance, all kept up to date as things change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By `StateName` as index, for the asker's namespace.
    pub by_state: [u64; 9],
    pub live_workers: u64,
    pub lost_workers: u64,
    pub last_event: u64,
}
