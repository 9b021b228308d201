//! The hub's logic without its runtime: decide, journal, then send. It uses no thread, no socket and no
//! clock, so the simulator drives the same code.
//!
//! The order is the guarantee. `take` decides and fills the open batch; `seal` hands the batch to the writer;
//! only `synced` releases the replies, notices and events of a batch.

mod auditing;
mod calling;
mod deciding;
mod disk_full;
mod ending;
mod journal_outage;
mod leading;
mod queues_of_key;
mod reconciling;
mod stall;
mod statistics;
mod storing;
mod unread;
mod watching;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use tenure_engine::record::StateChange;
use tenure_engine::{
    Blob, Change, Command, Engine, Event, Held, Name, Notice, Output, Peer, Refusal, SessionId, Settings,
    Timestamp,
};
use tenure_store::{Batches, JournalFrame, Maintenance, MaintenanceEvent, Pace};

use crate::audit::Audit;
use crate::calls::{Calls, check_address};
use crate::counters::Counters;
use crate::hooks::Hooks;
use crate::mailbox::{Mailbox, UnreadBytes};
use crate::outbox::{Bundle, Outbox, OutboxItem};
use crate::principal::Principal;
use crate::queue_flow::QueueFlows;
use crate::refusal::HubRefusal;
use crate::request::{Ask, Delivery, Request, Response};
use crate::settings::UnreadLimits;
use crate::spans::{self, SpanSink};
use crate::stats::Stats;
use crate::task_logs::{LogPiece, PIECE_BYTES_MAX, TaskLogs};
use crate::watches::{WatchKey, Watches};
use journal_outage::JournalOutage;
use queues_of_key::QueuesOfKeys;
use watching::GatheredEvents;

/// The hub without threads, sockets or a clock.
#[derive(Debug)]
pub struct Core {
    engine: Engine,
    batches: Batches,
    maintenance: Maintenance,
    outbox: Outbox,
    sessions: HashMap<SessionId, SessionEntry, FixedState>,
    watches: Watches,
    gathered: GatheredEvents,
    calls: Calls,
    queues_of_keys: QueuesOfKeys,
    stats: Stats,
    flows: QueueFlows,
    /// The counters of all doors.
    counters: Vec<Arc<Counters>>,
    audit: Option<Audit>,
    /// The output of tasks, if it is kept.
    task_logs: Option<TaskLogs>,
    hooks: Hooks,
    spans: Option<SpanSink>,
    /// Watches that must read the log before they are live. The runtime reads it for them.
    to_read: Vec<(WatchKey, u64)>,
    /// The limits for peers that do not read, and the bytes of replies that are not in a mailbox yet.
    unread_limits: UnreadLimits,
    unread: Arc<UnreadBytes>,
    unsent_reply_bytes: usize,
    disk_full: bool,
    draining: bool,
    /// No other broker can lead. Always so without a replicated journal.
    has_lease: bool,
    /// The moment of the last turn or sync.
    now: Timestamp,
    /// Since when the disk has made no progress with pending batches.
    disk_waited_for_since: Option<Timestamp>,
    outage: JournalOutage,
}

#[derive(Debug)]
struct SessionEntry {
    peer: Arc<Peer>,
    principal: Principal,
    mailbox: Arc<Mailbox>,
    watches: BTreeSet<u64>,
    /// Events that go into its mailbox at the end of the turn, or before its next reply or notice.
    gathered: Vec<Delivery>,
    /// The size of its replies in the outbox.
    unsent_reply_bytes: usize,
    /// The worker it has registered, kept for the audit log.
    worker: Option<Name>,
}

impl SessionEntry {
    fn check(&self, request: &Request) -> Result<(), HubRefusal> {
        self.principal.grant.rights.check(request.needs())?;
        match request {
            Request::Listen { address } | Request::Call { address, .. } => {
                check_address(self.principal.door, address)
            }
            _ => Ok(()),
        }
    }
}

