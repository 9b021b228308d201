//! Cancel: one verb in every state. A waiting task ends at once; a running one is asked to stop, and the wish is
//! remembered until its worker confirms or its lease ends. It goes down to the children.

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
        let mut family = vec![slot];
        while let Some(member) = family.pop() {
            if let Some(extras) = &self.tasks.at(member).extras {
                family.extend(extras.children.iter().rev().map(|(_, child)| *child));
            }
            self.cancel_one(now, member, reason.map(Box::from), out);
        }
        self.retire_ended(now, out);
        Ok(Reply::Done)
    }

    fn cancel_one(&mut self, now: Timestamp, slot: Slot, reason: Option<Box<str>>, out: &mut dyn Output) {
        match self.state_name(slot) {
            StateName::Completed | StateName::Failed | StateName::Cancelled => {}
            StateName::Running => {
                let kind = EventData::CancelRequested { reason: reason.clone() };
                self.want(now, slot, Wanted::Cancel, reason, kind, out);
            }
            StateName::Assigned => {
                // Not confirmed: it need not be waited for. If it has started meanwhile, the worker is told to stop.
                self.order_stop(slot, StopWhy::Cancelled, out);
                self.end_cancelled_because(now, slot, reason, Blob::EMPTY, false, out);
            }
            StateName::Created | StateName::Delayed | StateName::Ready | StateName::Paused => {
                self.end_cancelled_because(now, slot, reason, Blob::EMPTY, false, out);
            }
        }
    }

    /// Remembers what is wanted of a running task and tells its worker, if it is there to hear.
    pub(crate) fn want(
        &mut self,
        now: Timestamp,
        slot: Slot,
        wanted: Wanted,
        reason: Option<Box<str>>,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let TaskState::Running(holding) = &mut self.tasks.at_mut(slot).state else {
            unreachable!("intents are for running tasks")
        };
        // A wish to cancel stands above a wish to pause and is not taken back.
        let known = holding.intent.as_ref().map(|intent| intent.wanted);
        if known == Some(wanted) || known == Some(Wanted::Cancel) {
            return;
        }
        holding.intent = Some(Intent { wanted, reason, delivered: false });
        self.tell_task(now, slot, kind, out);
        self.deliver_intent(now, slot, out);
    }

    /// Tells a worker that is there what is wanted of its task. For one that is away, this waits until it is back.
    pub(crate) fn deliver_intent(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let task = self.tasks.at(slot);
        let TaskState::Running(holding) = &task.state else { return };
        let Some(intent) = &holding.intent else { return };
        let worker = self.workers.at(holding.key);
        let Some(session) = worker.session().filter(|_| worker.is_live()) else { return };
        let (wanted, was_delivered) = (intent.wanted, intent.delivered);
        let notice =
            Notice::Wanted { task: task.id, attempt: task.attempt, wanted, reason: intent.reason.clone() };
        let name = holding.worker.clone();
        out.notice(session, notice);
        let is_timed = wanted == Wanted::Cancel && self.cancel_timeout(self.terms.get(task.terms)).is_some();
        let next_event = self.next_event;
        let TaskState::Running(holding) = &mut self.tasks.at_mut(slot).state else {
            unreachable!("as above")
        };
        if is_timed {
            // Its time to stop starts when this notice leaves (`spoken.rs`); a reminder does not prolong it.
            holding.waits_for = if was_delivered { next_event - 1 } else { next_event };
            self.unspoken.push_back((holding.waits_for, slot));
        }
        if was_delivered {
            return;
        }
        if let Some(intent) = &mut holding.intent {
            intent.delivered = true;
        }
        self.tell_task(now, slot, EventData::IntentDelivered { wanted, worker: name }, out);
    }

    /// A worker that was told to cancel has not done so in time: the attempt is over, whatever the worker does.
    pub(crate) fn enforce_cancel(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        self.order_stop(slot, StopWhy::Cancelled, out);
        self.note_stopping(slot);
        self.end_cancelled(now, slot, Blob::EMPTY, true, out);
    }

    /// Tells the holder, if it is connected, that its attempt is over.
    pub(crate) fn order_stop(&mut self, slot: Slot, why: StopWhy, out: &mut dyn Output) {
        let task = self.tasks.at(slot);
        let Some(holding) = task.state.holding() else { return };
        if let Some(session) = self.workers.at(holding.key).session() {
            out.notice(session, Notice::Stop { task: task.id, attempt: task.attempt, why });
        }
    }

    /// Ends a held task whose cancellation was asked for. `forced` means that nobody confirmed it.
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
        self.tasks.at(slot).state.holding()?.intent.as_ref()?.reason.clone()
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
