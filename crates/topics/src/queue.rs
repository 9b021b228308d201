//! One subscriber's queue: bounded, with a policy for when it is full.
//!
//! ```text
//!   head losses │ entries: message, message, gap, message … │ tail losses │ waiting
//!   told first  │ at most `limit` messages                  │ told after  │ of blocked publishers
//! ```
//! Drop-oldest loses at the front, so its losses are told before the entries. Drop-newest loses at
//! the back, so its losses become entries as soon as another message gets in behind them. Only a
//! queue with the block policy has anybody waiting.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::delivery::{Delivery, Gap, Kind};
use crate::losses::{GAPS_MAX, Losses};
use crate::message::Message;
use crate::settings::Policy;
use crate::stats::{Dropped, SubscriptionStats};
use crate::time::Timestamp;

/// Names a publish that waits for blocking subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    depth: u32,
    limit: u32,
    bytes: usize,
    bytes_limit: usize,
    high_watermark: u32,
    policy: Policy,
    enqueued: u64,
    delivered: u64,
    /// What is not usual: losses, waiting publishers. While it is there, the slow path is taken.
    unusual: Option<Box<Unusual>>,
    dropped: Dropped,
    blocked: Duration,
}

#[derive(Debug)]
enum Entry {
    Message(Arc<Message>),
    Gap(Box<Gap>),
}

#[derive(Debug, Default)]
struct Unusual {
    head: Losses,
    tail: Losses,
    queued_gaps: usize,
    waiting: VecDeque<Waiting>,
    blocked_since: Option<Timestamp>,
}

#[derive(Debug)]
struct Waiting {
    message: Arc<Message>,
    ticket: Ticket,
}

/// What became of a message that came to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Accepted,
    /// Accepted after this many older ones were dropped.
    DroppedOldest(u64),
    DroppedNewest,
    /// It waits, and so does its publisher.
    Blocked,
    /// It waits in the place of an older one, which went in by force.
    BlockedAndForced(Ticket),
}

impl Queue {
    pub(crate) fn new(limit: u32, bytes_limit: usize, policy: Policy) -> Queue {
        Queue {
            entries: VecDeque::new(),
            depth: 0,
            limit: limit.max(1),
            bytes: 0,
            bytes_limit,
            high_watermark: 0,
            policy,
            enqueued: 0,
            delivered: 0,
            unusual: None,
            dropped: Dropped::default(),
            blocked: Duration::ZERO,
        }
    }

    #[inline]
    pub(crate) fn offer(&mut self, message: &Arc<Message>, waiting_limit: usize, now: Timestamp) -> Offer {
        if self.unusual.is_none() && self.has_room(message) {
            self.push(Arc::clone(message));
            return Offer::Accepted;
        }
        self.offer_unusually(message, waiting_limit, now)
    }

    /// Moves up to `max` items out. Returns the tickets of publishers whose message got in.
    pub(crate) fn take(&mut self, max: usize, now: Timestamp, out: &mut Vec<Delivery>) -> Vec<Ticket> {
        let end = out.len().saturating_add(max);
        let mut released = Vec::new();
        if let Some(unusual) = &mut self.unusual {
            out.extend(unusual.head.drain().map(gap_delivery));
        }
        while out.len() < end {
            match self.entries.pop_front() {
                Some(Entry::Message(message)) => {
                    self.count_out(&message);
                    if message.is_expired(now) {
                        self.dropped.ttl += 1;
                    } else {
                        self.delivered += 1;
                        out.push(Delivery::Message { kind: Kind::Live, message });
                    }
                }
                Some(Entry::Gap(gap)) => {
                    self.unusual().queued_gaps -= 1;
                    out.push(Delivery::Gap(gap));
                }
                None => {}
            }
            if self.unusual.is_some() {
                self.admit_waiting(now, &mut released);
            }
            if self.entries.is_empty() {
                if let Some(unusual) = &mut self.unusual {
                    out.extend(unusual.tail.drain().map(gap_delivery));
                }
                break;
            }
        }
        self.forget_the_unusual();
        released
    }

    /// Lets everything in that waits up to this ticket, dropping the oldest for it.
    pub(crate) fn force(&mut self, up_to: Ticket, now: Timestamp) -> (u64, Vec<Ticket>) {
        let mut dropped = 0;
        let mut released = Vec::new();
        while let Some(waiting) = self.first_waiting().filter(|waiting| waiting.ticket <= up_to) {
            released.push(waiting.ticket);
            dropped += self.force_first(now);
        }
        self.note_end_of_blocking(now);
        self.forget_the_unusual();
        (dropped, released)
    }

