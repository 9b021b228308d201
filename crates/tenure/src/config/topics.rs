//! The settings of the topics. Their names come from the design that existing pub/sub clients use.

use tenure_hub::topics::{ShardSettings, TopicLogSettings, TopicSettings};

use super::load::Loaded;
use super::value;

const CHECKED: &str = "checked when loaded";

pub(crate) fn topics(loaded: &Loaded) -> TopicSettings {
    let text = |key: &str| loaded.text(key);
    let millis = |key: &str| value::millis(text(key)).expect(CHECKED);
    let count = |key: &str| value::count(text(key)).expect(CHECKED);
    let size = |key: &str| value::size(text(key)).expect(CHECKED);
    TopicSettings {
        topics: ShardSettings {
            ring_messages: count("message_buffer_size") as usize,
            ring_bytes: size("max_buffer_memory") as usize,
            queue_messages: count("subscriber_queue_limit").try_into().unwrap_or(u32::MAX),
            policy: value::policy(text("backpressure_policy")).expect(CHECKED),
            block_timeout: millis("block_timeout_ms"),
            default_ttl: value::millis_or_off(text("default_message_ttl")).expect(CHECKED),
            ttl_rules: value::topic_ttls(text("topic_ttls")).expect(CHECKED),
            reap_interval: millis("ttl_reaper_interval"),
            paused_ttl: millis("paused_subscription_ttl"),
            topics: count("topics_max") as usize,
            ..ShardSettings::default()
        },
        durable: value::topics(text("durable_topics")).expect(CHECKED),
        durable_messages: count("durable_messages") as usize,
        log: TopicLogSettings {
            kept_bytes: size("durable_size"),
            kept_for: value::span(text("durable_kept_for")).expect(CHECKED),
            ..TopicLogSettings::default()
        },
    }
}
