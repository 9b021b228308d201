//! Each distinct set of terms once, reference-counted by the tasks that use it.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::arrays::ArrayKey;
use crate::demand::Demand;
use crate::id::SessionId;
use crate::queues::QueueKey;
use crate::ready_queues::ReadyQueueKey;
use crate::slab::Slab;
use crate::task::TermsKey;
use crate::terms::Terms;

#[derive(Debug)]
pub(crate) struct TermsTable {
    slab: Slab<IndexEntry>,
    by_value: HashTable<u32>,
    hashing: FixedState,
    /// The terms that recent sessions used last, by session and demand. Only a hint: terms are compared before they
    /// are used.
    recent: [Option<TermsKey>; RECENT],
}

const RECENT: usize = 64;

#[derive(Debug)]
struct IndexEntry {
    terms: Arc<Terms>,
    users: u32,
    queue: QueueKey,
    ready_queue: ReadyQueueKey,
    array: Option<ArrayKey>,
}

/// Sessions are numbered one after another, so those of a few clients do not meet. A client that submits tasks with
/// a handful of different demands finds each of them.
fn recent_place(session: SessionId, demand: &Demand) -> usize {
    let quantities = demand.resources.iter().map(|resource| resource.quantity.0);
    let mixed =
        quantities.fold(0, |mixed: u64, quantity| (mixed ^ quantity).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (session.0 as usize).wrapping_add((mixed >> 32) as usize) % RECENT
}

impl TermsTable {
    pub(crate) fn new(hash_seed: u64) -> TermsTable {
        TermsTable {
            slab: Slab::default(),
            by_value: HashTable::new(),
            hashing: FixedState::with_seed(hash_seed),
            recent: [None; RECENT],
        }
    }

    pub(crate) fn find(&self, terms: &Terms) -> Option<TermsKey> {
        let hash = self.hashing.hash_one(terms);
        self.by_value.find(hash, |place| *self.slab.at(*place).terms == *terms).map(|place| TermsKey(*place))
    }

    /// The terms that this session, or another that shares its entry, used last for such a demand. They may have
    /// been replaced since.
    pub(crate) fn recent(&self, session: SessionId, demand: &Demand) -> Option<TermsKey> {
        self.recent[recent_place(session, demand)].filter(|key| self.slab.get(key.0).is_some())
    }

    pub(crate) fn note_recent(&mut self, session: SessionId, key: TermsKey) {
        self.recent[recent_place(session, &self.get(key).demand)] = Some(key);
    }

    /// Adds terms that have no user yet.
    pub(crate) fn insert(
        &mut self,
        terms: Terms,
        queue: QueueKey,
        ready_queue: ReadyQueueKey,
        array: Option<ArrayKey>,
    ) -> TermsKey {
        let hash = self.hashing.hash_one(&terms);
        let place =
            self.slab.insert(IndexEntry { terms: Arc::new(terms), users: 0, queue, ready_queue, array });
        let (slab, hashing) = (&self.slab, &self.hashing);
        self.by_value.insert_unique(hash, place, |other| hashing.hash_one(&*slab.at(*other).terms));
        TermsKey(place)
    }

    pub(crate) fn retain(&mut self, key: TermsKey) {
        self.slab.at_mut(key.0).users += 1;
    }

    /// Drops one user. If that was the last, removes the terms and returns their ready queue.
    pub(crate) fn release(&mut self, key: TermsKey) -> Option<ReadyQueueKey> {
        let entry = self.slab.at_mut(key.0);
        entry.users -= 1;
        if entry.users > 0 {
            return None;
        }
        let entry = self.slab.remove(key.0);
        let hash = self.hashing.hash_one(&*entry.terms);
        if let Ok(found) = self.by_value.find_entry(hash, |place| *place == key.0) {
            found.remove();
        }
        Some(entry.ready_queue)
    }

    /// Drops one user but keeps the terms even without users. [`TermsTable::unused`] finds them later.
    pub(crate) fn release_keeping(&mut self, key: TermsKey) {
        self.slab.at_mut(key.0).users -= 1;
    }

    pub(crate) fn unused(&self) -> Vec<TermsKey> {
        self.slab.iter().filter(|(_, entry)| entry.users == 0).map(|(place, _)| TermsKey(place)).collect()
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = (TermsKey, u32)> {
        self.slab.iter().map(|(place, entry)| (TermsKey(place), entry.users))
    }

    pub(crate) fn get(&self, key: TermsKey) -> &Arc<Terms> {
        &self.slab.at(key.0).terms
    }

    pub(crate) fn queue(&self, key: TermsKey) -> QueueKey {
        self.slab.at(key.0).queue
    }

    /// The array of tasks with these terms.
    pub(crate) fn array(&self, key: TermsKey) -> Option<ArrayKey> {
        self.slab.at(key.0).array
    }

    pub(crate) fn ready_queue(&self, key: TermsKey) -> ReadyQueueKey {
        self.slab.at(key.0).ready_queue
    }
}
