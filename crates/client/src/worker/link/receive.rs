//! Messages to a worker: tasks, requests to cancel or pause, ends of attempts, and replies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_wire::reply::RefusedEntry;
use tenure_wire::task::Held;
use tenure_wire::words::{StopWhy, Wanted};
use tenure_wire::{Code, FromBroker, Notice, Refusal, Reply};

use super::{Link, LinkState, Sent};
use crate::error::Error;
use crate::worker::attempt_table::ReportOutcome;
use crate::worker::context::Context;
use crate::worker::handle::WorkerTotals;
use crate::worker::outbox::Leaving;
use crate::worker::report::AttemptReport;
use crate::worker::signal::Interrupt;
use crate::worker::waiting::PendingWait;

impl Link {
    pub(super) fn handle_message(&mut self, now: Instant, message: FromBroker) -> Result<(), Error> {
        match message {
            FromBroker::Reply { number, reply } => self.answered(now, number, &reply),
            FromBroker::Notice(notice) => self.notified(now, notice),
        }
    }

    fn notified(&mut self, now: Instant, notice: Notice) -> Result<(), Error> {
        match notice {
            Notice::Assign(assign) => {
                let terms: Vec<Arc<_>> = assign.terms.into_iter().map(Arc::new).collect();
                for assignment in assign.tasks {
                    let Some(terms) = terms.get(assignment.terms as usize) else {
                        return Err(Error::protocol("a task was assigned without its terms"));
                    };
                    self.attempts.assigned(Context::new(
                        assignment,
                        Arc::clone(terms),
                        Arc::clone(&self.outbox),
                    ));
                }
            }
            Notice::Wanted(wanted) => {
                let held = Held { task: wanted.task, attempt: wanted.attempt };
                let reason = wanted.reason;
                if wanted.wanted == Wanted::Pause && wanted.in_place {
                    self.attempts.stop_wanted(held, Interrupt::Pause { reason });
                    return Ok(());
                }
                let interrupt = match &wanted.wanted {
                    Wanted::Cancel => Interrupt::Cancel { reason },
                    Wanted::Pause => Interrupt::Pause { reason },
                    // A newer broker wants something unknown: the best answer is to continue.
                    Wanted::Other(_) => return Ok(()),
                };
                self.attempts.wanted(held, interrupt, wanted.wanted);
            }
            Notice::Continue(continued) => {
                let held = Held { task: continued.task, attempt: continued.attempt };
                let wait = self.waits.get(&held);
                let is_answer = wait.is_none_or(|wait| wait.is_answered_by(&continued.ends));
                // A wait for other tasks says nothing of a pause that a client wants meanwhile.
                let is_resumed = wait.is_none_or(PendingWait::is_for_resume);
                if is_answer {
                    self.attempts.continued(held);
                    if is_resumed {
                        self.attempts.resumed(held);
                    }
                    self.end_wait(held, Ok(continued.ends));
                }
            }
            Notice::Stop(stop) => {
                self.attempts.stop(now, Held { task: stop.task, attempt: stop.attempt }, stop.why);
            }
            Notice::Drain => {
                self.told = self.told.max(Leaving::Drain);
                self.attempts.leave();
                self.outbox.leave(Leaving::Drain);
            }
            Notice::Replaced(replaced) => {
                let message = format!("another session has taken over the worker {}", replaced.worker);
                return Err(Refusal::new(Code::WorkerTaken, message).into());
            }
            Notice::Bye(refusal) => return Err(refusal.into()),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, now: Instant, number: u64, reply: &Reply) -> Result<(), Error> {
        let Some(sent) = self.sent.remove(number) else { return Ok(()) };
        if let Reply::Refused(refusal) = reply
            && refusal.code == Code::NotAWorker
        {
            return Err(Error::lost("the broker no longer knows this worker"));
        }
        let refused_all = match reply {
            Reply::Refused(refusal) => Some(&**refusal),
            _ => None,
        };
        let refused: &[RefusedEntry] = match reply {
            Reply::Held(held) => &held.refused,
            Reply::Registered(registered) => &registered.refused,
            _ => &[],
        };
        match sent {
            Sent::Register(presented, sent) => {
                if let Some(refusal) = refused_all {
                    return Err(refusal.clone().into());
                }
                self.confirm_lease(sent);
                self.set_lease_clock();
                self.registered(now, &presented, refused);
            }
            Sent::Start(started) => match refused_all {
                Some(refusal) => self.stop_each(now, &started, &refusal.code),
                None => self.attempts.started(now, &started, &positions(refused)),
            },
            Sent::Complete(done) => {
                for (index, held) in done.into_iter().enumerate() {
                    let entry = refused.iter().find(|entry| entry.index as usize == index);
                    self.reported(now, held, refused_all.or(entry.map(|entry| &entry.refusal)));
                }
            }
            Sent::Report(held) => self.reported(now, held, refused_all),
            Sent::Heartbeat(presented, sent) => {
                if refused_all.is_none() {
                    self.confirm_lease(sent);
                }
                for entry in refused {
                    if let Some(held) = presented.get(entry.index as usize) {
                        self.stop_each(now, &[*held], &entry.refusal.code);
                    }
                }
            }
            Sent::Progress(held) => {
                if let Some(refusal) = refused_all {
                    self.stop_each(now, &[held], &refusal.code);
                }
            }
            Sent::Fetch(held) => match (reply, refused_all) {
                (Reply::Bytes(bytes), _) => self.attempts.fetched(held, bytes.bytes.clone()),
                (_, Some(refusal)) if is_over(&refusal.code) => self.stop_each(now, &[held], &refusal.code),
                _ => {
                    tracing::error!(task = %held.task, ?reply, "cannot fetch the checkpoint; the task starts from the beginning");
                    self.attempts.fetched(held, Bytes::new());
                }
            },
            Sent::SaveCheckpoint(held, checkpoint) => {
                self.checkpoints_sent.remove(&held);
                checkpoint.resolve(&refused_all.map_or(Ok(()), |refusal| Err(refusal.clone().into())));
                if let Some(refusal) = refused_all {
                    self.stop_each(now, &[held], &refusal.code);
                }
            }
            Sent::Suspend { held, is_for_resume } => {
                self.suspend_answered(now, held, is_for_resume, refused_all);
            }
            Sent::Log(piece) => {
                self.logs_sent = self.logs_sent.saturating_sub(1);
                if let Some(refusal) = refused_all {
                    let held = Held { task: piece.task, attempt: piece.attempt };
                    self.stop_each(now, &[held], &refusal.code);
                }
            }
            Sent::Drain => {}
            Sent::Leave => self.state = LinkState::Left,
        }
        Ok(())
    }

    fn suspend_answered(&mut self, now: Instant, held: Held, is_for_resume: bool, refused: Option<&Refusal>) {
        // A pause may have replaced the wait that this answers.
        let is_current = self.waits.get(&held).is_none_or(|wait| wait.is_for_resume() == is_for_resume);
        if let Some(wait) = self.waits.get_mut(&held).filter(|_| is_current) {
            wait.is_second = false;
        }
        let Some(refusal) = refused else { return };
        // The broker has not taken the slot away.
        if is_current {
            if self.waits.get(&held).is_none_or(PendingWait::is_for_resume) {
                self.attempts.resumed(held);
            }
            self.attempts.continued(held);
            self.end_wait(held, Err(refusal.clone().into()));
        }
        if refusal.code == Code::StaleAttempt {
            self.stop_each(now, &[held], &refusal.code);
        }
    }

    /// The broker knows the worker again, with the attempts that it presented but for the refused ones.
    fn registered(&mut self, now: Instant, presented: &[Held], refused: &[RefusedEntry]) {
        let late = self.attempts.registered(now, presented, &positions(refused));
        WorkerTotals::add(&self.tally.stale, late.len());
        for held in late {
            let why = "the attempt was over before its end was reported";
            self.answer(held, Err(&Refusal::new(Code::StaleAttempt, why)));
        }
        WorkerTotals::add(&self.tally.connections, 1);
        self.tally.connected.store(true, Ordering::Relaxed);
        self.state = LinkState::Registered;
        self.heartbeat_at = now + Duration::from_millis(self.settings.spec.heartbeat_ms);
        if let Some(first) = self.first.take()
            && first.send(Ok(())).is_err()
        {
            // The program dropped the future that started the worker.
            self.outbox.leave(Leaving::Stop);
        }
    }

    /// An attempt that the broker does not count as held is over; any other refusal changes nothing.
    fn stop_each(&mut self, now: Instant, held: &[Held], code: &Code) {
        if is_over(code) {
            for held in held {
                self.attempts.stop(now, *held, StopWhy::Stale);
            }
        }
    }

    fn reported(&mut self, now: Instant, held: Held, refusal: Option<&Refusal>) {
        let answered = self.attempts.answered(now, held, refusal);
        match (&answered, refusal) {
            (ReportOutcome::Taken(_), _) => self.answer(held, Ok(())),
            (ReportOutcome::Stale | ReportOutcome::Given(_), Some(refusal)) => {
                self.answer(held, Err(refusal));
            }
            _ => {}
        }
        let tally = &self.tally;
        let counter = match answered {
            ReportOutcome::Taken(report) => match report {
                AttemptReport::Complete(_) => &tally.completed,
                AttemptReport::Fail(_) => &tally.failed,
                AttemptReport::Confirm { wanted: Wanted::Pause, .. } => &tally.paused,
                AttemptReport::Confirm { .. } => &tally.cancelled,
                AttemptReport::GiveBack { .. } => &tally.given_back,
            },
            ReportOutcome::Stale => &tally.stale,
            ReportOutcome::Given(refusal) => {
                tracing::error!(task = %held.task, attempt = held.attempt, %refusal, "the broker refused the report of an attempt's end");
                &tally.stale
            }
            ReportOutcome::Again | ReportOutcome::Unknown => return,
        };
        WorkerTotals::add(counter, 1);
    }
}

impl Link {
    fn answer(&self, held: Held, answer: Result<(), &Refusal>) {
        if let Some(on_answer) = &self.settings.on_answer {
            (on_answer.0)(held.task, held.attempt, answer);
        }
    }
}

/// Whether a refusal says that the attempt is over.
fn is_over(code: &Code) -> bool {
    matches!(code, Code::StaleAttempt | Code::UnknownTask)
}

fn positions(refused: &[RefusedEntry]) -> Vec<u32> {
    refused.iter().map(|entry| entry.index).collect()
}