impl Core {
    /// A core for an engine and the parts of its store.
    pub fn new(engine: Engine, batches: Batches, maintenance: Maintenance, stats: Stats) -> Core {
        let next_event = engine.last_event() + 1;
        Core {
            outbox: Outbox::new(batches.position()),
            engine,
            batches,
            maintenance,
            sessions: HashMap::default(),
            watches: Watches::new(next_event),
            gathered: GatheredEvents::default(),
            calls: Calls::default(),
            queues_of_keys: QueuesOfKeys::default(),
            stats,
            flows: QueueFlows::default(),
            counters: Vec::new(),
            audit: None,
            task_logs: None,
            hooks: Hooks::default(),
            spans: None,
            to_read: Vec::new(),
            unread_limits: UnreadLimits::default(),
            unread: Arc::default(),
            unsent_reply_bytes: 0,
            disk_full: false,
            draining: false,
            has_lease: true,
            now: Timestamp::ZERO,
            disk_waited_for_since: None,
            outage: JournalOutage::default(),
        }
    }

    /// The engine, for reading.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Adds a session for a connected peer.
    pub fn open(&mut self, peer: Arc<Peer>, principal: Principal, mailbox: Arc<Mailbox>) {
        self.stats.sessions += 1;
        let session = peer.session;
        let entry = SessionEntry {
            peer,
            principal,
            mailbox,
            watches: BTreeSet::new(),
            gathered: Vec::new(),
            unsent_reply_bytes: 0,
            worker: None,
        };
        self.sessions.insert(session, entry);
    }

    /// Closes a session and ends its calls, watches and worker presence.
    pub fn close(&mut self, now: Timestamp, session: SessionId) {
        let Some(entry) = self.sessions.remove(&session) else { return };
        self.stats.sessions -= 1;
        self.watches.remove_all(session, &entry.watches);
        let left = self.calls.forget(session);
        for orphan in left.received {
            let reply = Err(HubRefusal::NoListener { address: entry.peer.identity.clone() });
            self.outbox.push(OutboxItem::Reply { session: orphan.caller, token: orphan.token, reply });
        }
        for (call, pending) in left.made {
            self.call_given_up(call, pending.receiver);
        }
        let _ = self.command(now, &entry.peer, Command::SessionClosed);
        entry.mailbox.close();
    }

    /// Decides one request. The reply waits in the outbox.
    pub fn take(&mut self, now: Timestamp, session: SessionId, ask: Ask) {
        self.now = now;
        let Some(ask) = self.wait_for_journal(now, session, ask) else { return };
        self.stats.requests_total += 1;
        // A session that the hub has dropped gets no reply: its mailbox is closed.
        let Some(entry) = self.sessions.get(&session) else { return };
        let peer = Arc::clone(&entry.peer);
        let mark = self.outbox.mark();
        let act = self.act(&ask.request);
        let allowed = entry.check(&ask.request).and_then(|()| {
            let (key, limit) = (entry.principal.grant.key, entry.principal.grant.queues_max);
            limit.map_or(Ok(()), |limit| {
                self.queues_of_keys.check(now, &self.engine, &peer, key, limit, &ask.request)
            })
        });
        if let Err(refusal) = allowed {
            let reply = Err(refusal);
            self.note(session, act, &reply);
            return self.reply_at(mark, session, ask.token, reply);
        }
        if let Request::Refused { no, .. } = ask.request {
            return self.note(session, act, &Err(no));
        }
        let Some(reply) = self.decide(now, &peer, ask.token, ask.request) else { return };
        self.note(session, act, &reply);
        if let Some(reply) = self.explain_outage(session, ask.token, reply) {
            self.reply_at(mark, session, ask.token, reply);
        }
    }

    /// Keeps what tasks print from now on.
    pub fn keep_logs(&mut self, logs: TaskLogs) {
        self.task_logs = Some(logs);
    }

    /// Describes spans of tasks with a trace from now on.
    pub fn trace_to(&mut self, spans: SpanSink) {
        self.spans = Some(spans);
    }

    /// Shows these hooks from now on.
    pub fn show_hooks(&mut self, hooks: Hooks) {
        self.hooks = hooks;
    }

