//! Progress: a worker reports how far a running task is.

use crate::command::{Held, Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::limits::NOTE_BYTES_MAX;
use crate::name;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::Progress;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn progress(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        percent: Option<u8>,
        note: Option<Box<str>>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, held)?;
        if percent.is_some_and(|percent| percent > 100) {
            return Err(Refusal::BadValue { what: "progress", why: "is above 100 percent" });
        }
        name::check_text("bytes in a progress note", note.as_deref(), NOTE_BYTES_MAX)?;
        // A worker that reports progress has started.
        self.mark_started(now, slot, out);
        let holding = self.tasks.at_mut(slot).state.holding_mut().expect("it is held");
        holding.progress = Some(Progress { percent, note: note.clone(), at: now });
        self.emit_task_record(now, slot, EventData::Progress { percent, note }, out);
        Ok(Reply::Done)
    }
}
