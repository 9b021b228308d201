//! A lookup from a hash to a place in a table. It is split into shards so that growing moves a small part at a time,
//! not ten million entries in one turn. Its order is never looked at.

use std::fmt;

use hashbrown::HashTable;

const SHARDS: usize = 1024;

pub(crate) struct Index {
    shards: Vec<HashTable<u32>>,
}

/// Without the empty shards.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shards.iter().flatten()).finish()
    }
}

impl Default for Index {
    fn default() -> Index {
        Index { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }
}

impl Index {
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&u32) -> bool) -> Option<u32> {
        self.shards[shard(hash)].find(hash, is_it).copied()
    }

    pub(crate) fn insert(&mut self, hash: u64, place: u32, rehash: impl Fn(&u32) -> u64) {
        self.shards[shard(hash)].insert_unique(hash, place, rehash);
    }

    pub(crate) fn remove(&mut self, hash: u64, place: u32) {
        if let Ok(entry) = self.shards[shard(hash)].find_entry(hash, |candidate| *candidate == place) {
            entry.remove();
        }
    }
}

/// The table itself uses the highest seven and the lowest bits of a hash; the shard is taken from between.
fn shard(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}
