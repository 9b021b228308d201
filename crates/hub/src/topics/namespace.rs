//! A namespace's topics: a shard behind its lock, the wakers of its subscribers, and the blocked publishers.

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
use super::saver::SaverChannels;
use super::subscription::Ended;

#[derive(Debug)]
pub(super) struct NamespaceTopics {
    pub(super) name: Name,
    saver: SaverChannels,
    state: Mutex<TopicsState>,
}

#[derive(Debug)]
pub(super) struct TopicsState {
    pub(super) shard: Shard,
    /// The streams of live subscriptions, by [`SubscriptionKey::slot`].
    readers: Vec<Option<SubscriptionReader>>,
    waiting: HashMap<Ticket, oneshot::Sender<()>, RandomState>,
    /// Reused by every call: the subscriptions that the shard wants woken.
    pub(super) wake: Vec<SubscriptionKey>,
    pub(super) saving: Saving,
    pub(super) events_from: Positions,
    pub(super) durable: Durable,
    allowance: Allowance,
}

/// Counts the durable messages, across restarts. The count at which a subscription was saved tells which
/// messages it had not received.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// The place of the last numbered message, which may not be written yet.
    numbered: u64,
    /// The place of the last message that subscribers received.
    pub(super) published: u64,
    /// The places at which subscriptions being restored were saved.
    pub(super) saved_at: Positions,
}

impl Durable {
    pub(super) fn number_next(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// Notes a place that is already in use.
    pub(super) fn was_at(&mut self, place: u64) {
        self.numbered = self.numbered.max(place);
        self.published = self.numbered;
    }
}

/// How far the namespace's changes are saved.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// The saver has been notified of a change.
    flagged: bool,
    /// The saver has been notified that a save is urgent.
    hurried: bool,
    /// How many messages had been published at the oldest change that is not on disk.
    unsaved_since: Option<u64>,
    /// How many had been published when the saver collected the changes it is writing now.
    collected: u64,
}

/// The stream that reads a subscription.
#[derive(Debug)]
pub(super) struct SubscriptionReader {
    key: SubscriptionKey,
    pub(super) waker: Arc<ReaderWaker>,
    /// Taken from the shard, but not yet by the stream.
    pub(super) ready: VecDeque<Delivery>,
    /// Added by its feed.
    pub(super) events: VecDeque<Delivery>,
    /// The first event that its feed has not added, if the subscription is about events.
    pub(super) events_next: Option<u64>,
    /// Whether its filters can match durable topics.
    wants_durable: bool,
    /// Events that were sent and may not have been read.
    unread_events: Unconfirmed,
    noted: SavedPosition,
}

/// The position of a stream when its subscription was last given to the saver.
#[derive(Debug)]
struct SavedPosition {
    event: u64,
    durable: u64,
    /// The stream has advanced since, or its subscriber has acknowledged something.
    is_behind: bool,
}

/// How many events or durable messages a stream takes before its position is saved again; it is saved after a
/// second at the latest.
const NOTE_EVERY: u64 = 256;

impl SubscriptionReader {
    /// The first event that its stream has not taken, if the subscription is about events.
    fn events_from(&self) -> Option<u64> {
        let waiting = self.ready.iter().chain(&self.events).filter_map(event_number).min();
        let from = waiting.or(self.events_next)?;
        let unread = self.unread_events.unread(None).first.into_values().min();
        Some(unread.map_or(from, |unread| unread.0.min(from)))
    }
}

/// Wakes one stream, and signals its end.
#[derive(Debug, Default)]
pub(super) struct ReaderWaker {
    pub(super) woken: Notify,
    /// Notified when there is room for events again.
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

    /// Waits until the stream has ended.
    pub(super) async fn over(&self) {
        let closed = self.closed.notified();
        if self.ended().is_none() {
            closed.await;
        }
    }
}

