//! Tracks which handlers run where. If a task starts on a second worker while the first one still runs it, is healthy
//! and was not asked to stop, the broker has started it twice without a reason.

use std::collections::{BTreeMap, BTreeSet};

use tenure_hub::words::{Held, Name, NewTask, TaskId};

#[derive(Debug, Default)]
pub(crate) struct RunningAttempts {
    running: BTreeMap<(TaskId, u32), Handler>,
    /// Tasks that a client controls, or that have a run limit or a parent: their attempts may end at any time.
    steered: BTreeSet<TaskId>,
}

#[derive(Debug)]
struct Handler {
    worker: Name,
    /// Its worker or the broker was disconnected or died since, so the broker may count it as lost.
    disturbed: bool,
}

impl RunningAttempts {
    pub(crate) fn submitted(&mut self, task: &NewTask) {
        if task.run_limit.is_some() || task.parent.is_some() {
            self.steered.insert(task.id);
        }
    }

    pub(crate) fn steered(&mut self, task: TaskId) {
        self.steered.insert(task);
    }

    /// A worker starts an attempt and confirms it. Returns the older attempt that should have prevented it.
    pub(crate) fn begins(&mut self, held: Held, worker: &Name) -> Option<String> {
        let Held { task, attempt } = held;
        let mut older = self.running.range((task, 0)..(task, attempt));
        let is_healthy = |handler: &Handler| !handler.disturbed && handler.worker != *worker;
        let healthy = older.find(|(_, handler)| is_healthy(handler) && !self.steered.contains(&task));
        let found = healthy.map(|((_, other), handler)| {
            let holder = &handler.worker;
            format!("attempt {attempt} of {task} begins on {worker} while {other} runs on {holder}, which is healthy")
        });
        self.running.insert((task, attempt), Handler { worker: worker.clone(), disturbed: false });
        found
    }

    /// The handler has ended in any way.
    pub(crate) fn ends(&mut self, held: Held) {
        self.running.remove(&(held.task, held.attempt));
    }

    pub(crate) fn disturb(&mut self, worker: &Name) {
        for handler in self.running.values_mut().filter(|handler| handler.worker == *worker) {
            handler.disturbed = true;
        }
    }

    pub(crate) fn disturb_all(&mut self) {
        for handler in self.running.values_mut() {
            handler.disturbed = true;
        }
    }
}
