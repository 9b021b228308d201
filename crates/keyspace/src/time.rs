//! A point in time, passed in by the caller. The key space reads no clock.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Later than every other time.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// Milliseconds from `now` until this time; zero if it has passed.
    pub(crate) fn left(self, now: Timestamp) -> u64 {
        self.0.saturating_sub(now.0)
    }
}
