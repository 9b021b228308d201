//! What connections ask of a worker actor, and what they are answered.

use std::time::Duration;

use tenure_hub::words::{Assignment, Name, Refusal, TaskId, Wanted, WorkerAbout, WorkerStats};
use tenure_hub::{Grant, Right};

use super::Dialect;

/// Which connection asks, and its own number for the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub connection: u64,
    pub token: u64,
}

/// Whose key is behind a call.
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
    /// The worker says who it is and what it offers.
    Register(Box<Introduction>),
    /// A worker that never registers says what it offers.
    Offer(Vec<Name>),
    /// It says which labels it has beside what it offers.
    Label(Vec<Name>),
    Heartbeat(Option<Box<Figures>>),
    /// A sign of life that counts only if the worker is known.
    Ping,
    /// A sign of life beside some other command. It has no answer.
    Sign,
    /// A worker that never registers is back, and the broker believes that it holds tasks.
    Return,
    /// A connection that has not said who it is wants to speak as this worker.
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
    /// Outputs that are kept until the task ends.
    Output {
        task: String,
        outputs: Box<D::Outputs>,
    },
    /// Completes a task that is still held: the worker takes it off a list.
    Finish {
        task: String,
        list: D::List,
    },
    Own(D::Call),
}

impl<D: Dialect> WorkerRequest<D> {
    /// Whether it is the worker that says this. Others may send it away or claim to be it.
    pub fn is_its_own(&self) -> bool {
        match self {
            WorkerRequest::Unregister | WorkerRequest::Identify => false,
            WorkerRequest::Own(call) => D::is_from_worker(call),
            _ => true,
        }
    }

    /// Whether only the owner of the worker may ask this. Who manages workers may send one away.
    pub(super) fn is_allowed_to_others(&self, from: &KeyHolder) -> bool {
        match self {
            WorkerRequest::Unregister => from.manages,
            WorkerRequest::Identify => true,
            other => !other.is_its_own(),
        }
    }

    /// Whether a worker that is away has to join again for this. Those that join by themselves do so under their own
    /// terms.
    pub(super) fn brings_back(&self) -> bool {
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
    /// Whether it says what it can do. One that does not may be able to do anything.
    pub is_specific: bool,
    /// Tells one process of that name from the next.
    pub instance: Option<String>,
    /// The tasks it still works on from before, if it says so.
    pub holds: Option<Vec<String>>,
    pub about: WorkerAbout,
    /// The same in the words of its protocol, which the hub keeps.
    pub profile: Option<Box<str>>,
}

/// What a worker says about itself along the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub stats: WorkerStats,
    /// For how long its process runs.
    pub uptime: Option<Duration>,
    /// On how many tasks it works.
    pub tasks: Option<u64>,
}

/// A worker asks for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull<L> {
    pub queues: Vec<Name>,
    /// None waits without end, zero not at all.
    pub wait: Option<Duration>,
    /// Whether the task goes out whole, so that nothing has to be fetched.
    pub whole: bool,
    /// Where the worker keeps what it takes, if it names such a place.
    pub list: Option<L>,
}

/// What a worker reports about a task it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport<O> {
    pub attempt: Option<u64>,
    /// Added to those from before.
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
    /// `last` belongs to this end alone: it is not kept if the hub refuses the end.
    Failed {
        exit_code: i32,
        message: Option<Box<str>>,
        last: O,
    },
    /// It stopped because it was asked to.
    Stopped {
        wanted: Wanted,
        last: O,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallReply<D: Dialect> {
    Done,
    /// Done, and the task is to be cancelled or paused.
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
    Refused(Refusal),
    Own(D::Answer),
}
