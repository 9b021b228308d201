//! What is done with an answer of the hub when it comes.

use tenure_hub::words::{Name, Refusal, TaskId, Timestamp};

#[derive(Debug)]
pub(super) struct PendingReply {
    pub(super) number: u64,
    pub(super) expect: ReplyPlan,
}

/// What is done with the answer.
#[derive(Debug)]
pub(super) enum ReplyPlan {
    /// It is passed on.
    Plain,
    /// Nobody is told.
    Nothing,
    /// One of several asks of one request. The last one answers, with the first refusal of them all, if there is any.
    Part,
    LastPart,
    /// Entries that the door refused itself, by their place in the request.
    Submitted {
        refused: Box<[(usize, Refusal)]>,
    },
    Body,
    Result,
    Checkpoint,
    Watching {
        from: Option<u64>,
    },
    Pong {
        now: Timestamp,
    },
    Call {
        to: Name,
    },
    /// A look at a task that somebody waits for.
    Waited {
        task: TaskId,
    },
}
