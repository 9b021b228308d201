//! What connections ask of a worker's desk, and what they are answered.

use std::time::Duration;

use tenure_hub::words::{Assignment, Name, Refusal, TaskId};
use tenure_hub::{Grant, Right};

use crate::key::QueueKey;
use crate::shapes::{Capabilities, JobUpdate, Outputs, Registration, Statistics};

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
pub enum Call {
    /// WORKER.REGISTER.
    Register(Box<Registration>),
    /// `SET worker:<id>:tools`: a worker that never registers says what it can do.
    Tools(Capabilities),
    Heartbeat(Option<Box<Statistics>>),
    /// A sign of life that is none if nobody knows the worker: `PING <id>`.
    Ping,
    /// A sign of life beside some other command. Nobody waits for an answer.
    Sign,
    /// A worker that never registers is back, and the broker believes that it holds jobs.
    Return,
    /// A connection that has not said who it is wants to speak as this worker.
    Identify,
    /// A connection that worked without a name is about to get one.
    Retire,
    Unregister,
    Pop(Pop),
    /// The worker has shown that it knows of the job.
    Mention {
        job: String,
    },
    Report {
        job: String,
        update: Box<JobUpdate>,
    },
    /// Outputs put aside until the job ends.
    Output {
        job: String,
        outputs: Box<Outputs>,
    },
    /// Ends a job that is still held: LREM of the list it was moved to.
    Finish {
        job: String,
        list: QueueKey,
    },
    /// A capability is put to the test.
    Challenge {
        capability: String,
        command: String,
        arguments: Vec<String>,
        expect: Option<String>,
    },
    /// The worker's answer to it.
    Verified {
        capability: String,
        output: String,
        exit_code: i32,
    },
}

impl Call {
    /// Whether it is the worker that says this. Anybody may put it to the test, send it away or claim to be it.
    pub fn is_its_own(&self) -> bool {
        !matches!(self, Call::Challenge { .. } | Call::Unregister | Call::Identify)
    }

    /// Whether only the owner of the worker may ask this. Who manages workers may send one away.
    pub(crate) fn is_allowed_to_others(&self, from: &KeyHolder) -> bool {
        match self {
            Call::Unregister => from.manages,
            Call::Challenge { .. } | Call::Identify => true,
            other => !other.is_its_own(),
        }
    }

    /// Whether a worker that nobody speaks as has to join again for this. Those that join by themselves do so under their own
    /// terms; a worker that is not there cannot be put to the test.
    pub(crate) fn brings_back(&self) -> bool {
        match self {
            Call::Register(_)
            | Call::Tools(_)
            | Call::Return
            | Call::Identify
            | Call::Retire
            | Call::Challenge { .. } => false,
            Call::Heartbeat(_)
            | Call::Ping
            | Call::Sign
            | Call::Unregister
            | Call::Pop(_)
            | Call::Mention { .. }
            | Call::Report { .. }
            | Call::Output { .. }
            | Call::Finish { .. }
            | Call::Verified { .. } => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pop {
    pub queues: Vec<Name>,
    /// None waits for ever, zero not at all.
    pub wait: Option<Duration>,
    /// Whether the job goes out whole, so that nothing has to be fetched.
    pub whole: bool,
    /// The list of its own to which the worker moves what it takes, if that is not `queue:processing`.
    pub list: Option<QueueKey>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallAnswer {
    Done,
    /// Done, and somebody wants the job `cancel`led or `pause`d.
    Wanted(&'static str),
    /// Another connection of that id is registered and alive.
    Taken,
    NotRegistered,
    Popped(Box<Assignment>),
    /// Nothing came in time.
    Nothing,
    /// The worker does not hold that job.
    NotHeld,
    /// The report names another attempt than the current one.
    Stale {
        attempt: u64,
        current: u32,
    },
    /// The claim, for whoever has to know it.
    Held(TaskId),
    Verified {
        output: String,
    },
    NotVerified,
    NoChallenge,
    /// Outputs that were put aside became too long.
    TooLong,
    Refused(Refusal),
}
