//! Pause: put a task aside until somebody resumes it. A running one is asked to stop first.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::Kind;
use crate::id::{Slot, TaskId};
use crate::limits::REASON_BYTES_MAX;
use crate::name;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{Aside, AsideWhy, StateName, TaskState, Wanted};
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn pause(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.task_of(peer, task)?;
        name::check_text("bytes in a reason", reason.as_deref(), REASON_BYTES_MAX)?;
        match self.state_name(slot) {
            StateName::Created | StateName::Delayed | StateName::Ready => {
                self.put_aside(now, slot, AsideWhy::Asked, reason, out);
            }
            StateName::Assigned => {
                self.order_stop(slot, StopWhy::Paused, out);
                self.put_aside(now, slot, AsideWhy::Asked, reason, out);
            }
            StateName::Running => {
                let kind = Kind::PauseRequested { reason: reason.clone() };
                self.want(now, slot, Wanted::Pause, reason, kind, out);
            }
            StateName::Paused | StateName::Completed | StateName::Failed | StateName::Cancelled => {
                return Err(self.wrong_state(slot, "pause"));
            }
        }
        Ok(Reply::Done)
    }

    /// What was asked of a running task has come true.
    pub(crate) fn put_aside_as_asked(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let reason = self.intent_reason(slot);
        self.put_aside(now, slot, AsideWhy::Asked, reason, out);
    }

    /// The state of a held task that was asked to pause.
    pub(crate) fn aside_as_asked(&self, now: Timestamp, slot: Slot) -> TaskState {
        let reason = self.intent_reason(slot);
        TaskState::Paused(Box::new(Aside { since: now, why: AsideWhy::Asked, reason }))
    }

    pub(crate) fn put_aside(
        &mut self,
        now: Timestamp,
        slot: Slot,
        why: AsideWhy,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) {
        let aside = Aside { since: now, why, reason: reason.clone() };
        self.become_state(now, slot, TaskState::Paused(Box::new(aside)), Kind::Paused { reason }, out);
    }
}
