//! Heartbeat: "I am alive, and this is what I hold."

use std::sync::Arc;

use crate::command::{Held, Peer, Reply, WorkerStats};
use crate::engine::Engine;
use crate::event::LostReason;
use crate::id::{Slot, WorkerKey};
use crate::limits::ABOUT_BYTES_MAX;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::TaskState;
use crate::time::Timestamp;
use crate::workers::{Stopping, Worker};

impl Engine {
    /// Processes the content of a heartbeat. Every command counts as a sign of life (`presence.rs`).
    pub(crate) fn heartbeat(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Option<Vec<Held>>,
        stats: Option<Box<WorkerStats>>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.worker_of(peer)?;
        if let Some(stats) = &stats {
            let bytes: usize = stats.more.iter().map(|(name, text)| name.len() + text.len()).sum();
            if bytes > ABOUT_BYTES_MAX || stats.more.len() > ABOUT_BYTES_MAX {
                return Err(Refusal::TooMany { what: "bytes about a worker", limit: ABOUT_BYTES_MAX });
            }
        }
        if stats.is_some() {
            self.workers.at_mut(key).stats = stats;
        }
        let Some(held) = held else { return Ok(Reply::Held(Vec::new())) };
        self.workers.at_mut(key).lists_held = true;
        self.release_stopped_slots(key, &held);
        let mut kept = Vec::with_capacity(held.len());
        let mut answers = Vec::with_capacity(held.len());
        for presented in held {
            let answer = self.held_by(peer, presented);
            kept.extend(answer.as_ref().ok().copied());
            answers.push(answer.map(|_| ()));
        }
        // Reports and heartbeats arrive in order, so the worker no longer holds a running task that is
        // missing from the list. An unconfirmed task may still be on its way to the worker.
        kept.sort();
        kept.dedup();
        let holds = |slot: &Slot| kept.binary_search(slot).is_ok();
        let lost: Vec<Slot> = if self.workers.at(key).held.len() == kept.len() {
            Vec::new()
        } else {
            self.workers
                .at(key)
                .held_in_order()
                .into_iter()
                .filter(|slot| !holds(slot) && self.has_started(*slot))
                .collect()
        };
        for slot in lost {
            self.crash(now, slot, LostReason::Forgotten, None, out);
        }
        Ok(Reply::Held(answers))
    }

    /// The broker ends an attempt that its worker may still run. If the worker's heartbeats list what it
    /// holds, the slot stays occupied until the attempt is missing from the list. Otherwise the broker could
    /// never find out, so the slot is free at once.
    pub(crate) fn note_stopping(&mut self, slot: Slot) {
        let task = self.tasks.at(slot);
        // A suspended attempt occupies nothing.
        let (TaskState::Assigned(holding) | TaskState::Running(holding)) = &task.state else { return };
        let worker = self.workers.at_mut(holding.key);
        if worker.lists_held && worker.is_live() {
            let held = Held { task: task.id, attempt: task.attempt };
            let terms = Arc::clone(self.terms.get(task.terms));
            let devices = holding.devices.clone();
            worker.stock.occupy(&terms.demand, devices.as_deref());
            worker.stopping.push(Stopping { held, terms, devices });
        }
    }

    /// Frees the slots of ended attempts that the worker no longer lists.
    pub(crate) fn release_stopped_slots(&mut self, key: WorkerKey, listed: &[Held]) {
        let Worker { stopping, stock, .. } = self.workers.at_mut(key);
        let before = stopping.len();
        stopping.retain(|each| {
            let is_listed = listed.contains(&each.held);
            if !is_listed {
                stock.vacate(&each.terms.demand, each.devices.as_deref());
            }
            is_listed
        });
        if stopping.len() < before {
            self.dirty.workers.push(key);
        }
    }
}
