//! Commands that wait for an element: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH and XREAD BLOCK.
//!
//! The caller keeps the timeout: it gives the waiter up when the time is over.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::Command;
use crate::commands::lists::{moved, popped};
use crate::commands::streams::{self, StreamId};
use crate::commands::{Decided, Decision};
use crate::keyspace::Keyspace;
use crate::limits::WAITERS_MAX;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::run::CommandOutcome;
use crate::time::Timestamp;
use crate::value::ListEnd;

/// A command that waits if there is nothing yet.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// Takes from the first of these keys that has an element.
    Pop { keys: Vec<Bytes>, end: ListEnd },
    /// `BLMOVE` and `BRPOPLPUSH`.
    Move { from: Bytes, to: Bytes, from_end: ListEnd, to_end: ListEnd },
    /// Reads the entries after these ids; after [`StreamId::LAST`], those added from now on.
    ReadStreams { streams: Vec<(Bytes, StreamId)>, count: usize },
}

/// A waiting command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(u64);

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: BTreeMap<WaiterId, Blocking>,
    by_key: BTreeMap<(Bytes, WaiterId), ()>,
    last: u64,
}

impl Blocking {
    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            Blocking::Pop { keys, end } => {
                for key in keys {
                    if let Some((mut elements, effect)) = popped(space, key, *end, 1, now)? {
                        let element = elements.pop().unwrap_or_default();
                        let reply = Reply::bulks([key.clone(), element]);
                        return Ok(Decision { reply, effects: vec![effect] });
                    }
                }
                Ok(Decision::of(Reply::NullArray))
            }
            Blocking::Move { from, to, from_end, to_end } => moved(space, from, to, *from_end, *to_end, now),
            Blocking::ReadStreams { streams, count } => {
                Ok(Decision::of(streams::read(space, streams, *count, now)?))
            }
        }
    }

    fn keys(&self) -> Vec<&Bytes> {
        match self {
            Blocking::Pop { keys, .. } => keys.iter().collect(),
            Blocking::Move { from, .. } => vec![from],
            Blocking::ReadStreams { streams, .. } => streams.iter().map(|(key, _)| key).collect(),
        }
    }
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The waiters of a key, in order of arrival.
    pub(crate) fn at(&self, key: &Bytes) -> Vec<WaiterId> {
        let (from, to) = ((key.clone(), WaiterId(0)), (key.clone(), WaiterId(u64::MAX)));
        self.by_key.range(from..=to).map(|((_, waiter), ())| *waiter).collect()
    }

    pub(crate) fn command(&self, waiter: WaiterId) -> Option<Blocking> {
        self.waiting.get(&waiter).cloned()
    }

    pub(crate) fn remove(&mut self, waiter: WaiterId) -> bool {
        let Some(command) = self.waiting.remove(&waiter) else { return false };
        for key in command.keys() {
            self.by_key.remove(&(key.clone(), waiter));
        }
        true
    }

    fn add(&mut self, command: Blocking) -> WaiterId {
        self.last += 1;
        let waiter = WaiterId(self.last);
        for key in command.keys() {
            self.by_key.insert((key.clone(), waiter), ());
        }
        self.waiting.insert(waiter, command);
        waiter
    }
}

impl Keyspace {
    /// Takes an available element, or waits for one.
    pub fn run_or_wait(&mut self, command: &Blocking, now: Timestamp) -> Result<CommandOutcome, WaiterId> {
        let command = &self.with_last_ids(command, now);
        let mut ran = self.run(&Command::Blocking(command.clone()), now);
        if !matches!(ran.reply, Reply::Null | Reply::NullArray) {
            return Ok(ran);
        }
        if self.waiters.waiting.len() >= WAITERS_MAX {
            ran.reply = Reply::Refused(KeyspaceRefusal::TooManyWaiters);
            return Ok(ran);
        }
        Err(self.waiters.add(command.clone()))
    }

    /// Replaces "the last id" by the stream's last id at this moment.
    fn with_last_ids(&self, command: &Blocking, now: Timestamp) -> Blocking {
        let mut command = command.clone();
        if let Blocking::ReadStreams { streams, .. } = &mut command {
            for (key, after) in streams.iter_mut().filter(|(_, after)| *after == StreamId::LAST) {
                *after = self.last_id(key, now);
            }
        }
        command
    }

    /// Removes a waiter that timed out or whose connection is closed. Returns whether it was still waiting.
    pub fn give_up(&mut self, waiter: WaiterId) -> bool {
        self.waiters.remove(waiter)
    }

    /// The number of waiting commands.
    pub fn waiting(&self) -> usize {
        self.waiters.waiting.len()
    }
}
