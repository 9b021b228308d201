//! Presence: which workers are connected. It is soft state: it is not stored, and a restarted broker rebuilds
//! it.

use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{SessionId, WorkerKey};
use crate::record::Output;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::Presence;

impl Engine {
    /// Notes that a worker is alive.
    pub(crate) fn note_alive(&mut self, now: Timestamp, session: SessionId, out: &mut dyn Output) {
        let Some(key) = self.workers.of_session(session) else { return };
        let worker = self.workers.at_mut(key);
        worker.last_seen = now;
        if let Presence::Lost { .. } = worker.presence {
            self.mark_worker_returned(now, key, session, out);
        }
    }

    /// A worker that was only silent is back, on the same connection.
    fn mark_worker_returned(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        session: SessionId,
        out: &mut dyn Output,
    ) {
        self.set_presence(key, Presence::Live { session, since: now });
        self.emit_worker_record(now, key, EventData::WorkerReturned, out);
        let held = self.workers.at(key).held_in_order();
        for slot in held {
            let worker = self.workers.at(key).name().clone();
            self.emit_task_event(now, slot, EventData::HolderReturned { worker }, out);
            self.deliver_intent(now, slot, out);
        }
        self.update_served_counts(now, key, out);
        self.dirty.workers.push(key);
        self.watch_worker(key);
    }

    pub(crate) fn set_presence(&mut self, key: WorkerKey, presence: Presence) {
        let worker = self.workers.at_mut(key);
        let before = std::mem::replace(&mut worker.presence, presence);
        let counts = self.namespaces.at_mut(worker.namespace_key);
        match before {
            Presence::Live { .. } => counts.live_workers -= 1,
            Presence::Lost { .. } => counts.lost_workers -= 1,
            Presence::Gone { .. } => {}
        }
        match presence {
            Presence::Live { .. } => counts.live_workers += 1,
            Presence::Lost { .. } => counts.lost_workers += 1,
            Presence::Gone { .. } => {}
        }
    }

    /// Arms the worker's timer for its next check. A heartbeat does not move it: when it fires, it checks
    /// when the worker was last heard from and arms itself again.
    pub(crate) fn watch_worker(&mut self, key: WorkerKey) {
        let worker = self.workers.at(key);
        let at = match worker.presence {
            Presence::Live { .. } => worker.silent_until(),
            Presence::Lost { lease_until, .. } => lease_until,
            Presence::Gone { .. } => Timestamp::NEVER,
        };
        self.timers.disarm(worker.timer, Timer::Worker(key));
        self.timers.arm(at, Timer::Worker(key));
        self.workers.at_mut(key).timer = at;
    }
}
