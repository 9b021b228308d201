//! The task table, with lookups by slot, id and name.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use crate::id::{Slot, TaskId};
use crate::index::Index;
use crate::slab::Slab;
use crate::task::Task;
use crate::terms_table::TermsTable;

#[derive(Debug)]
pub(crate) struct Tasks {
    slab: Slab<Task>,
    by_id: Index,
    by_name: Index,
    hashing: FixedState,
}

impl Tasks {
    pub(crate) fn new(hash_seed: u64) -> Tasks {
        Tasks {
            slab: Slab::default(),
            by_id: Index::default(),
            by_name: Index::default(),
            hashing: FixedState::with_seed(hash_seed),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Task> {
        self.slab.get(slot.0)
    }

    pub(crate) fn at(&self, slot: Slot) -> &Task {
        self.slab.at(slot.0)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut Task {
        self.slab.at_mut(slot.0)
    }

    pub(crate) fn find(&self, id: &TaskId) -> Option<Slot> {
        let hash = self.hash_id(id);
        self.by_id.find(hash, |place| self.slab.at(place).id == *id).map(Slot)
    }

    /// Looks up many tasks at once. With a large backlog each lookup is a cache miss; here the misses
    /// overlap.
    pub(crate) fn find_all<'a>(&self, ids: impl Iterator<Item = &'a TaskId>) -> Vec<Option<Slot>> {
        ids.map(|id| self.find(id)).collect()
    }

    pub(crate) fn find_name(&self, terms: &TermsTable, namespace: &str, name: &str) -> Option<Slot> {
        let is_it = |place: u32| {
            let task = self.slab.at(place);
            task.name().is_some_and(|known| **known == *name)
                && *terms.get(task.terms).namespace == *namespace
        };
        self.by_name.find(self.hash_name(namespace, name), is_it).map(Slot)
    }

    pub(crate) fn insert(&mut self, terms: &TermsTable, task: Task) -> Slot {
        let hash = self.hash_id(&task.id);
        let name_hash = task.name().map(|name| self.hash_name(&terms.get(task.terms).namespace, name));
        let place = self.slab.insert(task);
        self.by_id.insert(hash, place);
        if let Some(hash) = name_hash {
            self.by_name.insert(hash, place);
        }
        Slot(place)
    }

    pub(crate) fn remove(&mut self, terms: &TermsTable, slot: Slot) -> Task {
        let task = self.slab.at(slot.0);
        let hash = self.hash_id(&task.id);
        self.by_id.remove(hash, slot.0);
        if let Some(name) = task.name() {
            let hash = self.hash_name(&terms.get(task.terms).namespace, name);
            self.by_name.remove(hash, slot.0);
        }
        self.slab.remove(slot.0)
    }

    pub(crate) fn iter_from(&self, slot: Slot) -> impl Iterator<Item = (Slot, &Task)> {
        self.slab.iter_from(slot.0).map(|(place, task)| (Slot(place), task))
    }

    fn hash_id(&self, id: &TaskId) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write_u128(u128::from_ne_bytes(id.0));
        hasher.finish()
    }

    fn hash_name(&self, namespace: &str, name: &str) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write(namespace.as_bytes());
        hasher.write_u8(0);
        hasher.write(name.as_bytes());
        hasher.finish()
    }
}
