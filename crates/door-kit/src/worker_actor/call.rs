//! Calls of connections to a worker actor, and the replies.

use std::time::Duration;

use tenure_hub::words::{Assignment, Name, Resource, TaskId, Wanted, WorkerAbout, WorkerStats};
use tenure_hub::{Grant, HubRefusal, Right};

use super::Dialect;

/// The calling connection, and its number for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The number of the connection.
    pub connection: u64,
    /// The number of the call on this connection.
    pub token: u64,
}

/// The key behind a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// The name of the key.
    pub name: Name,
    /// It has the right to manage workers.
    pub manages: bool,
}

impl From<&Grant> for KeyHolder {
    fn from(grant: &Grant) -> KeyHolder {
        KeyHolder { name: grant.name.clone(), manages: grant.rights.contains(Right::Manage) }
    }
}

/// What a connection asks of a worker actor.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerRequest<D: Dialect> {
    /// The worker registers with its name and what it offers.
    Register(Box<Introduction>),
    /// A worker that never registers announces what it offers.
    Offer(Vec<Name>),
    /// The worker announces labels in addition to what it offers.
    Label(Vec<Name>),
    /// A sign of life with figures about the worker.
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
    /// The worker leaves.
    Unregister,
    /// The worker asks for a task.
    Pull(Pull<D::List>),
    /// The worker has shown that it knows of the task.
    Mention {
        /// The task.
        task: String,
    },
    /// The worker reports about a task.
    Report {
        /// The task.
        task: String,
        /// What it reports.
        report: Box<TaskReport<D::Outputs>>,
    },
    /// Outputs that are stored until the task ends.
    Output {
        /// The task.
        task: String,
        /// What is added.
        outputs: Box<D::Outputs>,
    },
    /// Completes a task that is still held: the worker removes it from a list.
    Finish {
        /// The task.
        task: String,
        /// The list from which the task is removed.
        list: D::List,
    },
    /// A call that only this protocol has.
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
    /// How many tasks it takes at once.
    pub slots: u32,
    /// What it has for tasks that need quantities.
    pub resources: Vec<Resource>,
    /// What it offers.
    pub capabilities: Vec<Name>,
    /// Whether it names its capabilities. One that does not may be able to do anything.
    pub is_specific: bool,
    /// Distinguishes processes of the same name.
    pub instance: Option<String>,
    /// The tasks it still works on, if it names them.
    pub holds: Option<Vec<String>>,
    /// Host, process and software.
    pub about: WorkerAbout,
    /// The same in the form of its protocol, which the hub stores.
    pub profile: Option<Box<str>>,
}

/// Figures that a worker reports about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Load and memory of its machine.
    pub stats: WorkerStats,
    /// Uptime of its process.
    pub uptime: Option<Duration>,
    /// How many tasks it works on.
    pub tasks: Option<u64>,
}

/// A worker asks for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull<L> {
    /// The queues to take from, in this order.
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
    /// The attempt, if the worker names it.
    pub attempt: Option<u64>,
    /// Added to earlier outputs.
    pub outputs: O,
    /// How the task is doing.
    pub status: Status<O>,
}

/// How a task is doing, as its worker reports it.
#[derive(Clone, Debug, PartialEq)]
pub enum Status<O> {
    /// It runs.
    Running {
        /// Its progress.
        percent: Option<u8>,
        /// A word about its progress.
        note: Option<Box<str>>,
    },
    /// It is completed; the outputs are its result.
    Completed,
    /// `last` belongs to this end only: it is not stored if the hub refuses the end.
    Failed {
        /// Why, as a number.
        exit_code: i32,
        /// Why, for people.
        message: Option<Box<str>>,
        /// The last outputs.
        last: O,
    },
    /// It stopped because a client wanted it.
    Stopped {
        /// What the client wanted.
        wanted: Wanted,
        /// The last outputs.
        last: O,
    },
}

/// The reply of a worker actor.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply<D: Dialect> {
    /// It is done.
    Done,
    /// Done, and a client wants the task cancelled or paused.
    Wanted(Wanted),
    /// Another connection of that name is registered and alive.
    Taken,
    /// There is no such worker.
    NotRegistered,
    /// A task for the worker.
    Pulled(Box<Assignment>),
    /// Nothing came in time.
    Nothing,
    /// The worker does not hold that task.
    NotHeld,
    /// The report names another attempt than the current one.
    Stale {
        /// The attempt of the report.
        attempt: u64,
        /// The current attempt.
        current: u32,
    },
    /// The worker holds this task.
    Held(TaskId),
    /// The outputs became too long.
    TooLong,
    /// The hub refuses.
    Refused(HubRefusal),
    /// A reply that only this protocol has.
    Own(D::Answer),
}
