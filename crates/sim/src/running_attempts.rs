//! Tracks which handlers run where. If a task starts on a second worker while the first one still runs it, is healthy
//! and was not asked to stop, the broker has started it twice without a reason. A task that must not run twice by itself
//! begins again only after a reported failure or a client's command.
//!
//! Two rules prevent it when the disk is slow. The timeouts against a worker start when its notice has left, and while
//! the disk stalls no timer runs: afterwards all are carried on by its length. Each of them is enough, so the check
//! fails only if both are broken (`Mutation::StartClocksEarly`).

use std::collections::{BTreeMap, BTreeSet};

use tenure_hub::words::{Held, Name, NewTask, OnLost, TaskId};

#[derive(Debug, Default)]
pub(crate) struct RunningAttempts {
    running: BTreeMap<(TaskId, u32), Handler>,
    /// Tasks that a client controls, or that have a run limit or a parent: their attempts may end at any time.
    steered: BTreeSet<TaskId>,
    /// Tasks that must not run twice by themselves, and those of them that have begun.
    once: BTreeSet<TaskId>,
    begun: BTreeSet<TaskId>,
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
        if task.on_lost != OnLost::Requeue {
            self.once.insert(task.id);
        }
    }

    /// The work has failed, so the task may be retried.
    pub(crate) fn failed(&mut self, task: TaskId) {
        self.begun.remove(&task);
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
        let is_once = self.once.contains(&task) && !self.steered.contains(&task);
        let again = is_once && !self.begun.insert(task);
        let again =
            again.then(|| format!("{task} begins again with attempt {attempt}, and must not run twice"));
        found.or(again)
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
