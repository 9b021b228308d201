//! What a runtime knows about the other end of a stream: what was sent, and what the subscriber says it has read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Shard;
use crate::delivery::Delivery;
use crate::message::Sequence;
use crate::refusal::Refusal;
use crate::subscriptions::SubscriptionKey;

impl Shard {
    /// These were sent to the subscriber, which may not have read them when its stream breaks. A runtime that knows that
    /// what was taken was read need not say so.
    pub fn sent(&mut self, key: SubscriptionKey, deliveries: &[Delivery]) -> Result<(), Refusal> {
        let index = self.subscriptions.resolve(key)?;
        let subscription = &mut self.subscriptions[index];
        // What a member of a group was sent is not replayed.
        if subscription.group.is_none() {
            subscription.details.unconfirmed.sent(deliveries);
        }
        Ok(())
    }

    /// The subscriber says that it has read these topics up to these numbers.
    pub fn acknowledge(
        &mut self,
        key: SubscriptionKey,
        read: &[(Arc<str>, Sequence)],
    ) -> Result<(), Refusal> {
        let index = self.subscriptions.resolve(key)?;
        let (count, limit) = (read.len(), self.settings.missed_topics);
        if count > limit {
            return Err(Refusal::TooManyLastSeen { count, limit });
        }
        let read: BTreeMap<&str, Sequence> = read.iter().map(|(topic, last)| (&**topic, *last)).collect();
        self.subscriptions[index].details.unconfirmed.confirm(&read);
        Ok(())
    }

    /// Of how many ranges of numbers it is not known whether the subscriber has read them.
    pub fn unconfirmed(&self, key: SubscriptionKey) -> Result<usize, Refusal> {
        let index = self.subscriptions.resolve(key)?;
        Ok(self.subscriptions[index].details.unconfirmed.len())
    }
}
