//! Drain: a worker takes nothing new, finishes what runs, and leaves by itself. Clear: resets a worker's
//! crash record.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::WorkerKey;
use crate::name::Name;
use crate::notice::Notice;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::Presence;

impl Engine {
    /// The worker itself asked to drain.
    pub(crate) fn drain_self(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.worker_of(peer)?;
        self.drain(now, key, out);
        Ok(Reply::Done)
    }

    /// Another peer asked to drain the worker, so the worker gets a notice.
    pub(crate) fn drain_worker(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        worker: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.worker_named(peer, worker)?;
        if let Presence::Gone { .. } = self.workers.at(key).presence {
            return Err(Refusal::UnknownWorker { worker: worker.clone() });
        }
        self.drain(now, key, out);
        if let Some(session) = self.workers.at(key).session() {
            out.notice(session, Notice::Drain);
        }
        Ok(Reply::Done)
    }

    fn drain(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        if std::mem::replace(&mut self.workers.at_mut(key).draining, true) {
            return;
        }
        self.emit_worker_record(now, key, EventData::WorkerDraining, out);
        self.update_served_counts(now, key, out);
    }

    /// Lifts a quarantine and resets the crashes that led to it.
    pub(crate) fn clear_worker(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        worker: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.worker_named(peer, worker)?;
        let is_gone = matches!(self.workers.at(key).presence, Presence::Gone { .. });
        if is_gone {
            // The worker is gone, so its record no longer matters.
            let health = &mut self.workers.at_mut(key).health;
            (health.crashes, health.last_crash, health.profile) = (0, None, None);
        }
        self.lift_quarantine(now, key, out);
        if is_gone {
            self.workers.remove(key);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn lift_quarantine(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        let health = &mut self.workers.at_mut(key).health;
        health.recent_crashes.clear();
        if let Some(until) = health.quarantined_until.take() {
            self.timers.disarm(until, Timer::Quarantine(key));
        }
        self.emit_worker_record(now, key, EventData::WorkerCleared, out);
        self.update_served_counts(now, key, out);
    }

    fn worker_named(&self, peer: &Peer, worker: &Name) -> Result<WorkerKey, Refusal> {
        let found = self.workers.find(&peer.namespace, worker);
        found.ok_or_else(|| Refusal::UnknownWorker { worker: worker.clone() })
    }
}
