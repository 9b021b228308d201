//! Listings and statistics.

use std::sync::PoisonError;

use tenure_topics::{ShardStats, SubscriptionId, SubscriptionInfo, TopicFilter, TopicInfo, TopicPage};

use super::Topics;
use super::events::event_prefix;
use super::namespace::TopicsState;

impl Topics {
    /// A page of a namespace's topics, all or those that match. The first page begins at 0, the next where a
    /// page says.
    pub fn topics(
        &self,
        namespace: &str,
        from: usize,
        max: usize,
        filter: Option<&TopicFilter>,
    ) -> TopicPage<TopicInfo> {
        self.known_space(namespace).map_or(TopicPage { items: Vec::new(), next: None }, |space| {
            space.with(|state, now| {
                let mut page = state.shard.topics(from, max, filter, now);
                for topic in &mut page.items {
                    count_subscribers(state, topic);
                }
                page
            })
        })
    }

    /// One topic.
    pub fn topic(&self, namespace: &str, name: &str) -> Option<TopicInfo> {
        self.known_space(namespace)?.with(|state, now| {
            let mut topic = state.shard.topic(name, now)?;
            count_subscribers(state, &mut topic);
            Some(topic)
        })
    }

    /// A page of the subscriptions of a namespace with their statistics, paused ones included.
    pub fn subscriptions(&self, namespace: &str, from: usize, max: usize) -> TopicPage<SubscriptionInfo> {
        self.known_space(namespace).map_or(TopicPage { items: Vec::new(), next: None }, |space| {
            space.with(|state, now| state.shard.subscriptions(from, max, now))
        })
    }

    /// One subscription.
    pub fn subscription(&self, namespace: &str, id: &SubscriptionId) -> Option<SubscriptionInfo> {
        self.known_space(namespace)?.with(|state, now| {
            let key = state.shard.find(id)?;
            state.shard.subscription(key, now).ok()
        })
    }

    /// Statistics of one namespace.
    pub fn stats_of(&self, namespace: &str) -> ShardStats {
        self.known_space(namespace)
            .map_or(ShardStats::default(), |space| space.with(|state, _| state.shard.stats()))
    }

    /// Statistics of all namespaces together, as of the reaper's last round. Reads a cached value.
    pub fn figures(&self) -> ShardStats {
        *self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recomputes the value of [`Topics::figures`].
    pub(super) fn refresh_figures(&self) {
        let all = self.stats();
        *self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Statistics of all namespaces together.
    pub fn stats(&self) -> ShardStats {
        let mut all = ShardStats::default();
        for space in self.namespaces() {
            all.add(space.with(|state, _| state.shard.stats()));
        }
        all
    }
}

/// Only subscriptions that name an event topic, or whose pattern begins with its reserved word, receive it.
fn count_subscribers(state: &TopicsState, topic: &mut TopicInfo) {
    if event_prefix(&topic.name).is_some() {
        let counts = |filter: &TopicFilter| event_prefix(filter.as_str()).is_some();
        topic.subscribers = state.shard.subscribers_of(&topic.name, counts);
    }
}
