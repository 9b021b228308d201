//! The engine's timers.

use std::collections::{BTreeSet, VecDeque};

use crate::buckets::BucketKey;
use crate::id::{Slot, WorkerKey};
use crate::queues::QueueKey;
use crate::schedules::ScheduleKey;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A delayed task's time has come.
    Due(Slot),
    /// A task has not started before its expiry.
    Expires(Slot),
    /// An assigned task is unconfirmed, or a running one is at its limit, at the holding's `check_at`.
    Held(Slot),
    /// A worker may have been silent for too long, or its lease may end.
    Worker(WorkerKey),
    /// A worker's quarantine ends.
    Quarantine(WorkerKey),
    /// A task of a queue may have been ready for too long.
    Backlog(QueueKey),
    /// A schedule is due.
    Schedule(ScheduleKey),
    /// A rate has a token again.
    Token(BucketKey),
}

/// Most timers wait for a confirmation that comes soon: they are armed in the order in which they fire, and
/// nearly all become obsolete first. Those stay in a FIFO and are not removed one by one; `prune` drops them
/// from its front once they are obsolete.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Timestamp, Timer)>,
    fifo: VecDeque<(Timestamp, Timer)>,
}

impl Timers {
    pub(crate) fn arm(&mut self, at: Timestamp, timer: Timer) {
        if at != Timestamp::NEVER {
            self.set.insert((at, timer));
        }
    }

    /// Arms a timer that will probably be obsolete before it fires. It stays in the FIFO until
    /// `Timers::prune` finds it obsolete or it fires.
    pub(crate) fn arm_soon(&mut self, at: Timestamp, timer: Timer) {
        if at == Timestamp::NEVER {
            return;
        }
        if self.fifo.back().is_none_or(|(last, _)| *last <= at) {
            self.fifo.push_back((at, timer));
        } else {
            self.set.insert((at, timer));
        }
    }

    pub(crate) fn disarm(&mut self, at: Timestamp, timer: Timer) {
        if at != Timestamp::NEVER && !self.set.is_empty() {
            self.set.remove(&(at, timer));
        }
    }

    /// Drops obsolete timers from the front of the FIFO.
    pub(crate) fn prune(&mut self, holds: impl Fn(Timestamp, Timer) -> bool) {
        while let Some((at, timer)) = self.fifo.front()
            && !holds(*at, *timer)
        {
            self.fifo.pop_front();
        }
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        let in_set = self.set.first().map(|(at, _)| *at);
        let in_fifo = self.fifo.front().map(|(at, _)| *at);
        in_set.into_iter().chain(in_fifo).min()
    }

    /// The next due timer. Requires a pruned FIFO.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        let (at, in_fifo) = match (self.set.first(), self.fifo.front()) {
            (Some(one), Some(other)) => (one.min(other).0, other < one),
            (Some(one), None) => (one.0, false),
            (None, Some(other)) => (other.0, true),
            (None, None) => return None,
        };
        if at > now {
            return None;
        }
        let popped = if in_fifo { self.fifo.pop_front() } else { self.set.pop_first() };
        popped.map(|(_, timer)| timer)
    }

    /// The delayed tasks with their due times.
    pub(crate) fn due(&self) -> Vec<(Timestamp, Slot)> {
        let due = |(at, timer): &(Timestamp, Timer)| match timer {
            Timer::Due(slot) => Some((*at, *slot)),
            Timer::Expires(_)
            | Timer::Held(_)
            | Timer::Worker(_)
            | Timer::Quarantine(_)
            | Timer::Backlog(_)
            | Timer::Schedule(_) => None,
            Timer::Token(_) => None,
        };
        self.set.iter().filter_map(due).collect()
    }

    /// All valid timers, for the audit.
    pub(crate) fn all(&self, holds: impl Fn(Timestamp, Timer) -> bool) -> BTreeSet<(Timestamp, Timer)> {
        let in_fifo = self.fifo.iter().filter(|(at, timer)| holds(*at, *timer));
        self.set.iter().chain(in_fifo).copied().collect()
    }
}
