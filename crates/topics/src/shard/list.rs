//! Listings, a bounded page at a time.

use std::sync::Arc;

use super::Shard;
use crate::filter::TopicFilter;
use crate::message::Sequence;
use crate::refusal::TopicRefusal;
use crate::ring::Ring;
use crate::settings::Policy;
use crate::stats::SubscriptionStats;
use crate::subscription::{Subscription, SubscriptionId};
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey};
use crate::time::Timestamp;
use crate::topic::Topic;

/// The longest page.
pub const PAGE_MAX: usize = 1000;
/// How many topics one page examines in search of matches.
const SCAN_MAX: usize = 20_000;

/// A page of a list. Items added or removed meanwhile may or may not appear; all others appear once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPage<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one. A page may be short or empty and still have a next one.
    pub next: Option<usize>,
}

/// A topic as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: Arc<str>,
    /// The number of the latest message.
    pub sequence: Sequence,
    /// Messages in its ring buffer.
    pub kept: usize,
    /// The oldest number in its ring buffer.
    pub oldest_kept: Option<Sequence>,
    /// Whether it has a retained value.
    pub retained: bool,
    /// Subscriptions that match, by name or by pattern, including paused ones.
    pub subscribers: usize,
}

/// A subscription as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionInfo {
    /// Its place in this shard.
    pub key: SubscriptionKey,
    /// Its id.
    pub id: SubscriptionId,
    /// The client that made it.
    pub client: Arc<str>,
    /// The topics that it selects.
    pub filters: Vec<TopicFilter>,
    /// Its group.
    pub group: Option<Arc<str>>,
    /// The policy for a full queue.
    pub policy: Policy,
    /// Until when it is kept, if it is paused.
    pub paused_until: Option<Timestamp>,
    /// Its counters.
    pub stats: SubscriptionStats,
}

impl Shard {
    /// Topics in no particular order, all or those that match. The first page begins at 0.
    pub fn topics(
        &self,
        from: usize,
        max: usize,
        filter: Option<&TopicFilter>,
        now: Timestamp,
    ) -> TopicPage<TopicInfo> {
        let max = max.min(PAGE_MAX);
        let mut items = Vec::new();
        for index in from..self.topics.end() {
            if items.len() >= max || index - from >= SCAN_MAX {
                return TopicPage { items, next: Some(index) };
            }
            let Some(topic) = self.topics.get(index) else { continue };
            if filter.is_none_or(|filter| filter.matches(&topic.name)) {
                items.push(self.topic_info(topic, now));
            }
        }
        TopicPage { items, next: None }
    }

    /// One topic.
    pub fn topic(&self, name: &str, now: Timestamp) -> Option<TopicInfo> {
        let index = self.topics.find(name)?;
        Some(self.topic_info(&self.topics[index], now))
    }

    /// How many subscriptions match a topic by a filter for which `counts` is true.
    pub fn subscribers_of(&self, topic: &str, counts: impl Fn(&TopicFilter) -> bool) -> usize {
        let exact = self.topics.find(topic).map_or(&[][..], |index| self.topics[index].subscribers());
        let mut subscribers = exact.to_vec();
        self.patterns.find(topic, &mut subscribers);
        subscribers.sort_unstable();
        subscribers.dedup();
        let is_for_it = |&&index: &&SubscriptionIndex| {
            let filters = &self.subscriptions[index].details.filters;
            filters.iter().any(|filter| filter.matches(topic) && counts(filter))
        };
        subscribers.iter().filter(is_for_it).count()
    }

    /// Subscriptions in no particular order. The first page begins at 0.
    pub fn subscriptions(&self, from: usize, max: usize, now: Timestamp) -> TopicPage<SubscriptionInfo> {
        let max = max.min(PAGE_MAX);
        let mut items = Vec::new();
        for slot in from..self.subscriptions.end() {
            if items.len() >= max || slot - from >= SCAN_MAX {
                return TopicPage { items, next: Some(slot) };
            }
            if let Some(subscription) = self.subscriptions.get(slot) {
                items.push(self.subscription_info(slot, subscription, now));
            }
        }
        TopicPage { items, next: None }
    }

    /// One subscription.
    pub fn subscription(
        &self,
        key: SubscriptionKey,
        now: Timestamp,
    ) -> Result<SubscriptionInfo, TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        Ok(self.subscription_info(key.slot(), &self.subscriptions[index], now))
    }

    fn topic_info(&self, topic: &Topic, now: Timestamp) -> TopicInfo {
        let ring = topic.active().map(|active| &active.ring);
        let mut subscribers = topic.subscribers().to_vec();
        self.patterns.find(&topic.name, &mut subscribers);
        subscribers.sort_unstable();
        subscribers.dedup();
        TopicInfo {
            name: Arc::clone(&topic.name),
            sequence: topic.sequence,
            kept: ring.map_or(0, Ring::len),
            oldest_kept: ring.and_then(|ring| ring.oldest()).map(|message| message.sequence),
            retained: topic.retained(now).is_some(),
            subscribers: subscribers.len(),
        }
    }

    fn subscription_info(
        &self,
        slot: usize,
        subscription: &Subscription,
        now: Timestamp,
    ) -> SubscriptionInfo {
        let details = &subscription.details;
        let index = SubscriptionIndex(u32::try_from(slot).expect("the limit is far below"));
        SubscriptionInfo {
            key: self.subscriptions.key(index),
            id: details.id.clone(),
            client: Arc::clone(&details.client),
            filters: details.filters.clone(),
            group: details.group.clone(),
            policy: subscription.queue.policy(),
            paused_until: subscription.paused.as_ref().map(|paused| self.wall(paused.until)),
            stats: subscription.queue.stats(now),
        }
    }
}
