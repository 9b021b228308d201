//! Counters of a door: dropped messages, rejected peers, replies without a receiver. The hub shows the
//! counters of all doors in its statistics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The counters of one door. The names are constants, so the table stays small.
#[derive(Debug)]
pub struct Counters {
    door: &'static str,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    open: AtomicU64,
    accepted: AtomicU64,
}

/// The connections of one door.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorConnections {
    pub door: &'static str,
    pub open: u64,
    pub accepted: u64,
}

/// One open connection; dropping it counts its end.
#[derive(Debug)]
pub struct OpenConnection(Arc<Counters>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The value of one counter when the statistics were taken.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorCount {
    pub door: &'static str,
    pub what: &'static str,
    pub count: u64,
}

impl Counters {
    /// Counters of a door.
    pub fn new(door: &'static str) -> Counters {
        Counters { door, counts: Mutex::default(), open: AtomicU64::new(0), accepted: AtomicU64::new(0) }
    }

    /// Counts a connection that the door has accepted, for as long as the returned value lives.
    pub fn connected(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// The connections of the door.
    pub fn connections(&self) -> DoorConnections {
        let [open, accepted] = [&self.open, &self.accepted].map(|count| count.load(Ordering::Relaxed));
        DoorConnections { door: self.door, open, accepted }
    }

    /// Increments a counter.
    pub fn count(&self, what: &'static str) {
        tracing::debug!(door = self.door, what, "counted at a door");
        *self.lock().entry(what).or_default() += 1;
    }

    /// Adds to a counter.
    pub fn add(&self, what: &'static str, times: u64) {
        *self.lock().entry(what).or_default() += times;
    }

    /// The value of a counter.
    pub fn get(&self, what: &str) -> u64 {
        self.lock().get(what).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<DoorCount> {
        let row = |(&what, &count): (&&'static str, &u64)| DoorCount { door: self.door, what, count };
        self.lock().iter().map(row).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // A panic elsewhere leaves the table consistent.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
