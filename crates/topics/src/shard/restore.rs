//! Restore after a restart: counters, retained values, and subscriptions, which are all paused.

use std::sync::Arc;

use super::Shard;
use crate::filter::TopicFilter;
use crate::message::{Message, Sequence};
use crate::refusal::TopicRefusal;
use crate::saved::{SavedMessage, SavedSubscription, SavedTopic, Snapshot};
use crate::subscription::{Paused, Subscribe, SubscriptionId};
use crate::time::Timestamp;
use crate::topic::TopicIndex;
use crate::unconfirmed::{LastRead, Unconfirmed};

/// How the broker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownKind {
    /// With a [`Shard::snapshot`], so all state is exact.
    Clean,
    /// Without one. Numbers continue after their reservations, and what subscribers missed is unknown unless
    /// they give their own numbers.
    Unclean,
}

impl Shard {
    /// Restores saved state. It may come in several parts, before anything is published.
    ///
    /// The time to live of a paused subscription starts again, so that a long downtime does not end it.
    pub fn restore(
        &mut self,
        snapshot: Snapshot,
        stop: ShutdownKind,
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        for floor in snapshot.floors {
            self.topics.raise_floor(floor.floor as usize, floor.sequence);
        }
        for topic in snapshot.topics {
            self.restore_topic(topic, stop, now)?;
        }
        for subscription in snapshot.subscriptions {
            self.restore_subscription(subscription, stop, now)?;
        }
        Ok(())
    }

    /// Makes every unknown topic begin above `floor`. After an unclean stop, numbers then never decrease even
    /// for topics that were created just before it and never saved.
    ///
    /// Topics that match `exact` are exempt: their numbers are on disk before they are assigned, so an
    /// unknown one had none.
    pub fn raise_restart_floor(&mut self, floor: Sequence, exact: &[TopicFilter]) {
        self.topics.raise_restart_floor(floor, exact);
    }

    /// Puts a message back into the ring buffer of its topic. Messages come after all other state, in order
    /// per topic. A retained message becomes the retained value again, or clears it, unless a later one is
    /// known.
    pub fn restore_message(
        &mut self,
        topic: &str,
        saved: SavedMessage,
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        let index = self.open(topic, now)?;
        self.order += 1;
        let expires_at = self.moment(saved.expires_at);
        let topic = &mut self.topics[index];
        if topic.active().is_none_or(|active| active.ring.is_empty()) {
            // What is before it is gone; a later number that is not kept was never published.
            topic.evicted_to = saved.sequence.previous();
        }
        topic.sequence = topic.sequence.max(saved.sequence);
        let retain = saved.retain;
        let mut message: Message = saved.restore(&Arc::clone(&topic.name));
        message.expires_at = expires_at;
        message.order = self.order;
        let message = Arc::new(message);
        self.keep(index, &message);
        if retain {
            self.restore_retained(index, &message, now);
        }
        self.topics[index].release_buffers();
        Ok(())
    }

    /// Counts a restored message as missed by its paused subscriptions for which `by` is true: those that had
    /// not received it when they were saved.
    pub fn missed(&mut self, topic: &str, sequence: Sequence, by: impl Fn(&SubscriptionId) -> bool) {
        let Some(index) = self.topics.find(topic) else { return };
        let name = Arc::clone(&self.topics[index].name);
        let mut found = self.topics[index].subscribers().to_vec();
        self.patterns.find(topic, &mut found);
        for subscriber in found {
            let subscription = &mut self.subscriptions[subscriber];
            if subscription.group.is_none()
                && by(&subscription.details.id)
                && let Some(paused) = &mut subscription.paused
            {
                paused.miss(&name, sequence, self.settings.missed_topics);
            }
        }
    }

    fn restore_retained(&mut self, index: TopicIndex, message: &Arc<Message>, now: Timestamp) {
        let known = self.topics[index].active().and_then(|active| active.retained.as_ref());
        if known.is_some_and(|known| known.sequence > message.sequence) {
            return;
        }
        self.clear_retained(index);
        let fits = self.retained_bytes + message.cost() <= self.settings.retained_bytes;
        if !message.payload.is_empty() && !message.is_expired(now) && fits {
            self.set_retained(index, message);
            self.expect_expiry(index, message);
        }
    }

    fn restore_topic(
        &mut self,
        saved: SavedTopic,
        stop: ShutdownKind,
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        let index = self.open(&saved.name, now)?;
        let topic = &mut self.topics[index];
        topic.sequence = topic.sequence.max(saved.sequence);
        topic.evicted_to = topic.sequence;
        topic.restarted_to = topic.sequence;
        topic.skipped_to = match stop {
            ShutdownKind::Clean => topic.skipped_to.max(saved.skipped_to),
            ShutdownKind::Unclean => topic.sequence,
        };
        let name = Arc::clone(&topic.name);
        let expires_at = saved.retained.as_ref().map(|retained| self.moment(retained.expires_at));
        if let Some((retained, expires_at)) = saved.retained.zip(expires_at).filter(|(_, at)| *at > now) {
            let mut message = retained.restore(&name);
            message.expires_at = expires_at;
            let message = Arc::new(message);
            self.clear_retained(index);
            self.set_retained(index, &message);
            self.expect_expiry(index, &message);
        }
        Ok(())
    }

    fn restore_subscription(
        &mut self,
        saved: SavedSubscription,
        stop: ShutdownKind,
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        let filters: Result<Vec<TopicFilter>, TopicRefusal> =
            saved.filters.iter().map(|text| TopicFilter::parse_saved(text)).collect();
        let subscribe = Subscribe {
            client: Arc::from(saved.client),
            group: saved.group.map(Arc::from),
            queue_limit: Some(saved.queue_limit),
            policy: Some(saved.policy),
            ..Subscribe::new(saved.id, filters?)
        };
        let index = self.create(subscribe, now)?;
        let begins = match stop {
            ShutdownKind::Clean => saved.unconfirmed_after,
            // The subscriber may have resumed since this was saved.
            ShutdownKind::Unclean => LastRead::UnknownNumber,
        };
        self.subscriptions[index].details.unconfirmed = Unconfirmed::restore(saved.unconfirmed, begins);
        let mut paused = Paused {
            until: now.after(self.settings.paused_ttl),
            incomplete: saved.incomplete || stop == ShutdownKind::Unclean,
            restored: true,
            ..Paused::default()
        };
        // Share the topic's own name if the topic is known, as while the broker runs.
        let shared = |topic: String| {
            let known = self.topics.find(&topic).map(|index| Arc::clone(&self.topics[index].name));
            known.unwrap_or_else(|| Arc::from(topic))
        };
        for (topic, first) in saved.missed {
            paused.miss(&shared(topic), first, self.settings.missed_topics);
        }
        paused.saved_at = saved.saved_at.into_iter().map(|(topic, number)| (shared(topic), number)).collect();
        self.mark_paused(index, paused);
        Ok(())
    }
}
