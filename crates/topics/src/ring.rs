//! The ring buffer of one topic: its latest messages, ordered by number.
//!
//! Numbers increase by one, but there are holes where messages expired before their neighbours.

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

    /// The messages from a number on, including expired ones.
    pub(crate) fn from(&self, first: Sequence) -> impl Iterator<Item = &Arc<Message>> {
        let start = self.messages.partition_point(|message| message.sequence < first);
        self.messages.range(start..)
    }

    /// Whether the message with this order number is here.
    pub(crate) fn holds(&self, order: u64) -> bool {
        self.messages.binary_search_by_key(&order, |message| message.order).is_ok()
    }

    /// Removes expired messages. Returns how many, and when the next one expires.
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push { skipped: u64, ttl: u64 },
        Pop,
        Expire { at: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..3_u64, 0..50_u64).prop_map(|(skipped, ttl)| Step::Push { skipped, ttl }),
            1 => Just(Step::Pop),
            1 => (0..60_u64).prop_map(|at| Step::Expire { at }),
        ]
    }

    fn sample(number: u64, ttl: u64) -> Arc<Message> {
        Arc::new(Message::sample(number, Timestamp(ttl), b""))
    }

    proptest! {
        #[test]
        fn a_ring_is_a_sorted_list(steps in vec(step(), 0..60), from in 0..60_u64) {
            let mut ring = Ring::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            let mut number = 0;
            for step in steps {
                match step {
                    Step::Push { skipped, ttl } => {
                        number += 1 + skipped;
                        ring.push(sample(number, ttl));
                        list.push((number, ttl));
                    }
                    Step::Pop => {
                        let popped = ring.pop_oldest().map(|message| message.sequence.0);
                        let expected = (!list.is_empty()).then(|| list.remove(0).0);
                        prop_assert_eq!(popped, expected);
                    }
                    Step::Expire { at } => {
                        let before = list.len();
                        list.retain(|&(_, ttl)| ttl > at);
                        let expired = ring.expire(Timestamp(at));
                        prop_assert_eq!(expired.messages, before - list.len());
                        let next = list.iter().map(|&(_, ttl)| ttl).min();
                        prop_assert_eq!(expired.next, next.map_or(Timestamp::NEVER, Timestamp));
                    }
                }
                prop_assert_eq!(ring.len(), list.len());
                prop_assert_eq!(ring.oldest().map(|message| message.sequence.0), list.first().map(|&(n, _)| n));
                prop_assert_eq!(ring.holds(from), list.iter().any(|&(n, _)| n == from));
                let later: Vec<u64> = ring.from(Sequence(from)).map(|message| message.sequence.0).collect();
                let expected: Vec<u64> = list.iter().map(|&(n, _)| n).filter(|&n| n >= from).collect();
                prop_assert_eq!(later, expected);
            }
        }
    }

    #[test]
    fn a_ring_that_empties_gives_its_memory_back() {
        let mut ring = Ring::default();
        for number in 1..=1000 {
            ring.push(sample(number, 1));
        }
        while ring.len() > 10 {
            ring.pop_oldest();
        }
        assert!(ring.messages.capacity() <= 64, "{}", ring.messages.capacity());
    }
}
