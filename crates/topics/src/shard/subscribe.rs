//! Subscribe: creates a queue, adds the filters to the indexes, and offers the retained values.

use super::Shard;
use super::publish::check_text;
use crate::catch_up::{CatchUp, RetainedSweep};
use crate::filter::TopicFilter;
use crate::queue::SubscriptionQueue;
use crate::refusal::TopicRefusal;
use crate::subscription::{Details, Subscribe, Subscription};
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey};
use crate::time::Timestamp;
use crate::unconfirmed::Unconfirmed;

impl Shard {
    /// Adds a subscription, or restarts a paused one with the same id: a client that subscribes wants
    /// messages from now on, which is no reason to refuse it its own id. Its queue may hold retained values:
    /// take at once.
    pub fn subscribe(
        &mut self,
        subscribe: Subscribe,
        now: Timestamp,
    ) -> Result<SubscriptionKey, TopicRefusal> {
        let retained = subscribe.retained;
        let known = self.subscriptions.find(&subscribe.id);
        let index = match known.filter(|&index| self.subscriptions[index].paused.is_some()) {
            Some(paused) => self.begin_again(paused, subscribe, now)?,
            None => self.create(subscribe, now)?,
        };
        if retained {
            self.offer_retained(index, now);
        }
        Ok(self.subscriptions.key(index))
    }

    pub(super) fn create(
        &mut self,
        mut subscribe: Subscribe,
        now: Timestamp,
    ) -> Result<SubscriptionIndex, TopicRefusal> {
        if self.subscriptions.find(&subscribe.id).is_some() {
            return Err(TopicRefusal::SubscriptionExists);
        }
        check_texts(&subscribe)?;
        let limit = self.settings.subscriptions;
        if self.subscriptions.len() >= limit {
            return Err(TopicRefusal::TooManySubscriptions { limit });
        }
        subscribe.filters = deduplicated(&subscribe.filters);
        self.check_filters(&subscribe.filters, 0)?;
        let queue = SubscriptionQueue::new(
            self.queue_limit(subscribe.queue_limit),
            self.settings.queue_bytes,
            subscribe.policy.unwrap_or(self.settings.policy),
        );
        let filters = subscribe.filters.clone();
        let group = subscribe.group.clone();
        let details = Details::new(subscribe, now);
        let index = self.subscriptions.insert(Subscription::new(details, queue, None));
        if let Err(refusal) = self.add_filters(index, &filters, now) {
            self.subscriptions.remove(index);
            return Err(refusal);
        }
        if let Some(group) = group {
            self.subscriptions[index].group = Some(self.groups.join(&group, index));
        }
        self.changes.subscription(&self.subscriptions[index].details.id);
        Ok(index)
    }

    /// Drops what a paused subscription missed; its statistics continue.
    fn begin_again(
        &mut self,
        index: SubscriptionIndex,
        subscribe: Subscribe,
        now: Timestamp,
    ) -> Result<SubscriptionIndex, TopicRefusal> {
        check_texts(&subscribe)?;
        let old = self.subscriptions[index].details.filters.len();
        self.check_filters(&deduplicated(&subscribe.filters), old)?;
        self.replace_filters(index, &subscribe.filters, now)?;
        self.wake_up(index, Some(subscribe.queue_limit.unwrap_or(0)));
        let subscription = &mut self.subscriptions[index];
        subscription.queue.set_policy(subscribe.policy.unwrap_or(self.settings.policy));
        subscription.details.client = subscribe.client;
        subscription.details.unconfirmed = Unconfirmed::default();
        subscription.details.in_flight = None;
        if subscription.details.group != subscribe.group {
            if let Some(group) = subscription.group.take() {
                self.groups.leave(group, index);
            }
            subscription.group = subscribe.group.as_ref().map(|group| self.groups.join(group, index));
            subscription.details.group = subscribe.group;
        }
        self.changes.subscription(&subscription.details.id);
        Ok(index)
    }

    /// Adds the subscription's filters to the indexes: all of them, or none.
    pub(super) fn add_filters(
        &mut self,
        index: SubscriptionIndex,
        filters: &[TopicFilter],
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        for (done, filter) in filters.iter().enumerate() {
            if let Err(refusal) = self.add_filter(index, filter, now) {
                self.remove_filters(index, &filters[..done]);
                return Err(refusal);
            }
        }
        Ok(())
    }

    pub(super) fn remove_filters(&mut self, index: SubscriptionIndex, filters: &[TopicFilter]) {
        for filter in filters {
            self.filters -= 1;
            if filter.is_wild() {
                self.patterns.remove(filter, index);
                continue;
            }
            let topic = self.topics.find(filter.as_str()).expect("a topic with subscribers is known");
            let active = self.topics[topic].activate();
            if let Some(position) = active.subscribers.iter().position(|&other| other == index) {
                active.subscribers.swap_remove(position);
            }
            self.release_buffers(topic);
        }
    }

    pub(super) fn check_filters(
        &self,
        filters: &[TopicFilter],
        instead_of: usize,
    ) -> Result<(), TopicRefusal> {
        let (count, limit) = (filters.len(), self.settings.filters);
        if count == 0 {
            return Err(TopicRefusal::NoFilters);
        }
        if count > limit {
            return Err(TopicRefusal::TooManyFilters { count, limit });
        }
        let limit = self.settings.filters_in_all;
        if self.filters - instead_of + count > limit {
            return Err(TopicRefusal::FiltersFull { limit });
        }
        Ok(())
    }

    pub(super) fn queue_limit(&self, asked: Option<u32>) -> u32 {
        match asked {
            None | Some(0) => self.settings.queue_messages,
            Some(asked) => asked.min(self.settings.queue_messages),
        }
    }

    /// Offers the subscriber the retained values of its topics before anything else.
    pub(super) fn offer_retained(&mut self, index: SubscriptionIndex, now: Timestamp) {
        let subscription = &mut self.subscriptions[index];
        if subscription.group.is_some() {
            return;
        }
        let mut catch_up = subscription.catch_up.take().unwrap_or_default();
        catch_up.joined = self.order;
        for (number, filter) in subscription.details.filters.iter().enumerate() {
            if filter.is_wild() {
                catch_up.sweeps.push_back(RetainedSweep { filter: number, after: None });
            } else if let Some(topic) = self.topics.find(filter.as_str()) {
                catch_up.retained.extend(self.topics[topic].retained(now).cloned());
            }
        }
        subscription.catch_up = Some(catch_up).filter(|catch_up| !CatchUp::is_over(catch_up));
    }

    fn add_filter(
        &mut self,
        index: SubscriptionIndex,
        filter: &TopicFilter,
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        if filter.is_wild() {
            self.patterns.insert(filter, index);
        } else {
            let topic = self.open(filter.as_str(), now)?;
            self.topics[topic].activate().subscribers.push(index);
        }
        self.filters += 1;
        Ok(())
    }
}

fn check_texts(subscribe: &Subscribe) -> Result<(), TopicRefusal> {
    check_text("the client id", Some(&subscribe.client))?;
    check_text("the group", subscribe.group.as_deref())?;
    if subscribe.group.as_deref() == Some("") {
        return Err(TopicRefusal::TextEmpty { field: "the group" });
    }
    Ok(())
}

pub(super) fn deduplicated(filters: &[TopicFilter]) -> Vec<TopicFilter> {
    let mut seen = std::collections::BTreeSet::new();
    filters.iter().filter(|filter| seen.insert(filter.as_str())).cloned().collect()
}
