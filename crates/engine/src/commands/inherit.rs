//! Inherit: if a worker's name changes with each connection, its crash record follows its host.

use crate::engine::Engine;
use crate::id::WorkerKey;
use crate::record::Output;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::{Presence, Worker};

impl Engine {
    /// Moves the record of the gone worker of the same host that crashed last to this one. The record is
    /// moved, not copied, so that each of several workers on one host has its own.
    pub(crate) fn inherit_crashes(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        let Some(gone) = self.crashed_before(key) else { return };
        let record = self.workers.at(gone).health.clone();
        let old = &mut self.workers.at_mut(gone).health;
        (old.crashes, old.last_crash) = (0, None);
        self.lift_quarantine(now, gone, out);
        self.workers.remove(gone);
        let health = &mut self.workers.at_mut(key).health;
        health.crashes = record.crashes;
        health.last_crash = record.last_crash;
        health.recent_crashes = record.recent_crashes;
        health.quarantined_until = record.quarantined_until;
        if let Some(until) = health.quarantined_until {
            self.timers.arm(until, Timer::Quarantine(key));
        }
    }

    fn crashed_before(&self, key: WorkerKey) -> Option<WorkerKey> {
        let worker = self.workers.at(key);
        worker.about.host.as_ref()?;
        let is_same = |other: &Worker| {
            matches!(other.presence, Presence::Gone { .. })
                && other.health.crashes > 0
                && (&other.about.host, other.about.door) == (&worker.about.host, worker.about.door)
        };
        let same = self.workers.of(&worker.health.namespace).filter(|(_, other)| is_same(other));
        same.max_by_key(|(_, other)| other.health.last_crash).map(|(key, _)| key)
    }
}
