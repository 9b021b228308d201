//! Move: gives a waiting task another queue, priority or set of tags.

use crate::command::{Move, Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::TaskId;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::terms::Terms;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn move_task(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        to: Move,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.task_of(peer, task)?;
        let state = self.state_name(slot);
        if state.has_ended() || state.is_held() {
            return Err(self.wrong_state(slot, "move"));
        }
        let before = self.tasks.at(slot).terms;
        let mut terms = Terms::clone(self.terms.get(before));
        terms.queue = to.queue.unwrap_or(terms.queue);
        terms.tags = to.tags.unwrap_or(terms.tags);
        terms.normalize();
        terms.check()?;
        self.check_queue_room(&terms.namespace, std::slice::from_ref(&terms.queue))?;
        self.leave_state(slot);
        let after = self.terms_key(terms);
        self.terms.retain(after);
        let task = self.tasks.at_mut(slot);
        task.terms = after;
        task.priority = to.priority.unwrap_or(task.priority);
        self.release_terms(before);
        self.emit_task_record(now, slot, EventData::Moved, out);
        self.enter_state(slot);
        Ok(Reply::Done)
    }
}
