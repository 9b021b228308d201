//! Leave: a worker disconnects on purpose. Its tasks go back without counting as crashes; a running task that
//! must not run twice by itself is paused.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::WorkerKey;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::workers::Presence;

impl Engine {
    pub(crate) fn leave(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.worker_of(peer)?;
        // Draining first, or the worker would get its own tasks back. A worker that leaves on purpose is not
        // kept in the list of lost ones.
        let worker = self.workers.at_mut(key);
        (worker.draining, worker.remembered) = (true, false);
        worker.profile_has_changed |= worker.health.profile.take().is_some();
        self.reindex_worker(key);
        let held = self.workers.at(key).held_in_order();
        for slot in held {
            self.hand_back(now, slot, Some("the worker left".into()), out);
        }
        self.emit_worker_record(now, key, EventData::WorkerLeft, out);
        self.workers.unbind(peer.session);
        self.remove_idle_worker(now, key, out);
        Ok(Reply::Done)
    }

    /// Removes a worker that holds nothing from the table. One with crashes stays for its record, and so does
    /// a lost one that is `remembered`, unless the table is more than half full.
    pub(crate) fn remove_idle_worker(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        self.set_presence(key, Presence::Gone { since: now });
        self.update_served_counts(now, key, out);
        self.leave_class(key);
        self.watch_worker(key);
        let worker = self.workers.at_mut(key);
        worker.draining = false;
        worker.forget_stopping();
        assert!(worker.held.is_empty(), "a worker that holds tasks is not forgotten");
        let stays = worker.health.crashes > 0 || worker.remembered;
        if !stays || self.workers.len() > self.settings.workers_max / 2 {
            if let Some(until) = self.workers.at(key).health.quarantined_until {
                self.timers.disarm(until, crate::timers::Timer::Quarantine(key));
            }
            self.workers.remove(key);
        }
    }
}
