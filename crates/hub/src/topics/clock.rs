//! The clock of topics: one that is never set, with how far the time of day is ahead of it. The simulator sets both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tenure_topics::Timestamp;

use crate::clock::{ClockReading, monotonic_clock};

#[derive(Clone, Debug, Default)]
pub(super) enum TopicClock {
    /// Times to live and the life of paused subscriptions do not change when the time of day is set.
    #[default]
    Real,
    Set(Arc<SetClock>),
}

/// A clock of the simulator.
#[derive(Debug)]
pub(super) struct SetClock {
    pub(super) millis: AtomicU64,
    pub(super) wall_ahead: AtomicI64,
}

impl TopicClock {
    /// Whether time passes by itself.
    pub(super) fn is_real(&self) -> bool {
        matches!(self, TopicClock::Real)
    }

    /// For durations.
    pub(super) fn now(&self) -> Timestamp {
        match self {
            TopicClock::Real => Timestamp(monotonic_clock().millis()),
            TopicClock::Set(clock) => Timestamp(clock.millis.load(Ordering::Relaxed)),
        }
    }

    /// The same, and how many milliseconds the time of day is ahead of it.
    pub(super) fn read(&self) -> (Timestamp, i64) {
        match self {
            TopicClock::Real => {
                let ClockReading { wall, steady } = ClockReading::now();
                let ahead = wall.millis().cast_signed() - steady.millis().cast_signed();
                (Timestamp(steady.millis()), ahead)
            }
            TopicClock::Set(clock) => (self.now(), clock.wall_ahead.load(Ordering::Relaxed)),
        }
    }

    /// The time of day.
    pub(super) fn wall(&self) -> Timestamp {
        let (now, ahead) = self.read();
        now.shifted(ahead)
    }
}
