//! Requests without a reply yet, and their purpose.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tenure_hub::words::Name;

use crate::codec::Reply;
use crate::command::{Command, ViewCommand};
use crate::flow::CommandFlow;
use crate::translate::LastReply;

/// The purpose of a request.
#[derive(Debug)]
pub(super) enum Expectation {
    Last {
        reply: u64,
        last: LastReply,
    },
    /// An answer of the hub or of the key space, or bytes that were read.
    Flow {
        reply: u64,
        flow: CommandFlow,
    },
    /// The answer of a worker.
    Call {
        reply: u64,
        flow: CommandFlow,
        /// The worker that this connection becomes if the call succeeds.
        becomes: Option<Name>,
    },
    /// Pushes were submitted; the length of their queue follows.
    Submitted,
    Counted,
    /// A watch of a flow or of a subscription was begun.
    Watch,
    /// Something was published.
    Published {
        reply: u64,
    },
    /// A channel of one job waits for the lookup of its task.
    Channel(Bytes),
    Nothing,
    /// A command on stored keys, and its reply after a timeout.
    Keys {
        reply: u64,
        nothing: Reply,
    },
    /// Stored keys of a listing; the views follow.
    Listed {
        reply: u64,
        then: Option<ViewCommand>,
    },
    /// The part of a transaction that is about stored keys.
    Exec {
        reply: u64,
        commands: Vec<Command>,
    },
}

#[derive(Debug, Default)]
pub(super) struct PendingReplies {
    questions: HashMap<u64, Expectation, RandomState>,
    last_token: u64,
}

impl PendingReplies {
    /// A number for the next question.
    pub(super) fn token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    pub(super) fn insert(&mut self, token: u64, expect: Expectation) {
        self.questions.insert(token, expect);
    }

    pub(super) fn take(&mut self, token: u64) -> Option<Expectation> {
        self.questions.remove(&token)
    }
}