    /// Removes what is expired. Returns how much that was, when the next one expires, and the
    /// tickets of publishers who need not wait any longer.
    pub(crate) fn expire(&mut self, now: Timestamp) -> (u64, Timestamp, Vec<Ticket>) {
        let (mut count, mut next, mut released) = (0, Timestamp::NEVER, Vec::new());
        let (mut depth, mut bytes) = (0, 0);
        self.entries.retain(|entry| {
            let Entry::Message(message) = entry else { return true };
            if message.is_expired(now) {
                (depth, bytes) = (depth + 1, bytes + message.cost());
                return false;
            }
            next = next.min(message.expires_at);
            true
        });
        count += u64::from(depth);
        self.depth -= depth;
        self.bytes -= bytes;
        if let Some(unusual) = &mut self.unusual {
            unusual.waiting.retain(|waiting| {
                if waiting.message.is_expired(now) {
                    count += 1;
                    released.push(waiting.ticket);
                    return false;
                }
                next = next.min(waiting.message.expires_at);
                true
            });
            self.admit_waiting(now, &mut released);
            self.forget_the_unusual();
        }
        self.dropped.ttl += count;
        (count, next, released)
    }

    /// Empties the queue because its subscriber is gone. Returns what was in it, oldest first, what
    /// it had lost before, and the tickets of publishers who need not wait any longer.
    pub(crate) fn abandon(&mut self, now: Timestamp) -> Abandoned {
        let mut abandoned = Abandoned::default();
        let mut unusual = self.unusual.take().unwrap_or_default();
        abandoned.gaps.extend(unusual.head.drain());
        for entry in self.entries.drain(..) {
            match entry {
                Entry::Message(message) => abandoned.messages.push(message),
                Entry::Gap(gap) => abandoned.gaps.push(*gap),
            }
        }
        abandoned.gaps.extend(unusual.tail.drain());
        if let Some(since) = unusual.blocked_since {
            self.blocked += now.since(since);
        }
        for waiting in unusual.waiting {
            abandoned.messages.push(waiting.message);
            abandoned.released.push(waiting.ticket);
        }
        (self.depth, self.bytes) = (0, 0);
        self.entries = VecDeque::new();
        self.dropped.disconnect += abandoned.messages.len() as u64;
        abandoned
    }

    pub(crate) fn stats(&self, now: Timestamp) -> SubscriptionStats {
        let blocked_since = self.unusual.as_ref().and_then(|unusual| unusual.blocked_since);
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

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn is_full(&self) -> bool {
        self.depth >= self.limit || self.bytes >= self.bytes_limit || self.first_waiting().is_some()
    }

    /// True if a take would find nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unusual.is_none()
    }

    pub(crate) fn oldest_age(&self, now: Timestamp) -> Duration {
        for entry in &self.entries {
            if let Entry::Message(message) = entry {
                return now.since(message.published_at);
            }
        }
        Duration::ZERO
    }

    /// Messages that went to the subscriber without waiting here.
    pub(crate) fn count_caught_up(&mut self, messages: usize) {
        self.delivered += messages as u64;
    }

