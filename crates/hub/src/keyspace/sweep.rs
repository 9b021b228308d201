//! Rewrites the log: the whole value of every key, a slice at a time, among the new records.

use std::sync::{Arc, Mutex};

use tenure_keyspace::SweepPlace;

use super::{Keyspaces, NamespaceKeys, locked};

#[derive(Debug)]
pub(super) struct KeySweep {
    left: Vec<Arc<Mutex<NamespaceKeys>>>,
    place: SweepPlace,
}

impl KeySweep {
    /// Namespaces that are created later need no sweep: the log already holds all of their keys.
    pub(super) fn new(keyspaces: &Keyspaces) -> KeySweep {
        KeySweep { left: keyspaces.namespaces(), place: SweepPlace::default() }
    }

    /// Appends the next slice after all other records. Returns whether there was one; by then the last one is
    /// written.
    pub(super) fn step(&mut self, keyspaces: &Keyspaces) -> bool {
        let Some(state) = self.left.last() else { return false };
        let mut state = locked(state);
        let (record, next) = state.space.sweep(&self.place, keyspaces.shared.settings.sweep_bytes);
        keyspaces.record(&mut state, record, Vec::new());
        drop(state);
        match next {
            Some(place) => self.place = place,
            None => {
                self.left.pop();
                self.place = SweepPlace::default();
            }
        }
        true
    }
}
