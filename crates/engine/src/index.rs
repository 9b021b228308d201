//! An index from a hash to a table slot. It is split into shards so that growing moves a small part at a
//! time, not ten million entries at once. Nothing depends on its order.
//!
//! An entry keeps half of its hash. Growing then reads only the index, not the table, where each lookup would
//! be a cache miss.

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

/// Shows the slots, without the empty shards.
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

/// Entries do not keep the upper half of the hash, so it selects the shard.
fn shard(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// The hash table uses the highest seven bits and the lowest bits of its input.
fn spread(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