impl NamespaceTopics {
    pub(super) fn new(name: Name, shard: Shard, saver: SaverChannels) -> NamespaceTopics {
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

    /// Runs one short operation under the lock. Wakes streams after it releases the lock.
    pub(super) fn with<T>(
        self: &Arc<NamespaceTopics>,
        work: impl FnOnce(&mut TopicsState, Timestamp) -> T,
    ) -> T {
        let (now, wall_ahead) = self.saver.clock.read();
        let mut wakers = Vec::new();
        let (result, released, changed, is_urgent) = {
            // A shard that panicked half-way may be in an impossible state, so it must not be used again.
            let mut state = self.state.lock().expect("no shard has panicked");
            state.shard.set_wall_ahead(wall_ahead);
            let result = work(&mut state, now);
            state.collect_wakers(&mut wakers);
            (result, state.collect_released(), state.note_changes(), state.needs_hurry())
        };
        if changed {
            self.saver.changed(self);
        }
        if is_urgent {
            self.saver.flush_soon();
        }
        for waker in wakers {
            waker.woken.notify_one();
        }
        for publisher in released {
            // The publisher may have stopped waiting.
            let _ = publisher.send(());
        }
        result
    }

    /// Pauses all subscriptions and ends all streams.
    pub(super) fn stop(self: &Arc<NamespaceTopics>) {
        self.with(|state, now| {
            let keys: Vec<_> = state.readers.iter().flatten().map(|reader| reader.key).collect();
            for key in keys {
                // A stream without a subscription has nothing to pause.
                let _ = state.pause(key, Ended::Stopping, now);
            }
            // Their messages are queued, and will not be delivered before the stop.
            state.waiting.clear();
        });
    }
}

impl TopicsState {
    /// Gives a subscription a new stream. The old one ends.
    ///
    /// `events_next` is the first event it wants, if known.
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
        // There may already be something to take.
        waker.woken.notify_one();
        self.readers[slot] = Some(SubscriptionReader {
            key,
            waker: Arc::clone(&waker),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            events_next,
            wants_durable,
            unread_events: Unconfirmed::default(),
            noted: SavedPosition {
                event: events_next.unwrap_or(0),
                durable: self.durable.published,
                is_behind: false,
            },
        });
        waker
    }

    /// Pauses a subscription; what its stream has not taken counts as missed. Returns until when the
    /// subscription is kept.
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

    /// A stream has taken these, which does not mean that the client has read them. From time to time the
    /// position is saved, in case of a crash.
    pub(super) fn sent(&mut self, key: SubscriptionKey, taken: &[Delivery]) {
        let published = self.durable.published;
        // The only possible refusal: the subscription is gone.
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
            // A save writes all messages that may be unread, so a subscriber with many of them is saved less
            // often.
            is_due |= published >= reader.noted.durable + NOTE_EVERY.max(unread);
        }
        if is_due {
            self.note(key);
        }
    }

    /// The client has read these topics up to these numbers.
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

    /// Saves the positions of the streams that have advanced since the last time.
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
            reader.noted = SavedPosition { event, durable, is_behind: false };
        }
        // The only possible refusal: the subscription is gone.
        let _ = self.shard.save_again(key);
    }

    /// The feed of a stream has added events, up to the one before `next`.
    pub(super) fn fed(&mut self, key: SubscriptionKey, events: Vec<Delivery>, next: Option<u64>) -> bool {
        let Some(reader) = self.reader(key) else { return false };
        reader.events.extend(events);
        if next.is_some() {
            let is_first = reader.events_next.is_none();
            reader.events_next = next;
            if is_first {
                // From here on the subscription can resume after a crash.
                let _ = self.shard.save_again(key);
            }
        }
        true
    }

    /// Registers a publisher that waits for room.
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> oneshot::Receiver<()> {
        let (release, released) = oneshot::channel();
        self.waiting.insert(ticket, release);
        released
    }

    /// Whether the allowance is used up: one more message might get a number that is assigned again after a
    /// crash.
    pub(super) fn has_used_allowance(&self) -> bool {
        self.unsaved() >= self.allowance.messages()
    }

    /// How many messages have been published since the oldest change that is not on disk.
    fn unsaved(&self) -> u64 {
        self.saving.unsaved_since.map_or(0, |since| self.shard.published() - since)
    }

    /// Whether the saver should write at once and raise the allowance. True once per save.
    fn needs_hurry(&mut self) -> bool {
        let needed = !self.saving.hurried && self.allowance.is_short(self.unsaved());
        self.saving.hurried |= needed;
        needed
    }

    /// The changes since the last time, for the saver. After the last part, tracking starts over.
    pub(super) fn collect(&mut self, max: usize, now: Timestamp) -> Changes {
        let mut changes = self.shard.changes(max, now);
        self.add_untaken(&mut changes.saved.subscriptions);
        if !changes.more {
            self.saving.flagged = false;
            self.saving.collected = self.shard.published();
        }
        changes
    }

    /// Adds what was taken from the shard and not yet by a stream: it would be missed if the broker stopped
    /// now.
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

    /// The event positions of these subscriptions, for the saver.
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

    /// The collected changes are on disk.
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

    /// The stream of a subscription, if it has one.
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
