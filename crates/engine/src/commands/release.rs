//! Release: a held-back task may run.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{StateName, TaskState};
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn release(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.task_of(peer, task)?;
        if self.state_name(slot) != StateName::Created {
            return Err(self.wrong_state(slot, "release"));
        }
        let next = self.waiting_state(now, slot);
        self.become_state(now, slot, next, EventData::Released, out);
        Ok(Reply::Done)
    }

    /// The state in which a task waits: for its dependencies, then delayed until its `not_before`, then ready.
    pub(crate) fn waiting_state(&self, now: Timestamp, slot: Slot) -> TaskState {
        let open = self.edges.open_count(self.tasks.at(slot).edges);
        if open > 0 {
            return TaskState::Waiting { open };
        }
        match self.tasks.at(slot).extras.as_ref().and_then(|extras| extras.not_before) {
            Some(until) if until > now => TaskState::Delayed { until },
            _ => TaskState::Ready { since: now },
        }
    }
}
