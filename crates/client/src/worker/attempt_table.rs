//! Every attempt that the worker holds, and every report that is not answered yet. Pure: time comes in as an argument,
//! and what must be done comes out as lists that the link works off.
//!
//! ```text
//! assign ─→ fetching ─→ waiting ─→ starting ─→ running ─→ reported ─→ (answered)
//!           only with   no hand    pause only:            until the broker
//!           a check-    is free    not begun before       has answered
//!           point                  the broker knows
//! ```

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_wire::task::Held;
use tenure_wire::words::{StopWhy, Wanted};
use tenure_wire::{Code, Refusal};

use super::context::Context;
use super::occupancy::Occupancy;
use super::outcome::{Failure, Outcome};
use super::report::AttemptReport;
use super::signal::Interrupt;
use super::unreported::Unreported;

/// How long a report waits that the broker could not accept just now.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct AttemptTable {
    occupancy: Occupancy,
    held: HashMap<Held, Stage>,
    /// In order of arrival. Entries that are gone are skipped.
    waiting: VecDeque<Held>,
    /// Handlers that still run although their attempt is over.
    over: HashMap<Held, Instant>,
    leaving: bool,
    /// Its handlers can stop in place.
    pub(crate) stops_in_place: bool,
    /// Attempts whose checkpoint the link must fetch.
    pub(crate) fetches: Vec<Held>,
    /// Attempts whose start the link must report to the broker.
    pub(crate) starts: Vec<Held>,
    /// Handlers that the link must start.
    pub(crate) begins: Vec<Context>,
    /// Attempts whose report the link must send.
    pub(crate) unsent: Vec<Held>,
    /// Reports to send again, and when.
    later: VecDeque<(Instant, Held)>,
}

#[derive(Debug)]
enum Stage {
    Fetching(Context),
    Waiting(Context),
    Starting(Context),
    Running(Context),
    Reported { report: AttemptReport, sent: bool },
}

impl Stage {
    fn has_begun(&self) -> bool {
        matches!(self, Stage::Starting(_) | Stage::Running(_))
    }
}

/// The fate of a report.
#[derive(Debug, PartialEq)]
pub(crate) enum ReportOutcome {
    /// The broker has accepted it.
    Taken(AttemptReport),
    /// The attempt was already over, so there is nothing more to report.
    Stale,
    /// The worker sends it again, or a failure instead.
    Again,
    /// The broker accepts neither the report nor the failure report.
    Given(Box<Refusal>),
    /// No such report.
    Unknown,
}

impl AttemptTable {
    pub(crate) fn new(occupancy: Occupancy) -> AttemptTable {
        AttemptTable {
            occupancy,
            held: HashMap::new(),
            waiting: VecDeque::new(),
            over: HashMap::new(),
            leaving: false,
            stops_in_place: false,
            fetches: Vec::new(),
            starts: Vec::new(),
            begins: Vec::new(),
            unsent: Vec::new(),
            later: VecDeque::new(),
        }
    }

    /// Whether no attempt is held and no report is left to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// An end that an earlier worker of this name could not report. The worker presents it at registration.
    pub(crate) fn resume(&mut self, held: Held, report: AttemptReport) {
        self.held.insert(held, Stage::Reported { report, sent: false });
    }

    /// The ends that the broker has not accepted, except those that carry nothing of value.
    pub(crate) fn unreported(&self) -> Vec<Unreported> {
        let reported = self.held.iter().filter_map(|(held, stage)| match stage {
            Stage::Reported { report: AttemptReport::GiveBack { .. }, .. } => None,
            Stage::Reported { report, .. } => Some(Unreported { held: *held, report: report.clone() }),
            Stage::Fetching(_) | Stage::Waiting(_) | Stage::Starting(_) | Stage::Running(_) => None,
        });
        reported.collect()
    }

    pub(crate) fn unreported_len(&self) -> usize {
        self.held.values().filter(|stage| matches!(stage, Stage::Reported { .. })).count()
    }

