//! The reaper: removes expired messages and ends subscriptions that were paused for too long.

use super::Shard;
use crate::deadlines::Owner;
use crate::subscription::SubscriptionId;
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey};
use crate::time::Timestamp;
use crate::topic::TopicIndex;

/// How many messages one call examines before it stops, give or take one queue.
const REAP_WORK_MAX: usize = 20_000;

/// The result of a reap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Messages removed from rings, retained values and queues. A message in several of them counts in each.
    pub expired: u64,
    /// Subscriptions that were paused for too long.
    pub ended: Vec<SubscriptionId>,
    /// There is more to do: call again soon.
    pub more: bool,
}

impl Shard {
    /// Does a bounded part of the due work.
    pub fn reap(&mut self, now: Timestamp, wake: &mut Vec<SubscriptionKey>) -> Reaped {
        let mut reaped = Reaped::default();
        let mut work = 0;
        while let Some((due, owner)) = self.deadlines.first() {
            if due > now {
                break;
            }
            if work >= REAP_WORK_MAX {
                reaped.more = true;
                break;
            }
            work += 1;
            work += match owner {
                Owner::Topic(index) => self.reap_topic(index, now, &mut reaped),
                Owner::Subscription(index) => self.reap_subscription(index, now, &mut reaped, wake),
            };
        }
        self.changes.catch_up();
        if !reaped.more {
            self.reaped_at = now;
        }
        reaped
    }

    /// When [`Shard::reap`] next has work to do, at the earliest one interval after the last call.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let (due, _) = self.deadlines.first()?;
        Some(due.max(self.reaped_at.after(self.settings.reap_interval)))
    }

    fn reap_topic(&mut self, index: TopicIndex, now: Timestamp, reaped: &mut Reaped) -> usize {
        let active = self.topics[index].activate();
        let looked_at = active.ring.len();
        let expired = active.ring.expire(now);
        reaped.expired += expired.messages as u64;
        self.buffer.released(expired.messages, expired.bytes);
        let mut next = expired.next;
        let retained_until = active.retained.as_ref().map_or(Timestamp::NEVER, |message| message.expires_at);
        if retained_until <= now {
            reaped.expired += 1;
            self.clear_retained(index);
            self.changes.mark_changed(index, &mut self.topics[index]);
        } else {
            next = next.min(retained_until);
        }
        let active = self.topics[index].activate();
        self.deadlines.replace(&mut active.deadline, next, Owner::Topic(index));
        self.release_buffers(index);
        looked_at
    }

    fn reap_subscription(
        &mut self,
        index: SubscriptionIndex,
        now: Timestamp,
        reaped: &mut Reaped,
        wake: &mut Vec<SubscriptionKey>,
    ) -> usize {
        let subscription = &mut self.subscriptions[index];
        if subscription.paused.is_some() {
            reaped.ended.push(self.end(index, now, wake));
            return 1;
        }
        let looked_at = subscription.queue.depth() as usize;
        let (expired, next, released) = subscription.queue.expire(now);
        reaped.expired += expired;
        self.deadlines.replace(&mut subscription.deadline, next, Owner::Subscription(index));
        for ticket in released {
            self.tickets.release(ticket, index);
        }
        looked_at
    }
}
