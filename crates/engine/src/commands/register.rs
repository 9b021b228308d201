//! Register: a worker joins, or returns with the attempts it still holds and learns for each whether to
//! continue.

use std::collections::BTreeSet;

use crate::command::{Held, Peer, Reply, Unnamed, WorkerAbout, WorkerSpec};
use crate::demand::check_declared;
use crate::engine::Engine;
use crate::event::{EventData, LostReason};
use crate::id::{Slot, WorkerKey};
use crate::limits::{
    ABOUT_BYTES_MAX, LIGHT_SLOTS_MAX, LOST_AFTER_MIN, SLOTS_MAX, WORKER_CAPABILITIES_MAX, WORKER_QUEUES_MAX,
};
use crate::name::{self, Name};
use crate::notice::{Notice, StopWhy};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::StateName;
use crate::time::Timestamp;
use crate::workers::{Presence, Worker};

impl Engine {
    pub(crate) fn register(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        mut spec: WorkerSpec,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        spec.resources.sort();
        check(&spec)?;
        self.check_queue_room(&peer.namespace, &spec.queues)?;
        let known = self.workers.find(&peer.namespace, &spec.worker);
        if let Some(key) = known {
            self.check_owner(key, spec.owner.as_ref())?;
            self.check_takeover(peer, key, spec.instance)?;
        } else if self.workers.len() >= self.settings.workers_max {
            return Err(Refusal::Full { what: "workers", limit: self.settings.workers_max as u64 });
        }
        // One session is one worker: registering under another name leaves the first one.
        if let Some(other) = self.workers.of_session(peer.session)
            && Some(other) != known
        {
            self.leave(now, peer, out)?;
        }
        let key = known.unwrap_or_else(|| {
            let namespace_key = self.namespaces.open(&peer.namespace);
            self.workers.insert(Worker::new(peer.namespace.clone(), namespace_key, spec.worker.clone(), now))
        });
        let returned = matches!(self.workers.at(key).presence, Presence::Lost { .. } | Presence::Live { .. });
        let same_process = spec.instance != 0 && spec.instance == self.workers.at(key).instance;
        self.bind_session(now, peer, key, out);
        let unnamed = spec.unnamed;
        let inherits = known.is_none() && spec.inherits_crashes;
        let held = self.update_worker(now, key, spec, same_process, out);
        if inherits {
            self.inherit_crashes(now, key, out);
        }
        let mut answers = Vec::with_capacity(held.len());
        let mut kept = BTreeSet::new();
        for presented in &held {
            let answer = self.held_by(peer, *presented);
            kept.extend(answer.as_ref().ok());
            answers.push(answer.map(|_| ()));
        }
        let mut missing = self.workers.at(key).held_in_order();
        missing.retain(|slot| !kept.contains(slot));
        let open = match unnamed {
            Unnamed::Gone => Vec::new(),
            Unnamed::Open => std::mem::take(&mut missing),
        };
        // A new process without its predecessor's tasks means that the predecessor crashed.
        let crashed =
            !same_process && missing.iter().any(|slot| self.state_name(*slot) == StateName::Running);
        let quarantine = if crashed { self.count_crash(now, key) } else { None };
        let kind = if returned { EventData::WorkerReturned } else { EventData::WorkerRegistered };
        self.emit_worker_record(now, key, kind, out);
        if let Some(quarantine) = quarantine {
            self.emit_worker_record(now, key, quarantine, out);
        }
        self.continue_held_tasks(now, key, &kept, returned, out);
        open.iter().for_each(|slot| self.deliver_intent(now, *slot, out));
        self.release_missing(now, &missing, out);
        if self.workers.at(key).draining {
            out.notice(peer.session, Notice::Drain);
        }
        self.update_served_counts(now, key, out);
        self.dirty.workers.push(key);
        self.watch_worker(key);
        Ok(Reply::Registered { held: answers, returned })
    }

