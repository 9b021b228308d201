//! Resume: a paused task becomes ready again, delayed if it is not due yet, or waiting if a dependency has not
//! ended. Any other state is refused, even a running task with a pending pause.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::TaskId;
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
        if self.state_name(slot) != StateName::Paused {
            return Err(self.wrong_state(slot, "resume"));
        }
        let next = self.waiting_state(now, slot);
        self.become_state(now, slot, next, EventData::Resumed, out);
        Ok(Reply::Done)
    }
}
