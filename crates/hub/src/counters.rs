//! What a door counts by itself: messages it dropped, peers it sent away, replies that found nobody. The hub shows the
//! counters of all doors among its figures.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counters of one door. What is counted has constant names, so the table stays small.
#[derive(Debug)]
pub struct Counters {
    door: &'static str,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

/// One counter as it stood when the figures were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorCount {
    pub door: &'static str,
    pub what: &'static str,
    pub count: u64,
}

impl Counters {
    pub fn new(door: &'static str) -> Counters {
        Counters { door, counts: Mutex::default() }
    }

    /// It happened once more.
    pub fn count(&self, what: &'static str) {
        tracing::debug!(door = self.door, what, "counted at a door");
        *self.lock().entry(what).or_default() += 1;
    }

    /// It happened so many times more.
    pub(crate) fn add(&self, what: &'static str, times: u64) {
        *self.lock().entry(what).or_default() += times;
    }

    /// How often it has happened.
    pub fn get(&self, what: &str) -> u64 {
        self.lock().get(what).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<DoorCount> {
        let row = |(&what, &count): (&&'static str, &u64)| DoorCount { door: self.door, what, count };
        self.lock().iter().map(row).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // A panic elsewhere leaves a table that is whole.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
