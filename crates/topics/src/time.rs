//! A point in time, passed in by the caller. This crate reads no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since an epoch of the caller's choice, usually the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Later than every other time.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// The time after `duration`, or [`Timestamp::NEVER`] on overflow.
    pub fn after(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// The same moment by a clock that is this much ahead.
    #[must_use]
    pub fn shifted(self, millis: i64) -> Timestamp {
        if self == Timestamp::NEVER { self } else { Timestamp(self.0.saturating_add_signed(millis)) }
    }

    /// The duration since `earlier`. Zero if the clock stepped back.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_beyond_counting_ends_in_never() {
        assert_eq!(Timestamp(5).after(Duration::MAX), Timestamp::NEVER);
    }

    #[test]
    fn a_clock_that_steps_back_measures_zero() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
