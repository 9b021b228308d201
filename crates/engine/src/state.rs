//! The states of a task and the table of legal transitions between them.

use std::fmt;

use crate::blob::Blob;
use crate::demand::Devices;
use crate::id::WorkerKey;
use crate::name::Name;
use crate::tags::TagKey;
use crate::time::Timestamp;

/// The exit codes that only the broker gives: cancelled, crash budget used up, expired before its start.
pub const EXIT_CANCELLED: i32 = -1;
/// The exit code of a task that failed because its worker was lost.
pub const EXIT_CRASHED: i32 = -2;
/// The exit code of a task that failed because its time was over.
pub const EXIT_EXPIRED: i32 = -3;

/// The state of a task. A state carries its own data; the larger ones are boxed, so that a waiting task costs
/// sixteen bytes here.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Held back until a client releases it.
    Created,
    /// Waits for other tasks to end.
    Waiting {
        /// The dependencies that have not ended. Counted from the task's edges, never stored.
        open: u32,
    },
    /// Waits for a point in time.
    Delayed { until: Timestamp },
    /// Waits for a worker.
    Ready { since: Timestamp },
    /// Sent to a worker that has not confirmed yet.
    Assigned(Box<Holding>),
    /// A worker runs it.
    Running(Box<Holding>),
    /// Its attempt waits, for other tasks to end or for a client that resumes it. The worker keeps it in
    /// memory, but it takes no slot.
    Suspended(Box<Suspension>),
    /// Paused until a client resumes it.
    Paused(Box<PauseInfo>),
    /// It ended as its worker wanted.
    Completed(Box<End>),
    /// It failed.
    Failed(Box<End>),
    /// It was cancelled.
    Cancelled(Box<End>),
}

/// The holder of a task and the intent it has to carry out.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub worker: Name,
    pub(crate) key: WorkerKey,
    /// The task's index in the worker's list of held tasks.
    pub(crate) place: u32,
    pub since: Timestamp,
    pub started_at: Option<Timestamp>,
    pub intent: Option<Intent>,
    pub progress: Option<Progress>,
    /// The cpus and gpus of the attempt.
    pub devices: Option<Box<Devices>>,
    /// The event whose notice the holder has yet to receive. Until the hub has sent it, no timeout runs
    /// against the holder. Zero once it is sent.
    pub(crate) waits_for: u64,
    /// When the assignment left the broker; `NEVER` until then.
    pub(crate) told_at: Timestamp,
    /// When the engine checks again whether the task is unconfirmed or running for too long.
    pub(crate) check_at: Timestamp,
}

impl Holding {
    /// As read from the store, without devices: recovery fills in the worker's slot.
    pub fn restored(
        worker: Name,
        since: Timestamp,
        started_at: Option<Timestamp>,
        intent: Option<Intent>,
        progress: Option<Progress>,
    ) -> Holding {
        Holding {
            worker,
            key: WorkerKey::NONE,
            place: 0,
            since,
            started_at,
            intent,
            progress,
            devices: None,
            waits_for: 0,
            told_at: Timestamp::NEVER,
            check_at: Timestamp::NEVER,
        }
    }
}

/// A suspended attempt.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    pub holding: Holding,
    pub since: Timestamp,
    /// The tasks it waits for that have not ended. Counted from the task's edges, never stored. At zero it
    /// continues as soon as its worker has a free slot.
    pub(crate) open: u32,
    /// The tag whose limit keeps it from continuing.
    pub(crate) parked: Option<TagKey>,
    /// Its worker has said over its present session that it waits. One that returns says it again before the attempt
    /// continues, so that each time it says so is answered by one notice. Never stored.
    pub(crate) is_reported_by_session: bool,
    /// Its worker has stopped it in place, because a client wanted it paused.
    pub stop: Option<Box<StopInPlace>>,
}

/// An attempt that a client paused, and that its worker keeps as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopInPlace {
    /// The reason that the client gave.
    pub reason: Option<Box<str>>,
    /// A client has resumed it: it continues as soon as its worker has room.
    pub is_resumed: bool,
}

impl Suspension {
    /// As read from the store: recovery counts what it waits for.
    pub fn restored(holding: Holding, since: Timestamp, stop: Option<StopInPlace>) -> Suspension {
        Suspension {
            holding,
            since,
            open: 0,
            parked: None,
            is_reported_by_session: false,
            stop: stop.map(Box::new),
        }
    }

    /// Whether it waits for nothing but room on its worker.
    pub(crate) fn is_over(&self) -> bool {
        self.open == 0 && !self.is_paused() && self.is_reported_by_session
    }

    /// Whether it waits for a client that resumes it.
    pub fn is_paused(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| !stop.is_resumed)
    }

    /// Whether its worker has said over its present session that it waits.
    pub fn is_reported_by_session(&self) -> bool {
        self.is_reported_by_session
    }

    /// How many of the tasks it waits for have not ended.
    pub fn open(&self) -> u32 {
        self.open
    }
}

/// The intent of a client for a running task. Stored until the worker confirms or the lease ends.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub wanted: Wanted,
    /// A pause: the worker may stop the attempt in place instead of ending it.
    pub in_place: bool,
    pub reason: Option<Box<str>>,
    /// Whether the holder was connected to receive it.
    pub delivered: bool,
}

/// The intent of a client for a task that a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Cancel it.
    Cancel,
    /// Pause it.
    Pause,
}

/// The last progress report of a running task.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// 0 to 100, if the worker knows.
    pub percent: Option<u8>,
    pub note: Option<Box<str>>,
    pub at: Timestamp,
}