    /// The broker assigns a task. Its handler starts if a slot is free and an earlier checkpoint is fetched.
    pub(crate) fn assigned(&mut self, context: Context) {
        let held = context.held();
        if self.held.contains_key(&held) {
            return;
        }
        if self.leaving {
            self.report(held, AttemptReport::GiveBack { reason: Some("the worker is leaving".into()) });
        } else if context.lacks_checkpoint() {
            self.fetches.push(held);
            self.held.insert(held, Stage::Fetching(context));
        } else if self.occupancy.fits(&context) {
            self.start(context);
        } else {
            // The broker's count of what is free does not include handlers that still run although their attempt is
            // over.
            self.waiting.push_back(held);
            self.held.insert(held, Stage::Waiting(context));
        }
    }

    /// A checkpoint has arrived.
    pub(crate) fn fetched(&mut self, held: Held, checkpoint: Bytes) {
        if let Some(stage) = self.held.remove(&held) {
            let Stage::Fetching(context) = stage else {
                self.held.insert(held, stage);
                return;
            };
            context.fetched(checkpoint);
            self.assigned(context);
        }
    }

    /// The broker has answered the start of these attempts; `refused` are indexes.
    pub(crate) fn started(&mut self, now: Instant, started: &[Held], refused: &[u32]) {
        for (index, held) in started.iter().enumerate() {
            if refused.contains(&(index as u32)) {
                self.stop(now, *held, StopWhy::Stale);
            } else {
                self.begin_if_starting(*held);
            }
        }
    }

    /// The attempt is over, whatever the handler does.
    pub(crate) fn stop(&mut self, now: Instant, held: Held, why: StopWhy) {
        match self.held.remove(&held) {
            Some(Stage::Running(context)) => {
                context.raise(Interrupt::Stop { why });
                self.over.insert(held, now);
            }
            Some(Stage::Starting(_)) => {
                self.occupancy.vacate(held);
                self.fill();
            }
            // The broker's answer will say that the report came too late.
            Some(reported @ Stage::Reported { .. }) => {
                self.held.insert(held, reported);
            }
            Some(Stage::Fetching(_) | Stage::Waiting(_)) | None => {}
        }
    }

    /// A client wants the task cancelled or paused. If the handler has not started, the worker confirms at once.
    pub(crate) fn wanted(&mut self, held: Held, interrupt: Interrupt, wanted: Wanted) {
        match self.held.get(&held) {
            Some(Stage::Running(context)) => context.raise(interrupt),
            Some(Stage::Fetching(_) | Stage::Waiting(_)) => {
                self.report(held, AttemptReport::Confirm { wanted, result: Bytes::new() });
            }
            Some(Stage::Starting(_)) => {
                self.occupancy.vacate(held);
                self.report(held, AttemptReport::Confirm { wanted, result: Bytes::new() });
                self.fill();
            }
            Some(Stage::Reported { .. }) | None => {}
        }
    }

    /// A client wants the task paused, and the worker may keep the attempt. A worker that leaves cannot.
    pub(crate) fn stop_wanted(&mut self, held: Held, interrupt: Interrupt) {
        match self.held.get(&held) {
            Some(Stage::Running(context)) if self.stops_in_place && !self.leaving => {
                context.stop_request().raise();
            }
            _ => self.wanted(held, interrupt, Wanted::Pause),
        }
    }

    /// The attempt waits for other tasks and takes no slot.
    pub(crate) fn suspended(&mut self, held: Held) {
        if self.is_running(held) {
            self.occupancy.suspend(held);
            self.fill();
        }
    }

    /// The attempt has a slot again.
    pub(crate) fn continued(&mut self, held: Held) {
        self.occupancy.resume(held);
    }

    /// No client wants the task paused any more.
    pub(crate) fn resumed(&mut self, held: Held) {
        if let Some(Stage::Running(context)) = self.held.get(&held) {
            context.stop_request().clear();
        }
    }

    pub(crate) fn interrupt(&self, held: Held) -> Option<Interrupt> {
        match self.held.get(&held) {
            Some(Stage::Running(context)) => context.interrupt(),
            // Its handler still runs, but nothing that it waits for matters any more.
            _ if self.over.contains_key(&held) => Some(Interrupt::Stop { why: StopWhy::Stale }),
            _ => None,
        }
    }

