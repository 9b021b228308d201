//! The table of schedules: what each one submits and when it is due next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_schedules::{DueTimes, Timing, jitter};

use crate::engine::Engine;
use crate::limits::{CATCH_UP_MAX, NEXT_SHOWN};
use crate::name::Name;
use crate::schedule::{ScheduleProgress, ScheduleSetting, ScheduleState};
use crate::slab::Slab;
use crate::time::Timestamp;
use crate::timers::Timer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScheduleKey(u32);

#[derive(Debug)]
pub(crate) struct ScheduleEntry {
    pub(crate) schedule: Arc<ScheduleSetting>,
    pub(crate) progress: ScheduleProgress,
    /// `None` if this build cannot read the text that an earlier one accepted: then the schedule is never due.
    timing: Option<Timing>,
    pub(crate) armed_at: Timestamp,
}

impl ScheduleEntry {
    pub(crate) fn new(schedule: ScheduleSetting, progress: ScheduleProgress) -> ScheduleEntry {
        let timing = Timing::parse(&schedule.when, schedule.zone.as_deref()).ok();
        ScheduleEntry { schedule: Arc::new(schedule), progress, timing, armed_at: Timestamp::NEVER }
    }

    /// The due times that have come since the last one that was settled.
    pub(crate) fn due(&self, now: Timestamp) -> DueTimes {
        let mut due = self.latest(now, CATCH_UP_MAX);
        while due.times.last().is_some_and(|last| self.fires_at(Timestamp(*last)) > now) {
            due.times.pop();
        }
        due
    }

    /// The newest due times that are not settled.
    pub(crate) fn latest(&self, until: Timestamp, max: usize) -> DueTimes {
        let find =
            |timing: &Timing| timing.latest(self.schedule.anchor.0, self.progress.settled.0, until.0, max);
        self.timing.as_ref().map(find).unwrap_or_default()
    }

    fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.timing.as_ref()?.next_after(self.schedule.anchor.0, after.0).map(Timestamp)
    }

    /// The first due time that is not settled.
    pub(crate) fn first_due(&self) -> Option<Timestamp> {
        self.next_after(self.progress.settled)
    }

    pub(crate) fn fires_at(&self, due: Timestamp) -> Timestamp {
        due + jitter(&self.schedule.name, due.0, self.schedule.jitter)
    }

    pub(crate) fn next_times(&self) -> Vec<Timestamp> {
        if self.progress.state != ScheduleState::Active {
            return Vec::new();
        }
        std::iter::successors(self.first_due(), |due| self.next_after(*due)).take(NEXT_SHOWN).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Schedules {
    slab: Slab<ScheduleEntry>,
    by_name: BTreeMap<(Name, Name), ScheduleKey>,
    /// Those whose time has come and that still have something to settle.
    due: BTreeSet<ScheduleKey>,
    /// The broker accepts no tasks at the moment, so none is due.
    pub(crate) held: bool,
    pub(crate) body_bytes: usize,
}

impl Schedules {
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn find(&self, namespace: &Name, name: &Name) -> Option<ScheduleKey> {
        self.by_name.get(&(namespace.clone(), name.clone())).copied()
    }

    pub(crate) fn at(&self, key: ScheduleKey) -> &ScheduleEntry {
        self.slab.at(key.0)
    }

    pub(crate) fn at_mut(&mut self, key: ScheduleKey) -> &mut ScheduleEntry {
        self.slab.at_mut(key.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ScheduleKey, &ScheduleEntry)> {
        self.slab.iter().map(|(place, entry)| (ScheduleKey(place), entry))
    }

    /// The schedules of a namespace, by name.
    pub(crate) fn of<'a>(&'a self, namespace: &'a Name) -> impl Iterator<Item = &'a ScheduleEntry> {
        let from = (namespace.clone(), Name::from(""));
        let named = self.by_name.range(from..).take_while(move |((of, _), _)| of == namespace);
        named.map(|(_, key)| self.at(*key))
    }

    pub(crate) fn put(&mut self, entry: ScheduleEntry) -> ScheduleKey {
        let pair = (entry.schedule.namespace.clone(), entry.schedule.name.clone());
        self.body_bytes += entry.schedule.body.len();
        if let Some(key) = self.by_name.get(&pair).copied() {
            let old = std::mem::replace(self.at_mut(key), entry);
            self.body_bytes -= old.schedule.body.len();
            return key;
        }
        let key = ScheduleKey(self.slab.insert(entry));
        self.by_name.insert(pair, key);
        key
    }

    pub(crate) fn remove(&mut self, key: ScheduleKey) -> ScheduleEntry {
        self.due.remove(&key);
        let entry = self.slab.remove(key.0);
        self.body_bytes -= entry.schedule.body.len();
        self.by_name.remove(&(entry.schedule.namespace.clone(), entry.schedule.name.clone()));
        entry
    }

    pub(crate) fn mark_due(&mut self, key: ScheduleKey) {
        self.at_mut(key).armed_at = Timestamp::NEVER;
        self.due.insert(key);
    }

    pub(crate) fn take_due(&mut self) -> Option<ScheduleKey> {
        if self.held { None } else { self.due.pop_first() }
    }

    pub(crate) fn unmark_due(&mut self, key: ScheduleKey) {
        self.due.remove(&key);
    }

    /// A tick has left some for the next one.
    pub(crate) fn next_turn(&self) -> Option<Timestamp> {
        (!self.held && !self.due.is_empty()).then_some(Timestamp::ZERO)
    }

    pub(crate) fn restore_progress(&mut self, progress: ScheduleProgress) {
        let Some(key) = self.find(&progress.namespace, &progress.name) else { return };
        if progress.state == ScheduleState::Removed {
            self.remove(key);
        } else {
            self.at_mut(key).progress = progress;
        }
    }
}

impl Engine {
    /// While the broker accepts no tasks, no schedule is due. Afterwards they catch up.
    pub fn hold_schedules(&mut self, held: bool) {
        self.schedules.held = held;
    }

    pub(crate) fn arm_schedules(&mut self) {
        let keys: Vec<ScheduleKey> = self.schedules.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.arm_schedule(key));
    }

    /// Sets the timer of a schedule to its first due time that is not settled.
    pub(crate) fn arm_schedule(&mut self, key: ScheduleKey) {
        let entry = self.schedules.at(key);
        let is_active = entry.progress.state == ScheduleState::Active;
        let next = entry.first_due().filter(|_| is_active).map(|due| entry.fires_at(due));
        let (before, next) = (entry.armed_at, next.unwrap_or(Timestamp::NEVER));
        self.timers.disarm(before, Timer::Schedule(key));
        self.timers.arm(next, Timer::Schedule(key));
        self.schedules.at_mut(key).armed_at = next;
        self.schedules.unmark_due(key);
    }
}
