//! All settings with their defaults, and all named limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::changes::SEQUENCE_BLOCK;
use crate::filter::TopicFilter;

/// The policy for a message that arrives at a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Drop the oldest waiting message: for subscribers that need the latest value.
    #[default]
    DropOldest,
    /// Drop the new message: for subscribers that need the history.
    DropNewest,
    /// The publisher waits for room, at most [`Settings::block_timeout`]; then as drop-oldest.
    Block,
}

impl Policy {
    /// The name of the policy on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::DropOldest => "drop-oldest",
            Policy::DropNewest => "drop-newest",
            Policy::Block => "block",
        }
    }

    /// The policy of this name.
    pub fn parse(text: &str) -> Option<Policy> {
        [Policy::DropOldest, Policy::DropNewest, Policy::Block].into_iter().find(|p| p.as_str() == text)
    }
}

/// The settings of one shard. Byte limits and the number of topics apply to this shard alone: see
/// [`Settings::for_one_of`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Messages in the ring buffer of one topic.
    pub ring_messages: usize,
    /// Other limits for matching topics; the first match counts.
    pub ring_rules: Vec<(TopicFilter, usize)>,
    /// Bytes in all ring buffers together. Beyond it, the oldest messages of all topics are evicted.
    pub ring_bytes: usize,
    /// Messages in the queue of one subscriber. A subscriber may ask for fewer.
    pub queue_messages: u32,
    /// Bytes in the queue of one subscriber. A single message always fits.
    pub queue_bytes: usize,
    /// The policy of subscribers that do not choose one.
    pub policy: Policy,
    /// How long the runtime lets a publisher wait for a blocking subscriber.
    pub block_timeout: Duration,
    /// How many messages may wait for one blocking subscriber before its queue drops messages after all.
    pub waiting_messages: usize,
    /// The time to live of messages without one of their own and without a matching rule.
    pub default_ttl: Option<Duration>,
    /// Defaults for matching topics; the first match counts.
    pub ttl_rules: Vec<(TopicFilter, Duration)>,
    /// The pause between two rounds of the reaper.
    pub reap_interval: Duration,
    /// How long a paused subscription is kept.
    pub paused_ttl: Duration,
    /// For how many topics a paused subscription remembers the first missed number, and for how many a
    /// resuming subscriber may give its last seen number.
    pub missed_topics: usize,
    /// The largest payload. The default is what a gRPC client accepts without configuration.
    pub payload_bytes: usize,
    /// Bytes in all retained values together. Beyond it, retaining is refused.
    pub retained_bytes: usize,
    /// Topics that the shard remembers. Beyond it, idle topics are forgotten; their numbers still never
    /// decrease.
    pub topics: usize,
    /// Maximum number of subscriptions.
    pub subscriptions: usize,
    /// Names and patterns of one subscription.
    pub filters: usize,
    /// Names and patterns of all subscriptions together.
    pub filters_in_all: usize,
    /// Collect changes for [`crate::Shard::changes`].
    pub track_changes: bool,
    /// How many numbers of a topic are reserved on disk at a time. A runtime that saves slowly needs more.
    pub sequence_block: u64,
    /// The seed of the hash of topic names. A random one keeps clients from choosing names that collide.
    pub hash_seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ring_messages: 1000,
            ring_rules: Vec::new(),
            ring_bytes: 100 * MEBIBYTE,
            queue_messages: 10_000,
            queue_bytes: 64 * MEBIBYTE,
            policy: Policy::DropOldest,
            block_timeout: Duration::from_millis(5000),
            waiting_messages: 1000,
            default_ttl: None,
            ttl_rules: Vec::new(),
            reap_interval: Duration::from_millis(1000),
            paused_ttl: Duration::from_secs(300),
            missed_topics: 10_000,
            payload_bytes: 4 * MEBIBYTE,
            retained_bytes: 100 * MEBIBYTE,
            topics: 2_000_000,
            subscriptions: 100_000,
            filters: 1000,
            filters_in_all: 1_000_000,
            track_changes: false,
            sequence_block: SEQUENCE_BLOCK,
            hash_seed: 0,
        }
    }
}

impl Settings {
    /// The settings for one of `shards` shards: limits on totals are divided among them.
    pub fn for_one_of(&self, shards: usize) -> Settings {
        assert!(shards > 0, "there is at least one shard");
        Settings {
            ring_bytes: self.ring_bytes / shards,
            retained_bytes: self.retained_bytes / shards,
            topics: self.topics.div_ceil(shards),
            ..self.clone()
        }
    }

    pub(crate) fn ring_messages_of(&self, topic: &str) -> usize {
        let rule = self.ring_rules.iter().find(|(filter, _)| filter.matches(topic));
        rule.map_or(self.ring_messages, |(_, messages)| *messages)
    }

    /// Whether a rule sets how much of this topic is kept.
    pub fn is_kept_by_choice(&self, topic: &str) -> bool {
        self.ring_rules.iter().any(|(filter, _)| filter.matches(topic))
    }

    pub(crate) fn default_ttl_of(&self, topic: &str) -> Option<Duration> {
        let rule = self.ttl_rules.iter().find(|(filter, _)| filter.matches(topic));
        rule.map_or(self.default_ttl, |(_, ttl)| Some(*ttl))
    }
}

const MEBIBYTE: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_rule_beats_the_default() {
        let rule = |text, seconds| (TopicFilter::parse(text).unwrap(), Duration::from_secs(seconds));
        let settings = Settings {
            default_ttl: Some(Duration::from_secs(60)),
            ttl_rules: vec![rule("a.b", 1), rule("a.>", 2)],
            ..Settings::default()
        };
        assert_eq!(settings.default_ttl_of("a.b"), Some(Duration::from_secs(1)));
        assert_eq!(settings.default_ttl_of("a.c"), Some(Duration::from_secs(2)));
        assert_eq!(settings.default_ttl_of("b"), Some(Duration::from_secs(60)));
    }

    #[test]
    fn policies_are_spelled_as_in_the_configuration() {
        for policy in [Policy::DropOldest, Policy::DropNewest, Policy::Block] {
            assert_eq!(Policy::parse(policy.as_str()), Some(policy));
        }
        assert_eq!(Policy::parse("drop"), None);
    }
}
