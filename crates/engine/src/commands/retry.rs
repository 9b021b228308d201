//! Retry: an ended task starts over, with its crashes and failures reset. Its attempt number continues, so
//! that a late report of an earlier attempt stays stale. It waits again for those of its dependencies that have
//! not ended; one that has ended counts, however it ended, because a person decided.

use crate::blob::Which;
use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::TaskId;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::TaskState;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn retry(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.task_of(peer, task)?;
        if !self.state_name(slot).has_ended() {
            return Err(self.wrong_state(slot, "retry"));
        }
        let result = Which::Result.of(self.tasks.at(slot));
        if !result.is_empty() {
            out.freed(result);
        }
        let task = self.tasks.at_mut(slot);
        task.crashes = 0;
        task.failures = 0;
        if let Some(extras) = &mut task.extras {
            extras.crashed_on.clear();
            extras.expires_at = None;
        }
        self.reopen_dependencies(slot);
        let open = self.edges.open_count(self.tasks.at(slot).edges);
        let next = if open > 0 { TaskState::Waiting { open } } else { TaskState::Ready { since: now } };
        self.become_state(now, slot, next, EventData::Retried, out);
        Ok(Reply::Done)
    }
}
