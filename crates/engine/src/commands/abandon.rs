//! Abandon: the client that submitted the tasks is gone and cannot come back, so no client waits for them.
//! Tasks that have not started expire.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::record::Output;
use crate::state::StateName;
use crate::time::Timestamp;
use crate::timers::Timer;

impl Engine {
    pub(crate) fn abandon(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        tasks: &[TaskId],
        out: &mut dyn Output,
    ) -> Reply {
        for task in tasks {
            let Ok(slot) = self.task_of(peer, *task) else { continue };
            let is_its_own = self.terms.get(self.tasks.at(slot).terms).submitter == peer.identity;
            if is_its_own && self.set_abandoned(now, slot) {
                self.emit_task_record(now, slot, EventData::Moved, out);
            }
        }
        Reply::Done
    }

    /// Sets the expiry of a task that has an `abandon_after`, has not started and has no expiry yet. Returns
    /// whether it did.
    pub(crate) fn set_abandoned(&mut self, now: Timestamp, slot: Slot) -> bool {
        let task = self.tasks.at(slot);
        let Some(after) = self.terms.get(task.terms).abandon_after else { return false };
        let waits = matches!(
            task.state.name(),
            StateName::Created
                | StateName::Waiting
                | StateName::Delayed
                | StateName::Ready
                | StateName::Assigned
        );
        let has_expiry = task.extras.as_ref().is_some_and(|extras| extras.expires_at.is_some());
        if !waits || has_expiry || task.crashes > 0 || task.failures > 0 {
            return false;
        }
        let at = now + after;
        self.tasks.at_mut(slot).extras_mut().expires_at = Some(at);
        self.timers.arm(at, Timer::Expires(slot));
        true
    }
}
