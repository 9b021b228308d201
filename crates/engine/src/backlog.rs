//! Backlogs: a queue has a backlog when too many tasks wait in it, or one task waits too long. The queue
//! emits an event when it passes a threshold and another when it is back below, so that an autoscaler can add
//! and remove workers.

use std::time::Duration;

use crate::engine::Engine;
use crate::event::EventData;
use crate::id::Slot;
use crate::queues::{Queue, QueueKey};
use crate::ranked_list::{RankedList, TaskRank};
use crate::record::{Output, QueueSetting};
use crate::state::{StateName, TaskState};
use crate::task::Task;
use crate::time::Timestamp;
use crate::timers::Timer;

/// The thresholds at which a queue has a backlog. `None` disables a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// The number of ready tasks.
    pub depth: Option<u32>,
    /// How long one task has been ready.
    pub age: Option<Duration>,
}

/// One of the two thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Threshold {
    /// The number of ready tasks.
    Depth,
    /// The longest time that a task has been ready.
    Age,
}

/// The thresholds a queue has passed without falling back to half of them.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PassedThresholds {
    pub depth: bool,
    pub age: bool,
}

impl Thresholds {
    /// Whether neither is passed.
    pub fn is_none(self) -> bool {
        self.depth.is_none() && self.age.is_none()
    }
}

impl Threshold {
    /// Both.
    pub const ALL: [Threshold; 2] = [Threshold::Depth, Threshold::Age];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Threshold::Depth => "depth",
            Threshold::Age => "age",
        }
    }
}

impl PassedThresholds {
    /// Whether one of them is passed.
    pub fn any(self) -> bool {
        self.depth || self.age
    }

    /// Those that are passed.
    pub fn all(self) -> impl Iterator<Item = Threshold> {
        Threshold::ALL.into_iter().filter(move |threshold| self.has(*threshold))
    }

    fn has(self, threshold: Threshold) -> bool {
        match threshold {
            Threshold::Depth => self.depth,
            Threshold::Age => self.age,
        }
    }

    fn set(&mut self, threshold: Threshold, passed: bool) {
        match threshold {
            Threshold::Depth => self.depth = passed,
            Threshold::Age => self.age = passed,
        }
    }
}

/// Where a queue stands against one of its thresholds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// At half of the threshold or below. The span between half and full is hysteresis: without it, a queue
    /// near its threshold would emit an event with every task.
    Low,
    Between,
    High,
}

impl Engine {
    /// The queue's own thresholds, else the broker's defaults.
    pub(crate) fn thresholds_of(&self, setting: &QueueSetting) -> Thresholds {
        setting.thresholds.unwrap_or(self.settings.backlog)
    }

    /// Adds a task of the queue that became ready.
    pub(crate) fn note_waiting(&mut self, key: QueueKey, slot: Slot) {
        if self.is_watched(key) {
            let tasks = &self.tasks;
            self.queues.at_mut(key).waiting.insert(slot, |other| order_of_waiting(tasks.at(other)));
            self.mark_queue_dirty(key);
        }
    }

    /// Removes a task of the queue that is no longer ready.
    pub(crate) fn note_not_waiting(&mut self, key: QueueKey, slot: Slot) {
        if self.is_watched(key) {
            let tasks = &self.tasks;
            self.queues.at_mut(key).waiting.remove(slot, |other| order_of_waiting(tasks.at(other)));
            self.mark_queue_dirty(key);
        }
    }

    pub(crate) fn is_watched(&self, key: QueueKey) -> bool {
        !self.thresholds_of(&self.queues.at(key).setting).is_none()
    }

