//! A worker's side of the connection, on a thread of its own: registers, heartbeats, hands out work, carries reports,
//! and comes back with everything it holds when the connection or the broker was gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tenure_wire::limits::ENTRIES_MAX;
use tenure_wire::reply::RefusedEntry;
use tenure_wire::request::{Complete, Heartbeat, ReportProgress, Start};
use tenure_wire::task::{Completion, Held};
use tenure_wire::words::{StopWhy, Wanted};
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{Code, FromBroker, Notice, Refusal, Reply, Request};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::context::Context;
use super::handle::Tally;
use super::outbox::{Finished, Leaving, Outbox};
use super::report::Report;
use super::roster::{Answered, Roster};
use super::run::{Finish, Runner};
use super::signal::Interrupt;
use crate::connection::{CONNECT_TIMEOUT, Connection};
use crate::dialer::{Dialer, is_passing};
use crate::error::Error;
use crate::peer::Peer;
use crate::table::Table;

/// Progress is told at most so often.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// A frame of completions is closed when it has so many bytes.
const FRAME_BYTES: usize = 4 << 20;
/// How long the broker may take to say goodbye.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the link sleeps at most.
const IDLE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Settings {
    pub(crate) peer: Peer,
    pub(crate) spec: WorkerSpec,
    pub(crate) stop_grace: Duration,
    pub(crate) patience: Duration,
    pub(crate) drain_on_sigterm: bool,
}

pub(crate) struct Link {
    settings: Settings,
    runner: Runner,
    outbox: Arc<Outbox>,
    tally: Arc<Tally>,
    roster: Roster,
    /// Handlers that can be dropped.
    aborts: HashMap<Held, AbortHandle>,
    sent: Table<Sent>,
    result_bytes_max: usize,
    /// What the broker has been told of leaving.
    told: Leaving,
    /// When the worker leaves without the handlers that do not end, and when it leaves even without a word.
    stop_at: Option<Instant>,
    leave_by: Option<Instant>,
    heartbeat_at: Instant,
    progress_at: Instant,
    standing: Standing,
    first: Option<oneshot::Sender<Result<(), Error>>>,
}

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// There is no connection.
    Away,
    /// Asked to register, until this time.
    Registering(Instant),
    Registered,
    /// Said goodbye; the answer is waited for until this time.
    Leaving(Instant),
    Left,
}

/// What a number on the wire stands for.
#[derive(Debug)]
enum Sent {
    Register(Vec<Held>),
    Start(Vec<Held>),
    Complete(Vec<Held>),
    Report(Held),
    Heartbeat(Vec<Held>),
    Progress(Held),
    Drain,
    Leave,
}

impl Link {
    pub(crate) fn new(settings: Settings, runner: Runner, outbox: Arc<Outbox>, tally: Arc<Tally>) -> Link {
        let now = Instant::now();
        Link {
            roster: Roster::new(settings.spec.slots as usize),
            settings,
            runner,
            outbox,
            tally,
            aborts: HashMap::new(),
            sent: Table::default(),
            result_bytes_max: 0,
            told: Leaving::No,
            stop_at: None,
            leave_by: None,
            heartbeat_at: now,
            progress_at: now,
            standing: Standing::Away,
            first: None,
        }
    }

    /// Runs until the worker has left. `registered` hears of the first registration.
    pub(crate) async fn run(mut self, registered: oneshot::Sender<Result<(), Error>>) -> Result<(), Error> {
        self.first = Some(registered);
        let result = self.live().await;
        self.tally.connected.store(false, Ordering::Relaxed);
        if let Some(first) = self.first.take()
            && let Err(error) = &result
        {
            let _ = first.send(Err(error.clone()));
        }
        self.wind_up().await;
        result
    }

    /// Whatever still runs should know that nobody will take its outcome, and is dropped if it does not end.
    async fn wind_up(&mut self) {
        let now = Instant::now();
        let until = self.stop_at.unwrap_or(now + self.settings.stop_grace);
        self.roster.stop_all(now);
        while self.roster.busy() > 0 && Instant::now() < until {
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
        let deadline = tokio::time::Instant::now() + self.settings.patience;
        let mut connection = dialer.dial(Some(deadline)).await?;
        loop {
            let ended = self.converse(&mut connection, &mut terminate).await;
            self.tally.connected.store(false, Ordering::Relaxed);
            match ended {
                Ok(()) => return Ok(()),
                Err(error) if self.first.is_some() || !is_passing(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, held = self.roster.len(), "the worker's connection was lost");
                }
            }
            drop(connection);
            self.standing = Standing::Away;
            self.roster.disconnected();
            self.sent.drain();
            connection = match self.connect_again(&mut dialer, &mut terminate).await {
                Some(connection) => connection,
                None => return Ok(()),
            };
        }
    }

