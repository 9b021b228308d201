//! One subscriber's queue: bounded, with a policy for when it is full.
//!
//! ```text
//!   head losses │ entries: message, message, gap, message … │ tail losses │ waiting
//!   sent first  │ at most `limit` messages                  │ sent after  │ of blocked publishers
//! ```
//! Drop-oldest loses messages at the front, so its gaps are sent before the entries. Drop-newest loses messages at the
//! back, so its gaps become entries as soon as another message enters behind them. Only a queue with the block policy
//! has waiting messages.

mod full;
mod leaving;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::delivery::{Delivery, DeliveryKind, Gap};
use crate::losses::Losses;
use crate::message::{Message, Sequence};
use crate::settings::Policy;
use crate::stats::{Dropped, SubscriptionStats};
use crate::time::Timestamp;

/// An empty queue releases its memory if its capacity is larger than this.
const CAPACITY_KEPT: usize = 1024;

/// Identifies a publish that waits for blocking subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct SubscriptionQueue {
    entries: VecDeque<Entry>,
    depth: u32,
    limit: u32,
    bytes: usize,
    bytes_limit: usize,
    high_watermark: u32,
    policy: Policy,
    enqueued: u64,
    delivered: u64,
    /// Rare state: losses and waiting publishers. While it is present, the slow path is taken.
    overflow: Option<Box<OverflowState>>,
    dropped: Dropped,
    blocked: Duration,
}

#[derive(Debug)]
enum Entry {
    Message(Arc<Message>),
    Gap(Box<Gap>),
}

#[derive(Debug, Default)]
struct OverflowState {
    head: Losses,
    tail: Losses,
    queued_gaps: usize,
    waiting: VecDeque<BlockedMessage>,
    blocked_since: Option<Timestamp>,
}

#[derive(Debug)]
struct BlockedMessage {
    message: Arc<Message>,
    ticket: Ticket,
}

/// The result of the offer of a message to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Accepted,
    /// Accepted after this many older ones were dropped.
    DroppedOldest(u64),
    DroppedNewest,
    /// The message and its publisher wait.
    Blocked,
    /// The message waits in place of an older one, which was forced into the queue.
    BlockedAndForced(Ticket),
}

impl SubscriptionQueue {
    pub(crate) fn new(limit: u32, bytes_limit: usize, policy: Policy) -> SubscriptionQueue {
        SubscriptionQueue {
            entries: VecDeque::new(),
            depth: 0,
            limit: limit.max(1),
            bytes: 0,
            bytes_limit,
            high_watermark: 0,
            policy,
            enqueued: 0,
            delivered: 0,
            overflow: None,
            dropped: Dropped::default(),
            blocked: Duration::ZERO,
        }
    }

    #[inline]
    pub(crate) fn offer(&mut self, message: &Arc<Message>, waiting_limit: usize, now: Timestamp) -> Offer {
        if self.overflow.is_none() && self.has_room(message) {
            self.push(Arc::clone(message));
            return Offer::Accepted;
        }
        self.offer_when_full(message, waiting_limit, now)
    }

    /// Moves up to `max` items out. Returns the tickets of publishers whose message entered the queue.
    pub(crate) fn take(&mut self, max: usize, now: Timestamp, out: &mut Vec<Delivery>) -> Vec<Ticket> {
        let end = out.len().saturating_add(max);
        let mut released = Vec::new();
        if let Some(overflow) = &mut self.overflow {
            out.extend(overflow.head.drain().map(gap_delivery));
        }
        while out.len() < end {
            match self.entries.pop_front() {
                Some(Entry::Message(message)) => {
                    self.count_out(&message);
                    if message.is_expired(now) {
                        self.dropped.ttl += 1;
                    } else {
                        self.delivered += 1;
                        out.push(Delivery::Message { kind: DeliveryKind::Live, message });
                    }
                }
                Some(Entry::Gap(gap)) => {
                    self.overflow().queued_gaps -= 1;
                    out.push(Delivery::Gap(gap));
                }
                None => {}
            }
            if self.overflow.is_some() {
                self.admit_waiting(now, &mut released);
            }
            if self.entries.is_empty() {
                if let Some(overflow) = &mut self.overflow {
                    out.extend(overflow.tail.drain().map(gap_delivery));
                }
                break;
            }
        }
        self.drop_overflow_state();
        if self.entries.is_empty() && self.entries.capacity() > CAPACITY_KEPT {
            self.entries = VecDeque::new();
        }
        released
    }

