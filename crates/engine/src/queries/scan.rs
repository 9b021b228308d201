//! Scan: a whole table in slices, in slot order. An entry keeps its slot as long as it exists, so a complete
//! scan sees every entry that existed throughout, whatever its state changes meanwhile.

use crate::command::{Answer, Peer};
use crate::engine::Engine;
use crate::id::{Slot, WorkerKey};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::refusal::Refusal;

impl Engine {
    pub(crate) fn slice_tasks(&self, peer: &Peer, from: u32, limit: usize) -> Result<Answer, Refusal> {
        check(limit)?;
        let mut places = self.tasks.iter_from(Slot(from));
        let mut tasks = Vec::new();
        let mut bytes = 0;
        for (slot, task) in places.by_ref().take(limit) {
            if self.terms.get(task.terms).namespace == peer.namespace {
                let task = self.info(slot);
                bytes += task.size();
                tasks.push(task);
            }
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        let next = places.next().map(|(slot, _)| slot.0);
        Ok(Answer::ScannedTasks { tasks, next })
    }

    pub(crate) fn slice_workers(&self, peer: &Peer, from: u32, limit: usize) -> Result<Answer, Refusal> {
        check(limit)?;
        let mut places = self.workers.iter_from(WorkerKey(from));
        let mut workers = Vec::new();
        for (_, worker) in places.by_ref().take(limit) {
            if worker.health.namespace == peer.namespace {
                workers.push(self.worker_info(worker));
            }
        }
        let next = places.next().map(|(key, _)| key.0);
        Ok(Answer::ScannedWorkers { workers, next })
    }
}

fn check(limit: usize) -> Result<(), Refusal> {
    if limit == 0 || limit > PAGE_MAX {
        return Err(Refusal::BadValue { what: "page limit", why: "is not between 1 and 1000" });
    }
    Ok(())
}