    /// A handler has returned. Returns whether its outcome counts.
    pub(crate) fn finished(&mut self, held: Held, outcome: Option<Outcome>, result_bytes_max: usize) -> bool {
        self.occupancy.vacate(held);
        let counts = self.over.remove(&held).is_none();
        if counts {
            let interrupt = match self.held.get(&held) {
                Some(Stage::Running(context)) => context.interrupt(),
                other => unreachable!("a handler ran that was not started: {other:?}"),
            };
            self.report(held, AttemptReport::new(outcome, interrupt.as_ref(), result_bytes_max));
        }
        self.fill();
        counts
    }

    /// Returns the report of an attempt, and marks it as sent.
    pub(crate) fn send(&mut self, held: Held) -> Option<&AttemptReport> {
        match self.held.get_mut(&held) {
            Some(Stage::Reported { report, sent }) => {
                *sent = true;
                Some(report)
            }
            _ => None,
        }
    }

    /// The broker has answered a report.
    pub(crate) fn answered(&mut self, now: Instant, held: Held, refusal: Option<&Refusal>) -> ReportOutcome {
        let Some(Stage::Reported { report, .. }) = self.held.get(&held) else {
            return ReportOutcome::Unknown;
        };
        match refusal.map(|refusal| (&refusal.code, refusal)) {
            None => match self.held.remove(&held) {
                Some(Stage::Reported { report, .. }) => ReportOutcome::Taken(report),
                _ => unreachable!("it was looked at just now"),
            },
            Some((Code::StaleAttempt | Code::UnknownTask, _)) => {
                self.held.remove(&held);
                ReportOutcome::Stale
            }
            Some((
                Code::Full
                | Code::DiskFull
                | Code::Draining
                | Code::JournalAway
                | Code::Deposed
                | Code::TooMany,
                _,
            )) => {
                self.mark_unsent(held);
                self.later.push_back((now + AGAIN_AFTER, held));
                ReportOutcome::Again
            }
            Some((_, refusal)) => {
                if matches!(report, AttemptReport::Fail(failure) if failure.message.starts_with(REFUSED)) {
                    self.held.remove(&held);
                    return ReportOutcome::Given(Box::new(refusal.clone()));
                }
                // The submitter should learn why there is no better end.
                let failure = Failure::new(1, format!("{REFUSED}{refusal}")).last();
                self.report(held, AttemptReport::Fail(Box::new(failure)));
                ReportOutcome::Again
            }
        }
    }

