//! Turns: start-time fair queueing between the share keys of one queue.
//!
//! Each key has a turn, a point in the queue's virtual time; of the tasks of one priority, those of the key
//! with the earliest turn go first. An assignment sets the virtual time to the turn it used, and moves the
//! key's turn on by one stride divided by the key's weight. A key that had nothing waiting, or could not run,
//! gets at least the virtual time, so it has no credit for the past.

use std::collections::{BTreeMap, BTreeSet};

use crate::ready_queues::ReadyQueueKey;
use crate::shares::ShareKey;

/// The turn of a key with weight 1 moves on by this much with each task. Weights go up to 1,000, so a stride
/// is never rounded by more than a thousandth.
pub(crate) const STRIDE: u64 = 1_000_000;

/// The turns of one queue. `None` is the key of the tasks without one.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    virtual_time: u64,
    flows: BTreeMap<Option<ShareKey>, ShareFlow>,
    /// Keys without ready queues whose turn lies in the future. They must not come back with an earlier one.
    leaving: BTreeSet<(u64, Option<ShareKey>)>,
    /// The ready queues of keys.
    keyed: usize,
}

/// The tasks of one key in one queue.
#[derive(Debug, Default)]
pub(crate) struct ShareFlow {
    turn: u64,
    /// How many of its tasks are ready.
    pub(crate) ready: u64,
    pub(crate) ready_queues: BTreeSet<ReadyQueueKey>,
}

impl Turns {
    pub(crate) fn turn(&self, key: Option<ShareKey>) -> u64 {
        self.flows.get(&key).map_or(0, |flow| flow.turn)
    }

    pub(crate) fn flow(&self, key: Option<ShareKey>) -> Option<&ShareFlow> {
        self.flows.get(&key)
    }

    pub(crate) fn flows(&self) -> impl Iterator<Item = (Option<ShareKey>, &ShareFlow)> {
        self.flows.iter().map(|(key, flow)| (*key, flow))
    }

    /// Adds a ready queue with this many ready tasks. Returns whether the key is new to this queue.
    pub(crate) fn join(&mut self, key: Option<ShareKey>, ready_queue: ReadyQueueKey, ready: u64) -> bool {
        let is_new = !self.flows.contains_key(&key);
        let flow = self.flows.entry(key).or_default();
        flow.ready += ready;
        flow.ready_queues.insert(ready_queue);
        self.keyed += usize::from(key.is_some());
        self.leaving.remove(&(flow.turn, key));
        is_new
    }

    /// Removes a ready queue. Returns the keys that are no longer known.
    pub(crate) fn leave(&mut self, key: Option<ShareKey>, ready_queue: ReadyQueueKey) -> Vec<ShareKey> {
        let flow = self.flows.get_mut(&key).expect("a ready queue has a flow");
        flow.ready_queues.remove(&ready_queue);
        self.keyed -= usize::from(key.is_some());
        if flow.ready_queues.is_empty() {
            self.leaving.insert((flow.turn, key));
        }
        self.forget()
    }

    /// Whether no task with a share key is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.keyed == 0
    }

    pub(crate) fn note_ready(&mut self, key: Option<ShareKey>) {
        let virtual_time = self.virtual_time;
        let flow = self.flows.get_mut(&key).expect("a ready queue has a flow");
        if flow.ready == 0 {
            flow.turn = flow.turn.max(virtual_time);
        }
        flow.ready += 1;
    }

    pub(crate) fn note_not_ready(&mut self, key: Option<ShareKey>) {
        self.flows.get_mut(&key).expect("a ready queue has a flow").ready -= 1;
    }

    /// A task of this key was assigned. Returns the keys that are no longer known.
    pub(crate) fn charge(&mut self, key: Option<ShareKey>, weight: u32) -> Vec<ShareKey> {
        let flow = self.flows.get_mut(&key).expect("a ready queue has a flow");
        self.virtual_time = self.virtual_time.max(flow.turn);
        flow.turn = self.virtual_time.saturating_add(STRIDE / u64::from(weight.max(1)));
        self.forget()
    }

    /// Forgets keys without ready queues whose turn has come.
    fn forget(&mut self) -> Vec<ShareKey> {
        let mut gone = Vec::new();
        while let Some((turn, key)) = self.leaving.first().copied()
            && turn <= self.virtual_time
        {
            self.leaving.pop_first();
            self.flows.remove(&key);
            gone.extend(key);
        }
        gone
    }
}
