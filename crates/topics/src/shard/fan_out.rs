//! Fan-out: delivers one message to all its subscribers, and to one member of each group.

use std::sync::Arc;

use super::{Published, Shard};
use crate::changes::ChangeLog;
use crate::deadlines::{Deadlines, Owner};
use crate::groups::Groups;
use crate::message::Message;
use crate::queue::{Offer, Ticket};
use crate::settings::Settings;
use crate::subscriptions::{SubscriptionIndex, SubscriptionKey, Subscriptions};
use crate::tickets::Tickets;
use crate::time::Timestamp;
use crate::topic::TopicIndex;
use crate::topics::TopicTable;

/// A paused subscription that has missed messages of more topics than this is saved only with the reaper's
/// rounds.
const MISSED_AT_ONCE: usize = 64;

impl Shard {
    /// Offers a message to all matching subscriptions.
    pub(super) fn fan_out(
        &mut self,
        index: TopicIndex,
        message: &Arc<Message>,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Published {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.patterns.find(&message.topic, &mut found);
        let mut fan_out = self.fan_out_of(message, now, wake);
        let topics = fan_out.topics;
        for &subscriber in topics[index].subscribers() {
            fan_out.offer_to_subscription(subscriber);
        }
        for &subscriber in &found {
            fan_out.offer_to_subscription(subscriber);
        }
        while let Some(member) = fan_out.groups.next_chosen() {
            fan_out.assign_to_member(member);
        }
        let published = fan_out.published;
        self.found = found;
        published
    }

    /// Gives messages that a group member could not take to other members of its group.
    pub(super) fn hand_to_other_members(
        &mut self,
        among: &[SubscriptionIndex],
        messages: Vec<Arc<Message>>,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) {
        for message in messages {
            if message.is_expired(now) {
                continue;
            }
            let able = |&&index: &&SubscriptionIndex| {
                let member = &self.subscriptions[index];
                member.paused.is_none() && member.matches(&message.topic)
            };
            let best =
                among.iter().filter(able).min_by_key(|&&index| (self.subscriptions[index].rank(), index));
            let Some(&best) = best else { continue };
            self.fan_out_of(&message, now, wake).assign_to_member(best);
        }
    }

    fn fan_out_of<'a>(
        &'a mut self,
        message: &'a Arc<Message>,
        now: Timestamp,
        wake: &'a mut Vec<SubscriptionKey>,
    ) -> FanOut<'a> {
        FanOut {
            message,
            now,
            wake,
            topics: &self.topics,
            subscriptions: &mut self.subscriptions,
            groups: &mut self.groups,
            deadlines: &mut self.deadlines,
            tickets: &mut self.tickets,
            settings: &self.settings,
            changes: &mut self.changes,
            published: Published {
                sequence: message.sequence,
                receivers: 0,
                dropped: 0,
                blocked: Vec::new(),
                ticket: None,
            },
        }
    }
}

/// One message on its way to its subscribers.
struct FanOut<'a> {
    message: &'a Arc<Message>,
    now: Timestamp,
    wake: &'a mut Vec<SubscriptionKey>,
    topics: &'a TopicTable,
    subscriptions: &'a mut Subscriptions,
    groups: &'a mut Groups,
    deadlines: &'a mut Deadlines,
    tickets: &'a mut Tickets,
    settings: &'a Settings,
    changes: &'a mut ChangeLog,
    published: Published,
}

impl FanOut<'_> {
    #[inline]
    fn offer_to_subscription(&mut self, index: SubscriptionIndex) {
        let (_, subscription) = self.subscriptions.with_key(index);
        if subscription.seen == self.message.order {
            return;
        }
        subscription.seen = self.message.order;
        if let Some(group) = subscription.group {
            if subscription.paused.is_none() {
                self.groups.nominate(group, self.message.order, index, subscription.rank());
            }
            return;
        }
        if let Some(paused) = &mut subscription.paused {
            if paused.miss(&self.message.topic, self.message.sequence, self.settings.missed_topics) {
                // Saved so that the subscriber learns what it missed even if the broker is killed meanwhile.
                // A save writes the whole subscription, so one that has missed many topics is not saved for
                // each of them.
                let id = &subscription.details.id;
                if paused.missed.len() <= MISSED_AT_ONCE {
                    self.changes.subscription(id);
                } else {
                    self.changes.subscription_later(id);
                }
            }
            return;
        }
        self.enqueue(index);
    }

    fn assign_to_member(&mut self, index: SubscriptionIndex) {
        self.subscriptions[index].given = self.message.order;
        self.enqueue(index);
    }

    #[inline]
    fn enqueue(&mut self, index: SubscriptionIndex) {
        let (key, subscription) = self.subscriptions.with_key(index);
        let offer = subscription.queue.offer(self.message, self.settings.waiting_messages, self.now);
        if subscription.idle {
            subscription.idle = false;
            self.wake.push(key);
        }
        let owner = Owner::Subscription(index);
        self.deadlines.advance(&mut subscription.deadline, self.message.expires_at, owner);
        match offer {
            Offer::Accepted => self.published.receivers += 1,
            Offer::DroppedOldest(_) => {
                self.published.receivers += 1;
                self.published.dropped += 1;
            }
            Offer::DroppedNewest => self.published.dropped += 1,
            Offer::Blocked => self.block(index, key),
            Offer::BlockedAndForced(forced) => {
                self.published.dropped += 1;
                self.tickets.release(forced, index);
                self.block(index, key);
            }
        }
    }

    fn block(&mut self, index: SubscriptionIndex, key: SubscriptionKey) {
        let ticket = Ticket(self.message.order);
        self.tickets.block(ticket, index);
        self.published.blocked.push(key);
        self.published.ticket = Some(ticket);
    }
}
