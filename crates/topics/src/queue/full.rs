//! A full queue: which messages are dropped, which wait, and which are forced in.

use std::sync::Arc;

use super::{BlockedMessage, Entry, Offer, SubscriptionQueue, Ticket};
use crate::losses::GAPS_MAX;
use crate::message::Message;
use crate::settings::Policy;
use crate::time::Timestamp;

impl SubscriptionQueue {
    /// Forces everything that waits up to this ticket into the queue and drops the oldest messages for it.
    pub(crate) fn force(&mut self, up_to: Ticket, now: Timestamp) -> (u64, Vec<Ticket>) {
        let mut dropped = 0;
        let mut released = Vec::new();
        let overflow = self.overflow();
        let last = overflow.waiting.iter().rposition(|waiting| waiting.ticket == up_to);
        for _ in 0..last.map_or(0, |last| last + 1) {
            released.extend(self.first_waiting().map(|waiting| waiting.ticket));
            dropped += self.force_first(now);
        }
        self.note_end_of_blocking(now);
        self.drop_overflow_state();
        (dropped, released)
    }

    #[cold]
    pub(super) fn offer_when_full(
        &mut self,
        message: &Arc<Message>,
        waiting_limit: usize,
        now: Timestamp,
    ) -> Offer {
        match self.policy {
            Policy::DropOldest => match self.push_dropping_oldest(Arc::clone(message), now) {
                0 => Offer::Accepted,
                dropped => Offer::DroppedOldest(dropped),
            },
            Policy::DropNewest => self.push_unless_full(message),
            Policy::Block => self.push_or_wait(message, waiting_limit, now),
        }
    }

    fn push_dropping_oldest(&mut self, message: Arc<Message>, now: Timestamp) -> u64 {
        let mut dropped = 0;
        while !self.has_room(&message) {
            match self.entries.pop_front() {
                Some(Entry::Message(oldest)) => {
                    self.count_out(&oldest);
                    if oldest.is_expired(now) {
                        // An expired message is not reported as a loss.
                        self.dropped.ttl += 1;
                        continue;
                    }
                    dropped += 1;
                    let room = self.gap_room();
                    self.overflow().head.record(&oldest, room);
                }
                Some(Entry::Gap(_)) => unreachable!("only drop-newest has gaps among its entries"),
                None => unreachable!("an empty queue has room"),
            }
        }
        self.dropped.oldest += dropped;
        self.push(message);
        dropped
    }

    fn push_unless_full(&mut self, message: &Arc<Message>) -> Offer {
        if !self.has_room(message) {
            self.dropped.newest += 1;
            let room = self.gap_room();
            self.overflow().tail.record(message, room);
            return Offer::DroppedNewest;
        }
        let SubscriptionQueue { entries, overflow, .. } = self;
        if let Some(overflow) = overflow {
            overflow.queued_gaps += overflow.tail.len();
            entries.extend(overflow.tail.drain().map(|gap| Entry::Gap(Box::new(gap))));
        }
        self.push(Arc::clone(message));
        Offer::Accepted
    }

    fn push_or_wait(&mut self, message: &Arc<Message>, waiting_limit: usize, now: Timestamp) -> Offer {
        if self.first_waiting().is_none() && self.has_room(message) {
            self.push(Arc::clone(message));
            return Offer::Accepted;
        }
        let overflow = self.overflow();
        let full = overflow.waiting.len() >= waiting_limit.max(1);
        overflow.blocked_since.get_or_insert(now);
        // The ticket of a blocked publish is the order number of its message.
        let ticket = Ticket(message.order);
        overflow.waiting.push_back(BlockedMessage { message: Arc::clone(message), ticket });
        if !full {
            return Offer::Blocked;
        }
        let forced = self.first_waiting().map(|waiting| waiting.ticket);
        self.force_first(now);
        Offer::BlockedAndForced(forced.expect("a publisher waits"))
    }

    pub(super) fn admit_waiting(&mut self, now: Timestamp, released: &mut Vec<Ticket>) {
        while let Some(first) = self.first_waiting() {
            if !self.has_room(&first.message) {
                return;
            }
            if let Some(waiting) = self.overflow().waiting.pop_front() {
                released.push(waiting.ticket);
                self.push(waiting.message);
            }
        }
        self.note_end_of_blocking(now);
    }

    fn force_first(&mut self, now: Timestamp) -> u64 {
        let waiting = self.overflow().waiting.pop_front();
        waiting.map_or(0, |waiting| self.push_dropping_oldest(waiting.message, now))
    }

    pub(super) fn first_waiting(&self) -> Option<&BlockedMessage> {
        self.overflow.as_ref()?.waiting.front()
    }

    fn note_end_of_blocking(&mut self, now: Timestamp) {
        if let Some(overflow) = &mut self.overflow
            && overflow.waiting.is_empty()
            && let Some(since) = overflow.blocked_since.take()
        {
            self.blocked += now.since(since);
        }
    }

    fn gap_room(&mut self) -> bool {
        let overflow = self.overflow();
        overflow.head.len() + overflow.tail.len() + overflow.queued_gaps < GAPS_MAX
    }
}
