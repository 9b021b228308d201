//! A namespace's topics: a shard behind its lock, the wakers of its subscribers, and the publishers that wait.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use tenure_engine::Name;
use tenure_topics::{
    Changes, Delivery, DeliveryKind, SavedSubscription, Sequence, Shard, SubscriptionId, SubscriptionKey,
    Ticket, Timestamp, TopicFilter, TopicRefusal, Unconfirmed,
};
use tokio::sync::{Notify, oneshot};

use super::allowance::Allowance;
use super::events::{Positions, event_number, event_prefix};
use super::saver::SaverLine;
use super::subscription::Ended;

#[derive(Debug)]
pub(super) struct NamespaceTopics {
    pub(super) name: Name,
    saver: SaverLine,
    state: Mutex<TopicsState>,
}

#[derive(Debug)]
pub(super) struct TopicsState {
    pub(super) shard: Shard,
    /// The streams of live subscriptions, by [`SubscriptionKey::slot`].
    readers: Vec<Option<SubscriptionReader>>,
    waiting: HashMap<Ticket, oneshot::Sender<()>, RandomState>,
    /// Reused by every call: whom the shard wants woken.
    pub(super) wake: Vec<SubscriptionKey>,
    pub(super) saving: Saving,
    pub(super) events_from: Positions,
    pub(super) durable: Durable,
    allowance: Allowance,
}

/// How many durable messages there have been, across restarts. By its place among them a subscription that was saved
/// tells which ones it had not been shown.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// The place of the last one that was numbered, and perhaps not written.
    numbered: u64,
    /// The place of the last one that subscribers were shown.
    pub(super) published: u64,
    /// Where the subscriptions that are being restored were saved.
    pub(super) saved_at: Positions,
}

impl Durable {
    pub(super) fn number_next(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// This place has been given before.
    pub(super) fn was_at(&mut self, place: u64) {
        self.numbered = self.numbered.max(place);
        self.published = self.numbered;
    }
}

/// How far what must survive has been written down.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// The saver has been told that there is something.
    flagged: bool,
    /// The saver has been told that it is urgent.
    hurried: bool,
    /// How many messages had been published when the oldest change that is not on disk came about.
    unsaved_since: Option<u64>,
    /// How many had been published when the saver collected the changes it is writing now.
    collected: u64,
}

/// One stream that takes from a subscription.
#[derive(Debug)]
pub(super) struct SubscriptionReader {
    key: SubscriptionKey,
    pub(super) waker: Arc<ReaderWaker>,
    /// Taken from the shard, and not yet by the stream.
    pub(super) ready: VecDeque<Delivery>,
    /// Brought by its feed.
    pub(super) events: VecDeque<Delivery>,
    /// The first event that its feed has not brought, if it is about events.
    pub(super) events_next: Option<u64>,
    /// It may get messages of durable topics.
    wants_durable: bool,
    /// Events that were sent and may not have been read.
    unread_events: Unconfirmed,
    noted: Noted,
}

/// How far a stream had come when its subscription was last given to the saver.
#[derive(Debug)]
struct Noted {
    event: u64,
    durable: u64,
    /// It has come further since, or said that it has read something.
    is_behind: bool,
}

/// How many events or durable messages a stream takes before where it stands is written down again; at the latest that
/// happens after a second.
const NOTE_EVERY: u64 = 256;

impl SubscriptionReader {
    /// The first event that its stream has not taken, if it is about events.
    fn events_from(&self) -> Option<u64> {
        let waiting = self.ready.iter().chain(&self.events).filter_map(event_number).min();
        let from = waiting.or(self.events_next)?;
        let unread = self.unread_events.unread(None).first.into_values().min();
        Some(unread.map_or(from, |unread| unread.0.min(from)))
    }
}

/// Wakes one stream, and tells it when it is over.
#[derive(Debug, Default)]
pub(super) struct ReaderWaker {
    pub(super) woken: Notify,
    /// There is room for events again.
    pub(super) room: Notify,
    closed: Notify,
    /// 0, or the number of an [`Ended`].
    ended: AtomicU8,
}