    pub(crate) fn stats(&self, now: Timestamp) -> SubscriptionStats {
        let blocked_since = self.overflow.as_ref().and_then(|overflow| overflow.blocked_since);
        let ongoing = blocked_since.map_or(Duration::ZERO, |since| now.since(since));
        SubscriptionStats {
            depth: self.depth,
            limit: self.limit,
            bytes: self.bytes,
            high_watermark: self.high_watermark,
            enqueued: self.enqueued,
            delivered: self.delivered,
            dropped: self.dropped,
            blocked: self.blocked + ongoing,
        }
    }

    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit.max(1);
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn is_full(&self) -> bool {
        self.depth >= self.limit || self.bytes >= self.bytes_limit || self.first_waiting().is_some()
    }

    /// Whether a take would find nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.overflow.is_none()
    }

    /// By the time of day, as it is shown.
    pub(crate) fn oldest_age(&self, now: Timestamp) -> Duration {
        for entry in &self.entries {
            if let Entry::Message(message) = entry {
                return now.since(message.published_at);
            }
        }
        Duration::ZERO
    }

    /// Counts messages that went to the subscriber without passing through this queue.
    pub(crate) fn count_caught_up(&mut self, messages: usize) {
        self.delivered += messages as u64;
    }

    /// Counts messages that were taken but never reached the subscriber.
    pub(crate) fn count_unsent(&mut self, messages: usize) {
        self.delivered = self.delivered.saturating_sub(messages as u64);
        self.dropped.disconnect += messages as u64;
    }

    /// Visits the topics and numbers that the subscriber has neither received nor got a gap for.
    pub(crate) fn for_each_untaken(&self, mut tell: impl FnMut(&Arc<str>, Sequence)) {
        for entry in &self.entries {
            match entry {
                Entry::Message(message) => tell(&message.topic, message.sequence),
                Entry::Gap(gap) => tell(&gap.topic, gap.first_missed),
            }
        }
        let Some(overflow) = &self.overflow else { return };
        for (topic, first) in overflow.head.beginnings().chain(overflow.tail.beginnings()) {
            tell(topic, first);
        }
        for waiting in &overflow.waiting {
            tell(&waiting.message.topic, waiting.message.sequence);
        }
    }

    #[inline]
    fn has_room(&self, message: &Message) -> bool {
        let bytes = self.bytes + message.cost();
        self.depth == 0 || (self.depth < self.limit && bytes <= self.bytes_limit)
    }

    #[inline]
    fn push(&mut self, message: Arc<Message>) {
        self.depth += 1;
        self.bytes += message.cost();
        self.enqueued += 1;
        self.high_watermark = self.high_watermark.max(self.depth);
        self.entries.push_back(Entry::Message(message));
    }

    fn count_out(&mut self, message: &Message) {
        self.depth -= 1;
        self.bytes -= message.cost();
    }

    fn overflow(&mut self) -> &mut OverflowState {
        self.overflow.get_or_insert_default()
    }

    fn drop_overflow_state(&mut self) {
        if self.overflow.as_ref().is_some_and(|overflow| overflow.is_over()) {
            self.overflow = None;
        }
    }
}

impl OverflowState {
    fn is_over(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.queued_gaps == 0 && self.waiting.is_empty()
    }
}

fn gap_delivery(gap: Gap) -> Delivery {
    Delivery::Gap(Box::new(gap))
}
