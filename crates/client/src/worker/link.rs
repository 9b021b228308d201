//! A worker's connection, on its own thread: registers, sends heartbeats and reports, starts handlers, and reconnects
//! with everything the worker holds.

mod receive;
mod send;
mod terminate;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_wire::request::AppendLog;
use tenure_wire::task::Held;
use tenure_wire::words::OnClose;
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{Refusal, Request, TaskId};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use self::terminate::{Terminate, terminated};
use super::attempt_table::AttemptTable;
use super::handle::WorkerTotals;
use super::lease_guard::{ClockTime, LeaseClock, LeaseGuard};
use super::occupancy::Occupancy;
use super::outbox::{Finished, Leaving, WorkerOutbox};
use super::pending_checkpoint::PendingCheckpoint;
use super::process_stats::ProcessStats;
use super::run::{Finish, Runner};
use super::signal::Interrupt;
use super::unreported::Unreported;
use super::waiting::PendingWait;
use crate::connection::{Connection, DIAL_TIMEOUT};
use crate::dialer::{Dialer, is_temporary};
use crate::error::Error;
use crate::peer::PeerOptions;
use crate::table::Table;

/// Maximum sleep of the link.
const IDLE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Settings {
    pub(crate) peer: PeerOptions,
    pub(crate) spec: WorkerSpec,
    pub(crate) stops_in_place: bool,
    pub(crate) stop_grace: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) drain_on_sigterm: bool,
    pub(crate) die_with_lease: bool,
    /// Reported first.
    pub(crate) unreported: Vec<Unreported>,
    pub(crate) on_answer: Option<OnAnswer>,
}

type ReplySender = dyn Fn(TaskId, u32, Result<(), &Refusal>) + Send + Sync;

/// The program's callback for the broker's answers to reports.
pub(crate) struct OnAnswer(pub(crate) Box<ReplySender>);

impl std::fmt::Debug for OnAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a receiver of answers")
    }
}

pub(crate) struct Link {
    settings: Settings,
    runner: Runner,
    outbox: Arc<WorkerOutbox>,
    tally: Arc<WorkerTotals>,
    attempts: AttemptTable,
    /// Handlers that can be aborted.
    aborts: HashMap<Held, AbortHandle>,
    /// The attempts whose checkpoint is in flight.
    checkpoints_sent: HashSet<Held>,
    /// The waits of suspended attempts.
    waits: HashMap<Held, PendingWait>,
    /// New waits of attempts whose earlier one is not answered yet.
    next_waits: HashMap<Held, PendingWait>,
    /// Pieces of output that are not answered yet.
    logs_sent: usize,
    sent: Table<Sent>,
    result_bytes_max: usize,
    /// The last intent to leave that the link has sent to the broker.
    told: Leaving,
    /// When the worker leaves without the handlers that still run, and when it leaves even without the broker's
    /// answer.
    stop_at: Option<Instant>,
    leave_by: Option<Instant>,
    heartbeat_at: Instant,
    process_stats: ProcessStats,
    progress_at: Instant,
    guard: Option<LeaseGuard>,
    /// The meaning of the close of this connection, or of the last one.
    on_close: OnClose,
    /// Nothing lies between this connection and the broker.
    is_direct: bool,
    state: LinkState,
    first: Option<oneshot::Sender<Result<(), Error>>>,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// There is no connection.
    Away,
    /// Registration sent; the deadline for the answer.
    Registering(Instant),
    Registered,
    /// Goodbye sent; the deadline for the answer.
    Leaving(Instant),
    Left,
}

/// The request behind a number on the wire.
#[derive(Debug)]
enum Sent {
    /// With the time at which it was sent.
    Register(Vec<Held>, ClockTime),
    Start(Vec<Held>),
    Complete(Vec<Held>),
    Report(Held),
    Heartbeat(Vec<Held>, ClockTime),
    Progress(Held),
    Fetch(Held),
    SaveCheckpoint(Held, PendingCheckpoint),
    Suspend {
        held: Held,
        is_for_resume: bool,
    },
    Log(AppendLog),
    Drain,
    Leave,
}

