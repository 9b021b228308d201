//! Save: a whole snapshot, or the changes since the last time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Shard, ShutdownKind};
use crate::filter::TopicFilter;
use crate::message::{Message, Sequence};
use crate::refusal::TopicRefusal;
use crate::saved::{Changes, SavedFloor, SavedMessage, SavedSubscription, SavedTopic, Snapshot};
use crate::subscription::{Paused, Subscription};
use crate::subscriptions::SubscriptionKey;
use crate::time::Timestamp;
use crate::topic::Topic;
use crate::topics::{floor_index, seconds};

impl Shard {
    /// The whole state that survives a restart: exact for a clean stop, or with reserved numbers if the
    /// broker continues, because it may be killed later.
    pub fn snapshot(&self, stop: ShutdownKind, now: Timestamp) -> Snapshot {
        let topics = (0..self.topics.end()).filter_map(|index| self.topics.get(index));
        let floors = self.topics.floors().iter().enumerate();
        Snapshot {
            topics: topics
                .filter(|topic| topic.sequence > Sequence::ZERO)
                .map(|topic| match stop {
                    ShutdownKind::Clean => save_topic(topic, topic.sequence, now, self.wall_ahead),
                    ShutdownKind::Unclean => {
                        save_topic(topic, topic.sequence.max(topic.reserved_to), now, self.wall_ahead)
                    }
                })
                .collect(),
            subscriptions: self.subscriptions.iter().map(|one| self.save_subscription(one, stop)).collect(),
            floors: floors
                .filter(|(_, sequence)| **sequence > Sequence::ZERO)
                .map(|(floor, &sequence)| save_floor(floor, sequence))
                .collect(),
        }
    }

    /// Marks a subscription to be saved with the next changes.
    pub fn save_again(&mut self, key: SubscriptionKey) -> Result<(), TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        self.changes.subscription(&self.subscriptions[index].details.id);
        Ok(())
    }

    /// Whether [`Shard::changes`] would return anything.
    #[inline]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The changes since the last call, about `max` rows at most: for continuous saving, so that even an
    /// unclean stop never decreases a number. Needs [`crate::Settings::track_changes`].
    ///
    /// A topic is saved with a reserved number above its current one, and saved again when half of the
    /// reservation is used. A runtime limits how many messages are published until that is written, and
    /// restores a topic at its reservation plus that limit: then no number is ever assigned twice.
    pub fn changes(&mut self, max: usize, now: Timestamp) -> Changes {
        let mut changes = Changes { overflowed: self.changes.overflowed, ..Changes::default() };
        self.changes.overflowed = false;
        changes.forgotten = std::mem::take(&mut self.changes.forgotten);
        for name in &changes.forgotten {
            let sequence = self.topics.floor_of(name);
            if sequence > Sequence::ZERO {
                changes.saved.floors.push(save_floor(floor_index(name), sequence));
            }
        }
        while changes.saved.topics.len() < max {
            let Some(index) = self.changes.topics.pop() else { break };
            let Some(topic) = self.topics.get_mut(index) else { continue };
            // The index may have been reused by another topic, which then is in the list itself.
            if std::mem::take(&mut topic.dirty) {
                let reserved = topic.reserve(self.settings.sequence_block, seconds(now));
                changes.saved.topics.push(save_topic(topic, reserved, now, self.wall_ahead));
            }
        }
        let rest = max.saturating_sub(changes.saved.topics.len());
        for _ in 0..rest {
            let Some(id) = self.changes.subscriptions.pop_first() else { break };
            match self.subscriptions.find(&id) {
                Some(index) => {
                    let saved = self.save_subscription(&self.subscriptions[index], ShutdownKind::Unclean);
                    changes.saved.subscriptions.push(saved);
                }
                None => changes.ended.push(id),
            }
        }
        changes.more = !self.changes.topics.is_empty() || !self.changes.subscriptions.is_empty();
        changes
    }

    fn save_subscription(&self, subscription: &Subscription, stop: ShutdownKind) -> SavedSubscription {
        let details = &subscription.details;
        let (missed, incomplete) = match &subscription.paused {
            Some(paused) => (paused.missed.clone(), paused.incomplete),
            None => self.not_taken_yet(subscription),
        };
        SavedSubscription {
            id: details.id.clone(),
            client: details.client.as_ref().to_owned(),
            filters: details.filters.iter().map(|filter| filter.as_str().to_owned()).collect(),
            group: details.group.as_deref().map(str::to_owned),
            queue_limit: subscription.queue.limit(),
            policy: subscription.queue.policy(),
            missed: missed.iter().map(|(topic, first)| (topic.as_ref().to_owned(), *first)).collect(),
            incomplete,
            // The sending order is worth writing once, not every second.
            unconfirmed: details.unconfirmed.save(stop == ShutdownKind::Clean),
            unconfirmed_after: details.unconfirmed.begins(),
            saved_at: self.numbers_at_save(subscription, stop),
        }
    }

    /// Where the named topics are now, for a resume after a crash. A subscription that has not resumed since the
    /// last crash keeps the numbers from before it.
    fn numbers_at_save(&self, subscription: &Subscription, stop: ShutdownKind) -> Vec<(String, Sequence)> {
        let kept =
            subscription.paused.as_ref().map(|paused| &paused.saved_at).filter(|kept| !kept.is_empty());
        if let Some(kept) = kept {
            return kept.iter().map(|(topic, number)| (topic.as_ref().to_owned(), *number)).collect();
        }
        if stop == ShutdownKind::Clean || subscription.group.is_some() {
            return Vec::new();
        }
        let filters = subscription.details.filters.iter().map(TopicFilter::as_str);
        let topics = filters.filter_map(|name| self.topics.find(name)).map(|index| &self.topics[index]);
        topics
            .filter(|topic| !self.settings.is_kept_by_choice(&topic.name))
            .map(|topic| (topic.name.as_ref().to_owned(), topic.sequence))
            .collect()
    }

    /// The numbers that a live subscription would miss if the broker stopped now.
    fn not_taken_yet(&self, subscription: &Subscription) -> (BTreeMap<Arc<str>, Sequence>, bool) {
        let mut paused = Paused::default();
        if subscription.group.is_some() {
            return (paused.missed, false);
        }
        let limit = self.settings.missed_topics;
        let replays = subscription.catch_up.iter().flat_map(|catch_up| &catch_up.replays);
        for (topic, replay) in replays.filter(|(_, replay)| replay.next <= replay.until) {
            paused.miss(topic, replay.next, limit);
        }
        subscription.queue.for_each_untaken(|topic, sequence| {
            paused.miss(topic, sequence, limit);
        });
        (paused.missed, paused.incomplete)
    }
}

fn save_topic(topic: &Topic, sequence: Sequence, now: Timestamp, wall_ahead: i64) -> SavedTopic {
    let saved = |message: &Arc<Message>| SavedMessage {
        // What is saved is the time of day.
        expires_at: message.expires_at.shifted(wall_ahead),
        ..SavedMessage::of(message)
    };
    SavedTopic {
        name: topic.name.as_ref().to_owned(),
        sequence,
        retained: topic.retained(now).map(saved),
        skipped_to: topic.skipped_to,
    }
}

fn save_floor(floor: usize, sequence: Sequence) -> SavedFloor {
    SavedFloor { floor: u32::try_from(floor).expect("a small table"), sequence }
}