    pub(crate) fn mark_queue_dirty(&mut self, key: QueueKey) {
        let queue = self.queues.at_mut(key);
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.queues.push(key);
        }
    }

    /// Checks the queues that changed. Runs after all tasks are assigned: a task that a free worker takes at
    /// once is no backlog.
    pub(crate) fn check_backlogs(&mut self, now: Timestamp, out: &mut dyn Output) {
        while let Some(key) = self.dirty.queues.pop() {
            if self.queues.has(key) {
                self.check_backlog(now, key, out);
            }
        }
    }

    fn check_backlog(&mut self, now: Timestamp, key: QueueKey, out: &mut dyn Output) {
        let queue = self.queues.at_mut(key);
        queue.is_dirty = false;
        let depth = queue.counts[StateName::Ready as usize];
        let paused = queue.setting.paused;
        let oldest = self.waits_longest(self.queues.at(key));
        let age = oldest.map_or(Duration::ZERO, |since| now.since(since));
        let thresholds = self.thresholds_of(&self.queues.at(key).setting);
        for threshold in Threshold::ALL {
            let level = match threshold {
                Threshold::Depth => level(depth, thresholds.depth.map(u64::from)),
                Threshold::Age => level(millis(age), thresholds.age.map(millis)),
            };
            let passed = &mut self.queues.at_mut(key).setting.passed;
            match (passed.has(threshold), level) {
                // A client paused this queue on purpose; more workers would not help.
                (false, Level::High) if !paused => {
                    passed.set(threshold, true);
                    self.emit_queue_record(now, key, EventData::QueueBacklog { threshold, depth, age }, out);
                }
                (true, Level::Low) => {
                    passed.set(threshold, false);
                    self.emit_queue_record(
                        now,
                        key,
                        EventData::QueueBacklogCleared { threshold, depth, age },
                        out,
                    );
                }
                _ => {}
            }
        }
        let queue = self.queues.at(key);
        let waits_for_age = !queue.setting.passed.age && !paused;
        if let (Some(since), Some(age), true) = (oldest, thresholds.age, waits_for_age) {
            self.schedule_backlog_check(key, since + age);
        }
        self.close_queue_if_unused(key);
    }

    /// Since when the longest-waiting ready task of a queue with thresholds has been ready.
    pub(crate) fn waits_longest(&self, queue: &Queue) -> Option<Timestamp> {
        queue.waiting.first().map(|slot| self.ready_since(slot))
    }

    pub(crate) fn ready_since(&self, slot: Slot) -> Timestamp {
        match self.tasks.at(slot).state {
            TaskState::Ready { since } => since,
            _ => unreachable!("only ready tasks wait"),
        }
    }

    /// For the audit.
    pub(crate) fn waiting_in(&self, key: QueueKey) -> Vec<Slot> {
        let order = |slot| order_of_waiting(self.tasks.at(slot));
        self.queues.at(key).waiting.iter_after(None, order).collect()
    }

    /// Ensures that the queue is checked by `at`. A timer that fires too early finds nothing and is armed
    /// again, so it need not follow every task that leaves.
    fn schedule_backlog_check(&mut self, key: QueueKey, at: Timestamp) {
        let queue = self.queues.at_mut(key);
        if at < queue.look_at {
            let before = std::mem::replace(&mut queue.look_at, at);
            self.timers.disarm(before, Timer::Backlog(key));
            self.timers.arm(at, Timer::Backlog(key));
        }
    }

    /// Handles the queue's backlog timer.
    pub(crate) fn backlog_due(&mut self, key: QueueKey) {
        self.queues.at_mut(key).look_at = Timestamp::NEVER;
        self.mark_queue_dirty(key);
    }

    /// Rebuilds the list of waiting tasks, after the queue's thresholds or the clock changed.
    pub(crate) fn list_waiting(&mut self, key: QueueKey) {
        let mut slots: Vec<Slot> = Vec::new();
        if self.is_watched(key) {
            for ready_queue in
                self.queues.at(key).groups.iter().flat_map(|group| &self.groups.at(*group).ready_queues)
            {
                slots.extend(
                    self.ready_queues.at(*ready_queue).ranked.iter_after(None, |slot| self.rank_of(slot)),
                );
            }
        }
        let tasks = &self.tasks;
        slots.sort_unstable_by_key(|slot| order_of_waiting(tasks.at(*slot)));
        let mut waiting = RankedList::default();
        for slot in slots {
            waiting.insert(slot, |other| order_of_waiting(tasks.at(other)));
        }
        self.queues.at_mut(key).waiting = waiting;
    }

    /// Rebuilds the list for all queues. No events can be emitted here, so the next tick checks the queues.
    pub(crate) fn list_all_waiting(&mut self) {
        let keys: Vec<QueueKey> = self.queues.keys().collect();
        for key in keys {
            self.list_waiting(key);
        }
        self.mark_backlogs_dirty();
    }

    /// Marks every queue that has a threshold, or has passed one, for a check at the next tick.
    pub(crate) fn mark_backlogs_dirty(&mut self) {
        let keys: Vec<QueueKey> = self.queues.keys().collect();
        for key in keys {
            self.queues.at_mut(key).is_dirty = false;
            if self.is_watched(key) || self.queues.at(key).setting.passed.any() {
                self.schedule_backlog_check(key, Timestamp::ZERO);
            }
        }
        self.dirty.queues.clear();
    }

    /// Shifts the waiting times after the clock was set, so that no task appears to have waited longer
    /// because of it.
    pub(crate) fn shift_waiting(&mut self, from: Timestamp, to: Timestamp) {
        let ready_queues = self.ready_queues.iter().map(|(_, ready_queue)| &ready_queue.ranked);
        let ready: Vec<Slot> =
            ready_queues.flat_map(|ranked| ranked.iter_after(None, |slot| self.rank_of(slot))).collect();
        for slot in ready {
            if let TaskState::Ready { since } = &mut self.tasks.at_mut(slot).state {
                *since = since.carried(from, to);
            }
        }
        self.list_all_waiting();
    }

    /// Removes a queue that has no state left, together with its timer.
    pub(crate) fn close_queue_if_unused(&mut self, key: QueueKey) {
        let look_at = self.queues.at(key).look_at;
        if self.queues.close_if_unused(key, self.settings.queues_max) {
            self.timers.disarm(look_at, Timer::Backlog(key));
        }
    }
}

/// The task that has been ready longest comes first.
fn order_of_waiting(task: &Task) -> TaskRank {
    match task.state {
        TaskState::Ready { since } => {
            TaskRank { weight: i64::try_from(since.millis()).unwrap_or(i64::MAX), age: task.age }
        }
        _ => unreachable!("only ready tasks wait"),
    }
}

fn level(value: u64, threshold: Option<u64>) -> Level {
    match threshold {
        None => Level::Low,
        Some(threshold) if value >= threshold => Level::High,
        Some(threshold) if value <= threshold / 2 => Level::Low,
        Some(_) => Level::Between,
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