    /// When the next report is to be sent again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.front().map(|(at, _)| *at)
    }

    pub(crate) fn due(&mut self, now: Instant) {
        while let Some((at, held)) = self.later.front()
            && *at <= now
        {
            self.unsent.push(*held);
            self.later.pop_front();
        }
    }

    /// The attempts to present with a heartbeat: all whose end has not been sent.
    pub(crate) fn for_heartbeat(&self) -> Vec<Held> {
        let held = self.held.iter().filter(|(_, stage)| !matches!(stage, Stage::Reported { sent: true, .. }));
        held.map(|(held, _)| *held).collect()
    }

    /// The connection is lost. Attempts that have not started are dropped, so that the broker can assign them to
    /// another worker.
    pub(crate) fn disconnected(&mut self) {
        self.held.retain(|_, stage| !matches!(stage, Stage::Fetching(_) | Stage::Waiting(_)));
        self.waiting.clear();
        self.fetches.clear();
        self.starts.clear();
        self.unsent.clear();
        self.later.clear();
    }

    /// The attempts to present at the next registration: running ones, and reports without an answer.
    pub(crate) fn for_register(&self) -> Vec<Held> {
        self.held.keys().copied().collect()
    }

    /// The broker knows the worker again. `refused` are indexes into what was presented: those attempts are over, all
    /// others continue. Returns those whose report came too late.
    pub(crate) fn registered(&mut self, now: Instant, presented: &[Held], refused: &[u32]) -> Vec<Held> {
        let mut late = Vec::new();
        for (index, held) in presented.iter().enumerate() {
            let refused = refused.contains(&(index as u32));
            match self.held.get(held) {
                Some(Stage::Reported { .. }) if refused => {
                    self.held.remove(held);
                    late.push(*held);
                }
                Some(Stage::Reported { .. }) => {
                    self.mark_unsent(*held);
                    self.unsent.push(*held);
                }
                Some(_) if refused => self.stop(now, *held, StopWhy::Stale),
                // The broker counts every attempt that a worker presents at registration as started.
                Some(_) => self.begin_if_starting(*held),
                None => {}
            }
        }
        late
    }

    /// Starts nothing new from now on.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
        let not_begun = |stage: &Stage| matches!(stage, Stage::Fetching(_) | Stage::Waiting(_));
        let waiting: Vec<Held> =
            self.held.iter().filter(|(_, stage)| not_begun(stage)).map(|(held, _)| *held).collect();
        self.waiting.clear();
        for held in waiting {
            self.report(held, AttemptReport::GiveBack { reason: Some("the worker is leaving".into()) });
        }
        // What is stopped in place would keep the worker without end.
        for stage in self.held.values() {
            if let Stage::Running(context) = stage
                && context.stop_request().stands()
            {
                context.raise(Interrupt::Leaving);
            }
        }
    }

    /// Asks every handler to finish.
    pub(crate) fn interrupt_all(&mut self) {
        for stage in self.held.values() {
            if let Stage::Running(context) = stage {
                context.raise(Interrupt::Leaving);
            }
        }
    }

    /// The worker leaves without the handlers that still run: their tasks count as crashed.
    pub(crate) fn abandon(&mut self, now: Instant) {
        let left: Vec<Held> =
            self.held.iter().filter(|(_, stage)| stage.has_begun()).map(|(held, _)| *held).collect();
        for held in left {
            self.stop(now, held, StopWhy::Stale);
            let failure = Failure::new(1, "the worker stopped before the handler ended").crashed();
            self.report(held, AttemptReport::Fail(Box::new(failure)));
        }
    }

    /// Ends all attempts: the worker cannot continue.
    pub(crate) fn stop_all(&mut self, now: Instant) {
        let all: Vec<Held> = self.held.keys().copied().collect();
        self.leaving = true;
        for held in all {
            self.stop(now, held, StopWhy::Stale);
        }
    }

    /// Handlers that still run although their attempt is over, and since when.
    pub(crate) fn over(&self) -> impl Iterator<Item = (Held, Instant)> {
        self.over.iter().map(|(held, since)| (*held, *since))
    }

    /// Whether the worker may still report on this attempt: its end has not been sent.
    pub(crate) fn may_report(&self, held: Held) -> bool {
        let stage = self.held.get(&held);
        matches!(stage, Some(Stage::Running(_) | Stage::Reported { sent: false, .. }))
    }

    /// Whether its handler runs and the outcome will count.
    pub(crate) fn is_running(&self, held: Held) -> bool {
        matches!(self.held.get(&held), Some(Stage::Running(_)))
    }

    /// How many handlers run.
    pub(crate) fn busy(&self) -> usize {
        self.occupancy.busy()
    }

    fn start(&mut self, context: Context) {
        let held = context.held();
        self.occupancy.occupy(&context);
        self.starts.push(held);
        if context.is_careful() {
            self.held.insert(held, Stage::Starting(context));
        } else {
            self.begins.push(context.clone());
            self.held.insert(held, Stage::Running(context));
        }
    }

    fn begin_if_starting(&mut self, held: Held) {
        if let Some(stage) = self.held.get_mut(&held)
            && let Stage::Starting(context) = stage
        {
            let context = context.clone();
            self.begins.push(context.clone());
            *stage = Stage::Running(context);
        }
    }

    /// Starts the attempts that have waited longest, as far as there is room.
    fn fill(&mut self) {
        for held in std::mem::take(&mut self.waiting) {
            // The attempt may have been stopped or cancelled meanwhile.
            let Some(Stage::Waiting(context)) = self.held.get(&held) else { continue };
            if self.occupancy.fits(context) {
                let context = context.clone();
                self.start(context);
            } else {
                self.waiting.push_back(held);
            }
        }
    }

    fn report(&mut self, held: Held, report: AttemptReport) {
        self.held.insert(held, Stage::Reported { report, sent: false });
        self.unsent.push(held);
    }

    fn mark_unsent(&mut self, held: Held) {
        if let Some(Stage::Reported { sent, .. }) = self.held.get_mut(&held) {
            *sent = false;
        }
    }
}

/// Start of the message of a failure that replaces a refused report.
const REFUSED: &str = "the broker refused the report: ";

#[cfg(test)]
#[path = "attempt_table_tests.rs"]
mod tests;
