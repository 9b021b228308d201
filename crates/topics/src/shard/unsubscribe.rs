//! Unsubscribe: ends a subscription.

use super::Shard;
use crate::deadlines::Owner;
use crate::refusal::TopicRefusal;
use crate::subscription::SubscriptionId;
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey};
use crate::time::Timestamp;

impl Shard {
    /// Ends a subscription, paused or not. What a group member had waiting, or had not acknowledged, goes to
    /// the other members.
    pub fn unsubscribe(
        &mut self,
        key: SubscriptionKey,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Result<(), TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        self.end(index, now, wake);
        Ok(())
    }

    pub(super) fn end(
        &mut self,
        index: SubscriptionIndex,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> SubscriptionId {
        let subscription = &mut self.subscriptions[index];
        self.deadlines.replace(&mut subscription.deadline, Timestamp::NEVER, Owner::Subscription(index));
        let abandoned = subscription.queue.abandon(now);
        for ticket in abandoned.released {
            self.tickets.release(ticket, index);
        }
        let filters = std::mem::take(&mut self.subscriptions[index].details.filters);
        self.remove_filters(index, &filters);
        let mut gone = self.subscriptions.remove(index);
        if gone.paused.is_some() {
            self.paused -= 1;
        }
        self.ended.add(gone.queue.stats(now));
        if let Some(group) = gone.group {
            let others: Vec<_> =
                self.groups.members(group).iter().copied().filter(|&other| other != index).collect();
            self.groups.leave(group, index);
            let mut left = gone.details.take_in_flight();
            left.extend(abandoned.messages);
            self.hand_to_other_members(&others, left, now, wake);
        }
        self.changes.subscription(&gone.details.id);
        gone.details.id
    }
}