    /// A worker that is connected, or may return to its tasks, belongs to the key that registered it. After a
    /// restart of the broker, that key is not known.
    fn check_owner(&self, key: WorkerKey, owner: Option<&Name>) -> Result<(), Refusal> {
        let worker = self.workers.at(key);
        let is_free = matches!(worker.presence, Presence::Gone { .. });
        match (&worker.owner, owner) {
            (Some(known), Some(owner)) if known != owner && !is_free => {
                Err(Refusal::NotAllowed { what: "use this worker id" })
            }
            _ => Ok(()),
        }
    }

    /// A live worker's name is taken. Only the same process, having lost its old connection, may use it.
    fn check_takeover(&self, peer: &Peer, key: WorkerKey, instance: u64) -> Result<(), Refusal> {
        let worker = self.workers.at(key);
        match worker.presence {
            Presence::Live { session, .. }
                if session != peer.session && (instance == 0 || worker.instance != instance) =>
            {
                Err(Refusal::WorkerTaken { worker: worker.name().clone() })
            }
            _ => Ok(()),
        }
    }

    fn bind_session(&mut self, now: Timestamp, peer: &Peer, key: WorkerKey, out: &mut dyn Output) {
        if let Some(old) = self.workers.at(key).session()
            && old != peer.session
        {
            self.workers.unbind(old);
            out.notice(old, Notice::Replaced { worker: self.workers.at(key).name().clone() });
        }
        self.workers.bind(peer.session, key);
        self.set_presence(key, Presence::Live { session: peer.session, since: now });
    }

    /// Takes over the worker's terms. Returns the attempts it claims to hold.
    fn update_worker(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        mut spec: WorkerSpec,
        same_process: bool,
        out: &mut dyn Output,
    ) -> Vec<Held> {
        self.stop_asking(key);
        self.join_class(now, key, &spec.queues, &spec.capabilities, out);
        let worker = self.workers.at_mut(key);
        worker.instance = spec.instance;
        worker.owner = spec.owner;
        worker.last_seen = now;
        spec.capabilities.sort();
        spec.capabilities.dedup();
        worker.queues = spec.queues;
        worker.capabilities = spec.capabilities;
        worker.stock.declare(spec.slots, spec.light_slots, &spec.resources);
        worker.pulls = spec.pulls;
        // A new process does not inherit the drain; the same process keeps draining.
        worker.draining &= same_process;
        worker.heartbeat = spec.heartbeat;
        worker.lost_after = spec.lost_after;
        worker.busy_lost_after = spec.busy_lost_after;
        worker.lease = spec.lease;
        worker.on_close = spec.on_close;
        worker.remembered = spec.remembered;
        worker.starts_on_assign = spec.starts_on_assign;
        // The reply to this registration stops every attempt that may not continue.
        worker.lists_held = false;
        worker.forget_stopping();
        worker.about = spec.about;
        if spec.profile.is_some() && spec.profile != worker.health.profile {
            worker.health.profile = spec.profile;
            worker.profile_has_changed = true;
        }
        self.cancel_reservation(key);
        self.recount_sizes(key);
        spec.held
    }

    /// The worker continues these tasks and gets their pending intents.
    fn continue_held_tasks(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        kept: &BTreeSet<Slot>,
        returned: bool,
        out: &mut dyn Output,
    ) {
        for slot in kept {
            // The worker returns with the task, so it has started, even if the report of the start was lost.
            self.mark_started(now, *slot, out);
            if returned {
                let worker = self.workers.at(key).name().clone();
                self.emit_task_event(now, *slot, EventData::HolderReturned { worker }, out);
            }
            self.deliver_intent(now, *slot, out);
            if self.state_name(*slot) == StateName::Suspended {
                self.require_report(*slot);
            }
        }
    }

