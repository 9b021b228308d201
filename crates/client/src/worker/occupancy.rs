//! What the handlers of a worker occupy, including those that run on although their attempt is over. The broker knows
//! nothing of these, so what it assigns in their place waits here.

use std::collections::{HashMap, HashSet};

use tenure_wire::task::{Held, Resource};
use tenure_wire::worker::WorkerSpec;

use super::context::Context;

#[derive(Debug)]
pub(crate) struct Occupancy {
    slots: u64,
    /// The sum of what the running handlers weigh.
    slots_used: u64,
    resources: Vec<Resource>,
    running: HashMap<Held, Context>,
    /// Handlers that wait for other tasks, or for a client: they take no slot and no resources.
    suspended: HashSet<Held>,
}

impl Occupancy {
    pub(crate) fn new(spec: &WorkerSpec) -> Occupancy {
        Occupancy {
            slots: u64::from(spec.slots),
            slots_used: 0,
            resources: spec.resources.clone(),
            running: HashMap::new(),
            suspended: HashSet::new(),
        }
    }

    /// How many handlers run.
    pub(crate) fn busy(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn occupy(&mut self, context: &Context) {
        self.slots_used += u64::from(context.terms().slots);
        self.running.insert(context.held(), context.clone());
    }

    pub(crate) fn vacate(&mut self, held: Held) {
        self.resume(held);
        if let Some(context) = self.running.remove(&held) {
            self.slots_used -= u64::from(context.terms().slots);
        }
    }

    pub(crate) fn suspend(&mut self, held: Held) {
        if let Some(context) = self.running.get(&held)
            && self.suspended.insert(held)
        {
            self.slots_used -= u64::from(context.terms().slots);
        }
    }

    pub(crate) fn resume(&mut self, held: Held) {
        if let Some(context) = self.running.get(&held)
            && self.suspended.remove(&held)
        {
            self.slots_used += u64::from(context.terms().slots);
        }
    }

    /// Whether a handler can start beside those that run.
    pub(crate) fn fits(&self, context: &Context) -> bool {
        let weight = u64::from(context.terms().slots);
        let resources = &context.terms().resources;
        (weight == 0 || self.slots_used + weight <= self.slots)
            && (resources.is_empty()
                || resources.iter().all(|needed| self.has(needed))
                    && !self.working().any(|other| takes_whole_device_of(context, other)))
    }

    fn working(&self) -> impl Iterator<Item = &Context> {
        let suspended = &self.suspended;
        self.running.iter().filter(|(held, _)| !suspended.contains(held)).map(|(_, context)| context)
    }

    fn has(&self, needed: &Resource) -> bool {
        let quantity = |resources: &[Resource]| {
            resources.iter().find(|other| other.name == needed.name).map_or(0, |other| other.quantity)
        };
        let used: u64 = self.working().map(|other| quantity(&other.terms().resources)).sum();
        used + needed.quantity <= quantity(&self.resources)
    }
}

/// Whether two attempts have a cpu or gpu in common that one of them does not share.
fn takes_whole_device_of(one: &Context, other: &Context) -> bool {
    let shares = |context: &Context, name: &str| {
        context.terms().resources.iter().any(|resource| &*resource.name == name && resource.quantity < 1000)
    };
    let clash = |name: &str, mine: &[u16], theirs: &[u16]| {
        mine.iter().any(|number| theirs.contains(number)) && !(shares(one, name) && shares(other, name))
    };
    clash("cpus", one.cpus(), other.cpus()) || clash("gpus", one.gpus(), other.gpus())
}
