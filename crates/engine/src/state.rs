//! The states of a task and the table of legal transitions: the one place that says what may follow what.

use std::fmt;

use crate::blob::Blob;
use crate::id::WorkerKey;
use crate::name::Name;
use crate::time::Timestamp;

/// The exit codes that the broker itself gives: cancelled, ended by its crashes, not started before its expiry.
pub const EXIT_CANCELLED: i32 = -1;
pub const EXIT_CRASHED: i32 = -2;
pub const EXIT_EXPIRED: i32 = -3;

/// Where a task stands. A state carries its own data, and the larger ones stand behind a pointer, so that a waiting
/// task costs sixteen bytes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Held back by its submitter until released.
    Created,
    /// Not before a point in time.
    Delayed {
        until: Timestamp,
    },
    /// Waits for a worker.
    Ready {
        since: Timestamp,
    },
    /// Sent to a worker that has not confirmed it yet.
    Assigned(Box<Holding>),
    Running(Box<Holding>),
    /// Paused until somebody resumes it.
    Paused(Box<PauseInfo>),
    Completed(Box<End>),
    Failed(Box<End>),
    Cancelled(Box<End>),
}

/// Who holds a task and what is asked of the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub worker: Name,
    pub(crate) key: WorkerKey,
    /// Its place in the list of what the worker holds.
    pub(crate) place: u32,
    pub since: Timestamp,
    pub started_at: Option<Timestamp>,
    pub intent: Option<Intent>,
    pub progress: Option<Progress>,
    /// Until the hub has said everything up to this event, the holder does not know, and no clock runs against it. Zero
    /// once it does.
    pub(crate) waits_for: u64,
    /// When its assignment left the broker; never, as long as it has not.
    pub(crate) told_at: Timestamp,
    /// When the engine looks again: unconfirmed for too long, or running for too long.
    pub(crate) check_at: Timestamp,
}

impl Holding {
    /// As it is read back from the store: the worker's place in the table is found again at recovery.
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
            waits_for: 0,
            told_at: Timestamp::NEVER,
            check_at: Timestamp::NEVER,
        }
    }
}

/// What somebody wants of a running task. It is remembered until the worker confirms or the lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub wanted: Wanted,
    pub reason: Option<Box<str>>,
    /// Whether the holder was connected to hear of it.
    pub delivered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    Cancel,
    Pause,
}

/// What a worker last said of a running task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// 0 to 100, if the worker knows.
    pub percent: Option<u8>,
    pub note: Option<Box<str>>,
    pub at: Timestamp,
}

/// Why a task is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseInfo {
    pub since: Timestamp,
    pub why: PauseCause,
    pub reason: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseCause {
    /// Somebody paused it.
    Asked,
    /// Its worker was lost and its policy is to pause.
    WorkerLost,
    /// Its crash budget is used up and its policy is to pause.
    CrashBudget,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub at: Timestamp,
    /// The event that tells of the end: ended tasks are kept and dropped in this order.
    pub event: u64,
    pub exit_code: i32,
    pub result: Blob,
    pub message: Option<Box<str>>,
    /// Who held it last.
    pub worker: Option<Name>,
}

/// A state without its data, as lists, counts and refusals name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    Created,
    Delayed,
    Ready,
    Assigned,
    Running,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl StateName {
    pub const ALL: [StateName; 9] = [
        StateName::Created,
        StateName::Delayed,
        StateName::Ready,
        StateName::Assigned,
        StateName::Running,
        StateName::Paused,
        StateName::Completed,
        StateName::Failed,
        StateName::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Created => "created",
            StateName::Delayed => "delayed",
            StateName::Ready => "ready",
            StateName::Assigned => "assigned",
            StateName::Running => "running",
            StateName::Paused => "paused",
            StateName::Completed => "completed",
            StateName::Failed => "failed",
            StateName::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<StateName> {
        StateName::ALL.into_iter().find(|state| state.as_str() == text)
    }

    pub fn has_ended(self) -> bool {
        matches!(self, StateName::Completed | StateName::Failed | StateName::Cancelled)
    }

    pub fn is_held(self) -> bool {
        matches!(self, StateName::Assigned | StateName::Running)
    }

    /// The table of legal transitions. `spec/tasks.md` tells the same story with reasons.
    pub fn may_become(self, next: StateName) -> bool {
        use StateName::{Assigned, Cancelled, Completed, Created, Delayed, Failed, Paused, Ready, Running};
        match self {
            Created => matches!(next, Ready | Delayed | Paused | Cancelled | Failed),
            Delayed => matches!(next, Ready | Paused | Cancelled | Failed),
            Ready => matches!(next, Assigned | Paused | Cancelled | Failed),
            Assigned => matches!(next, Running | Ready | Delayed | Paused | Cancelled | Failed | Completed),
            Running => matches!(next, Ready | Delayed | Paused | Completed | Failed | Cancelled),
            Paused => matches!(next, Ready | Delayed | Cancelled | Failed),
            // An ended task stays as it is until somebody retries it.
            Completed | Failed | Cancelled => matches!(next, Ready),
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TaskState {
    pub fn name(&self) -> StateName {
        match self {
            TaskState::Created => StateName::Created,
            TaskState::Delayed { .. } => StateName::Delayed,
            TaskState::Ready { .. } => StateName::Ready,
            TaskState::Assigned(_) => StateName::Assigned,
            TaskState::Running(_) => StateName::Running,
            TaskState::Paused(_) => StateName::Paused,
            TaskState::Completed(_) => StateName::Completed,
            TaskState::Failed(_) => StateName::Failed,
            TaskState::Cancelled(_) => StateName::Cancelled,
        }
    }

    pub fn holding(&self) -> Option<&Holding> {
        match self {
            TaskState::Assigned(holding) | TaskState::Running(holding) => Some(holding),
            _ => None,
        }
    }

    pub(crate) fn holding_mut(&mut self) -> Option<&mut Holding> {
        match self {
            TaskState::Assigned(holding) | TaskState::Running(holding) => Some(holding),
            _ => None,
        }
    }

    pub fn end(&self) -> Option<&End> {
        match self {
            TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => Some(end),
            _ => None,
        }
    }
}
