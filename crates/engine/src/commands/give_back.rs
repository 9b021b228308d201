//! Give back: the worker returns a task unfinished, which is neither a failure nor a crash. A started task
//! that must not run twice by itself is paused or fails. Take back: the broker withdraws an unconfirmed task from its
//! worker.

use crate::blob::Blob;
use crate::command::{Held, Peer, Reply};
use crate::engine::Engine;
use crate::event::{EventData, Next};
use crate::id::Slot;
use crate::limits::REASON_BYTES_MAX;
use crate::name::{self, Name};
use crate::notice::{Notice, StopWhy};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{EXIT_CRASHED, PauseCause, TaskState, Wanted};
use crate::terms::OnLost;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn give_back(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, held)?;
        name::check_text("bytes in a reason", reason.as_deref(), REASON_BYTES_MAX)?;
        self.hand_back(now, slot, reason, out);
        Ok(Reply::Done)
    }

    /// The worker never received the task, so no part of it was done.
    pub(crate) fn undelivered(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, held)?;
        name::check_text("bytes in a reason", reason.as_deref(), REASON_BYTES_MAX)?;
        self.return_task(now, slot, false, reason, out);
        Ok(Reply::Done)
    }

    /// Ends the attempt without a crash. A pending intent (cancel or pause) takes effect instead of another
    /// attempt.
    pub(crate) fn hand_back(
        &mut self,
        now: Timestamp,
        slot: Slot,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) {
        let started = self.has_started(slot);
        self.return_task(now, slot, started, reason, out);
    }

    fn return_task(
        &mut self,
        now: Timestamp,
        slot: Slot,
        started: bool,
        reason: Option<Box<str>>,
        out: &mut dyn Output,
    ) {
        let task = self.tasks.at(slot);
        let holding = task.state.holding().expect("only a held task is handed back");
        let worker = holding.worker.clone();
        let on_lost = self.terms.get(task.terms).on_lost;
        let intent = self.wanted_of(slot);
        if !started {
            self.return_tokens(now, slot);
        }
        match intent {
            Some(Wanted::Cancel) => self.end_cancelled(now, slot, Blob::EMPTY, false, out),
            Some(Wanted::Pause) => self.pause_as_asked(now, slot, out),
            // Some of the work may be done, so a person decides whether it runs again.
            None if started && on_lost == OnLost::Pause => {
                self.enter_paused(now, slot, PauseCause::WorkerLost, reason, out);
            }
            None if started && on_lost == OnLost::Fail => {
                self.fail_given_back(now, slot, worker, reason.as_deref(), out);
            }
            None => self.become_state(
                now,
                slot,
                // A suspended task goes on waiting.
                self.waiting_state(now, slot),
                EventData::GivenBack { worker, reason },
                out,
            ),
        }
    }

    /// A given back attempt is neither a failure of the work nor a crash, so it counts as neither.
    fn fail_given_back(
        &mut self,
        now: Timestamp,
        slot: Slot,
        worker: Name,
        reason: Option<&str>,
        out: &mut dyn Output,
    ) {
        let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let message: Option<Box<str>> = Some(format!("given back by {worker}{because}").into());
        let end = self.end_of(now, slot, EXIT_CRASHED, Blob::EMPTY, message.clone());
        let kind = EventData::Failed {
            worker: Some(worker),
            exit_code: EXIT_CRASHED,
            message,
            next: Next::Failed,
            result: Blob::EMPTY,
        };
        self.become_state(now, slot, TaskState::Failed(Box::new(end)), kind, out);
        self.retire_ended(now, out);
    }

    /// Takes an unconfirmed task from a holder that had time to confirm. That holder becomes the last choice
    /// for the next attempt, or two workers that do not confirm would pass the task back and forth.
    pub(crate) fn take_back_unconfirmed(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let task = self.tasks.at_mut(slot);
        let worker = task.state.holding().expect("only an assigned task is taken back").worker.clone();
        task.extras_mut().avoid_worker(worker);
        self.take_back(now, slot, out);
    }

    /// Takes an unconfirmed task from its holder. It becomes ready again, in its old place.
    pub(crate) fn take_back(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let task = self.tasks.at(slot);
        let holding = task.state.holding().expect("only an assigned task is taken back");
        let (worker, key) = (holding.worker.clone(), holding.key);
        let stop = Notice::Stop { task: task.id, attempt: task.attempt, why: StopWhy::TakenBack };
        self.return_tokens(now, slot);
        self.become_state(now, slot, TaskState::Ready { since: now }, EventData::TakenBack { worker }, out);
        if let Some(session) = self.workers.at(key).session() {
            out.notice(session, stop);
        }
    }
}
