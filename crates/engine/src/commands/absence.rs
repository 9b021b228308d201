//! Absence: the broker itself was away, or its clock was set. Nobody could be heard of meanwhile, so nobody is believed
//! dead for it.

use crate::engine::Engine;
use crate::id::WorkerKey;
use crate::time::Timestamp;
use crate::workers::Presence;

impl Engine {
    /// The clock went from `from` to `to`, forward or back, and nobody was listened to. Silence and leases are measured
    /// as if it had stood still; what is promised for a time of day is not touched.
    pub fn was_away(&mut self, from: Timestamp, to: Timestamp) {
        let keys: Vec<WorkerKey> = self.workers.iter().map(|(key, _)| key).collect();
        for key in keys {
            let worker = self.workers.at_mut(key);
            match &mut worker.presence {
                Presence::Gone { .. } => continue,
                Presence::Lost { lease_until, .. } => *lease_until = lease_until.carried(from, to),
                Presence::Live { .. } => {}
            }
            // Whoever has not been heard of since a restart has no such moment.
            if worker.last_seen != Timestamp::ZERO {
                worker.last_seen = worker.last_seen.carried(from, to);
            }
            self.watch_worker(key);
        }
    }
}