/// Why a task is paused.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseInfo {
    pub since: Timestamp,
    pub why: PauseCause,
    pub reason: Option<Box<str>>,
}

/// Why a task is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseCause {
    /// A client paused it.
    Asked,
    /// Its worker was lost and its policy is to pause.
    WorkerLost,
    /// Its crash budget is used up and its policy is to pause.
    CrashBudget,
    /// A dependency ended otherwise than it should, and the task's policy is to hold.
    DependencyBroken,
}

/// How a task ended.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub at: Timestamp,
    /// The event of the end: ended tasks are kept and dropped in this order.
    pub event: u64,
    pub exit_code: i32,
    pub result: Blob,
    pub message: Option<Box<str>>,
    /// The worker that held the task last.
    pub worker: Option<Name>,
}

/// A state without its data, as used by lists, counts and refusals.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    Created,
    Waiting,
    Delayed,
    Ready,
    Assigned,
    Running,
    Suspended,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl StateName {
    /// How many states there are.
    pub const COUNT: usize = 11;
    /// All states.
    pub const ALL: [StateName; StateName::COUNT] = [
        StateName::Created,
        StateName::Waiting,
        StateName::Delayed,
        StateName::Ready,
        StateName::Assigned,
        StateName::Running,
        StateName::Suspended,
        StateName::Paused,
        StateName::Completed,
        StateName::Failed,
        StateName::Cancelled,
    ];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Created => "created",
            StateName::Waiting => "waiting",
            StateName::Delayed => "delayed",
            StateName::Ready => "ready",
            StateName::Assigned => "assigned",
            StateName::Running => "running",
            StateName::Suspended => "suspended",
            StateName::Paused => "paused",
            StateName::Completed => "completed",
            StateName::Failed => "failed",
            StateName::Cancelled => "cancelled",
        }
    }

    /// The state with this word.
    pub fn parse(text: &str) -> Option<StateName> {
        StateName::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether a task in this state has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, StateName::Completed | StateName::Failed | StateName::Cancelled)
    }

    /// Whether a worker holds a task in this state.
    pub fn is_held(self) -> bool {
        matches!(self, StateName::Assigned | StateName::Running | StateName::Suspended)
    }

    /// The table of legal transitions. `spec/tasks.md` gives the reasons.
    pub fn may_become(self, next: StateName) -> bool {
        use StateName::{
            Assigned, Cancelled, Completed, Created, Delayed, Failed, Paused, Ready, Running, Suspended,
            Waiting,
        };
        match self {
            Created => matches!(next, Waiting | Ready | Delayed | Paused | Cancelled | Failed),
            Waiting => matches!(next, Ready | Delayed | Paused | Cancelled | Failed),
            Delayed => matches!(next, Ready | Paused | Cancelled | Failed),
            Ready => matches!(next, Assigned | Paused | Cancelled | Failed),
            Assigned => matches!(next, Running | Ready | Delayed | Paused | Cancelled | Failed | Completed),
            Running => matches!(next, Suspended | Ready | Delayed | Paused | Completed | Failed | Cancelled),
            Suspended => {
                matches!(next, Running | Waiting | Ready | Delayed | Paused | Completed | Failed | Cancelled)
            }
            Paused => matches!(next, Waiting | Ready | Delayed | Cancelled | Failed),
            // An ended task stays as it is until a client retries it.
            Completed | Failed | Cancelled => matches!(next, Waiting | Ready),
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TaskState {
    /// The state without its data.
    pub fn name(&self) -> StateName {
        match self {
            TaskState::Created => StateName::Created,
            TaskState::Waiting { .. } => StateName::Waiting,
            TaskState::Delayed { .. } => StateName::Delayed,
            TaskState::Ready { .. } => StateName::Ready,
            TaskState::Assigned(_) => StateName::Assigned,
            TaskState::Running(_) => StateName::Running,
            TaskState::Suspended(_) => StateName::Suspended,
            TaskState::Paused(_) => StateName::Paused,
            TaskState::Completed(_) => StateName::Completed,
            TaskState::Failed(_) => StateName::Failed,
            TaskState::Cancelled(_) => StateName::Cancelled,
        }
    }

    /// The holder, if a worker holds the task.
    pub fn holding(&self) -> Option<&Holding> {
        match self {
            TaskState::Assigned(holding) | TaskState::Running(holding) => Some(holding),
            TaskState::Suspended(suspension) => Some(&suspension.holding),
            _ => None,
        }
    }

    pub(crate) fn holding_mut(&mut self) -> Option<&mut Holding> {
        match self {
            TaskState::Assigned(holding) | TaskState::Running(holding) => Some(holding),
            TaskState::Suspended(suspension) => Some(&mut suspension.holding),
            _ => None,
        }
    }

    /// Why it waits for a client that resumes it, whether or not a worker keeps its attempt.
    pub fn pause(&self) -> Option<PauseInfo> {
        match self {
            TaskState::Paused(pause) => Some((**pause).clone()),
            TaskState::Suspended(suspension) if suspension.is_paused() => Some(PauseInfo {
                since: suspension.since,
                why: PauseCause::Asked,
                reason: suspension.stop.as_ref().and_then(|stop| stop.reason.clone()),
            }),
            _ => None,
        }
    }

    /// How the task ended, if it has.
    pub fn end(&self) -> Option<&End> {
        match self {
            TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => Some(end),
            _ => None,
        }
    }
}
