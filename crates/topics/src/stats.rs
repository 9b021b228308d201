//! Statistics of a subscriber and of a shard.

use std::time::Duration;

/// Messages that a subscriber did not get, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Dropped to make room for newer ones.
    pub oldest: u64,
    /// Arrived at a full queue with the drop-newest policy.
    pub newest: u64,
    /// Expired in the queue.
    pub ttl: u64,
    /// In the queue when the stream broke or the subscription ended.
    pub disconnect: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.oldest + self.newest + self.ttl + self.disconnect
    }

    pub(crate) fn add(&mut self, other: Dropped) {
        self.oldest += other.oldest;
        self.newest += other.newest;
        self.ttl += other.ttl;
        self.disconnect += other.disconnect;
    }
}

/// The statistics of one subscriber's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionStats {
    /// Messages in the queue.
    pub depth: u32,
    /// Maximum number of messages in the queue.
    pub limit: u32,
    /// Bytes in the queue.
    pub bytes: usize,
    /// The maximum depth of the queue so far.
    pub high_watermark: u32,
    /// Messages that the queue took.
    pub enqueued: u64,
    /// Messages that the subscriber took.
    pub delivered: u64,
    /// Messages that it does not get.
    pub dropped: Dropped,
    /// How long publishers waited for this subscriber.
    pub blocked: Duration,
}

impl SubscriptionStats {
    /// Adds the statistics of another shard's part of the subscription.
    pub fn add(&mut self, part: SubscriptionStats) {
        self.depth += part.depth;
        self.limit = self.limit.max(part.limit);
        self.bytes += part.bytes;
        self.high_watermark = self.high_watermark.max(part.high_watermark);
        self.enqueued += part.enqueued;
        self.delivered += part.delivered;
        self.dropped.add(part.dropped);
        self.blocked += part.blocked;
    }
}

/// The statistics of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Topics.
    pub topics: usize,
    /// Subscriptions.
    pub subscriptions: usize,
    /// How many of these are paused.
    pub paused: usize,
    /// Names and patterns of all subscriptions.
    pub filters: usize,
    /// Messages in all ring buffers.
    pub kept_messages: usize,
    /// Bytes of the messages in ring buffers.
    pub kept_bytes: usize,
    /// Retained values.
    pub retained_messages: usize,
    /// Bytes of the retained values.
    pub retained_bytes: usize,
    /// Messages that were published.
    pub published: u64,
    /// Messages put into queues, including those of ended subscriptions.
    pub enqueued: u64,
    /// Messages that subscribers took.
    pub delivered: u64,
    /// Messages that subscribers do not get.
    pub dropped: Dropped,
}

impl ShardStats {
    /// Adds the statistics of another shard.
    pub fn add(&mut self, other: ShardStats) {
        self.topics += other.topics;
        self.subscriptions += other.subscriptions;
        self.paused += other.paused;
        self.filters += other.filters;
        self.kept_messages += other.kept_messages;
        self.kept_bytes += other.kept_bytes;
        self.retained_messages += other.retained_messages;
        self.retained_bytes += other.retained_bytes;
        self.published += other.published;
        self.enqueued += other.enqueued;
        self.delivered += other.delivered;
        self.dropped.add(other.dropped);
    }
}
