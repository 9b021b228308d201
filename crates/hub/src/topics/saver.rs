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
use tenure_store::{StoreError, TopicLog, TopicRows, WriteError};
use tenure_topics::{Sequence, Stop, Timestamp, TopicRefusal};
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
pub(super) struct SaverLine {
    notes: Sender<Note>,
    waiting: UnsyncedBytes,
    pub(super) allowance: Allowance,
    pub(super) clock: TopicClock,
}

#[derive(Debug)]
pub(super) enum Note {
    Changed(Arc<NamespaceTopics>),
    /// The allowance will soon be used up.
    Hurry,
    Durable(PendingPublish),
    Finish(oneshot::Sender<()>),
}

impl SaverLine {
    pub(super) fn new(allowance: Allowance, clock: TopicClock) -> (SaverLine, Receiver<Note>) {
        let (notes, received) = channel();
        (SaverLine { notes, waiting: UnsyncedBytes::default(), allowance, clock }, received)
    }

    pub(super) fn hurry(&self) {
        let _ = self.notes.send(Note::Hurry);
    }

    pub(super) fn changed(&self, space: &Arc<NamespaceTopics>) {
        // If the saver has ended, nothing is saved any more, and the broker is about to stop.
        let _ = self.notes.send(Note::Changed(Arc::clone(space)));
    }

    pub(super) fn durable(
        &self,
        space: &Arc<NamespaceTopics>,
        publish: tenure_topics::Publish<'_>,
    ) -> Result<oneshot::Receiver<Result<PublishReceipt, TopicRefusal>>, TopicRefusal> {
        let (pending, replied) = PendingPublish::new(space, publish, &self.waiting)?;
        self.notes.send(Note::Durable(pending)).map_err(|_| TopicRefusal::NotWritten)?;
        Ok(replied)
    }

    /// Writes the final state and stops the saver.
    pub(super) async fn finish(&self) {
        let (done, is_done) = oneshot::channel();
        let _ = self.notes.send(Note::Finish(done));
        let _ = is_done.await;
    }
}

/// The state of the saver thread.
#[derive(Debug)]
pub(crate) struct Saver {
    topics: Weak<Shared>,
    log: TopicLog,
    notes: Receiver<Note>,
    /// Rows that did not fit on a full disk.
    unwritten: Vec<TopicRows>,
    /// The namespaces of these rows.
    unsaved: Vec<Arc<NamespaceTopics>>,
    allowance: Allowance,
    /// When the use of the allowance was last checked.
    looked_at: Timestamp,
    /// Rows were dropped, because the disk was full for too long: the whole state has to be written again.
    incomplete: bool,
}

#[derive(Default)]
struct Round {
    changed: Vec<Arc<NamespaceTopics>>,
    durable: Vec<PendingPublish>,
    durable_bytes: usize,
    is_hurried: bool,
    finish: Option<oneshot::Sender<()>>,
}

impl Round {
    fn add(&mut self, note: Note) {
        match note {
            Note::Changed(space) => self.changed.push(space),
            Note::Durable(pending) => {
                self.durable_bytes += pending.bytes();
                self.durable.push(pending);
            }
            Note::Hurry => self.is_hurried = true,
            Note::Finish(done) => self.finish = Some(done),
        }
    }

    fn is_urgent(&self) -> bool {
        !self.durable.is_empty() || self.is_hurried || self.finish.is_some()
    }

    fn is_full(&self) -> bool {
        self.durable_bytes >= ROUND_BYTES_MAX || self.finish.is_some()
    }
}

impl Saver {
    pub(super) fn new(topics: &Topics, log: TopicLog, notes: Receiver<Note>) -> Saver {
        Saver {
            topics: Arc::downgrade(&topics.shared),
            log,
            notes,
            unwritten: Vec::new(),
            unsaved: Vec::new(),
            allowance: topics.shared.saver.allowance.clone(),
            looked_at: topics.now(),
            incomplete: false,
        }
    }

