//! A command flow: the steps of a command until its reply. Pure, and every state can be printed.
//!
//! Most commands send the hub one request and convert its reply ([`FlowStep::Last`]); several of those may be in
//! flight.
//! Others first look something up, read bytes, ask for a stored key or call a worker: their [`FlowStep`] carries the
//! [`CommandFlow`] that continues with the answer. While such a flow runs, later commands wait.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::keyspace::{Command as KeyCommand, Reply as KeyReply};
use tenure_hub::words::{Blob, EventFilter, Name, Refusal, Timestamp};
use tenure_hub::{HubRefusal, Request, Response, Submission};

use crate::codec::Reply;
use crate::command::{BlockFor, ReadFrom};
use crate::translate::{
    ActionFlow, JobFlow, KeyspaceFlow, LastReply, ListFlow, LogFlow, Lookup, PlanFlow, RangeFlow, ViewFlow,
    WorkerFlow,
};
use crate::worker::{RespCall, RespCallReply};

pub(crate) type FlowOutcome = Result<Response, HubRefusal>;

/// The next step of a command.
#[derive(Debug)]
pub(crate) enum FlowStep {
    Reply(Reply),
    /// The last request: its reply is all that is needed.
    Last(Request, LastReply),
    /// Submits to a queue and replies with its length. Pushes that arrive together are submitted together.
    Push {
        queue: Name,
        submissions: Vec<Submission>,
    },
    Ask(Request, CommandFlow),
    Read(Vec<Blob>, CommandFlow),
    /// Ask for a stored key.
    Keys(KeyCommand, CommandFlow),
    /// Call a worker.
    Call(TargetWorker, RespCall, CommandFlow),
    /// Call several workers, or one of them several times.
    Calls(Vec<(TargetWorker, RespCall)>, CommandFlow),
    /// Replies with an element that is not the job's id, and remembers it for a later LREM.
    Handed {
        job: String,
        element: Bytes,
    },
    /// Collect events.
    Follow(Follow),
    /// Continue after this time.
    Later(Duration, CommandFlow),
}

impl FlowStep {
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Reply(Reply::error(text))
    }
}

/// The state of a waiting command, by the module that continues it.
#[derive(Debug)]
pub(crate) enum CommandFlow {
    Lookup(Lookup),
    Job(JobFlow),
    List(ListFlow),
    Range(RangeFlow),
    View(ViewFlow),
    Keyspace(KeyspaceFlow),
    Plan(PlanFlow),
    Action(ActionFlow),
    Worker(WorkerFlow),
    Log(Box<LogFlow>),
}

impl CommandFlow {
    /// Continues with the answer to the last step.
    pub(crate) fn resume(self, now: Timestamp, input: Input) -> FlowStep {
        match self {
            Self::Lookup(flow) => flow.resume(now, input),
            Self::Job(flow) => flow.resume(input),
            Self::List(flow) => flow.resume(input),
            Self::Range(flow) => flow.resume(input),
            Self::View(flow) => flow.resume(input),
            Self::Keyspace(flow) => flow.resume(now, input),
            Self::Plan(flow) => flow.resume(now, input),
            Self::Action(flow) => flow.resume(now, input),
            Self::Worker(flow) => flow.resume(input),
            Self::Log(flow) => flow.resume(input),
        }
    }
}

/// The answer to a step.
#[derive(Debug)]
pub(crate) enum Input {
    Answer(FlowOutcome),
    Read(Vec<Result<Bytes, HubRefusal>>),
    /// The key space's reply, or the error for the client.
    Keys(Result<KeyReply, Reply>),
    Call(RespCallReply),
    Calls(Vec<RespCallReply>),
    /// The time has passed.
    Later,
}

impl Input {
    /// The hub's reply. The session answers each step in its own kind, so another kind is a bug in the session.
    pub(crate) fn answer(self) -> FlowOutcome {
        match self {
            Self::Answer(outcome) => outcome,
            Self::Read(_) | Self::Keys(_) | Self::Call(_) | Self::Calls(_) | Self::Later => Err(OTHER_KIND),
        }
    }

    pub(crate) fn read_all(self) -> Vec<Result<Bytes, HubRefusal>> {
        match self {
            Self::Read(read) => read,
            Self::Answer(_) | Self::Keys(_) | Self::Call(_) | Self::Calls(_) | Self::Later => Vec::new(),
        }
    }

    pub(crate) fn keys(self) -> Result<KeyReply, Reply> {
        match self {
            Self::Keys(Ok(KeyReply::Refused(refusal))) => Err(Reply::error(refusal.to_string())),
            Self::Keys(answer) => answer,
            Self::Answer(_) | Self::Read(_) | Self::Call(_) | Self::Calls(_) | Self::Later => {
                Err(Reply::error("ERR unexpected answer"))
            }
        }
    }

    pub(crate) fn read(self) -> Result<Bytes, HubRefusal> {
        self.read_all().pop().unwrap_or(Err(OTHER_KIND))
    }

    pub(crate) fn call(self) -> RespCallReply {
        match self {
            Self::Call(answer) => answer,
            Self::Answer(_) | Self::Read(_) | Self::Keys(_) | Self::Calls(_) | Self::Later => {
                RespCallReply::Refused(OTHER_KIND)
            }
        }
    }

    pub(crate) fn calls(self) -> Vec<RespCallReply> {
        match self {
            Self::Calls(answers) => answers,
            Self::Answer(_) | Self::Read(_) | Self::Keys(_) | Self::Call(_) | Self::Later => Vec::new(),
        }
    }
}

/// An answer of another kind than the question.
pub(crate) const OTHER_KIND: HubRefusal =
    HubRefusal::Engine(Refusal::BadValue { what: "answer", why: "is of another kind" });

/// Which worker is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetWorker {
    /// The worker of this connection, if any.
    Own,
    /// The worker of this connection; a connection without a name becomes its own worker.
    Puller,
    /// A worker by its id, if it is known.
    Known(Name),
    /// A worker by its id; an unknown one becomes known.
    Opened(Name),
    /// A worker by its id; this connection acts as that worker from now on.
    Become(Name),
}

/// Streams to read, and how long to wait for something.
#[derive(Debug)]
pub(crate) struct Follow {
    pub streams: Vec<EventStream>,
    pub count: usize,
    pub block: Option<BlockFor>,
    /// XRANGE: one stream's entries without its name, and up to this number.
    pub range_to: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct EventStream {
    pub name: Bytes,
    pub filter: EventFilter,
    pub from: ReadFrom,
    /// The id by which a single job was asked for.
    pub job: Option<String>,
}
