//! The clock of topics: the time of day, or one that a simulator sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_topics::Timestamp;

use crate::clock::wall_clock;

#[derive(Clone, Debug, Default)]
pub(super) enum Clock {
    #[default]
    Wall,
    Set(Arc<AtomicU64>),
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        match self {
            Clock::Wall => Timestamp(wall_clock().millis()),
            Clock::Set(millis) => Timestamp(millis.load(Ordering::Relaxed)),
        }
    }
}