    /// Only the holder of the attempt may speak for it. The reply does not wait for the disk, and promises nothing.
    fn append_log(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: Held,
        piece: LogPiece,
    ) -> Result<Response, HubRefusal> {
        if piece.bytes.len() > PIECE_BYTES_MAX {
            return Err(
                Refusal::TooMany { what: "bytes in a piece of output", limit: PIECE_BYTES_MAX }.into()
            );
        }
        self.engine.check_holder(peer, held)?;
        if let Some(logs) = &self.task_logs {
            logs.append(now, &peer.namespace, held, piece);
        }
        Ok(Response::Done)
    }

    /// The namespace of a session.
    pub(crate) fn namespace_of(&self, session: SessionId) -> Option<Name> {
        self.sessions.get(&session).map(|entry| Arc::clone(&entry.peer.namespace))
    }

    /// Whether the session's grant allows a request. `take` checks this itself.
    pub fn check(&self, session: SessionId, request: &Request) -> Result<(), HubRefusal> {
        self.sessions.get(&session).map_or(Ok(()), |entry| entry.check(request))
    }

    /// Replies to a request, in the order of decisions.
    pub fn reply(&mut self, session: SessionId, token: u64, reply: Result<Response, HubRefusal>) {
        self.reply_at(self.outbox.mark(), session, token, reply);
    }

    fn reply_at(&mut self, mark: usize, session: SessionId, token: u64, reply: Result<Response, HubRefusal>) {
        if let Err(refusal) = &reply {
            self.stats.refusals_total += 1;
            self.stats.stale_refusals_total +=
                u64::from(matches!(refusal, HubRefusal::Engine(Refusal::StaleAttempt { .. })));
        }
        self.outbox.insert(mark, OutboxItem::Reply { session, token, reply });
    }

    /// Handles due timers and a slice of the store's maintenance. Returns how soon it needs another turn.
    ///
    /// While the disk stalls, the engine's timers do not run: their notices could not be sent anyway, and a
    /// peer that waits for a reply must not time out because of its silence.
    pub fn tick(&mut self, now: Timestamp) -> Pace {
        self.now = now;
        self.end_wait_for_journal(now);
        let stalls = self.disk_stalls(now);
        let Core { engine, batches, outbox, stats, flows, watches, spans, .. } = self;
        if !stalls {
            let traced = spans.is_some();
            engine.tick(now, &mut Journaling { batches, outbox, stats, flows, watches, traced });
        }
        self.maintenance.turn(engine, batches, now)
    }

    /// The maintenance events since the last call, for the log.
    pub fn maintenance_events(&mut self) -> Vec<MaintenanceEvent> {
        self.maintenance.events()
    }

