//! WATCH: detects whether a key changed. It keeps a count per watched key, so unwatched keys cost nothing.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::keyspace::Keyspace;
use crate::limits::WATCHES_MAX;
use crate::refusal::KeyspaceRefusal;

#[derive(Debug, Default)]
pub(crate) struct KeyWatches {
    keys: BTreeMap<Bytes, Watched>,
}

#[derive(Debug)]
struct Watched {
    watchers: usize,
    changes: u64,
}

/// A key's state when the watch began. Return it with [`Keyspace::unwatch`].
#[derive(Debug, PartialEq, Eq)]
pub struct KeyWatch {
    key: Bytes,
    changes: u64,
}

impl KeyWatches {
    pub(crate) fn touch(&mut self, key: &Bytes) {
        if self.keys.is_empty() {
            return;
        }
        if let Some(watched) = self.keys.get_mut(key) {
            watched.changes += 1;
        }
    }
}

impl Keyspace {
    /// Begins to watch a key for `WATCH`.
    pub fn watch(&mut self, key: &Bytes) -> Result<KeyWatch, KeyspaceRefusal> {
        if self.watches.keys.len() >= WATCHES_MAX && !self.watches.keys.contains_key(key) {
            return Err(KeyspaceRefusal::TooManyWatches);
        }
        let watched = self.watches.keys.entry(key.clone()).or_insert(Watched { watchers: 0, changes: 0 });
        watched.watchers += 1;
        Ok(KeyWatch { key: key.clone(), changes: watched.changes })
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, watch: &KeyWatch) {
        if let Some(watched) = self.watches.keys.get_mut(&watch.key) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                self.watches.keys.remove(&watch.key);
            }
        }
    }

    /// Whether the key has not changed since.
    pub fn is_unchanged(&self, watch: &KeyWatch) -> bool {
        self.watches.keys.get(&watch.key).is_some_and(|watched| watched.changes == watch.changes)
    }
}
