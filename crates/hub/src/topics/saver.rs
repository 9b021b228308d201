//! The saver: a thread that writes durable state, and the messages of durable topics before subscribers get
//! them. It never holds a namespace's lock while it writes.
//!
//! A round: number the durable messages → collect the changes → append, one sync → publish the durable
//! messages. While it writes, the next round fills: that is the group commit.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use tenure_store::{AppendError, StoreError, TopicLog, TopicRows, WriteError};
use tenure_topics::{Prepared, Sequence, ShutdownKind, Timestamp, TopicRefusal};
use tokio::sync::oneshot;

use super::allowance::Allowance;
use super::clock::TopicClock;
use super::durable::{PendingPublish, UnsyncedBytes};
use super::namespace::NamespaceTopics;
use super::publish::PublishReceipt;
use super::rows::{self, Namespace, Saving};
use super::{Shared, Topics};

/// How long a change waits for others to be written with it.
const GATHER: Duration = Duration::from_millis(20);
/// How soon a full disk is retried.
const FULL_RETRY: Duration = Duration::from_millis(200);
/// How soon a replicated journal is asked again that did not answer, and how long a stop waits for it.
const AWAY_RETRY: Duration = Duration::from_millis(20);
const AWAY_STOP_MAX: Duration = Duration::from_secs(5);
/// How long a large allowance is kept when nothing is saved.
const ALLOWANCE_LASTS: Duration = Duration::from_secs(1);
/// How many bytes of durable messages one round writes.
const ROUND_BYTES_MAX: usize = 8 << 20;
/// How many bytes may wait for a full disk.
const UNWRITTEN_BYTES_MAX: usize = 64 << 20;
/// How many rows are collected, and messages published, before a namespace's lock is released.
const ROWS_MAX: usize = 1_024;
const SLICE: usize = 64;

/// The channels to the saver.
#[derive(Clone, Debug)]
pub(super) struct SaverChannels {
    notes: Sender<SaverMessage>,
    waiting: UnsyncedBytes,
    pub(super) allowance: Allowance,
    pub(super) clock: TopicClock,
}

#[derive(Debug)]
pub(super) enum SaverMessage {
    Changed(Arc<NamespaceTopics>),
    /// The allowance will soon be used up.
    FlushSoon,
    Durable(PendingPublish),
    Finish(oneshot::Sender<()>),
}

impl SaverChannels {
    pub(super) fn new(allowance: Allowance, clock: TopicClock) -> (SaverChannels, Receiver<SaverMessage>) {
        let (notes, received) = channel();
        (SaverChannels { notes, waiting: UnsyncedBytes::default(), allowance, clock }, received)
    }

    pub(super) fn flush_soon(&self) {
        let _ = self.notes.send(SaverMessage::FlushSoon);
    }

    pub(super) fn changed(&self, space: &Arc<NamespaceTopics>) {
        // If the saver has ended, nothing is saved any more, and the broker is about to stop.
        let _ = self.notes.send(SaverMessage::Changed(Arc::clone(space)));
    }

    pub(super) fn durable(
        &self,
        space: &Arc<NamespaceTopics>,
        publish: tenure_topics::Publish<'_>,
    ) -> Result<oneshot::Receiver<Result<PublishReceipt, TopicRefusal>>, TopicRefusal> {
        let (pending, replied) = PendingPublish::new(space, publish, &self.waiting)?;
        self.notes.send(SaverMessage::Durable(pending)).map_err(|_| TopicRefusal::NotWritten)?;
        Ok(replied)
    }

    /// Writes the final state and stops the saver.
    pub(super) async fn finish(&self) {
        let (done, is_done) = oneshot::channel();
        let _ = self.notes.send(SaverMessage::Finish(done));
        let _ = is_done.await;
    }
}

/// The state of the saver thread.
#[derive(Debug)]
pub(crate) struct Saver {
    topics: Weak<Shared>,
    log: TopicLog,
    notes: Receiver<SaverMessage>,
    /// Rows that did not fit on a full disk.
    unwritten: Vec<TopicRows>,
    /// The namespaces of these rows.
    unsaved: Vec<Arc<NamespaceTopics>>,
    allowance: Allowance,
    /// When the use of the allowance was last checked.
    looked_at: Timestamp,
    /// Rows were dropped, because the disk was full for too long: the whole state has to be written again.
    incomplete: bool,
    /// The appends of the last round that are not durable yet.
    unsettled: Option<Unsettled>,
    /// The replicated journal does not answer, or another broker leads.
    is_away: bool,
    /// The work that arrived meanwhile.
    later: Round,
}