    /// When `tick` next has work to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let timer = self.engine.next_deadline().filter(|_| !self.disk_stalls(self.now));
        [timer, self.outage.deadline()].into_iter().flatten().min()
    }

    /// Seals the open batch for the writer. If there is none, replies without records wait only for earlier
    /// batches.
    pub fn seal(&mut self) -> Option<JournalFrame> {
        match self.batches.seal() {
            Some(frame) => {
                self.stats.batches_total += 1;
                self.outbox.seal(frame.end(), self.engine.last_event());
                self.disk_waited_for_since.get_or_insert(self.now);
                Some(frame)
            }
            None => {
                self.outbox.seal_unwritten(self.engine.last_event());
                None
            }
        }
    }

    /// Whether the open batch is large enough to be written without waiting for more.
    pub fn is_full(&self) -> bool {
        self.batches.is_full()
    }

    /// Moves everything that may be sent into the mailboxes.
    pub fn flush_outbox(&mut self) {
        while let Some(Bundle { mut outs, last_event, .. }) = self.outbox.pop(self.has_lease) {
            for out in outs.drain(..) {
                self.push_outbox(out);
            }
            self.outbox.recycle(outs);
            self.engine.mark_sent(self.now, last_event);
        }
        self.put_gathered();
    }

    /// Whether nothing waits for the disk.
    pub fn is_idle(&self) -> bool {
        self.outbox.is_idle() && self.batches.is_empty()
    }

    /// Says whether the disk is full.
    pub fn set_disk_full(&mut self, full: bool) {
        if self.disk_full != full {
            self.maintenance.set_short(full);
        }
        self.disk_full = full;
        self.stats.disk_full = full;
        self.engine.hold_schedules(self.disk_full || self.draining);
    }

    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.engine.configure(settings);
        // The new settings may keep fewer ended tasks, so free their space.
        self.maintenance.reclaim();
    }

    /// Begins the last maintenance step: a snapshot, so that the next start is fast.
    pub fn begin_last_snapshot(&mut self) {
        self.maintenance.shut_down(&self.batches);
    }

    /// Refuses new tasks from now on, and tells all sessions that the broker stops.
    pub fn drain(&mut self) {
        self.draining = true;
        self.engine.hold_schedules(true);
        for entry in self.sessions.values() {
            entry.mailbox.put(Delivery::Goodbye);
        }
    }

    fn blob(&mut self, bytes: &Bytes) -> Blob {
        self.batches.blob(bytes)
    }

    fn command(&mut self, now: Timestamp, peer: &Peer, command: Command) -> Result<Response, HubRefusal> {
        let Core { engine, batches, outbox, stats, flows, watches, spans, .. } = self;
        let traced = spans.is_some();
        let mut journaling = Journaling { batches, outbox, stats, flows, watches, traced };
        Ok(Response::Command(engine.handle(now, peer, command, &mut journaling)?))
    }

    fn push_outbox(&mut self, out: OutboxItem) {
        match out {
            OutboxItem::Reply { session, token, reply } => self.push_reply(session, token, reply),
            OutboxItem::Notice { session, notice } => self.put(session, Delivery::Notice(notice)),
            OutboxItem::Other { session, delivery: delivery @ Delivery::Broadcast(_) } => {
                // A broadcast is not a reply to this session, so a full mailbox may drop it.
                self.put_gathered_of(session);
                if let Some(entry) = self.sessions.get(&session)
                    && entry.mailbox.has_room_for_events()
                {
                    entry.mailbox.put(delivery);
                }
            }
            OutboxItem::Other { session, delivery } => self.put(session, delivery),
            OutboxItem::Event(event) => self.publish(&event),
            OutboxItem::Passed { seq } => self.watches.pass(seq),
            OutboxItem::Begin { watch, from } => self.to_read.push((watch, from)),
            OutboxItem::Span(span) => {
                if let Some(spans) = &self.spans {
                    spans.put(*span);
                }
            }
            OutboxItem::Audit(line) => self.send_audit_line(line),
        }
    }

    fn put(&mut self, session: SessionId, delivery: Delivery) {
        self.put_gathered_of(session);
        if let Some(entry) = self.sessions.get(&session) {
            entry.mailbox.put(delivery);
        }
    }
}

/// The engine's output port: records go into the open batch, notices into the outbox.
struct Journaling<'a> {
    batches: &'a mut Batches,
    outbox: &'a mut Outbox,
    stats: &'a mut Stats,
    flows: &'a mut QueueFlows,
    watches: &'a Watches,
    /// Whether spans are exported.
    traced: bool,
}

impl Output for Journaling<'_> {
    fn record(&mut self, event: Event, change: Change<'_>) {
        self.stats.count(&event.kind);
        self.flows.count(&event);
        if self.traced
            && let Some(span) = spans::of_submission(&event, &change)
        {
            self.outbox.push(OutboxItem::Span(Box::new(span)));
        }
        self.batches.record(&event, change);
        if self.watches.want(&event) {
            self.outbox.push(OutboxItem::Event(Arc::new(event)));
        } else {
            self.outbox.pass(event.seq);
        }
    }

    fn notice(&mut self, session: SessionId, mut notice: Notice) {
        if self.traced
            && let Notice::Assign(assignment) = &mut notice
            && let Some(trace) = &mut assignment.trace
        {
            spans::hand_over(trace, assignment.task, assignment.attempt);
        }
        self.outbox.push(OutboxItem::Notice { session, notice });
    }

    fn changes(&mut self, change: StateChange<'_>) {
        self.stats.changed(&change);
        self.flows.changed(&change);
        if self.traced
            && let Some(span) = spans::of_change(&change)
        {
            self.outbox.push(OutboxItem::Span(Box::new(span)));
        }
    }

    fn body(&mut self, bytes: &[u8]) -> Blob {
        self.batches.blob(bytes)
    }

    fn freed(&mut self, blob: Blob) {
        self.batches.dead(blob);
    }
}