    /// Until a connection stands again; nothing if the worker leaves before that.
    async fn connect_again(
        &mut self,
        dialer: &mut Dialer,
        terminate: &mut Option<Terminate>,
    ) -> Option<Connection> {
        loop {
            let dialing = dialer.dial(None);
            tokio::pin!(dialing);
            loop {
                let now = Instant::now();
                self.collect();
                self.hurry(now);
                let may_leave = self.roster.is_empty() || self.stop_at.is_some_and(|at| at <= now);
                if self.outbox.leaving() != Leaving::No && may_leave {
                    return None;
                }
                self.abort_overdue(now);
                let wake = self.next_deadline(now);
                tokio::select! {
                    biased;
                    dialed = &mut dialing => match dialed {
                        Ok(connection) => return Some(connection),
                        // A worker that holds days of work does not give up because of a no that may pass.
                        Err(error) => {
                            tracing::warn!(%error, "the broker does not take the worker back");
                            break;
                        }
                    },
                    () = self.outbox.notified() => {}
                    () = terminated(terminate) => self.outbox.leave(Leaving::Drain),
                    () = tokio::time::sleep_until(wake.into()) => {}
                }
            }
        }
    }

    /// Until the connection breaks, or the worker has left.
    async fn converse(
        &mut self,
        connection: &mut Connection,
        terminate: &mut Option<Terminate>,
    ) -> Result<(), Error> {
        let limit = connection.welcome().limits.body_bytes;
        self.result_bytes_max = usize::try_from(limit).unwrap_or(usize::MAX);
        self.register(connection);
        let silence_max = Duration::from_millis(self.settings.spec.lost_after_ms);
        let mut heard = Instant::now();
        let mut arrived = Vec::new();
        loop {
            let wake = self.next_deadline(Instant::now()).min(heard + silence_max);
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
                self.hear(now, message)?;
            }
            self.collect();
            self.say(now, connection)?;
            if self.standing == Standing::Left {
                return Ok(());
            }
            if now.duration_since(heard) >= silence_max {
                return Err(Error::lost("the broker has not even answered heartbeats"));
            }
        }
    }

    fn register(&mut self, connection: &mut Connection) {
        let held = self.roster.for_register();
        let spec = WorkerSpec { held: held.clone(), ..self.settings.spec.clone() };
        self.ask(connection, Sent::Register(held), &Request::Register(Box::new(spec)));
        self.standing = Standing::Registering(Instant::now() + CONNECT_TIMEOUT);
        self.told = Leaving::No;
    }

    fn hear(&mut self, now: Instant, message: FromBroker) -> Result<(), Error> {
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
                    self.roster.assigned(Context::new(
                        assignment,
                        Arc::clone(terms),
                        Arc::clone(&self.outbox),
                    ));
                }
            }
            Notice::Wanted(wanted) => {
                let held = Held { task: wanted.task, attempt: wanted.attempt };
                let reason = wanted.reason;
                let interrupt = match &wanted.wanted {
                    Wanted::Cancel => Interrupt::Cancel { reason },
                    Wanted::Pause => Interrupt::Pause { reason },
                    // A wish of a newer broker: to go on is the best that can be done.
                    Wanted::Other(_) => return Ok(()),
                };
                self.roster.wanted(held, interrupt, wanted.wanted);
            }
            Notice::Stop(stop) => {
                self.roster.stop(now, Held { task: stop.task, attempt: stop.attempt }, stop.why);
            }
            Notice::Drain => {
                self.told = self.told.max(Leaving::Drain);
                self.roster.leave();
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
            return Err(Error::lost("the broker does not know the worker any more"));
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
            Sent::Register(presented) => {
                if let Some(refusal) = refused_all {
                    return Err(refusal.clone().into());
                }
                let late = self.roster.registered(now, &presented, &positions(refused));
                Tally::add(&self.tally.stale, late);
                Tally::add(&self.tally.connections, 1);
                self.tally.connected.store(true, Ordering::Relaxed);
                self.standing = Standing::Registered;
                self.heartbeat_at = now + Duration::from_millis(self.settings.spec.heartbeat_ms);
                if let Some(first) = self.first.take() {
                    // Who started the worker may not wait for it.
                    let _ = first.send(Ok(()));
                }
            }
            Sent::Start(started) => match refused_all {
                Some(refusal) => self.stop_each(now, &started, &refusal.code),
                None => self.roster.started(now, &started, &positions(refused)),
            },
            Sent::Complete(done) => {
                for (index, held) in done.into_iter().enumerate() {
                    let entry = refused.iter().find(|entry| entry.index as usize == index);
                    self.reported(now, held, refused_all.or(entry.map(|entry| &entry.refusal)));
                }
            }
            Sent::Report(held) => self.reported(now, held, refused_all),
            Sent::Heartbeat(presented) => {
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
            Sent::Drain => {}
            Sent::Leave => self.standing = Standing::Left,
        }
        Ok(())
    }

    /// What the broker does not take for held is over; any other refusal leaves it as it is.
    fn stop_each(&mut self, now: Instant, held: &[Held], code: &Code) {
        if matches!(code, Code::StaleAttempt | Code::UnknownTask) {
            for held in held {
                self.roster.stop(now, *held, StopWhy::Stale);
            }
        }
    }

    fn reported(&mut self, now: Instant, held: Held, refusal: Option<&Refusal>) {
        let tally = &self.tally;
        let counter = match self.roster.answered(now, held, refusal) {
            Answered::Taken(report) => match report {
                Report::Complete(_) => &tally.completed,
                Report::Fail(_) => &tally.failed,
                Report::Confirm { wanted: Wanted::Pause, .. } => &tally.paused,
                Report::Confirm { .. } => &tally.cancelled,
                Report::GiveBack { .. } => &tally.given_back,
            },
            Answered::Stale => &tally.stale,
            Answered::Given(refusal) => {
                tracing::error!(task = %held.task, attempt = held.attempt, %refusal, "no report of the end was taken");
                &tally.stale
            }
            Answered::Again | Answered::Unknown => return,
        };
        Tally::add(counter, 1);
    }

    /// Takes over what handlers have handed in.
    fn collect(&mut self) {
        for Finished { held, outcome } in self.outbox.take_finished() {
            let aborted = self.aborts.remove(&held).is_none();
            let dropped = outcome.is_none();
            let counts = self.roster.finished(held, outcome, self.result_bytes_max);
            if !counts {
                Tally::add(&self.tally.stale, 1);
            }
            if dropped && counts && !aborted {
                // Nobody here drops a handler whose outcome counts, so its runtime is gone, and every other would be
                // dropped as well.
                tracing::error!(task = %held.task, "a handler was dropped by its runtime: the worker leaves");
                self.outbox.leave(Leaving::Stop);
            }
        }
    }

    /// Says everything there is to say, and begins what may begin.
    fn say(&mut self, now: Instant, connection: &mut Connection) -> Result<(), Error> {
        match self.standing {
            Standing::Registering(until) if now >= until => {
                return Err(Error::lost("the registration was not answered in time"));
            }
            Standing::Leaving(until) if now >= until => self.standing = Standing::Left,
            Standing::Away | Standing::Registering(_) | Standing::Leaving(_) | Standing::Left => {
                return Ok(());
            }
            Standing::Registered => {}
        }
        self.leave(now, connection);
        self.roster.due(now);
        self.say_starts(connection);
        self.say_reports(connection);
        self.say_progress(now, connection);
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + Duration::from_millis(self.settings.spec.heartbeat_ms);
            let held = self.roster.for_heartbeat();
            let heartbeat = Heartbeat { held: Some(held.clone()), stats: None };
            self.ask(connection, Sent::Heartbeat(held), &Request::Heartbeat(heartbeat));
        }
        self.begin_handlers();
        self.abort_overdue(now);
        self.tally.held.store(self.roster.len() as u64, Ordering::Relaxed);
        if self.told != Leaving::No && self.roster.is_empty() {
            self.ask(connection, Sent::Leave, &Request::Leave);
            self.standing = Standing::Leaving(now + LEAVE_TIMEOUT);
        } else if self.leave_by.is_some_and(|by| by <= now) {
            // The broker does not even take the last reports: it will notice the end of the connection.
            self.standing = Standing::Left;
        }
        Ok(())
    }

    fn leave(&mut self, now: Instant, connection: &mut Connection) {
        self.hurry(now);
        if self.stop_at.is_some_and(|at| at <= now) && self.leave_by.is_none() {
            self.roster.abandon(now);
            self.leave_by = Some(now + LEAVE_TIMEOUT);
        }
        if self.outbox.leaving() != Leaving::No && self.told == Leaving::No {
            self.told = Leaving::Drain;
            self.ask(connection, Sent::Drain, &Request::Drain);
        }
    }

    /// Tells handlers that the worker leaves, once.
    fn hurry(&mut self, now: Instant) {
        match self.outbox.leaving() {
            Leaving::No => {}
            Leaving::Drain => self.roster.leave(),
            Leaving::Stop => {
                if self.stop_at.is_none() {
                    self.stop_at = Some(now + self.settings.stop_grace);
                    self.roster.leave();
                    self.roster.hurry();
                }
            }
        }
    }

    fn say_starts(&mut self, connection: &mut Connection) {
        for held in std::mem::take(&mut self.roster.starts).chunks(ENTRIES_MAX) {
            let start = Request::Start(Start { held: held.to_vec() });
            self.ask(connection, Sent::Start(held.to_vec()), &start);
        }
    }

    /// Completions that are ready together go in one frame; everything else goes alone.
    fn say_reports(&mut self, connection: &mut Connection) {
        let (mut done, mut helds, mut bytes) = (Vec::new(), Vec::new(), 0);
        for held in std::mem::take(&mut self.roster.unsent) {
            let request = match self.roster.send(held) {
                Some(Report::Complete(result)) => {
                    bytes += result.len() + 32;
                    done.push(Completion { task: held.task, attempt: held.attempt, result: result.clone() });
                    helds.push(held);
                    None
                }
                Some(report) => Some(report.request(held)),
                None => None,
            };
            if let Some(request) = request {
                self.ask(connection, Sent::Report(held), &request);
            }
            if done.len() == ENTRIES_MAX || bytes > FRAME_BYTES {
                let complete = Request::Complete(Complete { done: std::mem::take(&mut done) });
                self.ask(connection, Sent::Complete(std::mem::take(&mut helds)), &complete);
                bytes = 0;
            }
        }
        if !done.is_empty() {
            self.ask(connection, Sent::Complete(helds), &Request::Complete(Complete { done }));
        }
    }

    fn say_progress(&mut self, now: Instant, connection: &mut Connection) {
        if now < self.progress_at || !self.outbox.has_progress() {
            return;
        }
        self.progress_at = now + PROGRESS_EVERY;
        for (held, progress) in self.outbox.take_progress() {
            let Held { task, attempt } = held;
            let report = ReportProgress { task, attempt, percent: progress.percent, note: progress.note };
            self.ask(connection, Sent::Progress(held), &Request::Progress(report));
        }
    }

    fn begin_handlers(&mut self) {
        let begins = std::mem::take(&mut self.roster.begins);
        Tally::add(&self.tally.started, begins.len());
        for context in begins {
            let held = context.held();
            let finish = Finish::new(held, Arc::clone(&self.outbox));
            // Its attempt may have ended before the connection let it begin.
            if matches!(context.interrupt(), Some(Interrupt::Stop { .. })) {
                continue;
            }
            if let Some(abort) = (self.runner)(context, finish) {
                self.aborts.insert(held, abort);
            }
        }
    }

    /// Drops handlers that did not stop in time, as far as they can be dropped.
    fn abort_overdue(&mut self, now: Instant) {
        for (held, since) in self.roster.over() {
            if since + self.settings.stop_grace <= now
                && let Some(abort) = self.aborts.remove(&held)
            {
                tracing::warn!(task = %held.task, attempt = held.attempt, "a handler did not stop and is dropped");
                abort.abort();
            }
        }
    }

    /// When there is something to do even if nothing happens.
    fn next_deadline(&self, now: Instant) -> Instant {
        let mut next = now + IDLE_MAX;
        let mut at = |time: Option<Instant>| next = time.map_or(next, |time| next.min(time));
        match self.standing {
            Standing::Registering(until) | Standing::Leaving(until) => at(Some(until)),
            Standing::Registered => {
                at(Some(self.heartbeat_at));
                at(self.outbox.has_progress().then_some(self.progress_at));
                at(self.roster.next_due());
            }
            Standing::Away | Standing::Left => {}
        }
        at(self.leave_by.or(self.stop_at));
        let droppable = self.roster.over().filter(|(held, _)| self.aborts.contains_key(held));
        at(droppable.map(|(_, since)| since + self.settings.stop_grace).min());
        next
    }

    fn ask(&mut self, connection: &mut Connection, sent: Sent, request: &Request) {
        match self.sent.insert(sent) {
            Ok(number) => connection.ask_as(number, request),
            // Reports are bounded by slots and everything else by time, so only a broker that has stopped answering
            // gets here. The heartbeat's silence ends the connection.
            Err(sent) => tracing::error!(?sent, "too much is unanswered"),
        }
    }
}

fn positions(refused: &[RefusedEntry]) -> Vec<u32> {
    refused.iter().map(|entry| entry.index).collect()
}

/// The process is told to terminate.
struct Terminate(tokio::signal::unix::Signal);

impl Terminate {
    fn new() -> Result<Terminate, Error> {
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        signal.map(Terminate).map_err(|error| Error::BadSetting {
            what: "draining on SIGTERM",
            why: format!("is not possible here: {error}").into(),
        })
    }
}

async fn terminated(terminate: &mut Option<Terminate>) {
    match terminate {
        Some(terminate) => {
            terminate.0.recv().await;
        }
        None => std::future::pending().await,
    }
}
