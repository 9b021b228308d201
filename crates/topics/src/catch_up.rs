//! What a subscriber still has to hear before it is live: retained values, then replays.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::message::{Message, Sequence};

#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// Retained values of topics that were asked for by name.
    pub(crate) retained: VecDeque<Arc<Message>>,
    /// Patterns whose retained values are still to be looked for.
    pub(crate) sweeps: VecDeque<RetainedSweep>,
    /// By topic name, so that the order is the same every time.
    pub(crate) replays: BTreeMap<Arc<str>, Replay>,
    /// Retained values that are younger than this came live already.
    pub(crate) joined: u64,
}

/// A walk through all retained values, a slice at a time.
#[derive(Debug)]
pub(crate) struct RetainedSweep {
    /// Which of the subscription's filters.
    pub(crate) filter: usize,
    /// The topic the last slice ended with.
    pub(crate) after: Option<Arc<str>>,
}

/// The rest of one topic's replay. The messages stay in the ring until they are taken.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) next: Sequence,
    /// The latest number when the subscriber came back; what is later comes live.
    pub(crate) until: Sequence,
    pub(crate) replayed: u64,
}

impl CatchUp {
    pub(crate) fn is_over(&self) -> bool {
        self.retained.is_empty() && self.sweeps.is_empty() && self.replays.is_empty()
    }
}
