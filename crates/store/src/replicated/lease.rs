//! The leader's own view of its lease. The epoch decides who may append; the lease decides only how long the
//! leader may answer without appending anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_engine::Timestamp;

/// A handle: clones share the same lease.
#[derive(Clone, Debug, Default)]
pub struct LeaderLease {
    until_millis: Arc<AtomicU64>,
}

/// The part of the lease that is given up, because two clocks do not run equally fast.
const MARGIN_ONE_IN: u32 = 10;

impl LeaderLease {
    /// Whether no other member can lead yet. The clock is monotonic, and the same as that of the writer.
    pub fn holds(&self, now: Timestamp) -> bool {
        now.millis() < self.until_millis.load(Ordering::Acquire)
    }

    /// Whether it was not renewed in time. A lease that was ended has not run out: another member leads, or may.
    pub fn has_run_out(&self, now: Timestamp) -> bool {
        let until = self.until_millis.load(Ordering::Acquire);
        until != 0 && now.millis() >= until
    }

    /// The database has confirmed a lease that was requested at this moment. It began then at the earliest.
    pub(crate) fn confirm(&self, requested_at: Timestamp, lease: Duration) {
        let until = requested_at + (lease - lease / MARGIN_ONE_IN);
        self.until_millis.fetch_max(until.millis(), Ordering::AcqRel);
    }

    pub(crate) fn end(&self) {
        self.until_millis.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_a_tenth_early_by_the_leaders_clock() {
        let lease = LeaderLease::default();
        assert!(!lease.holds(Timestamp(0)));
        lease.confirm(Timestamp(1_000), Duration::from_secs(3));
        assert!(lease.holds(Timestamp(3_699)));
        assert!(!lease.holds(Timestamp(3_700)));
        assert!(lease.has_run_out(Timestamp(3_700)) && !lease.has_run_out(Timestamp(3_699)));
        lease.confirm(Timestamp(500), Duration::from_secs(3));
        assert!(lease.holds(Timestamp(3_699)), "an older confirmation shortens nothing");
        lease.end();
        assert!(!lease.holds(Timestamp(1_000)));
        assert!(!lease.has_run_out(Timestamp(9_000)), "it was ended");
    }
}
