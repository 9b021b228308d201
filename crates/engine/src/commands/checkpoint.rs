//! Checkpoint: a worker saves a checkpoint. It survives the worker and a restart of the broker until the task
//! is completed or forgotten, and the next attempt receives it.

use crate::blob::{Blob, Which};
use crate::command::{Held, Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::Slot;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::task::Checkpoint;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn checkpoint(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        blob: Blob,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, held)?;
        // A worker that saves a checkpoint has started.
        self.mark_started(now, slot, out);
        self.drop_checkpoint(slot, out);
        if !blob.is_empty() {
            let checkpoint = Checkpoint { attempt: held.attempt, at: now, blob };
            self.tasks.at_mut(slot).extras_mut().checkpoint = Some(checkpoint);
        }
        self.emit_task_record(now, slot, EventData::Checkpoint { bytes: blob.bytes() }, out);
        Ok(Reply::Done)
    }

    /// Removes a checkpoint that is no longer needed. The task's next record omits it.
    pub(crate) fn drop_checkpoint(&mut self, slot: Slot, out: &mut dyn Output) {
        let before = Which::Checkpoint.of(self.tasks.at(slot));
        if !before.is_empty() {
            self.tasks.at_mut(slot).extras_mut().checkpoint = None;
            out.freed(before);
        }
    }
}
