//! Show: everything about one task, by id or by name.

use crate::blob::{Blob, Which};
use crate::command::{Answer, Peer, TaskInfo};
use crate::dependency::DependencyInfo;
use crate::edges::{Awaited, Edge};
use crate::engine::Engine;
use crate::id::{Slot, TaskId};
use crate::name::Name;
use crate::refusal::Refusal;
use crate::task::Task;

impl Engine {
    pub(crate) fn show(&self, peer: &Peer, task: TaskId) -> Result<Answer, Refusal> {
        Ok(Answer::Task(Box::new(self.info(self.task_of(peer, task)?))))
    }

    pub(crate) fn find(&self, peer: &Peer, name: &Name) -> Result<Answer, Refusal> {
        let slot = self.tasks.find_name(&self.terms, &peer.namespace, name);
        let slot = slot.ok_or_else(|| Refusal::UnknownName { name: name.clone() })?;
        Ok(Answer::Task(Box::new(self.info(slot))))
    }

    /// A task's dependencies, with what is still known of them.
    pub(crate) fn dependencies_info(&self, slot: Slot) -> Vec<DependencyInfo> {
        let own = self.tasks.at(slot);
        if own.edges.is_empty() {
            return Vec::new();
        }
        let info = |edge: &Edge| {
            let known = self.dependency_of(own, edge);
            DependencyInfo {
                task: edge.dependency,
                condition: edge.condition(),
                progress: edge.progress(),
                name: known.and_then(|known| self.name_of(known).cloned()),
                state: known.map(|known| self.state_of(known)),
                result_bytes: match known {
                    Some(Awaited::Task(slot)) => Which::Result.of(self.tasks.at(slot)).bytes(),
                    Some(Awaited::Array(_)) | None => 0,
                },
            }
        };
        self.edges.of(own.edges).filter(|(_, edge)| !edge.is_wait()).map(|(_, edge)| info(edge)).collect()
    }

    /// A task's body: its own, or the one that all elements of its array share.
    pub(crate) fn body_of(&self, task: &Task) -> Blob {
        match self.terms.array(task.terms) {
            Some(array) if task.body.is_empty() => self.arrays.at(array).record.body,
            _ => task.body,
        }
    }

    pub(crate) fn info(&self, slot: Slot) -> TaskInfo {
        let task = self.tasks.at(slot);
        let extras = task.extras.as_deref();
        TaskInfo {
            id: task.id,
            name: task.name().cloned(),
            terms: self.terms.get(task.terms).clone(),
            parent: task.parent(),
            after: self.dependencies_info(slot),
            children: extras.map_or(0, |extras| extras.children.len() as u32),
            priority: task.priority,
            attempt: task.attempt,
            crashes: task.crashes,
            failures: task.failures,
            submitted_at: task.submitted_at,
            not_before: extras.and_then(|extras| extras.not_before),
            expires_at: extras.and_then(|extras| extras.expires_at),
            crashed_on: extras.map_or_else(Vec::new, |extras| extras.crashed_on.clone()),
            devices: task.state.holding().and_then(|holding| holding.devices.clone()),
            body: self.body_of(task),
            checkpoint: task.checkpoint().copied(),
            trace: extras.and_then(|extras| extras.trace.clone()),
            reconciliation: task.reconciliation().map(Name::from),
            state: task.state.clone(),
        }
    }
}
