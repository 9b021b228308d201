//! The runtime around the core: one task that decides, one thread that syncs, one for the store's
//! maintenance.
//!
//! A turn drains the inbox, decides, and hands the open batch to the writer. While the writer syncs, batches
//! collect there, and the next sync covers all of them: that is the group commit. For a single client the
//! turn syncs itself.

mod finish;
mod leading;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_engine::{Name, SessionId, Settings, TaskId, Timestamp};
use tenure_store::{
    Disk, LeaderLease, MaintenanceEvent, OpenReport, Opened, Pace, Parts, Store, StoreError, StoreSettings,
    Sync,
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::yield_now;

use crate::audit::AuditAct;
use crate::backup::back_up;
use crate::clock::{ClockMonitor, ClockReading, wall_clock};
use crate::core::Core;
use crate::entered_namespaces::EnteredNamespaces;
use crate::follow::follow;
use crate::handle::{AccessControl, HubHandle, Inbound, SharedServices};
use crate::hooks::Hooks;
use crate::keys::Keys;
use crate::keyspace::Keyspaces;
use crate::limits::{DISK_RESERVE_BYTES, INBOX_REQUESTS_MAX};
use crate::queries::{Admission, Queries};
use crate::refusal::HubRefusal;
use crate::request::{Ask, Delivery, Request, Response};
use crate::settings::HubSettings;
use crate::single_client::SingleClientDetector;
use crate::stats::Stats;
use crate::task_logs::TaskLogs;
use crate::thread::start_thread;
use crate::topics::{TopicSettings, Topics};
use crate::writing::{Writing, Written};

pub use leading::HubEnd;

/// How many inbox messages one turn takes before it checks the disk again.
const TURN_MESSAGES_MAX: usize = 1_024;
/// The longest sleep of the hub, so that it checks the disk's free space.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// How soon the hub looks again whether its lease was renewed, while replies wait for it.
const LEASE_LOOK: Duration = Duration::from_millis(10);

/// A running hub. It ends when a handle stops it, or when the disk fails.
#[derive(Debug)]
pub struct Hub {
    handle: HubHandle,
    report: OpenReport,
    ended: tokio::task::JoinHandle<Result<HubEnd, StoreError>>,
}

impl Hub {
    /// Opens the store and starts. Must run inside a tokio runtime.
    pub fn start(
        disk: Arc<dyn Disk>,
        store: StoreSettings,
        engine: Settings,
        keys: Keys,
    ) -> Result<Hub, StoreError> {
        Hub::start_with(disk, store, engine, HubSettings::default(), keys)
    }

    /// The same with settings for topics.
    pub fn start_with_topics(
        disk: Arc<dyn Disk>,
        store: StoreSettings,
        engine: Settings,
        topics: TopicSettings,
        keys: Keys,
    ) -> Result<Hub, StoreError> {
        Hub::start_with(disk, store, engine, HubSettings { topics, ..HubSettings::default() }, keys)
    }

    /// The same with settings of the hub itself.
    pub fn start_with(
        disk: Arc<dyn Disk>,
        store: StoreSettings,
        engine: Settings,
        settings: HubSettings,
        keys: Keys,
    ) -> Result<Hub, StoreError> {
        let begun = Instant::now();
        let opened = Store::open(disk, store, engine, wall_clock())?;
        Hub::start_opened(opened, begun, settings, keys)
    }

    /// The same with a store that is open already, such as that of the leader of a group. Its recovery began at
    /// this moment.
    pub fn start_opened(
        opened: Opened,
        begun: Instant,
        settings: HubSettings,
        keys: Keys,
    ) -> Result<Hub, StoreError> {
        let Opened { engine, store, report } = opened;
        let Parts { batches, writer, reader, maintenance, maintenance_thread } = store.split();
        let stats = Stats {
            started_at_millis: wall_clock().millis(),
            recovery_seconds: begun.elapsed().as_secs_f64(),
            sync: match reader.sync_mode() {
                Sync::Always => "always",
                Sync::Interval(_) => "interval",
                Sync::Os => "os",
            },
            ..Stats::default()
        };
        start_thread("tenure-maint", move || maintenance_thread.run());
        let (inbox, inbound) = mpsc::unbounded_channel();
        let permits = Arc::new(Semaphore::new(INBOX_REQUESTS_MAX));
        let (stopping, stopped) = watch::channel(false);
        let (topics, saver) = Topics::open(&reader, settings.topics)?;
        topics.start_reaper();
        start_saver("tenure-topics", &inbox, move || saver.run());
        let (keyspaces, saver) = Keyspaces::open(&reader, settings.keyspace)?;
        start_saver("tenure-keys", &inbox, move || saver.run());
        let (task_logs, saver) = TaskLogs::open(&reader, settings.task_log)?;
        start_saver("tenure-logs", &inbox, move || saver.run());
        let entered = EnteredNamespaces::new(settings.namespaces_per_key_max);
        let hooks = Hooks::default();
        let services =
            SharedServices { topics, keyspaces, task_logs: task_logs.clone(), hooks: hooks.clone() };
        let access = AccessControl { keys, entered, audit: settings.audit.clone() };
        let handle = HubHandle::new(inbox, Arc::clone(&permits), access, reader, services, stopped);
        handle.topics().connect(handle.downgrade());
        let mut core = Core::new(engine, batches, maintenance, stats);
        core.bound_unread(settings.unread, handle.unread());
        core.keep_logs(task_logs);
        core.show_hooks(hooks);
        if let Some(spans) = settings.spans {
            core.trace_to(spans);
        }
        if let Some(audit) = settings.audit {
            core.audit_to(audit);
        }
        let event_loop = EventLoop {
            core,
            lease: writer.lease(),
            deposed: None,
            journal_away: false,
            lease_was_lost: false,
            handle: handle.clone(),
            inbound,
            permits,
            writing: Writing::start(writer),
            stopping,
            pace: Pace::Again,
            turning: ClockMonitor::begin(ClockReading::now(), IDLE_MAX),
            queries: Queries::default(),
            single_client: SingleClientDetector::default(),
            disk_full: false,
            held_back: VecDeque::new(),
        };
        let ended = tokio::spawn(event_loop.run());
        Ok(Hub { handle, report, ended })
    }

    /// How many threads the runtime of a broker should have. One core is left to the threads that wait for
    /// the disk: a hub that shares a thread with its doors need not wake a thread to reach them.
    pub fn threads() -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        cores.saturating_sub(1).max(1)
    }

    /// The handle that doors use.
    pub fn handle(&self) -> &HubHandle {
        &self.handle
    }

    /// The report of the opening of the store.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Waits until the hub has stopped. An error means that the disk failed and the process must end.
    pub async fn ended(self) -> Result<HubEnd, StoreError> {
        match self.ended.await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Starts the thread of a log. If it fails or panics, the hub ends.
fn start_saver(
    name: &str,
    inbox: &mpsc::UnboundedSender<Inbound>,
    run: impl FnOnce() -> Result<(), StoreError> + Send + 'static,
) {
    let failures = inbox.clone();
    start_thread(name, move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        if let Err(error) = ended.unwrap_or(Err(StoreError::Failed)) {
            let _ = failures.send(Inbound::LogFailed(error));
        }
    });
}

/// Reads what a task printed on a thread for that, and replies.
fn read_logs(
    handle: &HubHandle,
    namespace: Option<Name>,
    (session, token): (SessionId, u64),
    act: Option<AuditAct>,
    (task, after): (TaskId, u64),
) {
    let Some(namespace) = namespace else { return };
    let (handle, logs) = (handle.clone(), handle.task_logs().clone());
    tokio::spawn(async move {
        let _permit = handle.log_read().await;
        let reading = tokio::task::spawn_blocking(move || logs.page(&namespace, task, after));
        let page = reading.await.unwrap_or(Err(HubRefusal::Unreadable { what: "log" }));
        handle.send(Inbound::Reply { session, token, act, reply: page.map(Response::Logs) });
    });
}

/// The single writer's loop.
struct EventLoop {
    core: Core,
    /// The lease of the leader of a group.
    lease: Option<LeaderLease>,
    /// Who leads instead of this broker.
    deposed: Option<HubEnd>,
    /// The replicated journal does not answer.
    journal_away: bool,
    /// It counts as away because the lease ran out, not because an append failed.
    lease_was_lost: bool,
    handle: HubHandle,
    inbound: mpsc::UnboundedReceiver<Inbound>,
    permits: Arc<Semaphore>,
    writing: Writing,
    stopping: watch::Sender<bool>,
    pace: Pace,
    turning: ClockMonitor,
    /// List queries that wait for a turn.
    queries: Queries,
    single_client: SingleClientDetector,
    /// The disk is full: decided records cannot be written.
    disk_full: bool,
    /// Messages that arrived meanwhile and did not fit into the open batch either, in order. Requests in here
    /// keep their permits, so senders wait when there are too many.
    held_back: VecDeque<Inbound>,
}

/// The wait until the next turn if nothing arrives.
struct Pause {
    /// Queries are waiting: only other ready work goes first.
    has_more: bool,
    wait: Duration,
}

impl Pause {
    async fn over(self) {
        if self.has_more { yield_now().await } else { tokio::time::sleep(self.wait).await }
    }
}

impl EventLoop {
    async fn run(mut self) -> Result<HubEnd, StoreError> {
        let mut messages = Vec::new();
        let mut disk_looked_at = Instant::now();
        self.look_at_disk();
        loop {
            let now = wall_clock();
            let pause = Pause { has_more: self.queries.has_waiting(), wait: self.wait(now) };
            // With too much on its way to the disk, the hub takes nothing more: senders wait for permits.
            // With a full disk it does, because some requests can be answered all the same.
            let may_take = self.disk_full || (self.held_back.is_empty() && !self.is_write_queue_full());
            let mut reported = None;
            tokio::select! {
                biased;
                written = self.writing.report() => reported = Some(written),
                // The queue may stay full as long as the journal is away, and the request to stop lies in the inbox.
                () = self.handle.asked_to_stop(), if !may_take && self.journal_away => {
                    return self.finish().await;
                }
                count = self.inbound.recv_many(&mut messages, TURN_MESSAGES_MAX), if may_take => {
                    if count == 0 {
                        return self.finish().await;
                    }
                    // Clients with a request ready right now join this turn and share its batch.
                    let gives_way = Instant::now();
                    yield_now().await;
                    while messages.len() < TURN_MESSAGES_MAX && let Ok(message) = self.inbound.try_recv() {
                        messages.push(message);
                    }
                    self.single_client.turn(messages.len(), gives_way.elapsed());
                }
                () = pause.over() => {}
            }
            let now = self.read_clock();
            self.queries.begin_turn();
            while let Some(written) = reported.take().or_else(|| self.writing.try_report()) {
                self.written(now, written)?;
            }
            self.look_for_hung_append(now);
            if let Some(end) = self.deposed.take() {
                return Ok(self.step_down(end));
            }
            while !self.is_write_queue_full()
                && let Some(message) = self.held_back.pop_front()
            {
                self.take(now, message)?;
            }
            while let Some((session, ask)) = self.queries.next() {
                self.take_ask(now, session, ask)?;
            }
            for message in messages.drain(..) {
                match message {
                    Inbound::Stop => return self.finish().await,
                    Inbound::LogFailed(error) => return Err(error),
                    other => self.take_or_hold_back(now, other)?,
                }
            }
            self.pace = self.core.tick(now);
            self.log_maintenance_events();
            self.write()?;
            self.check_lease();
            self.core.flush_outbox();
            self.core.end_largest_holders(now);
            self.start_reading();
            if disk_looked_at.elapsed() > IDLE_MAX {
                disk_looked_at = Instant::now();
                self.look_at_disk();
            }
            self.core.stats_mut().turns_total += 1;
        }
    }

    /// Reads the clock. A peer that could not be heard since the last turn does not count as lost, and
    /// setting the clock makes no delay longer or shorter.
    fn read_clock(&mut self) -> Timestamp {
        let now = ClockReading::now();
        let leap = self.turning.turn(now);
        if let Some((from, to)) = leap.set {
            let seconds = to.since(from).as_secs_f64() - from.since(to).as_secs_f64();
            tracing::warn!(seconds, "the clock was set or the machine slept; delays keep their length");
            self.core.clock_set(from, to);
        }
        if let Some((from, to)) = leap.away {
            let seconds = to.since(from).as_secs_f64();
            tracing::warn!(seconds, "the process was suspended; worker timeouts are extended");
            self.core.broker_stalled(from, to);
        }
        now.wall
    }

    /// How long until there is something to do.
    fn wait(&self, now: Timestamp) -> Duration {
        // Maintenance runs at its own pace, between the turns that requests cause.
        let maintenance = match self.pace {
            Pace::Again => Duration::from_millis(1),
            Pace::Soon => Duration::from_millis(10),
            Pace::Idle => IDLE_MAX,
        };
        let lease = if self.core.waits_for_lease() { LEASE_LOOK } else { IDLE_MAX };
        let append = self.append_answer_due().unwrap_or(IDLE_MAX);
        let deadline = self.core.next_deadline().map_or(IDLE_MAX, |deadline| deadline.since(now));
        deadline.min(maintenance).min(lease).min(append)
    }

    /// Whether both the writer's queue and the open batch are full.
    fn is_write_queue_full(&self) -> bool {
        self.writing.is_full() && self.core.is_full()
    }

    fn take_or_hold_back(&mut self, now: Timestamp, mut message: Inbound) -> Result<(), StoreError> {
        if self.disk_full
            && let Inbound::Asks { session, asks } = &mut message
        {
            self.answer_with_disk_full(now, *session, asks);
            if asks.is_empty() {
                return Ok(());
            }
        }
        // A session that has just opened may have a query that can be answered.
        let is_new = matches!(message, Inbound::Open { .. });
        if !is_new && (self.is_write_queue_full() || !self.held_back.is_empty()) {
            self.held_back.push_back(message);
            return Ok(());
        }
        self.take(now, message)
    }

    /// Answers the first of these requests, as long as they need no disk.
    fn answer_with_disk_full(&mut self, now: Timestamp, session: SessionId, asks: &mut Vec<Ask>) {
        let is_held_back =
            |held: &Inbound| matches!(held, Inbound::Asks { session: whose, .. } if *whose == session);
        if self.held_back.iter().any(is_held_back) {
            return;
        }
        self.core.stats_mut().topics = self.handle.topics().figures();
        let mut rest = std::mem::take(asks).into_iter();
        for ask in rest.by_ref() {
            if let Some(unanswered) = self.core.answer_with_disk_full(now, session, ask) {
                asks.push(unanswered);
                break;
            }
            self.permits.add_permits(1);
        }
        asks.extend(rest);
    }

    fn take(&mut self, now: Timestamp, message: Inbound) -> Result<(), StoreError> {
        match message {
            Inbound::Asks { session, asks } => {
                self.permits.add_permits(asks.len().min(INBOX_REQUESTS_MAX));
                for ask in asks {
                    match &ask.request {
                        Request::Backup { directory } if self.core.check(session, &ask.request).is_ok() => {
                            let act = self.core.act(&ask.request);
                            back_up(self.handle.clone(), session, ask.token, act, directory.clone());
                        }
                        _ => match self.queries.admit(session, ask) {
                            Admission::Now(ask) => self.take_ask(now, session, ask)?,
                            Admission::Waits => {}
                            Admission::Refused(ask, no) => self.core.reply(session, ask.token, Err(no)),
                        },
                    }
                }
            }
            Inbound::Own { session, ask } => self.take_ask(now, session, ask)?,
            Inbound::Open { peer, principal, mailbox } => self.core.open(peer, principal, mailbox),
            Inbound::Close { session } => {
                self.queries.forget(session);
                self.core.close(now, session);
            }
            Inbound::HasRead { watch, life, next } => {
                if !life.is_over()
                    && let Some((from, until)) = self.core.has_read(watch, next)
                {
                    follow(&self.handle, &mut self.core, watch, from, until);
                }
            }
            Inbound::Reply { session, token, act, reply } => {
                self.core.reply_to_act(session, token, act, reply);
            }
            Inbound::Configure(settings) => self.core.configure(&settings),
            Inbound::Revoke { keys } => self.core.revoke(now, &keys),
            Inbound::Stop | Inbound::LogFailed(_) => unreachable!("the loop looks for them"),
        }
        Ok(())
    }

    fn take_ask(&mut self, now: Timestamp, session: SessionId, ask: Ask) -> Result<(), StoreError> {
        if matches!(ask.request, Request::Stats) {
            let (topics, leader) = (self.handle.topics().figures(), self.handle.leader_status());
            let stats = self.core.stats_mut();
            (stats.topics, stats.leader) = (topics, leader);
        }
        if let Request::Logs { task, after } = ask.request
            && self.core.check(session, &ask.request).is_ok()
        {
            let (namespace, act) = (self.core.namespace_of(session), self.core.act(&ask.request));
            read_logs(&self.handle, namespace, (session, ask.token), act, (task, after));
            return Ok(());
        }
        self.core.take(now, session, ask);
        if self.core.is_full() {
            self.write()?;
        }
        Ok(())
    }

    /// Hands the open batch to the writer, unless enough is on its way that the batch may as well grow. For a
    /// single client it is written here.
    fn write(&mut self) -> Result<(), StoreError> {
        if self.writing.is_full() {
            return Ok(());
        }
        let Some(frame) = self.core.seal() else { return Ok(()) };
        if !self.single_client.is_single_client() {
            self.writing.send(frame);
            return Ok(());
        }
        let Some(written) = self.writing.write_at_once(frame) else { return Ok(()) };
        let now = self.read_clock();
        self.written(now, written)
    }

    fn written(&mut self, now: Timestamp, written: Written) -> Result<(), StoreError> {
        match written {
            Written::Synced { position, bytes, took, .. } => {
                self.core.stats_mut().synced(bytes, took.as_secs_f64());
                if let Some(stall) = self.core.synced(now, position) {
                    let seconds = stall.as_secs_f64();
                    match self.lease {
                        Some(_) => tracing::warn!(
                            seconds,
                            "the replicated journal stalled; worker timeouts are extended"
                        ),
                        None => tracing::warn!(seconds, "the disk stalled; worker timeouts are extended"),
                    }
                }
                self.journal_is_back(now);
                if std::mem::take(&mut self.disk_full) {
                    tracing::info!("the disk has room again; pending records are written");
                    self.look_at_disk();
                }
                Ok(())
            }
            Written::Full => {
                if !std::mem::replace(&mut self.disk_full, true) {
                    tracing::warn!("the disk is full; new tasks and queries are refused until space is free");
                    self.core.disk_became_full();
                }
                self.core.set_disk_full(true);
                Ok(())
            }
            Written::Away { why } => {
                self.journal_is_away(now, &why);
                Ok(())
            }
            Written::Back => {
                self.journal_is_back(now);
                Ok(())
            }
            Written::Refilled { bytes } => {
                tracing::error!(
                    refilled_bytes = bytes,
                    "the replicated journal had lost acknowledged records; this broker restored them from its files"
                );
                self.core.stats_mut().refilled_bytes_total += bytes;
                Ok(())
            }
            Written::Deposed { holder, epoch } => {
                tracing::warn!(holder, epoch, "another broker leads; this one steps down");
                self.deposed = Some(HubEnd::Deposed { holder, epoch });
                Ok(())
            }
            // A writer that was replaced accepts nothing more, and says so if it is asked.
            Written::Failed(StoreError::Failed) if self.deposed.is_some() => Ok(()),
            Written::Failed(error) => Err(error),
        }
    }

    /// Starts followers for watches that have just begun or fallen behind.
    fn start_reading(&mut self) {
        for (watch, mut from) in self.core.take_to_read() {
            // What happened in the group that the namespace has left is not in this journal.
            if let Some((mailbox, namespace)) = self.core.begins(watch)
                && let oldest = self.handle.first_event(&namespace)
                && from < oldest
            {
                mailbox.put(Delivery::Gap { watch: watch.1, from, oldest });
                from = oldest;
            }
            if let Some((from, until)) = self.core.has_read(watch, from) {
                follow(&self.handle, &mut self.core, watch, from, until);
            }
        }
    }

    fn log_maintenance_events(&mut self) {
        for event in self.core.maintenance_events() {
            match event {
                MaintenanceEvent::Snapshot { start, bytes, segments_deleted } => {
                    tracing::info!(start, bytes, segments_deleted, "snapshot written");
                }
                MaintenanceEvent::Cleaned { segment, blobs, bytes } => {
                    tracing::debug!(segment, blobs, bytes, "segment cleaned");
                }
                MaintenanceEvent::NoRoomForSnapshot { bytes } => tracing::error!(
                    last_snapshot_bytes = bytes,
                    "no disk space for a snapshot, which would free space; free some space, the broker retries"
                ),
                MaintenanceEvent::Failed { doing, error } => {
                    tracing::warn!(doing, %error, "a maintenance step of the store failed");
                }
            }
        }
    }

    fn look_at_disk(&mut self) {
        let Ok(free) = self.handle.reader().free_bytes() else { return };
        let usage = self.handle.reader().usage();
        let stats = self.core.stats_mut();
        stats.disk_free_bytes = Some(free);
        let (was_short, is_short) = (stats.disk_full, free < DISK_RESERVE_BYTES);
        stats.journal_bytes = usage.journal_bytes + usage.snapshot_bytes + usage.event_bytes;
        self.core.set_disk_full(self.disk_full || is_short);
        if is_short && !was_short {
            tracing::warn!(
                free_bytes = free,
                reserve_bytes = DISK_RESERVE_BYTES,
                "the disk is almost full; new tasks are refused until space is free, running tasks continue"
            );
        }
    }
}