/// The next step when everything appended is durable.
#[derive(Debug)]
struct Unsettled {
    numbered: Numbered,
    /// A larger allowance.
    allowance: Option<u64>,
}

/// Whether everything that was appended is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Yes,
    /// The replicated journal is away: try again.
    NotYet,
    /// Another broker leads, so it never will be.
    Never,
}

#[derive(Debug, Default)]
struct Round {
    changed: Vec<Arc<NamespaceTopics>>,
    durable: Vec<PendingPublish>,
    durable_bytes: usize,
    flushes_soon: bool,
    finish: Option<oneshot::Sender<()>>,
}

impl Round {
    fn add(&mut self, note: SaverMessage) {
        match note {
            SaverMessage::Changed(space) => self.changed.push(space),
            SaverMessage::Durable(pending) => {
                self.durable_bytes += pending.bytes();
                self.durable.push(pending);
            }
            SaverMessage::FlushSoon => self.flushes_soon = true,
            SaverMessage::Finish(done) => self.finish = Some(done),
        }
    }

    fn append(&mut self, other: &mut Round) {
        self.changed.append(&mut other.changed);
        self.durable.append(&mut other.durable);
        self.durable_bytes += std::mem::take(&mut other.durable_bytes);
        self.flushes_soon |= other.flushes_soon;
        self.finish = other.finish.take().or(self.finish.take());
    }

    fn is_urgent(&self) -> bool {
        !self.durable.is_empty() || self.flushes_soon || self.finish.is_some()
    }

    fn is_full(&self) -> bool {
        self.durable_bytes >= ROUND_BYTES_MAX || self.finish.is_some()
    }
}

impl Saver {
    pub(super) fn new(topics: &Topics, log: TopicLog, notes: Receiver<SaverMessage>) -> Saver {
        Saver {
            topics: Arc::downgrade(&topics.shared),
            log,
            notes,
            unwritten: Vec::new(),
            unsaved: Vec::new(),
            allowance: topics.shared.saver.allowance.clone(),
            looked_at: topics.now(),
            incomplete: false,
            unsettled: None,
            is_away: false,
            later: Round::default(),
        }
    }

