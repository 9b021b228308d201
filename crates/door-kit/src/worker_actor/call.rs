//! Calls of connections to a worker actor, and the replies.

use std::time::Duration;

use tenure_hub::words::{Assignment, Name, TaskId, Wanted, WorkerAbout, WorkerStats};
use tenure_hub::{Grant, HubRefusal, Right};

use super::Dialect;

/// The calling connection, and its number for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub connection: u64,
    pub token: u64,
}

/// The key behind a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    pub name: Name,
    /// It has the right to manage workers.
    pub manages: bool,
}

impl From<&Grant> for KeyHolder {
    fn from(grant: &Grant) -> KeyHolder {
        KeyHolder { name: grant.name.clone(), manages: grant.rights.contains(Right::Manage) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum WorkerRequest<D: Dialect> {
    /// The worker registers with its name and what it offers.
    Register(Box<Introduction>),
    /// A worker that never registers announces what it offers.
    Offer(Vec<Name>),
    /// The worker announces labels in addition to what it offers.
    Label(Vec<Name>),
    Heartbeat(Option<Box<Figures>>),
    /// A sign of life that counts only if the worker is known.
    Ping,
    /// A sign of life that accompanies another command. It has no reply.
    Sign,
    /// A worker that never registers has returned, and the broker assumes that it holds tasks.
    Return,
    /// A connection without a name wants to act as this worker.
    Identify,
    /// A connection that worked without a name is about to get one.
    Retire,
    Unregister,
    Pull(Pull<D::List>),
    /// The worker has shown that it knows of the task.
    Mention {
        task: String,
    },
    Report {
        task: String,
        report: Box<TaskReport<D::Outputs>>,
    },
    /// Outputs that are stored until the task ends.
    Output {
        task: String,
        outputs: Box<D::Outputs>,
    },
    /// Completes a task that is still held: the worker removes it from a list.
    Finish {
        task: String,
        list: D::List,
    },
    Own(D::Call),
}

impl<D: Dialect> WorkerRequest<D> {
    /// Whether the call comes from the worker itself. Other peers may remove the worker or claim to be it.
    pub fn is_from_worker_itself(&self) -> bool {
        match self {
            WorkerRequest::Unregister | WorkerRequest::Identify => false,
            WorkerRequest::Own(call) => D::is_from_worker(call),
            _ => true,
        }
    }

    /// Whether a peer other than the worker's owner may make this call. A key that manages workers may remove one.
    pub(super) fn may_others_call(&self, from: &KeyHolder) -> bool {
        match self {
            WorkerRequest::Unregister => from.manages,
            WorkerRequest::Identify => true,
            other => !other.is_from_worker_itself(),
        }
    }

    /// Whether an absent worker has to join again for this call. Calls that join by themselves bring their own terms.
    pub(super) fn needs_rejoin(&self) -> bool {
        match self {
            WorkerRequest::Register(_)
            | WorkerRequest::Offer(_)
            | WorkerRequest::Label(_)
            | WorkerRequest::Return
            | WorkerRequest::Identify
            | WorkerRequest::Retire => false,
            WorkerRequest::Own(call) => D::is_from_worker(call),
            WorkerRequest::Heartbeat(_)
            | WorkerRequest::Ping
            | WorkerRequest::Sign
            | WorkerRequest::Unregister
            | WorkerRequest::Pull(_)
            | WorkerRequest::Mention { .. }
            | WorkerRequest::Report { .. }
            | WorkerRequest::Output { .. }
            | WorkerRequest::Finish { .. } => true,
        }
    }
}

/// Who a worker is and what it offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Introduction {
    pub slots: u32,
    pub capabilities: Vec<Name>,
    /// Whether it names its capabilities. One that does not may be able to do anything.
    pub is_specific: bool,
    /// Distinguishes processes of the same name.
    pub instance: Option<String>,
    /// The tasks it still works on, if it names them.
    pub holds: Option<Vec<String>>,
    pub about: WorkerAbout,
    /// The same in the form of its protocol, which the hub stores.
    pub profile: Option<Box<str>>,
}

/// Figures that a worker reports about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub stats: WorkerStats,
    /// Uptime of its process.
    pub uptime: Option<Duration>,
    /// How many tasks it works on.
    pub tasks: Option<u64>,
}

/// A worker asks for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull<L> {
    pub queues: Vec<Name>,
    /// `None` waits without a limit, zero not at all.
    pub wait: Option<Duration>,
    /// Whether the task is sent whole, so that the worker need not fetch anything.
    pub whole: bool,
    /// The list in which the worker stores what it takes, if it names one.
    pub list: Option<L>,
}

/// What a worker reports about a task it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport<O> {
    pub attempt: Option<u64>,
    /// Added to earlier outputs.
    pub outputs: O,
    pub status: Status<O>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Status<O> {
    Running {
        percent: Option<u8>,
        note: Option<Box<str>>,
    },
    Completed,
    /// `last` belongs to this end only: it is not stored if the hub refuses the end.
    Failed {
        exit_code: i32,
        message: Option<Box<str>>,
        last: O,
    },
    /// It stopped because a client wanted it.
    Stopped {
        wanted: Wanted,
        last: O,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallReply<D: Dialect> {
    Done,
    /// Done, and a client wants the task cancelled or paused.
    Wanted(Wanted),
    /// Another connection of that name is registered and alive.
    Taken,
    NotRegistered,
    Pulled(Box<Assignment>),
    /// Nothing came in time.
    Nothing,
    /// The worker does not hold that task.
    NotHeld,
    /// The report names another attempt than the current one.
    Stale {
        attempt: u64,
        current: u32,
    },
    /// The worker holds this task.
    Held(TaskId),
    /// The outputs became too long.
    TooLong,
    Refused(HubRefusal),
    Own(D::Answer),
}
