//! The ring buffer of one topic: its latest messages, in order of their numbers.
//!
//! Numbers rise by one, but there are holes where messages expired before their neighbours.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::{Message, Sequence};
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Ring {
    messages: VecDeque<Arc<Message>>,
}

impl Ring {
    pub(crate) fn push(&mut self, message: Arc<Message>) {
        debug_assert!(self.messages.back().is_none_or(|last| last.sequence < message.sequence));
        self.messages.push_back(message);
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<Arc<Message>> {
        let oldest = self.messages.pop_front();
        if self.messages.capacity() > 64 && self.messages.len() < self.messages.capacity() / 4 {
            self.messages.shrink_to(self.messages.len() * 2);
        }
        oldest
    }

    pub(crate) fn oldest(&self) -> Option<&Arc<Message>> {
        self.messages.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.cost()).sum()
    }

    /// The messages from a number on, expired ones included.
    pub(crate) fn from(&self, first: Sequence) -> impl Iterator<Item = &Arc<Message>> {
        let start = self.messages.partition_point(|message| message.sequence < first);
        self.messages.range(start..)
    }

    /// True if the message with this place in the order of the shard is here.
    pub(crate) fn holds(&self, order: u64) -> bool {
        self.messages.binary_search_by_key(&order, |message| message.order).is_ok()
    }

    /// Removes what is expired and tells how much that was and when the next one expires.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Expired {
        let mut expired = Expired { messages: 0, bytes: 0, next: Timestamp::NEVER };
        self.messages.retain(|message| {
            if message.is_expired(now) {
                expired.messages += 1;
                expired.bytes += message.cost();
                return false;
            }
            expired.next = expired.next.min(message.expires_at);
            true
        });
        expired
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) next: Timestamp,
}
