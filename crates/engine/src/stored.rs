//! The interface of the engine for the store: reads for snapshots, and updates when bytes move.

use crate::blob::{Blob, Which};
use crate::dependency::Dependency;
use crate::engine::Engine;
use crate::id::{Slot, TaskId};
use crate::record::{Change, LimitSetting, QueueSetting, ShareSetting, WorkerHealth};
use crate::state::TaskState;
use crate::task::Task;
use crate::terms::Terms;

impl Engine {
    /// Walks the task table in slices of at most `max` slots, starting at `from`. Returns where to continue.
    /// A task that changes during the walk gets a newer record, so a slow walk still yields a consistent
    /// snapshot.
    pub fn scan_tasks(
        &self,
        from: Option<Slot>,
        max: usize,
        see: &mut dyn FnMut(&Task, &Terms, &[Dependency]),
    ) -> Option<Slot> {
        let mut after = Vec::new();
        for (seen, (slot, task)) in self.tasks.iter_from(from.unwrap_or(Slot(0))).enumerate() {
            if seen == max {
                return Some(slot);
            }
            self.edges.write(task.edges, &mut after);
            see(task, self.terms.get(task.terms), &after);
        }
        None
    }

    /// Visits all stored state except tasks.
    pub fn settings_records(&self, see: &mut dyn FnMut(Change<'_>)) {
        let is_known = |health: &WorkerHealth| health.crashes > 0 || health.profile.is_some();
        for (_, worker) in self.workers.iter().filter(|(_, worker)| is_known(&worker.health)) {
            see(Change::Worker(&worker.health));
        }
        let is_remembered = |setting: &QueueSetting| {
            setting.paused
                || setting.ever_served
                || setting.thresholds.is_some()
                || setting.passed.any()
                || setting.rate.is_some()
        };
        for queue in self.queues.iter().filter(|queue| is_remembered(&queue.setting)) {
            see(Change::Queue(&queue.setting));
        }
        for tag in self.tags.iter().filter(|tag| tag.is_set()) {
            let setting = LimitSetting {
                namespace: tag.namespace.clone(),
                tag: tag.name.clone(),
                limit: tag.limit,
                rate: tag.rate,
            };
            see(Change::Limit(&setting));
        }
        for (_, share) in self.shares.iter().filter(|(_, share)| share.weight.is_some()) {
            let setting = ShareSetting {
                namespace: share.namespace.clone(),
                share: share.name.clone(),
                weight: share.weight,
            };
            see(Change::Share(&setting));
        }
        for (_, entry) in self.schedules.iter() {
            see(Change::Schedule { schedule: &entry.schedule, progress: &entry.progress });
        }
        for (_, array) in self.arrays.iter() {
            see(Change::Array(&array.record));
        }
    }

    /// The record of a task's state.
    pub fn record_of(&mut self, id: &TaskId) -> Option<Change<'_>> {
        let slot = self.tasks.find(id)?;
        Some(self.change_of(slot))
    }

    /// Finds a task, so that the store knows which of its blobs to keep.
    pub fn find_task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.find(id).map(|slot| self.tasks.at(slot))
    }

    /// Whether this blob still belongs to this task or array.
    pub fn holds(&self, id: &TaskId, which: Which, blob: Blob) -> bool {
        if let Some(key) = self.arrays.find(id) {
            return which == Which::Body && self.arrays.at(key).record.body == blob;
        }
        self.find_task(id).is_some_and(|task| which.of(task) == blob)
    }

    /// Updates the address of a task's bytes that the store has moved, unless the task no longer uses them.
    /// Nothing else about the task changes, so there is no event. Returns the task, so that the store can
    /// write its new record.
    pub fn relocate(&mut self, id: &TaskId, which: Which, from: Blob, to: Blob) -> Option<Change<'_>> {
        if let Some(key) = self.arrays.find(id) {
            return self.relocate_body(key, which, from, to);
        }
        let slot = self.tasks.find(id)?;
        let task = self.tasks.at_mut(slot);
        if which.of(task) != from {
            return None;
        }
        match (which, &mut task.state) {
            (Which::Body, _) => task.body = to,
            (
                Which::Result,
                TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end),
            ) => {
                end.result = to;
            }
            (Which::Checkpoint, _) => task.extras_mut().checkpoint.as_mut()?.blob = to,
            (Which::Result, _) => return None,
        }
        Some(self.change_of(slot))
    }
}
