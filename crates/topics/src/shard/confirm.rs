//! The state of the client's end of a stream: what was sent, and what the subscriber has acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Shard;
use crate::delivery::Delivery;
use crate::message::Sequence;
use crate::refusal::TopicRefusal;
use crate::subscriptions::SubscriptionKey;

impl Shard {
    /// Notes deliveries that were sent to the subscriber, which may not have read them when its stream
    /// breaks. A runtime that knows that everything taken was read need not call this.
    pub fn sent(&mut self, key: SubscriptionKey, deliveries: &[Delivery]) -> Result<(), TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        let subscription = &mut self.subscriptions[index];
        if subscription.group.is_none() {
            subscription.details.unconfirmed.sent(deliveries);
        } else if let Some(in_flight) = &mut subscription.details.in_flight {
            in_flight.sent(deliveries);
        }
        Ok(())
    }

    /// The subscriber has read these topics up to these numbers.
    ///
    /// With its first call, which may be empty, a group member announces that it acknowledges: whatever it is
    /// sent from then on and does not acknowledge goes to another member when it leaves.
    pub fn acknowledge(
        &mut self,
        key: SubscriptionKey,
        read: &[(Arc<str>, Sequence)],
    ) -> Result<(), TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        let (count, limit) = (read.len(), self.settings.missed_topics);
        if count > limit {
            return Err(TopicRefusal::TooManyLastSeen { count, limit });
        }
        let read: BTreeMap<&str, Sequence> = read.iter().map(|(topic, last)| (&**topic, *last)).collect();
        let subscription = &mut self.subscriptions[index];
        if subscription.group.is_some() {
            subscription.details.in_flight.get_or_insert_default().confirm(&read);
        } else {
            subscription.details.unconfirmed.confirm(&read);
        }
        Ok(())
    }

    /// The number of ranges that the subscriber may not have read.
    pub fn unconfirmed(&self, key: SubscriptionKey) -> Result<usize, TopicRefusal> {
        let index = self.subscriptions.resolve(key)?;
        Ok(self.subscriptions[index].details.unconfirmed.len())
    }
}