    /// A door has found out which attempts its worker does not hold. Answers each attempt.
    pub(crate) fn forgotten(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: &[Held],
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        self.worker_of(peer)?;
        let release_missing = |held: &Held| {
            let slot = self.held_by(peer, *held)?;
            self.release_missing(now, &[slot], out);
            Ok(())
        };
        Ok(Reply::Held(held.iter().map(release_missing).collect()))
    }

    /// The worker does not hold these tasks.
    fn release_missing(&mut self, now: Timestamp, missing: &[Slot], out: &mut dyn Output) {
        for slot in missing {
            match self.state_name(*slot) {
                // The worker does not know the task, so another may have it. If the assignment is still on
                // its way, the stop notice follows right behind it.
                StateName::Assigned => {
                    self.order_stop(*slot, StopWhy::TakenBack, out);
                    self.hand_back(now, *slot, None, out);
                }
                _ => self.crash(now, *slot, LostReason::Forgotten, None, out),
            }
        }
    }
}

/// A worker cannot hold more than its slots and its light slots.
const HELD_MAX: usize = SLOTS_MAX as usize + LIGHT_SLOTS_MAX as usize;

fn check(spec: &WorkerSpec) -> Result<(), Refusal> {
    name::check("worker", &spec.worker)?;
    if spec.slots == 0 {
        return Err(Refusal::BadValue { what: "slots", why: "is zero: a worker takes at least one task" });
    }
    if spec.slots > SLOTS_MAX {
        return Err(Refusal::TooMany { what: "slots", limit: SLOTS_MAX as usize });
    }
    if spec.light_slots > LIGHT_SLOTS_MAX {
        return Err(Refusal::TooMany { what: "light slots", limit: LIGHT_SLOTS_MAX as usize });
    }
    check_declared(&spec.resources)?;
    if spec.queues.is_empty() && !spec.pulls {
        return Err(Refusal::BadValue { what: "queues", why: "is empty: name at least one to serve" });
    }
    if spec.queues.len() > WORKER_QUEUES_MAX {
        return Err(Refusal::TooMany { what: "queues", limit: WORKER_QUEUES_MAX });
    }
    if spec.capabilities.len() > WORKER_CAPABILITIES_MAX {
        return Err(Refusal::TooMany { what: "capabilities", limit: WORKER_CAPABILITIES_MAX });
    }
    if spec.held.len() > HELD_MAX {
        return Err(Refusal::TooMany { what: "held attempts", limit: HELD_MAX });
    }
    spec.queues.iter().try_for_each(|queue| name::check("queue", queue))?;
    spec.capabilities.iter().try_for_each(|capability| name::check("capability", capability))?;
    check_about(&spec.about)?;
    if spec.profile.as_ref().is_some_and(|profile| profile.len() > ABOUT_BYTES_MAX) {
        return Err(Refusal::TooMany { what: "bytes about a worker", limit: ABOUT_BYTES_MAX });
    }
    if spec.lost_after < LOST_AFTER_MIN {
        return Err(Refusal::BadValue { what: "lost-after", why: "is below 100 milliseconds" });
    }
    if spec.heartbeat > spec.lost_after {
        return Err(Refusal::BadValue { what: "heartbeat", why: "is longer than lost-after" });
    }
    if spec.lease < spec.lost_after {
        return Err(Refusal::BadValue { what: "lease", why: "is shorter than lost-after" });
    }
    if spec.busy_lost_after.is_some_and(|busy| busy < spec.lost_after) {
        return Err(Refusal::BadValue { what: "busy lost-after", why: "is shorter than lost-after" });
    }
    Ok(())
}

fn check_about(about: &WorkerAbout) -> Result<(), Refusal> {
    let texts = [&about.host, &about.platform, &about.version];
    let bytes: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
    if bytes > ABOUT_BYTES_MAX {
        return Err(Refusal::TooMany { what: "bytes about a worker", limit: ABOUT_BYTES_MAX });
    }
    Ok(())
}
