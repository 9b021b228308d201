//! What to do with a reply of the hub.

use tenure_hub::ClockReading;
use tenure_hub::words::{Name, Refusal, TaskId};

#[derive(Debug)]
pub(super) struct PendingReply {
    pub(super) number: u64,
    pub(super) expect: ReplyPlan,
}

#[derive(Debug)]
pub(super) enum ReplyPlan {
    /// Pass it on.
    Plain,
    /// Ignore it.
    Nothing,
    /// One of several hub requests of one request. The last one triggers the reply, with the first refusal, if there
    /// is any.
    Part,
    LastPart,
    /// Entries that the door itself refused, by their index in the request.
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
        now: ClockReading,
    },
    Call {
        to: Name,
    },
    /// The state of a task that the peer waits for.
    Waited {
        task: TaskId,
    },
}
