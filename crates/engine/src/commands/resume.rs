//! Resume: a paused task becomes ready again, delayed if it is not due yet, or waiting if a dependency has not
//! ended. An attempt that its worker has stopped in place continues there as soon as it has room. Any other state
//! is refused, even a running task with a pending pause.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::StateName;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn resume(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.task_of(peer, task)?;
        if self.state_name(slot) == StateName::Suspended && self.suspension_mut(slot).is_paused() {
            self.resume_in_place(now, slot, out);
            return Ok(Reply::Done);
        }
        if self.state_name(slot) != StateName::Paused {
            return Err(self.wrong_state(slot, "resume"));
        }
        let next = self.waiting_state(now, slot);
        self.become_state(now, slot, next, EventData::Resumed, out);
        Ok(Reply::Done)
    }

    fn resume_in_place(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        if self.suspension_mut(slot).open > 0 {
            // It was stopped while it waited for other tasks. It goes on, and says again what it still waits for.
            self.drop_waits(slot);
            self.suspension_mut(slot).open = self.edges.open_count(self.tasks.at(slot).edges);
        }
        let suspension = self.suspension_mut(slot);
        if let Some(stop) = &mut suspension.stop {
            stop.is_resumed = true;
        }
        let is_over = suspension.is_over();
        self.emit_task_record(now, slot, EventData::Resumed, out);
        if is_over {
            self.offer_continuing(slot);
        }
    }
}
