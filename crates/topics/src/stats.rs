//! Numbers about a subscriber and about a shard.

use std::time::Duration;

/// Messages a subscriber did not get, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Made room for newer ones.
    pub oldest: u64,
    /// Came to a full queue that keeps its history.
    pub newest: u64,
    /// Expired while they waited.
    pub ttl: u64,
    /// Waited when the stream broke or the subscription ended.
    pub disconnect: u64,
}

impl Dropped {
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

/// One subscriber's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionStats {
    pub depth: u32,
    pub limit: u32,
    pub bytes: usize,
    /// The deepest the queue ever was.
    pub high_watermark: u32,
    pub enqueued: u64,
    pub delivered: u64,
    pub dropped: Dropped,
    /// How long publishers waited for this subscriber.
    pub blocked: Duration,
}

impl SubscriptionStats {
    /// The numbers of a subscription that lives in several shards.
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

/// One shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    pub topics: usize,
    pub subscriptions: usize,
    /// Of these, how many are paused.
    pub paused: usize,
    /// Names and patterns of all subscriptions.
    pub filters: usize,
    /// Messages in all ring buffers.
    pub kept_messages: usize,
    pub kept_bytes: usize,
    pub retained_messages: usize,
    pub retained_bytes: usize,
    pub published: u64,
    /// Messages put into queues, over all subscribers that ever were.
    pub enqueued: u64,
    pub delivered: u64,
    pub dropped: Dropped,
}

impl ShardStats {
    /// The numbers of two shards together.
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
