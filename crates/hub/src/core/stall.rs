//! Time lost by the broker itself: the disk stalls, the process was suspended, or the clock was set.

use std::time::Duration;

use tenure_engine::Timestamp;

use super::Core;

/// The disk stalls if a pending batch takes longer than this.
const STALL_MIN: Duration = Duration::from_millis(250);

impl Core {
    /// Everything before `position` is on disk. Returns the length of a stall that ends with this.
    pub fn synced(&mut self, now: Timestamp, position: u64) -> Option<Duration> {
        self.now = now;
        let stalled_since = self.disk_waited_for_since.take().filter(|since| now.since(*since) >= STALL_MIN);
        if let Some(since) = stalled_since {
            self.engine.broker_stalled(since, now);
        }
        self.outbox.synced(position);
        self.disk_waited_for_since = self.outbox.waits_for_disk().then_some(now);
        stalled_since.map(|since| now.since(since))
    }

    /// The process did not run between these two moments.
    pub fn broker_stalled(&mut self, from: Timestamp, to: Timestamp) {
        self.carry_wait(from, to);
        self.engine.broker_stalled(from, to);
    }

    /// The clock was set.
    pub fn clock_set(&mut self, from: Timestamp, to: Timestamp) {
        self.carry_wait(from, to);
        self.engine.clock_set(from, to);
    }

    /// Time counted as absence must not also count as a stall.
    fn carry_wait(&mut self, from: Timestamp, to: Timestamp) {
        if let Some(since) = &mut self.disk_waited_for_since {
            *since = since.carried(from, to).min(to);
        }
    }

    pub(super) fn disk_stalls(&self, now: Timestamp) -> bool {
        self.disk_waited_for_since.is_some_and(|since| now.since(since) >= STALL_MIN)
    }
}
