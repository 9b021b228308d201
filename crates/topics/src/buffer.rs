//! The total size of all ring buffers, and which messages are evicted first when it is over the limit.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::Message;
use crate::topic::TopicIndex;
use crate::topics::TopicTable;

/// Stale entries (their message is gone) are removed when they outnumber the others by this much.
const STALE_SLACK: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// Every kept message, oldest first. An entry stays when its message leaves early.
    kept: VecDeque<Kept>,
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    topic: TopicIndex,
    order: u64,
}

impl Buffer {
    /// Adds a message to its topic's ring, and evicts what exceeds the limits.
    pub(crate) fn keep(
        &mut self,
        topics: &mut TopicTable,
        to: TopicIndex,
        message: &Arc<Message>,
        limits: BufferLimits,
    ) {
        let topic = &mut topics[to];
        topic.activate().ring.push(Arc::clone(message));
        self.kept.push_back(Kept { topic: to, order: message.order });
        self.messages += 1;
        self.bytes += message.cost();
        while topic.active().is_some_and(|active| active.ring.len() > limits.ring_messages) {
            let evicted = topic.evict_oldest();
            self.forget(evicted.as_deref());
        }
        while self.bytes > limits.ring_bytes {
            self.evict_oldest_anywhere(topics);
        }
        if self.kept.len() > 2 * self.messages + STALE_SLACK {
            self.sweep(topics);
        }
    }

    /// Subtracts messages that expired or left with their topic.
    pub(crate) fn released(&mut self, messages: usize, bytes: usize) {
        self.messages -= messages;
        self.bytes -= bytes;
    }

    fn evict_oldest_anywhere(&mut self, topics: &mut TopicTable) {
        let oldest = self.kept.pop_front().expect("what is kept is in the order");
        if !is_kept(topics, oldest) {
            return;
        }
        let topic = &mut topics[oldest.topic];
        let evicted = topic.evict_oldest();
        debug_assert!(evicted.as_ref().is_some_and(|message| message.order == oldest.order));
        self.forget(evicted.as_deref());
        topic.release_buffers();
    }

    fn forget(&mut self, evicted: Option<&Message>) {
        let message = evicted.expect("a ring over its limit has an oldest message");
        self.released(1, message.cost());
    }

    fn sweep(&mut self, topics: &TopicTable) {
        self.kept.retain(|&kept| is_kept(topics, kept));
        self.kept.shrink_to(2 * self.kept.len());
    }
}

/// A topic's index may have been reused, but an order number never is.
fn is_kept(topics: &TopicTable, kept: Kept) -> bool {
    let active = topics.get(kept.topic.0 as usize).and_then(|topic| topic.active());
    active.is_some_and(|active| active.ring.holds(kept.order))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferLimits {
    pub(crate) ring_messages: usize,
    pub(crate) ring_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn the_order_does_not_grow_with_messages_that_are_gone() {
        let mut topics = TopicTable::new(10, 0);
        let a = topics.open("a", Timestamp(0)).unwrap();
        let mut buffer = Buffer::default();
        for number in 1..=20 * STALE_SLACK as u64 {
            let message = Arc::new(Message::sample(number, Timestamp::NEVER, b"x"));
            buffer.keep(&mut topics, a, &message, BufferLimits { ring_messages: 3, ring_bytes: usize::MAX });
        }
        assert_eq!(buffer.messages, 3);
        assert!(buffer.kept.len() <= 2 * 3 + STALE_SLACK);
        assert!(buffer.kept.capacity() <= 4 * STALE_SLACK);
    }
}
