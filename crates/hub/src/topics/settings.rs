//! What can be set about topics.

use tenure_topics::{Filter, Settings};

/// Settings of all namespaces. Limits are those of one namespace.
#[derive(Clone, Debug, Default)]
pub struct TopicSettings {
    /// Buffers, queues, times to live: see `spec/topics.md`.
    pub topics: Settings,
    /// Topics whose messages are on disk before their publisher hears of it.
    pub durable: Vec<Filter>,
}

impl TopicSettings {
    /// The settings of one shard.
    pub(crate) fn shard(&self) -> Settings {
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        Settings { hash_seed: seed, ..self.topics.clone() }
    }
}
