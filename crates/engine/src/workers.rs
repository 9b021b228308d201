//! The table of workers. Health is hard state and stored; presence is soft state and starts empty with the
//! broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::classes::{ClassKey, WorkerRank};
use crate::command::{Held, OnClose, PresenceName, WorkerAbout, WorkerStats};
use crate::demand::Devices;
use crate::demands::DemandKey;
use crate::dispatch_groups::GroupKey;
use crate::event::LostReason;
use crate::id::{SessionId, Slot, WorkerKey};
use crate::name::Name;
use crate::namespaces::NamespaceKey;
use crate::ranked_list::TaskRank;
use crate::record::WorkerHealth;
use crate::slab::Slab;
use crate::stock::WorkerCapacity;
use crate::terms::Terms;
use crate::time::Timestamp;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) health: WorkerHealth,
    /// The profile has changed, and no record contains it yet.
    pub(crate) profile_has_changed: bool,
    pub(crate) namespace_key: NamespaceKey,
    pub(crate) presence: Presence,
    pub(crate) instance: u64,
    pub(crate) owner: Option<Name>,
    pub(crate) last_seen: Timestamp,
    pub(crate) queues: Vec<Name>,
    pub(crate) capabilities: Vec<Name>,
    pub(crate) stock: WorkerCapacity,
    pub(crate) pulls: bool,
    pub(crate) draining: bool,
    pub(crate) heartbeat: Duration,
    pub(crate) lost_after: Duration,
    pub(crate) busy_lost_after: Option<Duration>,
    pub(crate) lease: Duration,
    pub(crate) on_close: OnClose,
    pub(crate) remembered: bool,
    pub(crate) starts_on_assign: bool,
    pub(crate) about: WorkerAbout,
    pub(crate) stats: Option<Box<WorkerStats>>,
    /// Unordered; each task stores its index here.
    pub(crate) held: Vec<Slot>,
    /// How many of them are suspended: these take no slot.
    pub(crate) suspended: usize,
    /// Suspended tasks that continue as soon as there is room.
    pub(crate) continuing: BTreeSet<(TaskRank, Slot)>,
    /// Its heartbeats list the attempts it holds.
    pub(crate) lists_held: bool,
    /// Attempts that the broker has ended with a stop notice. Each occupies what it did as long as the
    /// worker's heartbeats list it.
    pub(crate) stopping: Vec<Stopping>,
    /// The class in which it counts as a live worker.
    pub(crate) class: Option<ClassKey>,
    /// Whether the class counts it now.
    pub(crate) counted: bool,
    /// The class in which a pulling worker is asking.
    pub(crate) asking: Option<ClassKey>,
    /// Its class and its rank there, if it may take tasks now.
    pub(crate) worker_rank: Option<(ClassKey, WorkerRank)>,
    /// It is listed in its class as a worker with a free slot.
    pub(crate) has_slot: bool,
    /// The demands under which it is listed in its class, because it could take them now.
    pub(crate) fits: Vec<DemandKey>,
    /// The class and the demands for which it counts as large enough.
    pub(crate) large_for: Option<(ClassKey, Vec<DemandKey>)>,
    /// It takes nothing less urgent than the first task of this dispatch group, which waits for room here.
    pub(crate) reserved: Option<GroupKey>,
    pub(crate) last_assigned: u64,
    pub(crate) timer: Timestamp,
}

/// An attempt that is over for the broker but not yet for its worker.
#[derive(Debug)]
pub(crate) struct Stopping {
    pub(crate) held: Held,
    pub(crate) terms: Arc<Terms>,
    pub(crate) devices: Option<Box<Devices>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Live { session: SessionId, since: Timestamp },
    Lost { since: Timestamp, reason: LostReason, lease_until: Timestamp, session: Option<SessionId> },
    Gone { since: Timestamp },
}

impl Worker {
    pub(crate) fn new(namespace: Name, namespace_key: NamespaceKey, worker: Name, now: Timestamp) -> Worker {
        Worker {
            health: WorkerHealth {
                namespace,
                worker,
                crashes: 0,
                last_crash: None,
                recent_crashes: Vec::new(),
                quarantined_until: None,
                profile: None,
            },
            profile_has_changed: false,
            namespace_key,
            presence: Presence::Gone { since: now },
            instance: 0,
            owner: None,
            last_seen: now,
            queues: Vec::new(),
            capabilities: Vec::new(),
            stock: WorkerCapacity::default(),
            pulls: false,
            draining: false,
            heartbeat: Duration::ZERO,
            lost_after: Duration::ZERO,
            busy_lost_after: None,
            lease: Duration::ZERO,
            on_close: OnClose::default(),
            remembered: false,
            starts_on_assign: false,
            about: WorkerAbout::default(),
            stats: None,
            held: Vec::new(),
            suspended: 0,
            continuing: BTreeSet::new(),
            lists_held: false,
            stopping: Vec::new(),
            class: None,
            counted: false,
            asking: None,
            worker_rank: None,
            has_slot: false,
            fits: Vec::new(),
            large_for: None,
            reserved: None,
            last_assigned: 0,
            timer: Timestamp::NEVER,
        }
    }

