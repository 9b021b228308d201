//! The clock of topics: the time of day, or one that the simulator sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_topics::Timestamp;

use crate::clock::wall_clock;

#[derive(Clone, Debug, Default)]
pub(super) enum TopicClock {
    #[default]
    Wall,
    Set(Arc<AtomicU64>),
}

impl TopicClock {
    pub(super) fn now(&self) -> Timestamp {
        match self {
            TopicClock::Wall => Timestamp(wall_clock().millis()),
            TopicClock::Set(millis) => Timestamp(millis.load(Ordering::Relaxed)),
        }
    }
}
