//! A namespace's topics: a shard behind its lock, the bells of its subscribers, and the publishers that wait.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use tenure_engine::Name;
use tenure_topics::{
    Changes, Delivery, Refusal, SavedSubscription, Shard, SubscriptionId, SubscriptionKey, Ticket, Timestamp,
};
use tokio::sync::{Notify, oneshot};

use super::events::{Positions, event_number};
use super::now;
use super::saver::SaverLine;
use super::subscription::Ended;

#[derive(Debug)]
pub(super) struct Space {
    pub(super) name: Name,
    saver: SaverLine,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) shard: Shard,
    /// The streams of live subscriptions, by [`SubscriptionKey::slot`].
    readers: Vec<Option<Reader>>,
    waiting: HashMap<Ticket, oneshot::Sender<()>, RandomState>,
    /// Reused by every call: whom the shard wants woken.
    pub(super) wake: Vec<SubscriptionKey>,
    pub(super) saving: Saving,
    pub(super) events_from: Positions,
}

/// How far what must survive has been written down.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// The saver has been told that there is something.
    flagged: bool,
    /// How many messages had been published when the oldest change that is not on disk came about.
    unsaved_since: Option<u64>,
    /// How many had been published when the saver collected the changes it is writing now.
    collected: u64,
}

/// One stream that takes from a subscription.
#[derive(Debug)]
pub(super) struct Reader {
    key: SubscriptionKey,
    pub(super) bell: Arc<Bell>,
    /// Taken from the shard, and not yet by the stream.
    pub(super) ready: VecDeque<Delivery>,
    /// Brought by its feed.
    pub(super) events: VecDeque<Delivery>,
    /// The first event that its feed has not brought, if it is about events.
    pub(super) events_next: Option<u64>,
}

impl Reader {
    /// The first event that its stream has not taken, if it is about events.
    fn events_from(&self) -> Option<u64> {
        let waiting = self.ready.iter().chain(&self.events).filter_map(event_number).min();
        waiting.or(self.events_next)
    }
}

/// Wakes one stream, and tells it when it is over.
#[derive(Debug, Default)]
pub(super) struct Bell {
    pub(super) rung: Notify,
    /// There is room for events again.
    pub(super) room: Notify,
    closed: Notify,
    /// 0, or the number of an [`Ended`].
    ended: AtomicU8,
}

impl Bell {
    pub(super) fn ended(&self) -> Option<Ended> {
        Ended::from_number(self.ended.load(Ordering::Acquire))
    }

    pub(super) fn end(&self, why: Ended) {
        self.ended.store(why.number(), Ordering::Release);
        self.rung.notify_one();
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

impl Space {
    pub(super) fn new(name: Name, shard: Shard, saver: SaverLine) -> Space {
        let state = State {
            shard,
            readers: Vec::new(),
            waiting: HashMap::default(),
            wake: Vec::new(),
            saving: Saving::default(),
            events_from: HashMap::default(),
        };
        Space { name, saver, state: Mutex::new(state) }
    }

    /// Does one short piece of work under the lock. Whoever is to be woken by it is woken after the lock is given back.
    pub(super) fn with<T>(self: &Arc<Space>, work: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = now();
        let mut bells = Vec::new();
        let (result, released, changed) = {
            // A shard that panicked half-way may be in an impossible state: nobody uses it again.
            let mut state = self.state.lock().expect("no shard has panicked");
            let result = work(&mut state, now);
            state.collect_bells(&mut bells);
            (result, state.collect_released(), state.note_changes())
        };
        if changed {
            self.saver.changed(self);
        }
        for bell in bells {
            bell.rung.notify_one();
        }
        for publisher in released {
            // It may have gone.
            let _ = publisher.send(());
        }
        result
    }

    /// Pauses everything and ends all streams.
    pub(super) fn stop(self: &Arc<Space>) {
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

impl State {
    /// Gives a subscription a new stream. The one it had is over.
    pub(super) fn attach(&mut self, key: SubscriptionKey) -> Arc<Bell> {
        self.end_stream(key, Ended::TakenOver);
        let slot = key.slot();
        if self.readers.len() <= slot {
            self.readers.resize_with(slot + 1, || None);
        }
        let bell = Arc::new(Bell::default());
        // There may be something to take already.
        bell.rung.notify_one();
        self.readers[slot] = Some(Reader {
            key,
            bell: Arc::clone(&bell),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            events_next: None,
        });
        bell
    }

    /// Pauses a subscription; what its stream has not taken counts as missed. Returns until when it is kept.
    pub(super) fn pause(
        &mut self,
        key: SubscriptionKey,
        why: Ended,
        now: Timestamp,
    ) -> Result<Timestamp, Refusal> {
        let reader = self.detach(key);
        let waiting = reader.iter().flat_map(|reader| &reader.ready);
        let unsent: Vec<Delivery> = waiting.filter(|item| event_number(item).is_none()).cloned().collect();
        let until = self.shard.pause(key, &unsent, now, &mut self.wake)?;
        if let Some(from) = reader.as_ref().and_then(Reader::events_from) {
            let id = self.shard.subscription(key, now)?.id;
            self.events_from.insert(id, from);
        }
        if let Some(reader) = reader {
            reader.bell.end(why);
        }
        Ok(until)
    }

    pub(super) fn end_stream(&mut self, key: SubscriptionKey, why: Ended) {
        if let Some(reader) = self.detach(key) {
            reader.bell.end(why);
        }
    }

    pub(super) fn reader(&mut self, key: SubscriptionKey) -> Option<&mut Reader> {
        self.readers.get_mut(key.slot())?.as_mut()
    }

    /// Remembers a publisher that waits for room.
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> oneshot::Receiver<()> {
        let (release, released) = oneshot::channel();
        self.waiting.insert(ticket, release);
        released
    }

    /// Whether more messages have been published since the last save than numbers are reserved for: another one might
    /// get a number that is given again after a crash.
    pub(super) fn is_ahead_of_its_disk(&self) -> bool {
        self.saving
            .unsaved_since
            .is_some_and(|since| self.shard.published() - since >= self.shard.settings().sequence_block)
    }

    /// What changed since the last time, for the saver. After the last part the next change is a new one.
    pub(super) fn collect(&mut self, max: usize, now: Timestamp) -> Changes {
        let changes = self.shard.changes(max, now);
        if !changes.more {
            self.saving.flagged = false;
            self.saving.collected = self.shard.published();
        }
        changes
    }

    /// Where these subscriptions stand in the events, for the saver.
    pub(super) fn event_positions(
        &self,
        subscriptions: &[SavedSubscription],
    ) -> HashMap<SubscriptionId, u64> {
        let known =
            subscriptions.iter().filter_map(|one| Some((one.id.clone(), *self.events_from.get(&one.id)?)));
        known.collect()
    }

    /// What was collected is on disk.
    pub(super) fn saved(&mut self) {
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

    fn detach(&mut self, key: SubscriptionKey) -> Option<Reader> {
        self.readers.get_mut(key.slot())?.take()
    }

    fn collect_bells(&mut self, bells: &mut Vec<Arc<Bell>>) {
        for key in self.wake.drain(..) {
            if let Some(Some(reader)) = self.readers.get(key.slot()) {
                bells.push(Arc::clone(&reader.bell));
            }
        }
    }

    fn collect_released(&mut self) -> Vec<oneshot::Sender<()>> {
        let released = self.shard.released();
        released.into_iter().filter_map(|ticket| self.waiting.remove(&ticket)).collect()
    }
}
