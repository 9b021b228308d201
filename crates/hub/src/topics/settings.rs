//! The settings of topics.

use tenure_store::TopicLogSettings;
use tenure_topics::{Settings, TopicFilter};

/// The settings of all namespaces. Limits apply per namespace.
#[derive(Clone, Debug)]
pub struct TopicSettings {
    /// Buffers, queues, times to live: see `spec/topics.md`.
    pub topics: Settings,
    /// Topics whose messages are on disk before subscribers get them.
    pub durable: Vec<TopicFilter>,
    /// How many messages of a durable topic are kept.
    pub durable_messages: usize,
    /// The settings of the log, and the retention of durable messages.
    pub log: TopicLogSettings,
}

/// The default number of messages kept per durable topic.
pub const DURABLE_MESSAGES: usize = 10_000;

impl Default for TopicSettings {
    fn default() -> TopicSettings {
        TopicSettings {
            topics: Settings::default(),
            durable: Vec::new(),
            durable_messages: DURABLE_MESSAGES,
            log: TopicLogSettings::default(),
        }
    }
}

impl TopicSettings {
    /// The settings of one shard.
    pub(crate) fn shard(&self) -> Settings {
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        let ring_rules = self.durable.iter().map(|filter| (filter.clone(), self.durable_messages));
        Settings {
            hash_seed: seed,
            track_changes: true,
            ring_rules: ring_rules.collect(),
            ..self.topics.clone()
        }
    }

    pub(crate) fn is_durable(&self, topic: &str) -> bool {
        self.durable.iter().any(|filter| filter.matches(topic))
    }
}