impl Link {
    pub(crate) fn new(
        mut settings: Settings,
        runner: Runner,
        outbox: Arc<WorkerOutbox>,
        tally: Arc<WorkerTotals>,
    ) -> Link {
        let now = Instant::now();
        let mut attempts = AttemptTable::new(Occupancy::new(&settings.spec));
        attempts.stops_in_place = settings.stops_in_place;
        for Unreported { held, report } in std::mem::take(&mut settings.unreported) {
            attempts.resume(held, report);
        }
        Link {
            attempts,
            settings,
            runner,
            outbox,
            tally,
            aborts: HashMap::new(),
            checkpoints_sent: HashSet::new(),
            waits: HashMap::new(),
            next_waits: HashMap::new(),
            logs_sent: 0,
            sent: Table::default(),
            result_bytes_max: 0,
            told: Leaving::No,
            stop_at: None,
            leave_by: None,
            heartbeat_at: now,
            process_stats: ProcessStats::default(),
            progress_at: now,
            guard: None,
            on_close: OnClose::MayStillRun,
            is_direct: false,
            state: LinkState::Away,
            first: None,
        }
    }

    /// Runs until the worker has left. `registered` receives the outcome of the first registration.
    pub(crate) async fn run(mut self, registered: oneshot::Sender<Result<(), Error>>) -> Result<(), Error> {
        self.first = Some(registered);
        let result = self.live().await;
        self.tally.connected.store(false, Ordering::Relaxed);
        if let Some(first) = self.first.take()
            && let Err(error) = &result
        {
            let _ = first.send(Err(error.clone()));
        }
        self.sent.drain();
        self.collect();
        self.outbox.set_unreported(self.attempts.unreported());
        self.outbox.close();
        self.waits.clear();
        self.next_waits.clear();
        self.abort_handlers().await;
        result
    }

