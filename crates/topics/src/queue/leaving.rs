//! Messages that leave a queue without being taken: they expired, or the subscriber is gone.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Entry, SubscriptionQueue, Ticket};
use crate::delivery::Gap;
use crate::message::Message;
use crate::time::Timestamp;

/// The content of a queue whose subscriber is gone.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) released: Vec<Ticket>,
}

impl SubscriptionQueue {
    /// Removes expired messages. Returns their number, when the next one expires, and the tickets of
    /// publishers that need not wait any longer.
    pub(crate) fn expire(&mut self, now: Timestamp) -> (u64, Timestamp, Vec<Ticket>) {
        let (mut count, mut next, mut released) = (0, Timestamp::NEVER, Vec::new());
        let (mut depth, mut bytes) = (0, 0);
        self.entries.retain(|entry| {
            let Entry::Message(message) = entry else { return true };
            if message.is_expired(now) {
                (depth, bytes) = (depth + 1, bytes + message.cost());
                return false;
            }
            next = next.min(message.expires_at);
            true
        });
        count += u64::from(depth);
        self.depth -= depth;
        self.bytes -= bytes;
        if let Some(overflow) = &mut self.overflow {
            overflow.waiting.retain(|waiting| {
                if waiting.message.is_expired(now) {
                    count += 1;
                    released.push(waiting.ticket);
                    return false;
                }
                next = next.min(waiting.message.expires_at);
                true
            });
            self.admit_waiting(now, &mut released);
            self.drop_overflow_state();
        }
        self.dropped.ttl += count;
        (count, next, released)
    }

    /// Empties the queue of a subscriber that is gone. Returns its messages, oldest first, its earlier
    /// losses, and the tickets of publishers that need not wait any longer.
    pub(crate) fn abandon(&mut self, now: Timestamp) -> Abandoned {
        let mut abandoned = Abandoned::default();
        let mut overflow = self.overflow.take().unwrap_or_default();
        abandoned.gaps.extend(overflow.head.drain());
        for entry in self.entries.drain(..) {
            match entry {
                Entry::Message(message) => abandoned.messages.push(message),
                Entry::Gap(gap) => abandoned.gaps.push(*gap),
            }
        }
        abandoned.gaps.extend(overflow.tail.drain());
        if let Some(since) = overflow.blocked_since {
            self.blocked += now.since(since);
        }
        for waiting in overflow.waiting {
            abandoned.messages.push(waiting.message);
            abandoned.released.push(waiting.ticket);
        }
        (self.depth, self.bytes) = (0, 0);
        self.entries = VecDeque::new();
        self.dropped.disconnect += abandoned.messages.len() as u64;
        abandoned
    }
}
