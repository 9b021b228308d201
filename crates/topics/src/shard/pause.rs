//! Pause: the stream broke or was suspended; the subscription keeps its position.

use super::Shard;
use crate::deadlines::Owner;
use crate::delivery::{Delivery, DeliveryKind};
use crate::refusal::TopicRefusal;
use crate::subscription::Paused;
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey};
use crate::time::Timestamp;

impl Shard {
    /// Pauses a subscription until it is resumed or expires. Returns when it expires.
    ///
    /// `unsent` is what was taken but never reached the subscriber: it counts as missed. What a group member
    /// had waiting, or had not acknowledged, goes to the other members.
    pub fn pause(
        &mut self,
        key: SubscriptionKey,
        unsent: &[Delivery],
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Result<Timestamp, TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        if let Some(paused) = &self.subscriptions[index].paused {
            return Ok(paused.until);
        }
        Ok(self.suspend(index, unsent, now, wake))
    }

    pub(super) fn suspend(
        &mut self,
        index: SubscriptionIndex,
        unsent: &[Delivery],
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Timestamp {
        let until = now.after(self.settings.paused_ttl);
        let limit = self.settings.missed_topics;
        let subscription = &mut self.subscriptions[index];
        let mut paused = Paused { until, ..Paused::default() };
        let mut unsent_messages = Vec::new();
        for delivery in unsent {
            match delivery {
                Delivery::Message { kind: DeliveryKind::Live | DeliveryKind::Replay, message } => {
                    paused.miss(&message.topic, message.sequence, limit);
                    unsent_messages.push(message.clone());
                }
                Delivery::Gap(gap) => {
                    paused.miss(&gap.topic, gap.first_missed, limit);
                }
                Delivery::Message { kind: DeliveryKind::Retained, .. }
                | Delivery::ReplayComplete(_)
                | Delivery::Warning(_) => {}
            }
        }
        subscription.queue.count_unsent(unsent_messages.len());
        for (topic, replay) in
            subscription.catch_up.take().map(|catch_up| catch_up.replays).unwrap_or_default()
        {
            if replay.next <= replay.until {
                paused.miss(&topic, replay.next, limit);
            }
        }
        let abandoned = subscription.queue.abandon(now);
        for gap in &abandoned.gaps {
            paused.miss(&gap.topic, gap.first_missed, limit);
        }
        for message in &abandoned.messages {
            paused.miss(&message.topic, message.sequence, limit);
        }
        for ticket in abandoned.released {
            self.tickets.release(ticket, index);
        }
        if let Some(group) = subscription.group {
            // A group member misses nothing: the other members get its messages.
            paused = Paused { until, ..Paused::default() };
            let mut left = subscription.details.take_in_flight();
            left.extend(unsent_messages);
            left.extend(abandoned.messages);
            let members = self.groups.members(group).to_vec();
            self.mark_paused(index, paused);
            self.hand_to_other_members(&members, left, now, wake);
        } else {
            self.mark_paused(index, paused);
        }
        until
    }

    pub(super) fn mark_paused(&mut self, index: SubscriptionIndex, paused: Paused) {
        let subscription = &mut self.subscriptions[index];
        let owner = Owner::Subscription(index);
        self.deadlines.replace(&mut subscription.deadline, paused.until, owner);
        subscription.paused = Some(Box::new(paused));
        self.paused += 1;
        self.changes.subscription(&subscription.details.id);
    }
}
