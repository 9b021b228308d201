//! Which commands may run at the same time.
//!
//! A worker reports the end of one job and asks for the next, or reports on many and takes many, in one write.
//! These go to one actor, which keeps their order, so none of them waits for the previous reply: they share a sync.
//! Every other command waits for the ones before it, and a pop that may block, or that takes several jobs, blocks
//! all commands after it, as in Redis.

use crate::command::{
    ClaimCommand, Command, JobCommand, KeyspaceCommand, PopReply, RespListCommand, ViewCommand, Wait,
};
use crate::key::RespKey;

/// How a command may overlap with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overlap {
    /// Not at all.
    Never,
    /// A report, or a pop of one job that does not block.
    Any,
    /// Any other pop: no command starts after it.
    Last { blocks: bool },
}

impl Overlap {
    fn of(command: &Command) -> Overlap {
        match command {
            Command::Job(JobCommand::Update { .. })
            | Command::View(ViewCommand::Set { key: RespKey::Job { .. }, .. })
            | Command::List(RespListCommand::Remove { .. }) => Overlap::Any,
            Command::List(RespListCommand::Claim(ClaimCommand { wait, reply, .. })) => match (wait, reply) {
                (Wait::NotAtAll, PopReply::Jobs { .. }) => Overlap::Last { blocks: false },
                (Wait::NotAtAll, _) => Overlap::Any,
                (Wait::AtMost(_) | Wait::ForEver, _) => Overlap::Last { blocks: true },
            },
            Command::Keyspace(KeyspaceCommand::Wait { .. }) => Overlap::Last { blocks: true },
            _ => Overlap::Never,
        }
    }
}

/// The running command flows, by the slot of their reply.
#[derive(Debug, Default)]
pub(super) struct RunningFlows {
    places: Vec<u64>,
    /// One of them blocks all others.
    alone: bool,
    /// One of them waits for another peer.
    blocked: bool,
}

impl RunningFlows {
    pub(super) fn are_under_way(&self) -> bool {
        !self.places.is_empty()
    }

    pub(super) fn blocks_others(&self) -> bool {
        self.alone
    }

    pub(super) fn are_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether a command may start beside them.
    pub(super) fn may_start(&self, command: &Command) -> bool {
        self.places.is_empty() || (!self.alone && Overlap::of(command) != Overlap::Never)
    }

    /// A command begins.
    pub(super) fn begin(&mut self, place: u64, command: &Command) {
        self.places.push(place);
        match Overlap::of(command) {
            Overlap::Never => self.alone = true,
            Overlap::Any => {}
            Overlap::Last { blocks } => (self.alone, self.blocked) = (true, blocks),
        }
    }

    /// The reply is ready, or all requests for it have been sent.
    pub(super) fn end(&mut self, place: u64) {
        self.places.retain(|under_way| *under_way != place);
        if self.places.is_empty() {
            (self.alone, self.blocked) = (false, false);
        }
    }
}
