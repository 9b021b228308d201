//! Pause: a task waits until a client resumes it. The worker of a running task is asked to stop it first.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::REASON_BYTES_MAX;
use crate::name;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{PauseCause, PauseInfo, StateName, TaskState, Wanted};
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
            StateName::Created | StateName::Waiting | StateName::Delayed | StateName::Ready => {
                self.enter_paused(now, slot, PauseCause::Asked, reason, out);
            }
            StateName::Assigned => {
                self.order_stop(slot, StopWhy::Paused, out);
                self.enter_paused(now, slot, PauseCause::Asked, reason, out);
            }
            StateName::Running | StateName::Suspended => {
                let kind = EventData::PauseRequested { reason: reason.clone() };
                self.want(now, slot, Wanted::Pause, reason, kind, out);
            }
            StateName::Paused | StateName::Completed | StateName::Failed | StateName::Cancelled => {
                return Err(self.wrong_state(slot, "pause"));
            }
        }
        Ok(Reply::Done)
    }

    /// Pauses a held task as its intent asks.
    pub(crate) fn pause_as_asked(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let reason = self.intent_reason(slot);
        self.enter_paused(now, slot, PauseCause::Asked, reason, out);
    }

    /// The paused state of a held task that a client asked to pause.
    pub(crate) fn paused_as_asked(&self, now: Timestamp, slot: Slot) -> TaskState {
        let reason = self.intent_reason(slot);
        TaskState::Paused(Box::new(PauseInfo { since: now, why: PauseCause::Asked, reason }))
    }

    pub(crate) fn enter_paused(
        &mut self,
        now: Timestamp,
        slot: Slot,
        why: PauseCause,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) {
        let pause = PauseInfo { since: now, why, reason: reason.clone() };
        self.become_state(now, slot, TaskState::Paused(Box::new(pause)), EventData::Paused { reason }, out);
    }
}
