//! Messages of a worker: starts, reports, progress, heartbeats, and goodbye.

use std::time::{Duration, Instant};

use tenure_wire::Request;
use tenure_wire::limits::ENTRIES_MAX;
use tenure_wire::request::{Heartbeat, OneTask, ReportProgress, SaveCheckpoint, Start};
use tenure_wire::task::{Completion, Held, WaitEnd};

use super::{Link, LinkState, Sent};
use crate::connection::Connection;
use crate::error::Error;
use crate::worker::outbox::Leaving;
use crate::worker::pending_checkpoint::over;
use crate::worker::report::{AttemptReport, into_frames};
use crate::worker::signal::Interrupt;
use crate::worker::waiting::PendingWait;

/// Minimum interval between progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How many pieces of output may be unanswered.
const LOGS_IN_FLIGHT_MAX: usize = 8;
/// How long the broker may take to answer the goodbye.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

impl Link {
    /// Sends everything that is due, and starts the handlers that may start.
    pub(super) fn send_due(&mut self, now: Instant, connection: &mut Connection) -> Result<(), Error> {
        match self.state {
            LinkState::Registering(until) if now >= until => {
                return Err(Error::lost("the broker did not answer the registration in time"));
            }
            LinkState::Leaving(until) if now >= until => {
                self.state = LinkState::Left;
                return Ok(());
            }
            LinkState::Away | LinkState::Registering(_) | LinkState::Leaving(_) | LinkState::Left => {
                return Ok(());
            }
            LinkState::Registered => {}
        }
        self.leave(now, connection);
        self.attempts.due(now);
        self.send_fetches(connection);
        self.send_starts(connection);
        // A checkpoint saved before the end is sent before the end.
        self.send_checkpoints(connection);
        self.send_waits(connection);
        self.send_logs(connection);
        self.send_reports(connection);
        self.send_progress(now, connection);
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + Duration::from_millis(self.settings.spec.heartbeat_ms);
            let held = self.attempts.for_heartbeat();
            let heartbeat =
                Heartbeat { held: Some(held.clone()), stats: self.process_stats.read(now).map(Box::new) };
            self.ask(connection, Sent::Heartbeat(held, self.lease_now()), &Request::Heartbeat(heartbeat));
        }
        self.watch_lease();
        self.begin_handlers();
        self.abort_overdue(now);
        self.count();
        if self.told != Leaving::No && self.attempts.is_empty() {
            self.ask(connection, Sent::Leave, &Request::Leave);
            self.state = LinkState::Leaving(now + LEAVE_TIMEOUT);
        } else if self.leave_by.is_some_and(|by| by <= now) {
            // The broker does not even accept the last reports: it will notice the end of the connection.
            self.state = LinkState::Left;
        }
        Ok(())
    }

    fn leave(&mut self, now: Instant, connection: &mut Connection) {
        self.interrupt_all(now);
        if self.stop_at.is_some_and(|at| at <= now) && self.leave_by.is_none() {
            self.attempts.abandon(now);
            self.leave_by = Some(now + LEAVE_TIMEOUT);
        }
        // Only replies are missing, and a reachable broker sends them at once.
        if self.stop_at.is_some() && self.attempts.busy() == 0 && self.leave_by.is_none() {
            self.leave_by = Some(now + LEAVE_TIMEOUT);
        }
        if self.outbox.leaving() != Leaving::No && self.told == Leaving::No {
            self.told = Leaving::Drain;
            self.ask(connection, Sent::Drain, &Request::Drain);
        }
    }

    fn send_fetches(&mut self, connection: &mut Connection) {
        for held in std::mem::take(&mut self.attempts.fetches) {
            let fetch = Request::Checkpoint(OneTask { task: held.task });
            self.ask(connection, Sent::Fetch(held), &fetch);
        }
    }

    /// Each attempt has at most one checkpoint in flight, and the latest follows; the last one goes before the end.
    fn send_checkpoints(&mut self, connection: &mut Connection) {
        let Link { outbox, attempts, checkpoints_sent, .. } = self;
        let is_next = |held: Held| !checkpoints_sent.contains(&held) || !attempts.is_running(held);
        for (held, checkpoint) in outbox.take_checkpoints(is_next) {
            let (bytes, limit) = (checkpoint.checkpoint.len(), self.result_bytes_max);
            if !self.attempts.may_report(held) {
                checkpoint.resolve(&Err(over()));
            } else if bytes > limit {
                checkpoint.resolve(&Err(Error::TooLarge { what: "a checkpoint", bytes, limit }));
            } else {
                let Held { task, attempt } = held;
                let request = SaveCheckpoint { task, attempt, checkpoint: checkpoint.checkpoint.clone() };
                self.checkpoints_sent.insert(held);
                self.ask(
                    connection,
                    Sent::SaveCheckpoint(held, checkpoint),
                    &Request::SaveCheckpoint(request),
                );
            }
        }
    }

    /// A handler waits. If its last wait is not answered, that one is given up first, so that the notice of one is not
    /// taken for that of the other. A pause does not wait for the answer: the broker replaces the last wait by it.
    pub(super) fn take_wait(&mut self, held: Held, mut wait: PendingWait) {
        match self.waits.get(&held) {
            Some(last) if last.is_for_resume() && !wait.is_heard() => {}
            Some(last) if last.sent && wait.is_heard() && !wait.is_for_resume() => {
                self.waits.insert(held, PendingWait::given_up(held));
                self.next_waits.insert(held, wait);
            }
            last => {
                wait.is_second = wait.is_for_resume() && last.is_some_and(|last| last.sent);
                self.next_waits.remove(&held);
                self.waits.insert(held, wait);
            }
        }
    }

    /// The wait of an attempt is over.
    pub(super) fn end_wait(&mut self, held: Held, told: Result<Vec<WaitEnd>, Error>) {
        if let Some(wait) = self.waits.remove(&held) {
            wait.resolve(told);
        }
        if let Some(next) = self.next_waits.remove(&held) {
            self.waits.insert(held, next);
        }
    }

    /// The broker gives the slots of attempts that wait to others.
    fn send_waits(&mut self, connection: &mut Connection) {
        let unsent: Vec<Held> =
            self.waits.iter().filter(|(_, wait)| !wait.sent).map(|(held, _)| *held).collect();
        for held in unsent {
            let is_running = self.attempts.is_running(held);
            let Some(wait) = self.waits.get_mut(&held).filter(|_| is_running) else {
                self.waits.remove(&held);
                continue;
            };
            wait.sent = true;
            let request = Request::Suspend(wait.suspend.clone());
            let is_for_resume = wait.is_for_resume();
            self.attempts.suspended(held);
            self.ask(connection, Sent::Suspend { held, is_for_resume }, &request);
        }
    }

    /// A handler that should wind down does not wait any longer.
    pub(super) fn interrupt_waits(&mut self) {
        let attempts = &self.attempts;
        let interrupted: Vec<(Held, Interrupt)> =
            self.waits.keys().filter_map(|held| Some((*held, attempts.interrupt(*held)?))).collect();
        for (held, interrupt) in interrupted {
            while self.waits.contains_key(&held) {
                self.end_wait(held, Err(Error::Interrupted { interrupt: interrupt.clone() }));
            }
        }
    }

    fn send_starts(&mut self, connection: &mut Connection) {
        for held in std::mem::take(&mut self.attempts.starts).chunks(ENTRIES_MAX) {
            let start = Request::Start(Start { held: held.to_vec() });
            self.ask(connection, Sent::Start(held.to_vec()), &start);
        }
    }

    /// A bounded number of pieces of output is in flight; when an attempt has ended, its output goes before its report.
    fn send_logs(&mut self, connection: &mut Connection) {
        let room = LOGS_IN_FLIGHT_MAX.saturating_sub(self.logs_sent);
        let attempts = &self.attempts;
        for piece in self.outbox.take_logs(room, |held| !attempts.is_running(held)) {
            if self.attempts.may_report(Held { task: piece.task, attempt: piece.attempt }) {
                self.logs_sent += 1;
                let request = Request::AppendLog(piece.clone());
                self.ask(connection, Sent::Log(piece), &request);
            }
        }
    }

    /// Completions that are ready together share a frame; every other report has its own.
    fn send_reports(&mut self, connection: &mut Connection) {
        let mut done = Vec::new();
        for held in std::mem::take(&mut self.attempts.unsent) {
            let Some(report) = self.attempts.send(held) else { continue };
            if let AttemptReport::Complete(result) = report {
                done.push(Completion { task: held.task, attempt: held.attempt, result: result.clone() });
            } else {
                let request = report.request(held);
                self.ask(connection, Sent::Report(held), &request);
            }
        }
        for frame in into_frames(done) {
            let held =
                frame.done.iter().map(|done| Held { task: done.task, attempt: done.attempt }).collect();
            self.ask(connection, Sent::Complete(held), &Request::Complete(frame));
        }
    }

    fn send_progress(&mut self, now: Instant, connection: &mut Connection) {
        if now < self.progress_at || !self.outbox.has_progress() {
            return;
        }
        self.progress_at = now + PROGRESS_EVERY;
        for (held, progress) in self.outbox.take_progress() {
            // The broker ignores progress when the attempt is over.
            if !self.attempts.is_running(held) {
                continue;
            }
            let Held { task, attempt } = held;
            let report = ReportProgress { task, attempt, percent: progress.percent, note: progress.note };
            self.ask(connection, Sent::Progress(held), &Request::Progress(report));
        }
    }

    pub(super) fn ask(&mut self, connection: &mut Connection, sent: Sent, request: &Request) {
        match self.sent.insert(sent) {
            Ok(number) => connection.ask_as(number, request),
            // Slots bound the reports and time bounds everything else, so only a broker that has stopped answering
            // gets here. The missing heartbeat replies close the connection.
            Err(sent) => tracing::error!(?sent, "too many unanswered requests"),
        }
    }
}
