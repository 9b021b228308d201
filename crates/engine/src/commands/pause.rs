//! Pause: a task waits until a client resumes it. The worker of a running task is asked to stop it first. One that
//! can stop the attempt in place reports so (`stop_in_place`), and the attempt is suspended until a client resumes
//! it; any other ends the attempt and confirms, and the task is paused.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::REASON_BYTES_MAX;
use crate::name;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{Intent, PauseCause, PauseInfo, StateName, StopInPlace, TaskState, Wanted};
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn pause(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        reason: Option<Box<str>>,
        terminate: bool,
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
            StateName::Suspended if self.is_stopped(slot) && !terminate => {
                return self.stop_again(now, slot, reason, out);
            }
            StateName::Running | StateName::Suspended => {
                let kind = EventData::PauseRequested { reason: reason.clone() };
                let intent = Intent { wanted: Wanted::Pause, in_place: !terminate, reason, delivered: false };
                self.want(now, slot, intent, kind, out);
            }
            StateName::Paused | StateName::Completed | StateName::Failed | StateName::Cancelled => {
                return Err(self.wrong_state(slot, "pause"));
            }
        }
        Ok(Reply::Done)
    }

    /// The worker has stopped the attempt in place. If no client wants it paused any more, it goes on at once.
    pub(crate) fn stop_in_place(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        // What the worker has stopped has started.
        self.mark_started(now, slot, out);
        let state = self.tasks.at_mut(slot).state.holding_mut().expect("a reported attempt is held");
        let Some(intent) = state.intent.take_if(|intent| intent.wanted == Wanted::Pause) else {
            match self.state_name(slot) {
                StateName::Suspended => self.report_again(slot),
                _ => self.tell_continue(slot, out),
            }
            return;
        };
        let reason = intent.reason;
        let stop = Some(Box::new(StopInPlace { reason: reason.clone(), is_resumed: false }));
        if self.state_name(slot) == StateName::Suspended {
            self.withdraw_continuing(slot);
        } else {
            let open = self.edges.open_count(self.tasks.at(slot).edges);
            self.become_suspended(now, slot, open);
        }
        let suspension = self.suspension_mut(slot);
        (suspension.stop, suspension.is_reported_by_session) = (stop, true);
        self.emit_task_record(now, slot, EventData::Paused { reason }, out);
    }

    /// A client pauses an attempt that its worker keeps stopped, before it has continued.
    fn stop_again(
        &mut self,
        now: Timestamp,
        slot: Slot,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        if self.suspension_mut(slot).is_paused() {
            return Err(self.wrong_state(slot, "pause"));
        }
        self.withdraw_continuing(slot);
        let stop = Box::new(StopInPlace { reason: reason.clone(), is_resumed: false });
        self.suspension_mut(slot).stop = Some(stop);
        self.emit_task_record(now, slot, EventData::Paused { reason }, out);
        Ok(Reply::Done)
    }

    /// Whether its worker keeps the attempt stopped.
    fn is_stopped(&self, slot: Slot) -> bool {
        matches!(&self.tasks.at(slot).state, TaskState::Suspended(suspension) if suspension.stop.is_some())
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
