//! Deadlines: expiring messages in topics and queues, and paused subscriptions.
//!
//! Every owner has at most one entry, so the table never outgrows topics and subscriptions. An entry may be
//! early, never late: the owner checks again when it fires.

use std::collections::BTreeSet;

use crate::subscriptions::SubscriptionIndex;
use crate::time::Timestamp;
use crate::topic::TopicIndex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Topic(TopicIndex),
    Subscription(SubscriptionIndex),
}

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    set: BTreeSet<(Timestamp, Owner)>,
}

impl Deadlines {
    pub(crate) fn first(&self) -> Option<(Timestamp, Owner)> {
        self.set.first().copied()
    }

    /// Sets the owner's deadline to `to` if that is earlier.
    #[inline]
    pub(crate) fn advance(&mut self, current: &mut Timestamp, to: Timestamp, owner: Owner) {
        if to < *current {
            self.replace(current, to, owner);
        }
    }

    /// Sets the owner's deadline; [`Timestamp::NEVER`] removes it.
    pub(crate) fn replace(&mut self, current: &mut Timestamp, to: Timestamp, owner: Owner) {
        if *current != Timestamp::NEVER {
            self.set.remove(&(*current, owner));
        }
        if to != Timestamp::NEVER {
            self.set.insert((to, owner));
        }
        *current = to;
    }
}
