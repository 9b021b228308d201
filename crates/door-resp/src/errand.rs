//! An errand: what a command leads to, step by step, until there is an answer. Pure.
//!
//! Most commands ask the hub one thing and put the answer into words ([`Step::Last`]); those may be under way together.
//! Some look something up first, read bytes or speak with a worker's desk; while such an errand runs, the commands
//! after it wait.

use bytes::Bytes;
use tenure_hub::words::{Blob, Filter, Name, Refusal, Timestamp};
use tenure_hub::{Request, Response, Submission};

use crate::codec::Reply;
use crate::command::{Block, ReadFrom};
use crate::worker::{Call, CallAnswer};

pub(crate) type Outcome = Result<Response, Refusal>;
pub(crate) type Then<T> = Box<dyn FnOnce(Timestamp, T) -> Step + Send>;

pub(crate) enum Step {
    Reply(Reply),
    /// The last questions; their answers are all that is needed.
    Last(Vec<Request>, Box<dyn FnOnce(Timestamp, Vec<Outcome>) -> Reply + Send>),
    /// Submit to a queue and answer with its length. Pushes that arrive together go together.
    Push {
        queue: Name,
        submissions: Vec<Submission>,
    },
    Ask(Request, Then<Outcome>),
    Read(Vec<Blob>, Then<Vec<Result<Bytes, Refusal>>>),
    /// Speak with the desk of a worker.
    Call(Whom, Call, Then<CallAnswer>),
    /// The same with several.
    Calls(Vec<(Whom, Call)>, Then<Vec<CallAnswer>>),
    /// Collect events.
    Follow(Follow),
}

/// Which worker is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// The one that speaks on this connection, if any.
    Own,
    /// The same; a connection without a name becomes a worker of its own.
    Puller,
    /// By its id, if it has a desk.
    Known(Name),
    /// By its id, and this connection speaks for it from now on.
    Become(Name),
}

/// Streams to read, and how long to wait for something.
#[derive(Debug)]
pub(crate) struct Follow {
    pub streams: Vec<Stream>,
    pub count: usize,
    pub block: Option<Block>,
    /// XRANGE: one stream's entries without its name, and up to this number.
    pub range_to: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub name: Bytes,
    pub filter: Filter,
    pub from: ReadFrom,
    /// The id by which a single job was asked for.
    pub job: Option<String>,
}

impl Step {
    pub(crate) fn ask(
        request: Request,
        then: impl FnOnce(Timestamp, Outcome) -> Step + Send + 'static,
    ) -> Self {
        Self::Ask(request, Box::new(then))
    }

    pub(crate) fn last(
        request: Request,
        reply: impl FnOnce(Timestamp, Outcome) -> Reply + Send + 'static,
    ) -> Self {
        Self::Last(
            vec![request],
            Box::new(move |now, mut outcomes| reply(now, outcomes.pop().expect("one question, one answer"))),
        )
    }

    pub(crate) fn read(
        blob: Blob,
        then: impl FnOnce(Timestamp, Result<Bytes, Refusal>) -> Step + Send + 'static,
    ) -> Self {
        Self::Read(
            vec![blob],
            Box::new(move |now, mut read| then(now, read.pop().expect("one of them was read"))),
        )
    }

    pub(crate) fn call(
        whom: Whom,
        call: Call,
        then: impl FnOnce(Timestamp, CallAnswer) -> Step + Send + 'static,
    ) -> Self {
        Self::Call(whom, call, Box::new(then))
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Reply(Reply::error(text))
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reply(reply) => formatter.debug_tuple("Reply").field(reply).finish(),
            Self::Last(requests, _) => formatter.debug_tuple("Last").field(requests).finish(),
            Self::Push { queue, submissions } => {
                formatter.debug_tuple("Push").field(queue).field(&submissions.len()).finish()
            }
            Self::Ask(request, _) => formatter.debug_tuple("Ask").field(request).finish(),
            Self::Read(blobs, _) => formatter.debug_tuple("Read").field(blobs).finish(),
            Self::Call(whom, call, _) => formatter.debug_tuple("Call").field(whom).field(call).finish(),
            Self::Calls(calls, _) => formatter.debug_tuple("Calls").field(calls).finish(),
            Self::Follow(follow) => formatter.debug_tuple("Follow").field(follow).finish(),
        }
    }
}
