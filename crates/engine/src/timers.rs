//! When the engine has to look again.

use std::collections::BTreeSet;

use crate::id::{Slot, WorkerKey};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A delayed task's time has come.
    Due(Slot),
    /// A task that has not started is too late.
    Expires(Slot),
    /// An assigned task is unconfirmed, or a running one at its limit, at the holding's `check_at`.
    Held(Slot),
    /// A worker may be silent for too long, or its lease may end.
    Worker(WorkerKey),
    /// A worker's quarantine ends.
    Quarantine(WorkerKey),
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    pub(crate) fn arm(&mut self, at: Timestamp, timer: Timer) {
        if at != Timestamp::NEVER {
            self.set.insert((at, timer));
        }
    }

    pub(crate) fn disarm(&mut self, at: Timestamp, timer: Timer) {
        if at != Timestamp::NEVER {
            self.set.remove(&(at, timer));
        }
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.set.first().map(|(at, _)| *at)
    }

    /// For the audit.
    pub(crate) fn all(&self) -> BTreeSet<(Timestamp, Timer)> {
        self.set.clone()
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.set.pop_first().map(|(_, timer)| timer)
    }
}
