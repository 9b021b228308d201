//! Namespaces: each has its own counts. Queues, workers, names, tags and limits carry their namespace in
//! their keys.

use std::collections::BTreeMap;

use crate::name::Name;
use crate::state::StateName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespaceKey(u32);

impl NamespaceKey {
    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct NamespaceCounts {
    /// Tasks, indexed by `StateName`.
    pub(crate) tasks: [u64; StateName::COUNT],
    pub(crate) live_workers: u64,
    pub(crate) lost_workers: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    list: Vec<NamespaceCounts>,
    by_name: BTreeMap<Name, NamespaceKey>,
}

impl Namespaces {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn find(&self, name: &Name) -> Option<NamespaceKey> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn open(&mut self, name: &Name) -> NamespaceKey {
        if let Some(key) = self.find(name) {
            return key;
        }
        self.list.push(NamespaceCounts::default());
        let key = NamespaceKey(self.list.len() as u32 - 1);
        self.by_name.insert(name.clone(), key);
        key
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceKey, &NamespaceCounts)> {
        self.list.iter().enumerate().map(|(place, counts)| (NamespaceKey(place as u32), counts))
    }

    pub(crate) fn at(&self, key: NamespaceKey) -> &NamespaceCounts {
        &self.list[key.0 as usize]
    }

    pub(crate) fn at_mut(&mut self, key: NamespaceKey) -> &mut NamespaceCounts {
        &mut self.list[key.0 as usize]
    }
}
