//! Lost: a worker went silent or its connection closed. It gets no new tasks, the watchers of its tasks get
//! an event at once, and when the lease ends each task follows its policy.

use crate::command::{OnClose, Peer, Reply};
use crate::engine::Engine;
use crate::event::{EventData, LostReason};
use crate::id::WorkerKey;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::StateName;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::Presence;

impl Engine {
    pub(crate) fn session_closed(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let Some(key) = self.workers.unbind(peer.session) else { return Ok(Reply::Done) };
        let worker = self.workers.at_mut(key);
        let lease_until = match worker.on_close {
            OnClose::TasksDie => now,
            OnClose::MayStillRun => worker.lease_until(),
        };
        match &mut worker.presence {
            // The worker was already lost and its event is out. Only the end of its lease may be earlier now.
            Presence::Lost { session, lease_until: until, .. } => {
                *session = None;
                *until = lease_until;
                self.watch_worker(key);
            }
            _ => self.mark_lost(now, key, LostReason::ConnectionClosed, lease_until, out),
        }
        if lease_until <= now {
            self.end_lease(now, key, out);
        }
        Ok(Reply::Done)
    }

    /// Handles the worker's timer. If the worker has been silent since, it is lost, or its lease is over.
    pub(crate) fn check_worker(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        let worker = self.workers.at_mut(key);
        worker.timer = Timestamp::NEVER;
        match worker.presence {
            Presence::Live { .. } if worker.silent_until() <= now => {
                let lease_until = worker.lease_until();
                self.mark_lost(now, key, LostReason::HeartbeatMissed, lease_until, out);
                if lease_until <= now {
                    self.end_lease(now, key, out);
                }
            }
            Presence::Live { .. } => self.watch_worker(key),
            Presence::Lost { lease_until, .. } if lease_until <= now => self.end_lease(now, key, out),
            Presence::Lost { .. } => self.watch_worker(key),
            Presence::Gone { .. } => {}
        }
    }

    fn mark_lost(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        reason: LostReason,
        lease_until: Timestamp,
        out: &mut dyn Output,
    ) {
        let session = match reason {
            LostReason::ConnectionClosed => None,
            _ => self.workers.at(key).session(),
        };
        self.set_presence(key, Presence::Lost { since: now, reason, lease_until, session });
        self.emit_worker_record(now, key, EventData::WorkerLost { reason }, out);
        self.update_served_counts(now, key, out);
        let held = self.workers.at(key).held_in_order();
        for slot in held {
            let worker = self.workers.at(key).name().clone();
            self.emit_task_event(now, slot, EventData::HolderLost { worker, reason, lease_until }, out);
        }
        self.watch_worker(key);
    }

    /// Ends the lease: the broker no longer treats the worker's attempts as alive.
    fn end_lease(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        let Presence::Lost { reason, session, .. } = self.workers.at(key).presence else {
            unreachable!("a lease ends for a lost worker")
        };
        let held = self.workers.at(key).held_in_order();
        if held.iter().any(|slot| self.state_name(*slot) == StateName::Running)
            && let Some(quarantine) = self.count_crash(now, key)
        {
            self.emit_worker_record(now, key, quarantine, out);
        }
        for slot in held {
            match self.state_name(slot) {
                // The worker did not confirm the task, so this is no crash: the task becomes ready again.
                StateName::Assigned => self.take_back(now, slot, out),
                _ => self.crash(now, slot, reason, None, out),
            }
        }
        if let Some(session) = session {
            self.workers.unbind(session);
        }
        self.emit_worker_record(now, key, EventData::WorkerLeft, out);
        self.remove_idle_worker(now, key, out);
    }

    /// Adds a crash to the worker's record. Too many in a short time quarantine the worker; then this returns
    /// the event.
    pub(crate) fn count_crash(&mut self, now: Timestamp, key: WorkerKey) -> Option<EventData> {
        let window = self.settings.quarantine_window;
        let health = &mut self.workers.at_mut(key).health;
        health.crashes = health.crashes.saturating_add(1);
        health.last_crash = Some(now);
        health.recent_crashes.push(now);
        health.recent_crashes.retain(|at| now.since(*at) < window);
        let recent = health.recent_crashes.len() as u32;
        if recent < self.settings.quarantine_crashes || health.quarantined_until.is_some() {
            return None;
        }
        let until = now + self.settings.quarantine_for;
        health.quarantined_until = Some(until);
        let crashes = health.crashes;
        self.timers.arm(until, Timer::Quarantine(key));
        Some(EventData::WorkerQuarantined { until, crashes })
    }
}
