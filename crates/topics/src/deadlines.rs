//! When something is due: expiring messages in topics and queues, and paused subscriptions.
//!
//! Every owner has at most one entry, so this never grows beyond topics and subscriptions.
//! An entry may be early, never late: the owner looks again when it fires.

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

    /// Moves the owner's deadline forward if `to` is earlier than what it has.
    #[inline]
    pub(crate) fn advance(&mut self, current: &mut Timestamp, to: Timestamp, owner: Owner) {
        if to < *current {
            self.replace(current, to, owner);
        }
    }

    /// Sets the owner's deadline; [`Timestamp::NEVER`] takes it out.
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
