//! A subscription as its stream holds it. Dropping it pauses the subscription, so that a broken stream can
//! resume.

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_topics::{Delivery, Sequence, SubscriptionId, SubscriptionKey, Timestamp, TopicRefusal};

use super::events::event_prefix;
use super::log;
use super::namespace::{NamespaceTopics, ReaderWaker};

/// Why a stream ended. The subscription itself may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Another stream has taken over the subscription.
    TakenOver,
    /// A client unsubscribed it.
    Unsubscribed,
    /// A client paused it; it can be resumed.
    Paused,
    /// The broker stops; the subscription can be resumed after the restart.
    Stopping,
}

impl Ended {
    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::TakenOver => "taken-over",
            Ended::Unsubscribed => "unsubscribed",
            Ended::Paused => "paused",
            Ended::Stopping => "stopping",
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Ended::TakenOver => 1,
            Ended::Unsubscribed => 2,
            Ended::Paused => 3,
            Ended::Stopping => 4,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Ended> {
        [Ended::TakenOver, Ended::Unsubscribed, Ended::Paused, Ended::Stopping]
            .into_iter()
            .find(|ended| ended.number() == number)
    }
}

/// A subscription, as its door holds it.
#[derive(Debug)]
pub struct SubscriptionHandle {
    id: SubscriptionId,
    space: Arc<NamespaceTopics>,
    key: SubscriptionKey,
    waker: Arc<ReaderWaker>,
}

impl SubscriptionHandle {
    pub(super) fn new(
        id: SubscriptionId,
        space: Arc<NamespaceTopics>,
        key: SubscriptionKey,
        waker: Arc<ReaderWaker>,
    ) -> SubscriptionHandle {
        SubscriptionHandle { id, space, key, waker }
    }

    /// The id of the subscription.
    pub fn id(&self) -> &SubscriptionId {
        &self.id
    }

    /// Waits until there is something, then adds a batch of about `messages_max` items and `bytes_max` bytes
    /// to `out`; at least one item, however large. Cancel-safe: nothing is lost if it is dropped while it
    /// waits.
    pub async fn take(
        &mut self,
        messages_max: usize,
        bytes_max: usize,
        out: &mut Vec<Delivery>,
    ) -> Result<(), Ended> {
        while !self.try_take(messages_max, bytes_max, out)? {
            self.arrived().await;
        }
        Ok(())
    }

    /// The same without waiting. Returns whether there was anything.
    pub fn try_take(
        &mut self,
        messages_max: usize,
        bytes_max: usize,
        out: &mut Vec<Delivery>,
    ) -> Result<bool, Ended> {
        let (waker, key) = (&self.waker, self.key);
        let before = out.len();
        let taken = self.space.with(|state, now| {
            if let Some(ended) = waker.ended() {
                return Err(ended);
            }
            let Some(mut ready) = state.reader(key).map(|reader| std::mem::take(&mut reader.ready)) else {
                return Err(Ended::Unsubscribed);
            };
            let mut more = true;
            if ready.is_empty() {
                let mut taken = Vec::new();
                let result = state.shard.take(key, messages_max.max(1), now, &mut taken);
                more = result.map_err(|refusal| ended_by(&refusal))?.more;
                taken.retain(|delivery| !is_about_nothing(delivery));
                ready = VecDeque::from(taken);
                if let Some(reader) = state.reader(key)
                    && !reader.events.is_empty()
                {
                    ready.append(&mut reader.events);
                    waker.room.notify_one();
                }
            }
            let any = hand_out(&mut ready, messages_max, bytes_max, now, out);
            if more || !ready.is_empty() {
                // The rest needs another wake-up, and no other code sends one.
                waker.woken.notify_one();
            }
            if let Some(reader) = state.reader(key) {
                reader.ready = ready;
            }
            state.sent(key, &out[before..]);
            Ok(any)
        });
        match taken {
            Ok(_) => log::sent(&self.space.name, &self.id, &out[before..]),
            Err(ended) => log::ended(&self.space.name, &self.id, ended),
        }
        taken
    }

    /// Waits until a take may find something; it may still find nothing. Returns at once for a new stream.
    pub async fn arrived(&self) {
        self.waker.woken.notified().await;
    }

    /// The same without borrowing the subscription, for a stream that waits for many things at once.
    pub fn ringing(&self) -> impl Future<Output = ()> + Send + use<> {
        let waker = Arc::clone(&self.waker);
        async move { waker.woken.notified().await }
    }

    /// The client has read these topics up to these numbers: they need not be sent again.
    pub fn acknowledge(&self, read: &[(Arc<str>, Sequence)]) -> Result<(), TopicRefusal> {
        self.space.with(|state, _| state.acknowledge(self.key, read))
    }

    /// Returns what was taken and could not be sent: the next take gets it again, or it counts as missed.
    pub fn put_back(&mut self, unsent: Vec<Delivery>) {
        let (waker, key) = (&self.waker, self.key);
        self.space.with(|state, _| {
            if waker.ended().is_none()
                && let Some(reader) = state.reader(key)
            {
                for delivery in unsent.into_iter().rev() {
                    reader.ready.push_front(delivery);
                }
                waker.woken.notify_one();
            }
        });
    }
}

impl Drop for SubscriptionHandle {
    fn drop(&mut self) {
        let (waker, key) = (&self.waker, self.key);
        let was_there = self.space.with(|state, now| {
            let was_there = waker.ended().is_none();
            if was_there {
                // The only possible refusal: the subscription is already gone.
                let _ = state.pause(key, Ended::Paused, now);
            }
            was_there
        });
        if was_there {
            log::ended(&self.space.name, &self.id, Ended::Paused);
        }
    }
}

/// Moves what fits from `ready` to `out`, at least one item. Returns whether it moved any.
fn hand_out(
    ready: &mut VecDeque<Delivery>,
    messages_max: usize,
    bytes_max: usize,
    now: Timestamp,
    out: &mut Vec<Delivery>,
) -> bool {
    let start = out.len();
    let mut bytes = 0;
    while let Some(delivery) = ready.front() {
        let cost = match delivery {
            Delivery::Message { message, .. } if message.is_expired(now) => {
                ready.pop_front();
                continue;
            }
            Delivery::Message { message, .. } => message.cost(),
            Delivery::Gap(_) | Delivery::ReplayComplete(_) | Delivery::Warning(_) => 0,
        };
        let any = out.len() > start;
        if any && (out.len() - start >= messages_max || bytes + cost > bytes_max) {
            break;
        }
        bytes += cost;
        out.extend(ready.pop_front());
    }
    out.len() > start
}

/// The shard ends the replay of event topics that it does not know; their feed does that instead, so this is
/// dropped.
fn is_about_nothing(delivery: &Delivery) -> bool {
    matches!(delivery, Delivery::ReplayComplete(complete) if event_prefix(&complete.topic).is_some())
}

fn ended_by(refusal: &TopicRefusal) -> Ended {
    match refusal {
        TopicRefusal::SubscriptionPaused => Ended::Paused,
        _ => Ended::Unsubscribed,
    }
}