    /// Tells the handlers that still run that their outcome no longer counts, and aborts those that do not end.
    async fn abort_handlers(&mut self) {
        let now = Instant::now();
        let until = self.stop_at.unwrap_or(now + self.settings.stop_grace);
        self.attempts.stop_all(now);
        while self.attempts.busy() > 0 && Instant::now() < until {
            self.collect();
            tokio::select! {
                () = self.outbox.notified() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
        for abort in self.aborts.values() {
            abort.abort();
        }
    }

    async fn live(&mut self) -> Result<(), Error> {
        let mut terminate = self.settings.drain_on_sigterm.then(Terminate::new).transpose()?;
        let mut dialer = Dialer::new(self.settings.peer.clone());
        let mut absent = None;
        if self.settings.die_with_lease {
            let spec = &self.settings.spec;
            self.guard = Some(LeaseGuard::new(Duration::from_millis(spec.lease_ms))?);
            absent = Some(dialer.report_outage(Duration::from_millis(spec.heartbeat_ms)));
        }
        let deadline = tokio::time::Instant::now() + self.settings.connect_timeout;
        let mut connection = dialer.dial(Some(deadline)).await?;
        loop {
            let ended = self.run_connection(&mut connection, &mut terminate).await;
            self.tally.connected.store(false, Ordering::Relaxed);
            match ended {
                Ok(()) => return Ok(()),
                Err(error) if self.first.is_some() || !is_temporary(&error) => {
                    if self.dies_with_connection() {
                        self.die(&error.to_string());
                    }
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(%error, held = self.attempts.len(), "the worker's connection was lost");
                }
            }
            drop(connection);
            self.state = LinkState::Away;
            self.attempts.disconnected();
            self.checkpoints_sent.clear();
            self.logs_sent = 0;
            // The notice that ends a wait may have been lost: the worker says again what it waits for.
            self.waits.values_mut().for_each(|wait| (wait.sent, wait.is_second) = (false, false));
            // The latest first.
            for (_, sent) in self.sent.drain().into_iter().rev() {
                match sent {
                    Sent::SaveCheckpoint(held, checkpoint) => self.outbox.put_back(held, checkpoint),
                    Sent::Log(piece) => self.outbox.put_back_log(piece),
                    _ => {}
                }
            }
            connection = match self.connect_again(&mut dialer, &mut terminate, &mut absent).await {
                Some(connection) => connection,
                None => return Ok(()),
            };
        }
    }

    /// Waits for a new connection; `None` if the worker leaves before that.
    async fn connect_again(
        &mut self,
        dialer: &mut Dialer,
        terminate: &mut Option<Terminate>,
        absent: &mut Option<watch::Receiver<ClockTime>>,
    ) -> Option<Connection> {
        loop {
            let dialing = dialer.dial(None);
            tokio::pin!(dialing);
            loop {
                let now = Instant::now();
                self.collect();
                self.interrupt_all(now);
                self.count();
                let is_over = self.stop_at.is_some_and(|at| at <= now);
                let may_leave = match self.outbox.leaving() {
                    Leaving::No => false,
                    Leaving::Drain => self.attempts.is_empty() || is_over,
                    // The broker may stay away for long, so the worker leaves; the program keeps the unreported ends.
                    Leaving::Stop => self.attempts.busy() == 0 || is_over,
                    Leaving::Now => true,
                };
                if may_leave {
                    return None;
                }
                self.abort_overdue(now);
                self.watch_lease();
                let wake = self.next_deadline(now);
                tokio::select! {
                    biased;
                    dialed = &mut dialing => match dialed {
                        Ok(connection) => return Some(connection),
                        // A worker that may hold days of work does not give up on a refusal that may be temporary.
                        Err(error) => {
                            if self.dies_with_connection() {
                                self.die(&error.to_string());
                            }
                            tracing::warn!(%error, "the broker refused the worker's reconnection");
                            break;
                        }
                    },
                    seen = seen_absent(absent) => self.confirm_lease(seen),
                    () = self.outbox.notified() => {}
                    () = terminated(terminate) => self.outbox.leave(Leaving::Drain),
                    () = tokio::time::sleep_until(wake.into()) => {}
                }
            }
        }
    }

    /// Runs until the connection breaks or the worker has left.
    async fn run_connection(
        &mut self,
        connection: &mut Connection,
        terminate: &mut Option<Terminate>,
    ) -> Result<(), Error> {
        let limit = connection.welcome().limits.body_bytes;
        self.result_bytes_max = usize::try_from(limit).unwrap_or(usize::MAX);
        self.register(connection);
        let spec = &self.settings.spec;
        // Two heartbeats in a row must go unanswered, whatever intervals the worker has chosen.
        let silence_max = Duration::from_millis(spec.lost_after_ms.max(spec.heartbeat_ms.saturating_mul(2)));
        let mut heard = Instant::now();
        let mut arrived = Vec::new();
        loop {
            // To close the connection would end the attempts of a worker whose tasks die with it. Their lease decides.
            let silent_at = (!self.dies_with_connection()).then(|| heard + silence_max);
            let wake = self.next_deadline(Instant::now());
            let wake = silent_at.map_or(wake, |silent_at| wake.min(silent_at));
            tokio::select! {
                biased;
                turned = connection.turn(&mut arrived) => {
                    turned?;
                    heard = Instant::now();
                }
                () = self.outbox.notified() => {}
                () = terminated(terminate) => self.outbox.leave(Leaving::Drain),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            let now = Instant::now();
            for message in arrived.drain(..) {
                self.handle_message(now, message)?;
            }
            self.end_if_stopped();
            self.collect();
            self.send_due(now, connection)?;
            if self.outbox.leaving() == Leaving::Now {
                self.state = LinkState::Left;
            }
            if self.state == LinkState::Left {
                return Ok(());
            }
            if now.duration_since(heard) >= silence_max && !self.dies_with_connection() {
                return Err(Error::lost("the broker has not answered heartbeats"));
            }
        }
    }

    fn register(&mut self, connection: &mut Connection) {
        let held = self.attempts.for_register();
        self.is_direct = connection.is_direct();
        // What lies between may end alone: then the process and its handlers live until the lease is over.
        self.on_close = match &self.settings.spec.on_close {
            OnClose::TasksDie if self.guard.is_some() && !self.is_direct => OnClose::MayStillRun,
            as_set => as_set.clone(),
        };
        let on_close = self.on_close.clone();
        let spec = WorkerSpec { held: held.clone(), on_close, ..self.settings.spec.clone() };
        self.ask(connection, Sent::Register(held, self.lease_now()), &Request::Register(Box::new(spec)));
        self.state = LinkState::Registering(Instant::now() + DIAL_TIMEOUT);
        self.told = Leaving::No;
    }

    /// Whether a closed connection ends attempts whose handlers run, in a process that must then end as well.
    fn dies_with_connection(&self) -> bool {
        self.guard.is_some()
            && self.on_close == OnClose::TasksDie
            && self.attempts.busy() > 0
            && self.outbox.leaving() != Leaving::Now
    }

    /// Ends the process if the broker has ended an attempt whose handler runs.
    fn end_if_stopped(&self) {
        if let Some(guard) = &self.guard
            && self.stop_at.is_none()
            && let Some((held, _)) = self.attempts.over().next()
        {
            guard.kill(&format!("the broker has ended attempt {} of task {}", held.attempt, held.task));
        }
    }

    fn die(&self, why: &str) {
        if let Some(guard) = &self.guard {
            guard.kill(why);
        }
    }

    fn lease_now(&self) -> ClockTime {
        self.guard.as_ref().map(LeaseGuard::now).unwrap_or_default()
    }

    fn confirm_lease(&mut self, sent: ClockTime) {
        if let Some(guard) = &mut self.guard {
            guard.confirm(sent);
        }
    }

    /// Measures the lease as the broker does that has just confirmed it.
    fn set_lease_clock(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.set_clock(if self.is_direct { LeaseClock::Monotonic } else { LeaseClock::Boottime });
        }
    }

    /// Must run before handlers start.
    fn watch_lease(&mut self) {
        let running = self.attempts.busy();
        if let Some(guard) = &mut self.guard {
            guard.watch(running);
        }
    }

    /// Takes the waits and outcomes that handlers have put into the outbox.
    fn collect(&mut self) {
        for (held, wait) in self.outbox.take_waits() {
            self.take_wait(held, wait);
        }
        self.interrupt_waits();
        for Finished { held, outcome } in self.outbox.take_finished() {
            let can_be_dropped = self.aborts.remove(&held).is_some();
            let dropped = outcome.is_none() && can_be_dropped;
            self.waits.remove(&held);
            self.next_waits.remove(&held);
            let counts = self.attempts.finished(held, outcome, self.result_bytes_max);
            if !counts {
                WorkerTotals::add(&self.tally.stale, 1);
            }
            if dropped && counts {
                // This crate never drops a handler whose outcome counts. So its runtime is gone, and would drop every
                // other handler as well.
                tracing::error!(task = %held.task, "the runtime dropped a handler; the worker leaves");
                self.outbox.leave(Leaving::Stop);
            }
        }
    }

    /// Updates the program's counters.
    fn count(&self) {
        let set = |counter: &AtomicU64, count: usize| counter.store(count as u64, Ordering::Relaxed);
        set(&self.tally.held, self.attempts.len());
        set(&self.tally.running, self.attempts.busy());
        set(&self.tally.unreported, self.attempts.unreported_len());
    }

    /// Tells handlers that the worker leaves, once.
    fn interrupt_all(&mut self, now: Instant) {
        match self.outbox.leaving() {
            Leaving::No => {}
            Leaving::Drain => {
                self.attempts.leave();
                self.interrupt_waits();
            }
            Leaving::Stop | Leaving::Now => {
                if self.stop_at.is_none() {
                    self.stop_at = Some(now + self.settings.stop_grace);
                    self.attempts.leave();
                    self.attempts.interrupt_all();
                    self.interrupt_waits();
                }
            }
        }
    }

    fn begin_handlers(&mut self) {
        let begins = std::mem::take(&mut self.attempts.begins);
        WorkerTotals::add(&self.tally.started, begins.len());
        for context in begins {
            let held = context.held();
            let finish = Finish::new(held, Arc::clone(&self.outbox));
            // Its attempt may have ended before the handler could start.
            if matches!(context.interrupt(), Some(Interrupt::Stop { .. })) {
                continue;
            }
            if let Some(abort) = (self.runner)(context, finish) {
                self.aborts.insert(held, abort);
            }
        }
    }

    /// Aborts handlers that did not stop in time, where that is possible.
    fn abort_overdue(&mut self, now: Instant) {
        for (held, since) in self.attempts.over() {
            if since + self.settings.stop_grace <= now
                && let Some(abort) = self.aborts.remove(&held)
            {
                tracing::warn!(task = %held.task, attempt = held.attempt, "handler did not stop in time and was aborted");
                abort.abort();
            }
        }
    }

    /// The next time at which the link has work even if nothing arrives.
    fn next_deadline(&self, now: Instant) -> Instant {
        let mut next = now + IDLE_MAX;
        let mut at = |time: Option<Instant>| next = time.map_or(next, |time| next.min(time));
        match self.state {
            LinkState::Registering(until) | LinkState::Leaving(until) => at(Some(until)),
            LinkState::Registered => {
                at(Some(self.heartbeat_at));
                at(self.outbox.has_progress().then_some(self.progress_at));
                at(self.attempts.next_due());
            }
            LinkState::Away | LinkState::Left => {}
        }
        at(self.leave_by.or(self.stop_at));
        let droppable = self.attempts.over().filter(|(held, _)| self.aborts.contains_key(held));
        at(droppable.map(|(_, since)| since + self.settings.stop_grace).min());
        next
    }
}

/// The next time at which no broker ran.
async fn seen_absent(absent: &mut Option<watch::Receiver<ClockTime>>) -> ClockTime {
    if let Some(absent) = absent
        && absent.changed().await.is_ok()
    {
        return *absent.borrow_and_update();
    }
    std::future::pending().await
}
