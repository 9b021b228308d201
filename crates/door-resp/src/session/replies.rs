//! Sends replies in the order of the commands, in whatever order they become ready.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Session, SessionOutput};
use crate::codec::{Reply, encode};

/// The slot of one reply.
#[derive(Debug)]
pub(super) enum ReplySlot {
    Ready(Reply),
    /// Several replies in one slot, already encoded.
    Written(Bytes),
    /// The header of an array whose items are the next replies.
    Header {
        items: usize,
    },
    Open,
}

#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    slots: VecDeque<ReplySlot>,
    /// The number of the first reply that is not sent.
    first: u64,
}

impl ReplyQueue {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Opens a slot at the end, and returns its number.
    pub(super) fn open(&mut self) -> u64 {
        self.slots.push_back(ReplySlot::Open);
        self.first + self.slots.len() as u64 - 1
    }

    pub(super) fn set(&mut self, place: u64, slot: ReplySlot) {
        let index = usize::try_from(place - self.first).expect("a place that is not out yet");
        self.slots[index] = slot;
    }

    /// Takes the first reply, if it is ready.
    pub(super) fn next_ready(&mut self) -> Option<ReplySlot> {
        let slot = self.slots.pop_front_if(|slot| !matches!(slot, ReplySlot::Open))?;
        self.first += 1;
        Some(slot)
    }
}

impl Session {
    pub(super) fn fill(&mut self, place: u64, reply: Reply) {
        self.fill_slot(place, ReplySlot::Ready(reply));
    }

    pub(super) fn fill_slot(&mut self, place: u64, slot: ReplySlot) {
        self.flows.end(place);
        self.replies.set(place, slot);
    }

    /// Sends what is ready, in order.
    pub(super) fn flush(&mut self, out: &mut SessionOutput) {
        while let Some(slot) = self.replies.next_ready() {
            match slot {
                ReplySlot::Ready(reply) => {
                    encode(&reply, self.version, &mut out.bytes);
                    self.transaction.has_answered(out);
                }
                ReplySlot::Written(bytes) => {
                    out.bytes.extend_from_slice(&bytes);
                    self.transaction.has_answered(out);
                }
                ReplySlot::Header { items } => self.transaction.begin_array(items, self.version, out),
                ReplySlot::Open => unreachable!("it is ready"),
            }
        }
        if self.closing && (self.replies.is_empty() || self.flows.are_under_way()) {
            out.close = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_waits_for_those_before_it() {
        let mut replies = ReplyQueue::default();
        let (first, second) = (replies.open(), replies.open());
        replies.set(second, ReplySlot::Header { items: 2 });
        assert!(replies.next_ready().is_none());
        replies.set(first, ReplySlot::Ready(Reply::OK));
        assert!(matches!(replies.next_ready(), Some(ReplySlot::Ready(_))));
        assert!(matches!(replies.next_ready(), Some(ReplySlot::Header { items: 2 })));
        assert_eq!((replies.is_empty(), replies.open()), (true, 2));
    }
}