    pub(crate) fn name(&self) -> &Name {
        &self.health.worker
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.presence, Presence::Live { .. })
    }

    /// The session that receives its notices. A silent worker's connection may still be open.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.presence {
            Presence::Live { session, .. } => Some(session),
            Presence::Lost { session, .. } => session,
            Presence::Gone { .. } => None,
        }
    }

    /// Whether the worker may get tasks at all.
    pub(crate) fn may_work(&self) -> bool {
        self.is_live() && !self.draining && self.health.quarantined_until.is_none()
    }

    /// The tasks it holds, in slot order.
    pub(crate) fn held_in_order(&self) -> Vec<Slot> {
        let mut held = self.held.clone();
        held.sort_unstable();
        held
    }

    pub(crate) fn has_slot(&self) -> bool {
        self.stock.slots_used < self.stock.slots
    }

    pub(crate) fn load_permille(&self) -> u32 {
        (u64::from(self.stock.slots_used) * 1000 / u64::from(self.stock.slots.max(1))) as u32
    }

    /// Forgets the attempts it has yet to stop.
    pub(crate) fn forget_stopping(&mut self) {
        for stopping in std::mem::take(&mut self.stopping) {
            self.stock.vacate(&stopping.terms.demand, stopping.devices.as_deref());
        }
    }

    /// The worker counts as alive until this moment, even if it stays silent.
    pub(crate) fn silent_until(&self) -> Timestamp {
        self.last_seen + self.timeout()
    }

    /// The end of the worker's lease, counted from its last sign of life.
    pub(crate) fn lease_until(&self) -> Timestamp {
        self.last_seen + self.lease.max(self.timeout())
    }

    fn timeout(&self) -> Duration {
        match self.busy_lost_after {
            Some(busy) if !self.held.is_empty() => busy,
            _ => self.lost_after,
        }
    }

    pub(crate) fn presence_name(&self) -> PresenceName {
        match self.presence {
            Presence::Live { .. } => PresenceName::Live,
            Presence::Lost { .. } => PresenceName::Lost,
            Presence::Gone { .. } => PresenceName::Gone,
        }
    }

    pub(crate) fn since(&self) -> Timestamp {
        match self.presence {
            Presence::Live { since, .. } | Presence::Lost { since, .. } | Presence::Gone { since } => since,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Workers {
    slab: Slab<Worker>,
    by_name: BTreeMap<(Name, Name), WorkerKey>,
    by_session: BTreeMap<SessionId, WorkerKey>,
}

impl Workers {
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn find(&self, namespace: &Name, worker: &Name) -> Option<WorkerKey> {
        self.by_name.get(&(namespace.clone(), worker.clone())).copied()
    }

    pub(crate) fn of_session(&self, session: SessionId) -> Option<WorkerKey> {
        self.by_session.get(&session).copied()
    }

    pub(crate) fn bind(&mut self, session: SessionId, key: WorkerKey) {
        self.by_session.insert(session, key);
    }

    pub(crate) fn unbind(&mut self, session: SessionId) -> Option<WorkerKey> {
        self.by_session.remove(&session)
    }

    pub(crate) fn insert(&mut self, worker: Worker) -> WorkerKey {
        let pair = (worker.health.namespace.clone(), worker.health.worker.clone());
        let key = WorkerKey(self.slab.insert(worker));
        self.by_name.insert(pair, key);
        key
    }

    pub(crate) fn remove(&mut self, key: WorkerKey) {
        let worker = self.slab.remove(key.0);
        self.by_name.remove(&(worker.health.namespace, worker.health.worker));
    }

    pub(crate) fn has(&self, key: WorkerKey) -> bool {
        self.slab.get(key.0).is_some()
    }

    #[inline]
    pub(crate) fn at(&self, key: WorkerKey) -> &Worker {
        self.slab.at(key.0)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, key: WorkerKey) -> &mut Worker {
        self.slab.at_mut(key.0)
    }

    pub(crate) fn keys(&self) -> Vec<WorkerKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkerKey, &Worker)> {
        self.slab.iter().map(|(place, worker)| (WorkerKey(place), worker))
    }

    /// The workers from one slot on.
    pub(crate) fn iter_from(&self, key: WorkerKey) -> impl Iterator<Item = (WorkerKey, &Worker)> {
        self.slab.iter_from(key.0).map(|(place, worker)| (WorkerKey(place), worker))
    }

    /// The workers of one namespace, by name.
    pub(crate) fn of(&self, namespace: &Name) -> impl Iterator<Item = (WorkerKey, &Worker)> {
        let from = (namespace.clone(), Name::from(""));
        self.by_name
            .range(from..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, key)| (*key, self.at(*key)))
    }
}
