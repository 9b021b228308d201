//! The messages that a subscriber receives before it is live: retained values, then replays.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::message::{Message, Sequence};

#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// Retained values of topics that the subscriber named exactly.
    pub(crate) retained: VecDeque<Arc<Message>>,
    /// Patterns whose retained values have not been searched yet.
    pub(crate) sweeps: VecDeque<RetainedSweep>,
    /// By topic name, so that the order is deterministic.
    pub(crate) replays: BTreeMap<Arc<str>, Replay>,
    /// Retained values newer than this were already delivered live.
    pub(crate) joined: u64,
}

/// A walk through all retained values, one slice at a time.
#[derive(Debug)]
pub(crate) struct RetainedSweep {
    /// The index of the subscription's filter.
    pub(crate) filter: usize,
    /// The last topic of the previous slice.
    pub(crate) after: Option<Arc<str>>,
}

/// The rest of one topic's replay. The messages stay in the ring until the subscriber takes them.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) next: Sequence,
    /// The latest number when the subscriber resumed; later messages come live.
    pub(crate) until: Sequence,
    pub(crate) replayed: u64,
}

impl CatchUp {
    pub(crate) fn is_over(&self) -> bool {
        self.retained.is_empty() && self.sweeps.is_empty() && self.replays.is_empty()
    }
}