    /// Runs until the broker stops or is dropped. An error means that the disk failed and the process must
    /// end.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        while let Some(mut round) = self.next_round() {
            let Some(shared) = self.topics.upgrade() else { return Ok(()) };
            let topics = Topics { shared };
            self.save(&topics, &mut round)?;
            if let Some(done) = round.finish {
                self.write_clean(&topics)?;
                let _ = done.send(());
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs one round without waiting.
    pub(super) fn step(&mut self) -> Result<(), StoreError> {
        let Some(shared) = self.topics.upgrade() else { return Ok(()) };
        let mut round = Round::default();
        while !round.is_full()
            && let Ok(note) = self.notes.try_recv()
        {
            round.add(note);
        }
        self.save(&Topics { shared }, &mut round)
    }

    /// Writes the whole state and a row that marks it as clean. If the disk has no room for it, the next
    /// start treats the stop as a crash, which only skips some numbers.
    pub(super) fn write_clean(&mut self, topics: &Topics) -> Result<(), StoreError> {
        topics.write_all(&mut self.log, Some(rows::clean())).map(|_| ())
    }

    /// Waits for something to do, and for more of it unless it is urgent.
    fn next_round(&mut self) -> Option<Round> {
        let mut round = Round::default();
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
        let allowance = self.next_allowance(round.is_hurried, topics.now());
        self.bound_unwritten();
        match self.write(&numbered.rows) {
            Ok(()) => {
                if let Some(larger) = allowance {
                    self.allowance.set(larger);
                }
                numbered.publish(topics);
            }
            Err(WriteError::Full { .. }) => {
                tracing::warn!(
                    "the disk is full; durable topics accept no messages, and topic state is not saved"
                );
                numbered.refuse();
            }
            Err(WriteError::Fatal(error)) => {
                numbered.refuse();
                return Err(error);
            }
        }
        for space in round.changed.drain(..) {
            if !self.unsaved.iter().any(|known| Arc::ptr_eq(known, &space)) {
                self.unsaved.push(space);
            }
        }
        if self.incomplete && topics.write_all(&mut self.log, None)? {
            self.incomplete = false;
        }
        if self.unwritten.is_empty() && !self.incomplete {
            for space in self.unsaved.drain(..) {
                space.with(|state, _| state.saved());
            }
            topics.shared.saved.notify_waiters();
        }
        self.log.tidy(tenure_engine::Timestamp(topics.now().0))
    }

    /// Adds a row if the allowance changes. Returns a larger one, which takes effect after the write.
    fn next_allowance(&mut self, is_hurried: bool, now: Timestamp) -> Option<u64> {
        if !is_hurried && now.since(self.looked_at) < ALLOWANCE_LASTS {
            return None;
        }
        self.looked_at = now;
        let now = self.allowance.messages();
        let next = self.allowance.next(is_hurried)?;
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

    /// Appends everything and syncs it. Rows that do not fit on a full disk stay in `unwritten`, in order.
    fn write(&mut self, durable: &TopicRows) -> Result<(), WriteError> {
        while let Some(rows) = self.unwritten.first() {
            self.log.append(rows)?;
            self.unwritten.remove(0);
        }
        if !durable.is_empty() {
            self.log.append(durable)?;
        }
        Ok(self.log.sync()?)
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
        let stop = if besides.is_some() { Stop::Clean } else { Stop::Unclean };
        let general = self.general_rows().into_iter().chain(besides);
        let of_spaces = self.spaces().into_iter().flat_map(|space| {
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
        log.begin(general.chain(of_spaces))
    }

    /// The rows that apply to all namespaces.
    pub(super) fn general_rows(&self) -> [(Vec<u8>, Vec<u8>); 3] {
        let floor = self.shared.floor.load(Ordering::Acquire);
        let allowance = self.shared.saver.allowance.messages();
        [rows::global_floor(floor), rows::allowance(allowance), rows::exact(self.exact())]
    }
}

/// The position of a durable message in its topic, and among all of its namespace.
#[derive(Clone, Copy)]
pub(super) struct TopicPlace {
    pub(super) sequence: Sequence,
    pub(super) place: u64,
}

/// Durable messages with their numbers, ready to be written.
#[derive(Default)]
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
            let (prepared, now) = pending.space.with(|state, now| {
                if state.has_used_allowance() {
                    return (Err(TopicRefusal::NotWritten), now);
                }
                let prepared = state.shard.prepare(&pending.publish(), now);
                (prepared.map(|prepared| (prepared, state.durable.number_next())), now)
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
            let message = rows::encode_message(&pending.saved(sequence, now, prepared.expires_at, place));
            numbered.rows.message(tenure_engine::Timestamp(now.0), &message_key, &message);
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
