//! A namespace's topics: a shard behind its lock, the bells of its subscribers, and the publishers that wait.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use tenure_topics::{Delivery, Refusal, Shard, SubscriptionKey, Ticket, Timestamp};
use tokio::sync::{Notify, oneshot};

use super::now;
use super::subscription::Ended;

#[derive(Debug)]
pub(super) struct Space {
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
}

/// One stream that takes from a subscription.
#[derive(Debug)]
pub(super) struct Reader {
    key: SubscriptionKey,
    pub(super) bell: Arc<Bell>,
    /// Taken from the shard, and not yet by the stream.
    pub(super) ready: VecDeque<Delivery>,
}

/// Wakes one stream, and tells it when it is over.
#[derive(Debug, Default)]
pub(super) struct Bell {
    pub(super) rung: Notify,
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
    }
}

impl Space {
    pub(super) fn new(shard: Shard) -> Space {
        let state = State { shard, readers: Vec::new(), waiting: HashMap::default(), wake: Vec::new() };
        Space { state: Mutex::new(state) }
    }

    /// Does one short piece of work under the lock. Whoever is to be woken by it is woken after the lock is given back.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = now();
        let mut bells = Vec::new();
        let (result, released) = {
            // A shard that panicked half-way may be in an impossible state: nobody uses it again.
            let mut state = self.state.lock().expect("no shard has panicked");
            let result = work(&mut state, now);
            state.collect_bells(&mut bells);
            (result, state.collect_released())
        };
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
    pub(super) fn stop(&self) {
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
        self.readers[slot] = Some(Reader { key, bell: Arc::clone(&bell), ready: VecDeque::new() });
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
        let unsent: Vec<Delivery> = reader.iter().flat_map(|reader| reader.ready.iter().cloned()).collect();
        let until = self.shard.pause(key, &unsent, now, &mut self.wake)?;
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
