//! Cancel: one verb for every state. A waiting task ends at once. A running one is asked to stop, and the
//! intent is stored until its worker confirms or its lease ends. Children are cancelled as well.

use crate::blob::Blob;
use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::REASON_BYTES_MAX;
use crate::name;
use crate::notice::{Notice, StopWhy};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{EXIT_CANCELLED, Intent, StateName, TaskState, Wanted};
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn cancel(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        task: TaskId,
        reason: Option<&str>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.task_of(peer, task)?;
        name::check_text("bytes in a reason", reason, REASON_BYTES_MAX)?;
        if self.state_name(slot).has_ended() {
            return Err(self.wrong_state(slot, "cancel"));
        }
        self.cancel_family(now, slot, reason, out);
        self.retire_ended(now, out);
        Ok(Reply::Done)
    }

    /// Cancels a task and its children. Tasks that wait for one of them follow when it has ended.
    pub(crate) fn cancel_family(
        &mut self,
        now: Timestamp,
        slot: Slot,
        reason: Option<&str>,
        out: &mut dyn Output,
    ) {
        let mut family = vec![slot];
        while let Some(member) = family.pop() {
            if let Some(extras) = &self.tasks.at(member).extras {
                family.extend(extras.children.iter().rev().map(|(_, child)| *child));
            }
            self.cancel_one(now, member, reason.map(Box::from), out);
        }
    }

    fn cancel_one(&mut self, now: Timestamp, slot: Slot, reason: Option<Box<str>>, out: &mut dyn Output) {
        match self.state_name(slot) {
            StateName::Completed | StateName::Failed | StateName::Cancelled => {}
            StateName::Running | StateName::Suspended => {
                let kind = EventData::CancelRequested { reason: reason.clone() };
                let intent = Intent { wanted: Wanted::Cancel, in_place: false, reason, delivered: false };
                self.want(now, slot, intent, kind, out);
            }
            StateName::Assigned => {
                // The attempt is unconfirmed, so there is nothing to wait for. If it has started meanwhile,
                // the notice stops it.
                self.order_stop(slot, StopWhy::Cancelled, out);
                self.end_cancelled_because(now, slot, reason, Blob::EMPTY, false, out);
            }
            StateName::Created
            | StateName::Waiting
            | StateName::Delayed
            | StateName::Ready
            | StateName::Paused => {
                self.end_cancelled_because(now, slot, reason, Blob::EMPTY, false, out);
            }
        }
    }

    /// Stores the intent for a running or suspended task and notifies its worker if it is connected.
    pub(crate) fn want(
        &mut self,
        now: Timestamp,
        slot: Slot,
        intent: Intent,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let holding = self.tasks.at_mut(slot).state.holding_mut().expect("intents are for held tasks");
        // A cancel request overrides a pause, and the end of an attempt overrides a stop in place.
        let weight = |intent: &Intent| (intent.wanted == Wanted::Cancel, !intent.in_place);
        if holding.intent.as_ref().is_some_and(|known| weight(known) >= weight(&intent)) {
            return;
        }
        holding.intent = Some(intent);
        self.emit_task_record(now, slot, kind, out);
        self.deliver_intent(now, slot, out);
    }

    /// Sends the intent to the task's worker if it is connected. A disconnected worker gets it when it
    /// returns.
    pub(crate) fn deliver_intent(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let task = self.tasks.at(slot);
        let Some(holding) = task.state.holding().filter(|_| self.has_started(slot)) else { return };
        let Some(intent) = &holding.intent else { return };
        let worker = self.workers.at(holding.key);
        let Some(session) = worker.session().filter(|_| worker.is_live()) else { return };
        let Intent { wanted, in_place, delivered: was_delivered, ref reason } = *intent;
        let (reason, attempt) = (reason.clone(), task.attempt);
        let notice = Notice::Wanted { task: task.id, attempt, wanted, in_place, reason };
        let name = holding.worker.clone();
        out.notice(session, notice);
        let is_timed = wanted == Wanted::Cancel && self.cancel_timeout(self.terms.get(task.terms)).is_some();
        let next_event = self.next_event;
        let holding = self.tasks.at_mut(slot).state.holding_mut().expect("as above");
        if is_timed {
            // The cancel timeout starts when this notice leaves (`mark_sent.rs`); a reminder does not extend it.
            holding.waits_for = if was_delivered { next_event - 1 } else { next_event };
            self.unsent_attempts.push_back((holding.waits_for, slot));
        }
        if was_delivered {
            return;
        }
        if let Some(intent) = &mut holding.intent {
            intent.delivered = true;
        }
        self.emit_task_record(now, slot, EventData::IntentDelivered { wanted, worker: name }, out);
    }

    /// The worker did not cancel within the timeout: the attempt is over, whatever the worker does.
    pub(crate) fn enforce_cancel(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        self.order_stop(slot, StopWhy::Cancelled, out);
        self.note_stopping(slot);
        self.end_cancelled(now, slot, Blob::EMPTY, true, out);
    }

    /// Notifies the holder, if connected, that its attempt is over.
    pub(crate) fn order_stop(&mut self, slot: Slot, why: StopWhy, out: &mut dyn Output) {
        let task = self.tasks.at(slot);
        let Some(holding) = task.state.holding() else { return };
        if let Some(session) = self.workers.at(holding.key).session() {
            out.notice(session, Notice::Stop { task: task.id, attempt: task.attempt, why });
        }
    }

    /// Ends a held task that a client cancelled. `forced` means that the worker did not confirm.
    pub(crate) fn end_cancelled(
        &mut self,
        now: Timestamp,
        slot: Slot,
        result: Blob,
        forced: bool,
        out: &mut dyn Output,
    ) {
        let reason = self.intent_reason(slot);
        self.end_cancelled_because(now, slot, reason, result, forced, out);
        self.retire_ended(now, out);
    }

    pub(crate) fn intent_reason(&self, slot: Slot) -> Option<Box<str>> {
        let state = &self.tasks.at(slot).state;
        match (&state.holding()?.intent, state) {
            (Some(intent), _) => intent.reason.clone(),
            (None, TaskState::Suspended(suspension)) => suspension.stop.as_ref()?.reason.clone(),
            (None, _) => None,
        }
    }

    fn end_cancelled_because(
        &mut self,
        now: Timestamp,
        slot: Slot,
        reason: Option<Box<str>>,
        result: Blob,
        forced: bool,
        out: &mut dyn Output,
    ) {
        let end = self.end_of(now, slot, EXIT_CANCELLED, result, reason.clone());
        self.become_state(
            now,
            slot,
            TaskState::Cancelled(Box::new(end)),
            EventData::Cancelled { reason, forced },
            out,
        );
    }
}