    /// Messages that were taken but never reached the subscriber.
    pub(crate) fn count_unsent(&mut self, messages: usize) {
        self.delivered = self.delivered.saturating_sub(messages as u64);
        self.dropped.disconnect += messages as u64;
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        let entries = self.entries.iter().filter_map(|entry| match entry {
            Entry::Message(message) => Some(message),
            Entry::Gap(_) => None,
        });
        let waiting = self.unusual.iter().flat_map(|unusual| &unusual.waiting);
        entries.chain(waiting.map(|waiting| &waiting.message))
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

    #[cold]
    fn offer_unusually(&mut self, message: &Arc<Message>, waiting_limit: usize, now: Timestamp) -> Offer {
        match self.policy {
            Policy::DropOldest => match self.push_dropping_oldest(Arc::clone(message), now) {
                0 => Offer::Accepted,
                dropped => Offer::DroppedOldest(dropped),
            },
            Policy::DropNewest => self.push_unless_full(message),
            Policy::Block => self.push_or_wait(message, waiting_limit, now),
        }
    }

    fn push_dropping_oldest(&mut self, message: Arc<Message>, now: Timestamp) -> u64 {
        let mut dropped = 0;
        while !self.has_room(&message) {
            match self.entries.pop_front() {
                Some(Entry::Message(oldest)) => {
                    self.count_out(&oldest);
                    if oldest.is_expired(now) {
                        // Nobody wants it back, so it is no loss.
                        self.dropped.ttl += 1;
                        continue;
                    }
                    dropped += 1;
                    let room = self.gap_room();
                    self.unusual().head.record(&oldest, room);
                }
                Some(Entry::Gap(gap)) => {
                    let unusual = self.unusual();
                    unusual.queued_gaps -= 1;
                    unusual.head.record_gap(&gap, true);
                }
                None => unreachable!("an empty queue has room"),
            }
        }
        self.dropped.oldest += dropped;
        self.push(message);
        dropped
    }

    fn push_unless_full(&mut self, message: &Arc<Message>) -> Offer {
        if !self.has_room(message) {
            self.dropped.newest += 1;
            let room = self.gap_room();
            self.unusual().tail.record(message, room);
            return Offer::DroppedNewest;
        }
        let Queue { entries, unusual, .. } = self;
        if let Some(unusual) = unusual {
            unusual.queued_gaps += unusual.tail.len();
            entries.extend(unusual.tail.drain().map(|gap| Entry::Gap(Box::new(gap))));
        }
        self.push(Arc::clone(message));
        Offer::Accepted
    }

    fn push_or_wait(&mut self, message: &Arc<Message>, waiting_limit: usize, now: Timestamp) -> Offer {
        if self.first_waiting().is_none() && self.has_room(message) {
            self.push(Arc::clone(message));
            return Offer::Accepted;
        }
        let unusual = self.unusual();
        let full = unusual.waiting.len() >= waiting_limit.max(1);
        unusual.blocked_since.get_or_insert(now);
        // Each publish that blocks is named after the place of its message in the shard's order.
        let ticket = Ticket(message.order);
        unusual.waiting.push_back(Waiting { message: Arc::clone(message), ticket });
        if !full {
            return Offer::Blocked;
        }
        let forced = self.first_waiting().map(|waiting| waiting.ticket);
        self.force_first(now);
        Offer::BlockedAndForced(forced.expect("somebody waits"))
    }

    fn admit_waiting(&mut self, now: Timestamp, released: &mut Vec<Ticket>) {
        while let Some(first) = self.first_waiting() {
            if !self.has_room(&first.message) {
                return;
            }
            if let Some(waiting) = self.unusual().waiting.pop_front() {
                released.push(waiting.ticket);
                self.push(waiting.message);
            }
        }
        self.note_end_of_blocking(now);
    }

    fn force_first(&mut self, now: Timestamp) -> u64 {
        let waiting = self.unusual().waiting.pop_front();
        waiting.map_or(0, |waiting| self.push_dropping_oldest(waiting.message, now))
    }

    fn first_waiting(&self) -> Option<&Waiting> {
        self.unusual.as_ref()?.waiting.front()
    }

    fn note_end_of_blocking(&mut self, now: Timestamp) {
        if let Some(unusual) = &mut self.unusual
            && unusual.waiting.is_empty()
            && let Some(since) = unusual.blocked_since.take()
        {
            self.blocked += now.since(since);
        }
    }

    fn gap_room(&mut self) -> bool {
        let unusual = self.unusual();
        unusual.head.len() + unusual.tail.len() + unusual.queued_gaps < GAPS_MAX
    }

    fn count_out(&mut self, message: &Message) {
        self.depth -= 1;
        self.bytes -= message.cost();
    }

    fn unusual(&mut self) -> &mut Unusual {
        self.unusual.get_or_insert_default()
    }

    fn forget_the_unusual(&mut self) {
        if self.unusual.as_ref().is_some_and(|unusual| unusual.is_over()) {
            self.unusual = None;
        }
    }
}

impl Unusual {
    fn is_over(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.queued_gaps == 0 && self.waiting.is_empty()
    }
}

/// What was in a queue when its subscriber went away.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) released: Vec<Ticket>,
}

fn gap_delivery(gap: Gap) -> Delivery {
    Delivery::Gap(Box::new(gap))
}