impl ReaderWaker {
    pub(super) fn ended(&self) -> Option<Ended> {
        Ended::from_number(self.ended.load(Ordering::Acquire))
    }

    pub(super) fn end(&self, why: Ended) {
        self.ended.store(why.number(), Ordering::Release);
        self.woken.notify_one();
        self.closed.notify_waiters();
    }

    /// Waits until the stream is over.
    pub(super) async fn over(&self) {
        let closed = self.closed.notified();
        if self.ended().is_none() {
            closed.await;
        }
    }
}

impl NamespaceTopics {
    pub(super) fn new(name: Name, shard: Shard, saver: SaverLine) -> NamespaceTopics {
        let state = TopicsState {
            shard,
            readers: Vec::new(),
            waiting: HashMap::default(),
            wake: Vec::new(),
            saving: Saving::default(),
            events_from: HashMap::default(),
            durable: Durable::default(),
            allowance: saver.allowance.clone(),
        };
        NamespaceTopics { name, saver, state: Mutex::new(state) }
    }

    /// Does one short piece of work under the lock. Whoever is to be woken by it is woken after the lock is given back.
    pub(super) fn with<T>(
        self: &Arc<NamespaceTopics>,
        work: impl FnOnce(&mut TopicsState, Timestamp) -> T,
    ) -> T {
        let now = self.saver.clock.now();
        let mut wakers = Vec::new();
        let (result, released, changed, is_urgent) = {
            // A shard that panicked half-way may be in an impossible state: nobody uses it again.
            let mut state = self.state.lock().expect("no shard has panicked");
            let result = work(&mut state, now);
            state.collect_wakers(&mut wakers);
            (result, state.collect_released(), state.note_changes(), state.needs_hurry())
        };
        if changed {
            self.saver.changed(self);
        }
        if is_urgent {
            self.saver.hurry();
        }
        for waker in wakers {
            waker.woken.notify_one();
        }
        for publisher in released {
            // It may have gone.
            let _ = publisher.send(());
        }
        result
    }

    /// Pauses everything and ends all streams.
    pub(super) fn stop(self: &Arc<NamespaceTopics>) {
        self.with(|state, now| {
            let keys: Vec<_> = state.readers.iter().flatten().map(|reader| reader.key).collect();
            for key in keys {
                // A stream without a subscription has nothing to pause.
                let _ = state.pause(key, Ended::Stopping, now);
            }
            // Their messages are in line, and will not get further here.
            state.waiting.clear();
        });
    }
}

impl TopicsState {
    /// Gives a subscription a new stream. The one it had is over.
    ///
    /// `events_next` is the first event it wants, if that is known.
    pub(super) fn attach(&mut self, key: SubscriptionKey, events_next: Option<u64>) -> Arc<ReaderWaker> {
        self.end_stream(key, Ended::TakenOver);
        let slot = key.slot();
        if self.readers.len() <= slot {
            self.readers.resize_with(slot + 1, || None);
        }
        let settings = self.shard.settings();
        let filters = self.shard.subscription(key, Timestamp(0)).map(|info| info.filters).unwrap_or_default();
        let may_match =
            |filter: &TopicFilter| filter.is_wild() || settings.is_kept_by_choice(filter.as_str());
        let wants_durable = !settings.ring_rules.is_empty() && filters.iter().any(may_match);
        let waker = Arc::new(ReaderWaker::default());
        // There may be something to take already.
        waker.woken.notify_one();
        self.readers[slot] = Some(SubscriptionReader {
            key,
            waker: Arc::clone(&waker),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            events_next,
            wants_durable,
            unread_events: Unconfirmed::default(),
            noted: Noted {
                event: events_next.unwrap_or(0),
                durable: self.durable.published,
                is_behind: false,
            },
        });
        waker
    }

