//! Confirm: the worker has stopped a task as requested.

use crate::blob::Blob;
use crate::command::{Held, Peer, Reply};
use crate::engine::Engine;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::Wanted;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn confirm(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        wanted: Wanted,
        result: Blob,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, held)?;
        match (wanted, self.wanted_of(slot)) {
            (Wanted::Cancel, Some(Wanted::Cancel)) => self.end_cancelled(now, slot, result, false, out),
            (Wanted::Pause, Some(Wanted::Pause)) => {
                self.pause_as_asked(now, slot, out);
                if !result.is_empty() {
                    out.freed(result);
                }
            }
            // The worker paused the task, but a client has cancelled it meanwhile. It has stopped, so it ends
            // as cancelled.
            (Wanted::Pause, Some(Wanted::Cancel)) => self.end_cancelled(now, slot, result, false, out),
            (Wanted::Cancel, _) => {
                return Err(self.wrong_state(slot, "confirm an unrequested cancel of"));
            }
            (Wanted::Pause, None) => {
                return Err(self.wrong_state(slot, "confirm an unrequested pause of"));
            }
        }
        Ok(Reply::Done)
    }
}