    /// Runs until the broker stops or is dropped. An error means that the disk failed and the process must
    /// end.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        while let Some(mut round) = self.next_round() {
            let Some(shared) = self.topics.upgrade() else { return Ok(()) };
            let topics = Topics { shared };
            self.save(&topics, &mut round)?;
            drop(topics);
            let Some(finish) = self.wait_until_settled(round.finish)? else {
                // What woke this thread when the topics were dropped may be read already.
                if self.topics.strong_count() == 0 {
                    return Ok(());
                }
                continue;
            };
            if let Some(shared) = self.topics.upgrade().filter(|_| self.unsettled.is_none()) {
                self.write_clean(&Topics { shared })?;
            }
            let _ = finish.send(());
            return Ok(());
        }
        Ok(())
    }

    /// Waits until everything appended is durable, however long the replicated journal is away. Returns the
    /// channel that waits for the end, if there is one.
    fn wait_until_settled(
        &mut self,
        mut finish: Option<oneshot::Sender<()>>,
    ) -> Result<Option<oneshot::Sender<()>>, StoreError> {
        let mut waits_since = Instant::now();
        let mut later = Round::default();
        while self.unsettled.is_some() {
            let Some(shared) = self.topics.upgrade() else { return Ok(finish) };
            let settled = self.sync_and_publish(&Topics { shared })?;
            // A broker that another one has replaced leaves its publishers without an answer: what they sent may be
            // committed. Their connections end with the broker.
            let waits_too_long = waits_since.elapsed() > AWAY_STOP_MAX;
            if finish.is_some() && (settled == Settled::Never || waits_too_long) {
                return Ok(finish);
            }
            if settled != Settled::Yes {
                let Ok(message) = self.notes.recv_timeout(AWAY_RETRY) else { continue };
                if matches!(message, SaverMessage::Finish(_)) {
                    waits_since = Instant::now();
                }
                later.add(message);
                finish = later.finish.take().or(finish);
            }
        }
        self.later.append(&mut later);
        Ok(finish)
    }

    /// Runs one round without waiting.
    pub(super) fn step(&mut self) -> Result<(), StoreError> {
        let Some(shared) = self.topics.upgrade() else { return Ok(()) };
        let topics = Topics { shared };
        if self.unsettled.is_some() && self.sync_and_publish(&topics)? != Settled::Yes {
            return Ok(());
        }
        let mut round = Round::default();
        while !round.is_full()
            && let Ok(note) = self.notes.try_recv()
        {
            round.add(note);
        }
        self.save(&topics, &mut round)
    }

    /// Writes the whole state and a row that marks it as clean. If the disk has no room for it, or the replicated
    /// journal is away, the next start treats the stop as a crash, which only skips some numbers.
    pub(super) fn write_clean(&mut self, topics: &Topics) -> Result<(), StoreError> {
        topics.write_all(&mut self.log, Some(rows::clean()))?;
        match self.log.sync() {
            Err(AppendError::Fatal(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for something to do, and for more of it unless it is urgent.
    fn next_round(&mut self) -> Option<Round> {
        let mut round = std::mem::take(&mut self.later);
        if round.is_urgent() {
            return Some(round);
        }
        let is_quiet = self.unwritten.is_empty() && !self.incomplete;
        if is_quiet && !self.allowance.is_large() {
            round.add(self.notes.recv().ok()?);
        } else {
            let timeout = if is_quiet { ALLOWANCE_LASTS } else { FULL_RETRY };
            match self.notes.recv_timeout(timeout) {
                Ok(note) => round.add(note),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        let until = Instant::now() + GATHER;
        while !round.is_urgent() {
            let Ok(note) = self.notes.recv_timeout(until.saturating_duration_since(Instant::now())) else {
                break;
            };
            round.add(note);
        }
        while !round.is_full()
            && let Ok(note) = self.notes.try_recv()
        {
            round.add(note);
        }
        Some(round)
    }

    fn save(&mut self, topics: &Topics, round: &mut Round) -> Result<(), StoreError> {
        let numbered = Numbered::new(std::mem::take(&mut round.durable));
        for space in &round.changed {
            self.incomplete |= self.collect(topics, space);
        }
        let allowance = self.next_allowance(round.flushes_soon, topics.now());
        self.bound_unwritten();
        for space in round.changed.drain(..) {
            if !self.unsaved.iter().any(|known| Arc::ptr_eq(known, &space)) {
                self.unsaved.push(space);
            }
        }
        match self.write(&numbered.rows) {
            Ok(()) => self.unsettled = Some(Unsettled { numbered, allowance }),
            Err(WriteError::Full { .. }) => {
                tracing::warn!(
                    "the disk is full; durable topics accept no messages, and topic state is not saved"
                );
                numbered.refuse();
                self.unsettled = Some(Unsettled { numbered: Numbered::default(), allowance: None });
            }
            Err(WriteError::Fatal(error)) => {
                numbered.refuse();
                return Err(error);
            }
        }
        self.sync_and_publish(topics).map(|_| ())
    }

    /// Makes everything appended durable; then publishes it, and tidies the log.
    fn sync_and_publish(&mut self, topics: &Topics) -> Result<Settled, StoreError> {
        let settled = self.sync()?;
        if settled != Settled::Yes {
            return Ok(settled);
        }
        if let Some(Unsettled { numbered, allowance }) = self.unsettled.take() {
            if let Some(larger) = allowance {
                self.allowance.set(larger);
            }
            numbered.publish(topics);
        }
        if self.incomplete && topics.write_all(&mut self.log, None)? {
            self.incomplete = false;
            let settled = self.sync()?;
            if settled != Settled::Yes {
                self.unsettled = Some(Unsettled { numbered: Numbered::default(), allowance: None });
                return Ok(settled);
            }
        }
        if self.unwritten.is_empty() && !self.incomplete {
            for space in self.unsaved.drain(..) {
                space.with(|state, _| state.saved());
            }
            topics.shared.saved.notify_waiters();
        }
        self.log.rotate_if_due(tenure_engine::Timestamp(topics.shared.saver.clock.wall().0))?;
        Ok(Settled::Yes)
    }

    /// Data that is not durable is neither published nor refused: it may be committed all the same.
    fn sync(&mut self) -> Result<Settled, StoreError> {
        let settled = match self.log.sync() {
            Ok(()) => Settled::Yes,
            Err(AppendError::Full { .. } | AppendError::Away { .. }) => Settled::NotYet,
            Err(AppendError::Deposed { .. }) => Settled::Never,
            Err(AppendError::Fatal(error)) => {
                if let Some(unsettled) = self.unsettled.take() {
                    unsettled.numbered.refuse();
                }
                return Err(error);
            }
        };
        if std::mem::replace(&mut self.is_away, settled != Settled::Yes) != self.is_away {
            match self.is_away {
                true => tracing::warn!("the topic log cannot be committed; durable messages wait"),
                false => tracing::info!("the topic log is committed again"),
            }
        }
        Ok(settled)
    }

    /// Adds a row if the allowance changes. Returns a larger one, which takes effect after the write.
    fn next_allowance(&mut self, flushes_soon: bool, now: Timestamp) -> Option<u64> {
        if !flushes_soon && now.since(self.looked_at) < ALLOWANCE_LASTS {
            return None;
        }
        self.looked_at = now;
        let now = self.allowance.messages();
        let next = self.allowance.next(flushes_soon)?;
        let mut rows = TopicRows::default();
        let (key, value) = rows::allowance(next);
        rows.put(&key, &value);
        self.unwritten.push(rows);
        if next < now {
            self.allowance.set(next);
            return None;
        }
        Some(next)
    }

    /// A disk that stays full must not fill the memory as well.
    fn bound_unwritten(&mut self) {
        let bytes: usize = self.unwritten.iter().map(TopicRows::bytes).sum();
        if bytes > UNWRITTEN_BYTES_MAX {
            self.unwritten.clear();
            self.incomplete = true;
        }
    }

    /// Collects the changes of a namespace. Returns whether rows were left out because there were too many
    /// changes.
    fn collect(&mut self, topics: &Topics, space: &Arc<NamespaceTopics>) -> bool {
        let is_durable = |topic: &str| topics.shared.settings.is_durable(topic);
        let mut rows = TopicRows::default();
        let mut overflowed = false;
        loop {
            let (changes, positions, shown) = space.with(|state, now| {
                let changes = state.collect(ROWS_MAX, now);
                let positions = state.event_positions(&changes.saved.subscriptions);
                (changes, positions, state.durable.published)
            });
            let saving = Saving { positions, shown, is_durable: &is_durable };
            Namespace(&space.name).add_changes(&changes, &saving, &mut rows);
            overflowed |= changes.overflowed;
            if !changes.more {
                break;
            }
        }
        if !rows.is_empty() {
            self.unwritten.push(rows);
        }
        overflowed
    }

    /// Appends everything. Rows that do not fit on a full disk stay in `unwritten`, in order.
    fn write(&mut self, durable: &TopicRows) -> Result<(), WriteError> {
        while let Some(rows) = self.unwritten.first() {
            self.log.append(rows)?;
            self.unwritten.remove(0);
        }
        if !durable.is_empty() {
            self.log.append(durable)?;
        }
        Ok(())
    }
}

impl Topics {
    /// Begins a file of the log with the whole state and one additional row. Returns `false` if there is no
    /// room.
    pub(super) fn write_all(
        &self,
        log: &mut TopicLog,
        besides: Option<(Vec<u8>, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        let is_durable = |topic: &str| self.shared.settings.is_durable(topic);
        let stop = if besides.is_some() { ShutdownKind::Clean } else { ShutdownKind::Unclean };
        let general = self.general_rows().into_iter().chain(besides);
        let of_namespaces = self.namespaces().into_iter().flat_map(|space| {
            let (snapshot, positions, shown) = space.with(|state, now| {
                let mut snapshot = state.shard.snapshot(stop, now);
                state.add_untaken(&mut snapshot.subscriptions);
                let positions = state.event_positions(&snapshot.subscriptions);
                (snapshot, positions, state.durable.published)
            });
            let namespace = Namespace(&space.name);
            let durable = snapshot.topics.iter().filter(|topic| is_durable(&topic.name));
            let mut rows: Vec<_> =
                durable.map(|topic| namespace.number(&topic.name, topic.sequence)).collect();
            rows.extend(namespace.all(&snapshot, &Saving { positions, shown, is_durable: &is_durable }));
            rows
        });
        log.begin(general.chain(of_namespaces))
    }

    /// The rows that apply to all namespaces.
    pub(super) fn general_rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let floor = self.shared.floor.load(Ordering::Acquire);
        let allowance = self.shared.saver.allowance.messages();
        let mut rows = vec![rows::global_floor(floor), rows::allowance(allowance), rows::exact(self.exact())];
        rows.extend(self.starts().iter().map(|(namespace, start)| Namespace(namespace).start(*start)));
        rows
    }
}

/// The position of a durable message in its topic, and among all of its namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicPlace {
    pub(super) sequence: Sequence,
    pub(super) place: u64,
}

/// Durable messages with their numbers, ready to be written.
#[derive(Debug, Default)]
struct Numbered {
    rows: TopicRows,
    messages: Vec<(PendingPublish, TopicPlace, Timestamp)>,
}

impl Numbered {
    /// Numbers the messages. Only the saver publishes to durable topics, so the numbers stay valid until the
    /// publish.
    fn new(durable: Vec<PendingPublish>) -> Numbered {
        let mut numbered = Numbered::default();
        let mut last: HashMap<Vec<u8>, (Vec<u8>, Sequence), RandomState> = HashMap::default();
        for pending in durable {
            let (prepared, now, wall) = pending.space.with(|state, now| {
                let wall = state.shard.wall(now);
                if state.has_used_allowance() {
                    return (Err(TopicRefusal::NotWritten), now, wall);
                }
                let prepared = state.shard.prepare(&pending.publish(), now).map(|prepared| {
                    // On disk it is a time of day.
                    Prepared { expires_at: state.shard.wall(prepared.expires_at), ..prepared }
                });
                (prepared.map(|prepared| (prepared, state.durable.number_next())), now, wall)
            });
            let (prepared, place) = match prepared {
                Ok(prepared) => prepared,
                Err(refusal) => {
                    let _ = pending.reply.send(Err(refusal));
                    continue;
                }
            };
            let namespace = Namespace(&pending.space.name);
            let message_key = namespace.message_key(pending.topic());
            let before = last.get(&message_key).map(|(_, sequence)| sequence.next());
            let sequence = before.unwrap_or(prepared.sequence);
            let message = rows::encode_message(&pending.saved(sequence, wall, prepared.expires_at, place));
            numbered.rows.message(tenure_engine::Timestamp(wall.0), &message_key, &message);
            last.insert(message_key, (namespace.number_key(pending.topic()), sequence));
            numbered.messages.push((pending, TopicPlace { sequence, place }, now));
        }
        for (key, sequence) in last.into_values() {
            numbered.rows.put(&key, &sequence.0.to_le_bytes());
        }
        numbered
    }

    fn publish(self, topics: &Topics) {
        let mut messages = self.messages.into_iter().peekable();
        while let Some((first, ..)) = messages.peek() {
            let space = Arc::clone(&first.space);
            let replies = space.with(|state, _| {
                let mut replies = Vec::new();
                while replies.len() < SLICE
                    && let Some((pending, place, at)) =
                        messages.next_if(|(next, ..)| Arc::ptr_eq(&next.space, &space))
                {
                    let receipt = topics.publish_written(&space, state, pending.publish(), place, at);
                    replies.push((pending.reply, receipt));
                }
                replies
            });
            for (reply, receipt) in replies {
                // The message is published even if its publisher is gone.
                let _ = reply.send(receipt);
            }
        }
    }

    fn refuse(self) {
        for (pending, ..) in self.messages {
            let _ = pending.reply.send(Err(TopicRefusal::NotWritten));
        }
    }
}