    /// Pauses a subscription; what its stream has not taken counts as missed. Returns until when it is kept.
    pub(super) fn pause(
        &mut self,
        key: SubscriptionKey,
        why: Ended,
        now: Timestamp,
    ) -> Result<Timestamp, TopicRefusal> {
        let reader = self.detach(key);
        let waiting = reader.iter().flat_map(|reader| &reader.ready);
        let unsent: Vec<Delivery> = waiting.filter(|item| event_number(item).is_none()).cloned().collect();
        let until = self.shard.pause(key, &unsent, now, &mut self.wake)?;
        if let Some(from) = reader.as_ref().and_then(SubscriptionReader::events_from) {
            let id = self.shard.subscription(key, now)?.id;
            self.events_from.insert(id, from);
        }
        if let Some(reader) = reader {
            reader.waker.end(why);
        }
        Ok(until)
    }

    pub(super) fn end_stream(&mut self, key: SubscriptionKey, why: Ended) {
        if let Some(reader) = self.detach(key) {
            reader.waker.end(why);
        }
    }

    pub(super) fn reader(&mut self, key: SubscriptionKey) -> Option<&mut SubscriptionReader> {
        self.readers.get_mut(key.slot())?.as_mut()
    }

    /// A stream has taken these, which says nothing about whether the other end has read them. Now and then it is
    /// written down how far it has come, for the case of a crash.
    pub(super) fn sent(&mut self, key: SubscriptionKey, taken: &[Delivery]) {
        let published = self.durable.published;
        // The only refusal is that it is gone.
        let unread = self.shard.unconfirmed(key).unwrap_or(0) as u64;
        let Some(Some(reader)) = self.readers.get_mut(key.slot()) else { return };
        let mut is_due = false;
        if reader.events_next.is_some() {
            let (events, messages): (Vec<Delivery>, Vec<Delivery>) =
                taken.iter().cloned().partition(|item| event_number(item).is_some());
            reader.unread_events.sent(&events);
            if let Some(event) = events.iter().rev().find_map(event_number) {
                reader.noted.is_behind = true;
                is_due = event >= reader.noted.event + NOTE_EVERY;
            }
            let _ = self.shard.sent(key, &messages);
        } else {
            let _ = self.shard.sent(key, taken);
        }
        if reader.wants_durable && published > reader.noted.durable {
            reader.noted.is_behind = true;
            // What may be unread is written as a whole, so one that reads many topics is not written for few messages.
            is_due |= published >= reader.noted.durable + NOTE_EVERY.max(unread);
        }
        if is_due {
            self.note(key);
        }
    }

    /// The other end has read these topics up to these numbers.
    pub(super) fn acknowledge(
        &mut self,
        key: SubscriptionKey,
        read: &[(Arc<str>, Sequence)],
    ) -> Result<(), TopicRefusal> {
        self.shard.acknowledge(key, read)?;
        if let Some(reader) = self.reader(key) {
            reader.noted.is_behind = true;
            if reader.events_next.is_some() {
                let read = read.iter().map(|(topic, last)| (&**topic, *last)).collect();
                reader.unread_events.confirm(&read);
            }
        }
        Ok(())
    }

    /// Writes down where the streams stand that have come further since the last time.
    pub(super) fn note_all(&mut self) {
        let behind = self.readers.iter().flatten().filter(|reader| reader.noted.is_behind);
        let keys: Vec<_> = behind.map(|reader| reader.key).collect();
        for key in keys {
            self.note(key);
        }
    }

    fn note(&mut self, key: SubscriptionKey) {
        let durable = self.durable.published;
        if let Some(reader) = self.reader(key) {
            let event = reader.events_next.unwrap_or(0);
            reader.noted = Noted { event, durable, is_behind: false };
        }
        // The only refusal is that it is gone.
        let _ = self.shard.save_again(key);
    }

    /// The feed of a stream has brought events, up to the one before `next`.
    pub(super) fn fed(&mut self, key: SubscriptionKey, events: Vec<Delivery>, next: Option<u64>) -> bool {
        let Some(reader) = self.reader(key) else { return false };
        reader.events.extend(events);
        if next.is_some() {
            let is_first = reader.events_next.is_none();
            reader.events_next = next;
            if is_first {
                // From here on it can go on after a crash.
                let _ = self.shard.save_again(key);
            }
        }
        true
    }

    /// Remembers a publisher that waits for room.
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> oneshot::Receiver<()> {
        let (release, released) = oneshot::channel();
        self.waiting.insert(ticket, release);
        released
    }

