//! Each distinct demand once, except the plain one. A worker that gets or frees something checks which of the
//! demands in its class it fits, so their number is limited.

use std::collections::BTreeMap;

use crate::demand::Demand;
use crate::namespaces::NamespaceKey;
use crate::slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DemandKey(u32);

#[derive(Debug)]
struct Shared {
    demand: Demand,
    namespace: NamespaceKey,
    /// The dispatch groups whose tasks have this demand.
    users: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Demands {
    slab: Slab<Shared>,
    by_value: BTreeMap<(NamespaceKey, Demand), DemandKey>,
    /// The number of demands per namespace.
    of_namespace: BTreeMap<NamespaceKey, usize>,
}

impl Demands {
    pub(crate) fn find(&self, namespace: NamespaceKey, demand: &Demand) -> Option<DemandKey> {
        self.by_value.get(&(namespace, demand.clone())).copied()
    }

    pub(crate) fn count_in(&self, namespace: NamespaceKey) -> usize {
        self.of_namespace.get(&namespace).copied().unwrap_or_default()
    }

    /// The key of this demand. Increments its user count.
    pub(crate) fn retain(&mut self, namespace: NamespaceKey, demand: &Demand) -> DemandKey {
        let key = match self.find(namespace, demand) {
            Some(key) => key,
            None => {
                let key = DemandKey(self.slab.insert(Shared { demand: demand.clone(), namespace, users: 0 }));
                self.by_value.insert((namespace, demand.clone()), key);
                *self.of_namespace.entry(namespace).or_default() += 1;
                key
            }
        };
        self.slab.at_mut(key.0).users += 1;
        key
    }

    pub(crate) fn release(&mut self, key: DemandKey) {
        let shared = self.slab.at_mut(key.0);
        shared.users -= 1;
        if shared.users > 0 {
            return;
        }
        let shared = self.slab.remove(key.0);
        if let Some(count) = self.of_namespace.get_mut(&shared.namespace) {
            *count -= 1;
            if *count == 0 {
                self.of_namespace.remove(&shared.namespace);
            }
        }
        self.by_value.remove(&(shared.namespace, shared.demand));
    }

    pub(crate) fn at(&self, key: DemandKey) -> &Demand {
        &self.slab.at(key.0).demand
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}
