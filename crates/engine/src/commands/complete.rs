//! Complete: the worker reports that the work is done.

use crate::command::{Completion, Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::Slot;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{End, TaskState};
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        completions: &[Completion],
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let worker = self.worker_of(peer)?;
        let found = self.tasks.find_all(completions.iter().map(|completion| &completion.held.task));
        let each = completions.iter().zip(found).map(|(completion, found)| {
            let slot = self.fence(worker, peer, completion.held, found)?;
            // A completion after a request to cancel still counts: the work is done, and its result is worth keeping.
            let end = self.end_of(now, slot, 0, completion.result, None);
            let worker = end.worker.clone().expect("a held task has a worker");
            let kind = EventData::Completed { worker, result: completion.result };
            self.drop_checkpoint(slot, out);
            self.become_state(now, slot, TaskState::Completed(Box::new(end)), kind, out);
            Ok(())
        });
        let reply = Reply::Held(each.collect());
        self.retire_ended(now, out);
        Ok(reply)
    }

    /// The end of a task, now. Its event number is the next one.
    pub(crate) fn end_of(
        &self,
        now: Timestamp,
        slot: Slot,
        exit_code: i32,
        result: crate::Blob,
        message: Option<Box<str>>,
    ) -> End {
        let worker = self.tasks.at(slot).state.holding().map(|holding| holding.worker.clone());
        End { at: now, event: self.next_event, exit_code, result, message, worker }
    }
}