    /// Whether as many messages have been published since the last save as are allowed: another one might get a number
    /// that is given again after a crash.
    pub(super) fn is_ahead_of_its_disk(&self) -> bool {
        self.unsaved() >= self.allowance.messages()
    }

    /// How many messages have been published since the oldest change that is not on disk.
    fn unsaved(&self) -> u64 {
        self.saving.unsaved_since.map_or(0, |since| self.shard.published() - since)
    }

    /// Whether the saver should write at once, and allow more. Says so once for each save.
    fn needs_hurry(&mut self) -> bool {
        let needed = !self.saving.hurried && self.allowance.is_short(self.unsaved());
        self.saving.hurried |= needed;
        needed
    }

    /// What changed since the last time, for the saver. After the last part the next change is a new one.
    pub(super) fn collect(&mut self, max: usize, now: Timestamp) -> Changes {
        let mut changes = self.shard.changes(max, now);
        self.add_untaken(&mut changes.saved.subscriptions);
        if !changes.more {
            self.saving.flagged = false;
            self.saving.collected = self.shard.published();
        }
        changes
    }

    /// Adds what was taken from the shard and not yet by a stream: it would be missed if the broker stopped now.
    pub(super) fn add_untaken(&self, saved: &mut [SavedSubscription]) {
        for one in saved.iter_mut().filter(|one| one.group.is_none()) {
            let Some(reader) = self.reader_of(&one.id) else { continue };
            for delivery in &reader.ready {
                let (topic, first) = match delivery {
                    Delivery::Message { kind: DeliveryKind::Live | DeliveryKind::Replay, message } => {
                        (&message.topic, message.sequence)
                    }
                    Delivery::Gap(gap) => (&gap.topic, gap.first_missed),
                    Delivery::Message { .. } | Delivery::ReplayComplete(_) | Delivery::Warning(_) => continue,
                };
                if event_prefix(topic).is_some() {
                    continue;
                }
                match one.missed.iter_mut().find(|(known, _)| **known == **topic) {
                    Some((_, known)) => *known = first.min(*known),
                    None => one.missed.push((topic.as_ref().to_owned(), first)),
                }
            }
        }
    }

    /// Where these subscriptions stand in the events, for the saver.
    pub(super) fn event_positions(
        &self,
        subscriptions: &[SavedSubscription],
    ) -> HashMap<SubscriptionId, u64> {
        let position = |id: &SubscriptionId| match self.reader_of(id) {
            Some(reader) => reader.events_from(),
            None => self.events_from.get(id).copied(),
        };
        subscriptions.iter().filter_map(|one| Some((one.id.clone(), position(&one.id)?))).collect()
    }

    /// What was collected is on disk.
    pub(super) fn saved(&mut self) {
        self.allowance.was_used(self.unsaved());
        self.saving.hurried = false;
        self.saving.unsaved_since = self.saving.flagged.then_some(self.saving.collected);
    }

    /// Whether there is something new for the saver.
    fn note_changes(&mut self) -> bool {
        if self.saving.flagged || !self.shard.has_changes() {
            return false;
        }
        self.saving.flagged = true;
        self.saving.unsaved_since.get_or_insert(self.shard.published());
        true
    }

    /// The stream of a subscription, if one has it.
    fn reader_of(&self, id: &SubscriptionId) -> Option<&SubscriptionReader> {
        self.readers.get(self.shard.find(id)?.slot())?.as_ref()
    }

    fn detach(&mut self, key: SubscriptionKey) -> Option<SubscriptionReader> {
        self.readers.get_mut(key.slot())?.take()
    }

    fn collect_wakers(&mut self, wakers: &mut Vec<Arc<ReaderWaker>>) {
        for key in self.wake.drain(..) {
            if let Some(Some(reader)) = self.readers.get(key.slot()) {
                wakers.push(Arc::clone(&reader.waker));
            }
        }
    }

    fn collect_released(&mut self) -> Vec<oneshot::Sender<()>> {
        let released = self.shard.released();
        released.into_iter().filter_map(|ticket| self.waiting.remove(&ticket)).collect()
    }
}
