//! A lookup from a hash to a place in a table. It is split into shards so that growing moves a small part at a time,
//! not ten million entries in one turn. Its order is never looked at.
//!
//! An entry keeps half of its hash: growing then reads the index alone, not the table, where each look would wait for
//! memory.

use std::fmt;

use hashbrown::HashTable;

const SHARDS: usize = 1024;

pub(crate) struct Index {
    shards: Vec<HashTable<IndexEntry>>,
}

#[derive(Clone, Copy)]
struct IndexEntry {
    place: u32,
    /// The lower half of the hash.
    hash: u32,
}

/// The places, without the empty shards.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shards.iter().flatten().map(|entry| entry.place)).finish()
    }
}

impl Default for Index {
    fn default() -> Index {
        Index { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }
}

impl Index {
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let half = hash as u32;
        let found =
            self.shards[shard(hash)].find(spread(half), |entry| entry.hash == half && is_it(entry.place));
        found.map(|entry| entry.place)
    }

    pub(crate) fn insert(&mut self, hash: u64, place: u32) {
        let half = hash as u32;
        self.shards[shard(hash)]
            .insert_unique(spread(half), IndexEntry { place, hash: half }, |entry| spread(entry.hash));
    }

    pub(crate) fn remove(&mut self, hash: u64, place: u32) {
        let found = self.shards[shard(hash)].find_entry(spread(hash as u32), |entry| entry.place == place);
        if let Ok(entry) = found {
            entry.remove();
        }
    }
}

/// The shard is taken from the upper half of a hash, which entries do not keep.
fn shard(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// The table uses the highest seven and the lowest bits of what it is given.
fn spread(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
