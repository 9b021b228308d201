//! A small theatre for the stories: one shard, a clock, and subscribers called by name.
#![allow(dead_code, reason = "every story uses its own part of this")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_topics::{
    Delivery, DeliveryKind, MessageId, Publish, Published, Reaped, Resume, Resumed, Sequence, Settings,
    Shard, Subscribe, SubscriptionId, SubscriptionKey, SubscriptionStats, Timestamp, TopicFilter,
    TopicRefusal, WarningReason,
};

pub(crate) struct Stage {
    pub(crate) shard: Shard,
    pub(crate) now: Timestamp,
    pub(crate) wake: Vec<SubscriptionKey>,
    messages: u128,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Stage {
        Stage { shard: Shard::new(settings), now: Timestamp(1_000_000), wake: Vec::new(), messages: 0 }
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
    }

    pub(crate) fn say(&mut self, topic: &str, payload: &str) -> Published {
        self.publish(Publish::new(topic, MessageId(0), payload.to_owned())).unwrap()
    }

    pub(crate) fn publish(&mut self, mut publish: Publish<'_>) -> Result<Published, TopicRefusal> {
        self.messages += 1;
        publish.id = MessageId(self.messages);
        self.shard.publish(publish, self.now, &mut self.wake)
    }

    /// Publishes the words one after the other.
    pub(crate) fn say_all(&mut self, topic: &str, words: &str) {
        for word in words.split_whitespace() {
            self.say(topic, word);
        }
    }

    pub(crate) fn join(&mut self, name: &str, topics: &[&str]) -> SubscriptionKey {
        self.subscribe(subscribe(name, topics)).unwrap()
    }

    pub(crate) fn subscribe(&mut self, subscribe: Subscribe) -> Result<SubscriptionKey, TopicRefusal> {
        self.shard.subscribe(subscribe, self.now)
    }

    pub(crate) fn key(&self, name: &str) -> SubscriptionKey {
        self.shard.find(&id(name)).expect("a subscriber of that name")
    }

    /// Everything the subscriber hears now, spelled out.
    pub(crate) fn hear(&mut self, name: &str) -> Vec<String> {
        let mut out = Vec::new();
        let key = self.key(name);
        while self.shard.take(key, 7, self.now, &mut out).unwrap().more {}
        out.iter().map(spell).collect()
    }

    pub(crate) fn take(&mut self, name: &str, max: usize) -> Vec<Delivery> {
        let mut out = Vec::new();
        let key = self.key(name);
        self.shard.take(key, max, self.now, &mut out).unwrap();
        out
    }

    pub(crate) fn pause(&mut self, name: &str) -> Timestamp {
        let key = self.key(name);
        self.shard.pause(key, &[], self.now, &mut self.wake).unwrap()
    }

    pub(crate) fn leave(&mut self, name: &str) {
        let key = self.key(name);
        self.shard.unsubscribe(key, self.now, &mut self.wake).unwrap();
    }

    pub(crate) fn resume(&mut self, resume: &Resume) -> Result<Resumed, TopicRefusal> {
        self.shard.resume(resume, self.now, &mut self.wake)
    }

    pub(crate) fn reap(&mut self) -> Reaped {
        self.shard.reap(self.now, &mut self.wake)
    }

    pub(crate) fn stats(&self, name: &str) -> SubscriptionStats {
        self.shard.subscription(self.key(name), self.now).unwrap().stats
    }

    /// The names of those who were woken since the last time, in order.
    pub(crate) fn woken(&mut self) -> Vec<String> {
        let keys = std::mem::take(&mut self.wake);
        keys.iter().map(|&key| self.shard.subscription(key, self.now).unwrap().id.to_string()).collect()
    }

    /// Every topic with its number and how many of its messages are kept.
    pub(crate) fn topics(&self) -> BTreeMap<String, (u64, usize)> {
        let page = self.shard.topics(0, 1000, None, self.now);
        page.items.iter().map(|topic| (topic.name.to_string(), (topic.sequence.0, topic.kept))).collect()
    }
}

pub(crate) fn id(name: &str) -> SubscriptionId {
    SubscriptionId::parse(name).unwrap()
}

pub(crate) fn filters(topics: &[&str]) -> Vec<TopicFilter> {
    topics.iter().map(|topic| TopicFilter::parse(topic).unwrap()).collect()
}

pub(crate) fn subscribe(name: &str, topics: &[&str]) -> Subscribe {
    Subscribe::new(id(name), filters(topics))
}

pub(crate) fn last_seen(topic: &str, sequence: u64) -> (Arc<str>, Sequence) {
    (Arc::from(topic), Sequence(sequence))
}

pub(crate) fn spell(delivery: &Delivery) -> String {
    match delivery {
        Delivery::Message { kind, message } => {
            let kind = match kind {
                DeliveryKind::Live => "live",
                DeliveryKind::Retained => "retained",
                DeliveryKind::Replay => "replay",
            };
            let payload = String::from_utf8_lossy(&message.payload);
            format!("{kind} {}#{} {payload}", message.topic, message.sequence.0)
        }
        Delivery::Gap(gap) => {
            let (first, last) = (gap.first_missed.0, gap.last_missed.0);
            format!("gap {}#{first}-{last} kept {}", gap.topic, gap.oldest_kept.0)
        }
        Delivery::ReplayComplete(complete) => {
            format!("replayed {} of {} up to {}", complete.replayed, complete.topic, complete.latest.0)
        }
        Delivery::Warning(warning) => {
            let reason = match warning.reason {
                WarningReason::SlowConsumer => "slow",
                WarningReason::Burst => "burst",
                WarningReason::TtlExpired => "expired",
            };
            format!("warning {reason} dropped {} expired {}", warning.dropped, warning.expired)
        }
    }
}
