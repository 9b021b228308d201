//! All subscriptions of a shard, by id or by the key that the runtime holds.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use crate::refusal::TopicRefusal;
use crate::subscription::{Subscription, SubscriptionId};

/// The index of a subscription in [`Subscriptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubscriptionIndex(pub(crate) u32);

/// A cheap handle for a subscription within its shard. It is never reused for another subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    index: u32,
    generation: u32,
}

impl SubscriptionKey {
    /// A small number that is unique among the live subscriptions of the shard: for tables of wakers.
    pub fn slot(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    slots: Vec<Slot>,
    free: Vec<SubscriptionIndex>,
    by_id: BTreeMap<SubscriptionId, SubscriptionIndex>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    subscription: Option<Subscription>,
}

impl Subscriptions {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// One past the highest slot ever in use.
    pub(crate) fn end(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn insert(&mut self, subscription: Subscription) -> SubscriptionIndex {
        let id = subscription.details.id.clone();
        let index = if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index.0 as usize];
            slot.generation += 1;
            slot.subscription = Some(subscription);
            index
        } else {
            self.slots.push(Slot { generation: 0, subscription: Some(subscription) });
            SubscriptionIndex(u32::try_from(self.slots.len() - 1).expect("the limit is far below"))
        };
        self.by_id.insert(id, index);
        index
    }

    pub(crate) fn remove(&mut self, index: SubscriptionIndex) -> Subscription {
        let slot = &mut self.slots[index.0 as usize];
        let subscription = slot.subscription.take().expect("a subscription that is removed exists");
        self.by_id.remove(&subscription.details.id);
        // A slot whose generations are used up is retired.
        if slot.generation < u32::MAX {
            self.free.push(index);
        }
        subscription
    }

    pub(crate) fn find(&self, id: &SubscriptionId) -> Option<SubscriptionIndex> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn resolve(&self, key: SubscriptionKey) -> Result<SubscriptionIndex, TopicRefusal> {
        match self.slots.get(key.index as usize) {
            Some(slot) if slot.generation == key.generation && slot.subscription.is_some() => {
                Ok(SubscriptionIndex(key.index))
            }
            _ => Err(TopicRefusal::UnknownSubscription),
        }
    }

    pub(crate) fn key(&self, index: SubscriptionIndex) -> SubscriptionKey {
        SubscriptionKey { index: index.0, generation: self.slots[index.0 as usize].generation }
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Subscription> {
        self.slots.get(slot)?.subscription.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.slots.iter().filter_map(|slot| slot.subscription.as_ref())
    }

    /// The subscription with its key, in one lookup.
    #[inline]
    pub(crate) fn with_key(&mut self, index: SubscriptionIndex) -> (SubscriptionKey, &mut Subscription) {
        let slot = &mut self.slots[index.0 as usize];
        let key = SubscriptionKey { index: index.0, generation: slot.generation };
        (key, slot.subscription.as_mut().expect("an index points to a subscription"))
    }
}

impl Index<SubscriptionIndex> for Subscriptions {
    type Output = Subscription;

    fn index(&self, index: SubscriptionIndex) -> &Subscription {
        self.slots[index.0 as usize].subscription.as_ref().expect("an index points to a subscription")
    }
}

impl IndexMut<SubscriptionIndex> for Subscriptions {
    fn index_mut(&mut self, index: SubscriptionIndex) -> &mut Subscription {
        self.slots[index.0 as usize].subscription.as_mut().expect("an index points to a subscription")
    }
}
