//! Share keys and their weights: in each queue, the tasks of different keys take turns.

use std::collections::BTreeMap;

use crate::name::Name;
use crate::slab::Slab;

/// The weight of a key for which none is set, and of tasks without a key.
pub const WEIGHT_DEFAULT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShareKey(u32);

#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
    pub(crate) weight: Option<u32>,
    /// The queues in which the key takes turns.
    users: u32,
}

impl Share {
    pub(crate) fn users(&self) -> u32 {
        self.users
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shares {
    slab: Slab<Share>,
    by_name: BTreeMap<(Name, Name), ShareKey>,
}

impl Shares {
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn find(&self, namespace: &Name, name: &Name) -> Option<ShareKey> {
        self.by_name.get(&(namespace.clone(), name.clone())).copied()
    }

    pub(crate) fn open(&mut self, namespace: &Name, name: &Name) -> ShareKey {
        let pair = (namespace.clone(), name.clone());
        if let Some(key) = self.by_name.get(&pair) {
            return *key;
        }
        let share = Share { namespace: namespace.clone(), name: name.clone(), weight: None, users: 0 };
        let key = ShareKey(self.slab.insert(share));
        self.by_name.insert(pair, key);
        key
    }

    pub(crate) fn set_weight(&mut self, key: ShareKey, weight: Option<u32>) {
        self.slab.at_mut(key.0).weight = weight;
        self.close_if_unused(key);
    }

    pub(crate) fn weight(&self, key: Option<ShareKey>) -> u32 {
        key.and_then(|key| self.at(key).weight).unwrap_or(WEIGHT_DEFAULT)
    }

    pub(crate) fn retain(&mut self, key: ShareKey) {
        self.slab.at_mut(key.0).users += 1;
    }

    pub(crate) fn release(&mut self, key: ShareKey) {
        self.slab.at_mut(key.0).users -= 1;
        self.close_if_unused(key);
    }

    fn close_if_unused(&mut self, key: ShareKey) {
        let share = self.at(key);
        if share.users == 0 && share.weight.is_none() {
            let share = self.slab.remove(key.0);
            self.by_name.remove(&(share.namespace, share.name));
        }
    }

    pub(crate) fn at(&self, key: ShareKey) -> &Share {
        self.slab.at(key.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ShareKey, &Share)> {
        self.by_name.values().map(|key| (*key, self.at(*key)))
    }
}
