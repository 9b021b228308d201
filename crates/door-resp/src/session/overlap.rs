//! Which commands may be under way together.
//!
//! A worker reports the end of one job and asks for the next, or reports on many and takes many, in one write. These go
//! to one desk, which keeps their order, so none of them has to wait for the answer to the one before: they share a sync.
//! Everything else waits for what came before it, and a pop that may block keeps everything after it waiting, as in
//! Redis; so does a pop of several.

use bytes::Bytes;

use crate::command::{Claim, Command, JobCommand, ListCommand, PopReply, ViewCommand, Wait};
use crate::key::{Key, QueueKey};

/// How a command goes together with others.
#[derive(Debug)]
pub(super) enum Overlap<'a> {
    /// Not at all.
    Never,
    /// A report to the own desk.
    Report,
    /// A pop of one job that does not block.
    Pop { queues: &'a [(Bytes, QueueKey)] },
    /// Any other pop: nothing begins after it.
    LastPop { queues: &'a [(Bytes, QueueKey)], blocks: bool },
}

impl Overlap<'_> {
    pub(super) fn of(command: &Command) -> Overlap<'_> {
        match command {
            Command::Job(JobCommand::Update { .. })
            | Command::View(ViewCommand::Set { key: Key::Job { .. }, .. })
            | Command::List(ListCommand::Remove { .. }) => Overlap::Report,
            Command::List(ListCommand::Claim(Claim { queues, wait, reply })) => match (wait, reply) {
                (Wait::NotAtAll, PopReply::Jobs { .. }) => Overlap::LastPop { queues, blocks: false },
                (Wait::NotAtAll, _) => Overlap::Pop { queues },
                (Wait::AtMost(_) | Wait::ForEver, _) => Overlap::LastPop { queues, blocks: true },
            },
            _ => Overlap::Never,
        }
    }
}

/// The errands under way, by the place of their answer.
#[derive(Debug, Default)]
pub(super) struct Errands {
    places: Vec<u64>,
    /// One of them lets no other begin.
    alone: bool,
    /// One of them takes as long as somebody else takes.
    blocked: bool,
    /// What the pops among them take from.
    popped: Option<Vec<(Bytes, QueueKey)>>,
}

impl Errands {
    pub(super) fn are_under_way(&self) -> bool {
        !self.places.is_empty()
    }

    pub(super) fn keep_others_waiting(&self) -> bool {
        self.alone
    }

    pub(super) fn are_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether a command may begin beside them.
    pub(super) fn let_begin(&self, command: &Command) -> bool {
        if self.places.is_empty() {
            return true;
        }
        match Overlap::of(command) {
            Overlap::Never => false,
            Overlap::Report => !self.alone,
            // The desk asks for all pops at once, so they must want the same.
            Overlap::Pop { queues } | Overlap::LastPop { queues, .. } => {
                !self.alone && self.popped.as_ref().is_none_or(|popped| popped == queues)
            }
        }
    }

    /// A command begins.
    pub(super) fn begin(&mut self, place: u64, command: &Command) {
        self.places.push(place);
        match Overlap::of(command) {
            Overlap::Never => self.alone = true,
            Overlap::Report => {}
            Overlap::Pop { queues } => self.popped = Some(queues.to_vec()),
            Overlap::LastPop { blocks, .. } => (self.alone, self.blocked) = (true, blocks),
        }
    }

    /// There is an answer, or all questions for it have been asked.
    pub(super) fn end(&mut self, place: u64) {
        self.places.retain(|under_way| *under_way != place);
        if self.places.is_empty() {
            *self = Errands { places: std::mem::take(&mut self.places), ..Errands::default() };
        }
    }
}
