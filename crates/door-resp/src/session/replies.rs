//! Sends replies in the order of the commands, in whatever order they become ready.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes};

use super::{Session, SessionOutput, UNSENT_BYTES_MAX};
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
    /// The rest of a long bulk string whose beginning is sent.
    Rest(Bytes),
    Open,
}

impl ReplySlot {
    fn bytes(&self) -> usize {
        match self {
            Self::Ready(reply) => reply.bytes(),
            Self::Written(bytes) | Self::Rest(bytes) => bytes.len(),
            Self::Header { .. } | Self::Open => 0,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    slots: VecDeque<ReplySlot>,
    /// The number of the first reply that is not sent.
    first: u64,
    /// What the replies hold that are ready and not sent.
    bytes: usize,
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
        self.bytes += slot.bytes();
        self.slots[index] = slot;
    }

    /// The bytes of the replies that are ready and wait for the peer, or for an earlier reply.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the first reply is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.slots.front().is_some_and(|slot| !matches!(slot, ReplySlot::Open))
    }

    /// The rest of the reply that was taken last.
    fn put_rest(&mut self, rest: Bytes) {
        self.bytes += rest.len();
        self.first -= 1;
        self.slots.push_front(ReplySlot::Rest(rest));
    }

    /// Takes the first reply, if it is ready.
    pub(super) fn next_ready(&mut self) -> Option<ReplySlot> {
        let slot = self.slots.pop_front_if(|slot| !matches!(slot, ReplySlot::Open))?;
        self.first += 1;
        self.bytes -= slot.bytes();
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

    /// Sends what is ready, in order, as much as the peer may leave unread. The connection calls it again when the peer
    /// has read.
    pub(super) fn flush(&mut self, out: &mut SessionOutput) {
        while out.bytes.len() < UNSENT_BYTES_MAX
            && let Some(slot) = self.replies.next_ready()
        {
            match slot {
                ReplySlot::Ready(Reply::Bulk(bytes)) if bytes.len() > UNSENT_BYTES_MAX => {
                    out.bytes.put_slice(format!("${}\r\n", bytes.len()).as_bytes());
                    self.transaction.begin_long_reply();
                    self.replies.put_rest(bytes);
                }
                ReplySlot::Rest(mut rest) => {
                    let part = rest.split_to(rest.len().min(UNSENT_BYTES_MAX));
                    out.bytes.put_slice(&part);
                    if rest.is_empty() {
                        out.bytes.put_slice(b"\r\n");
                        self.transaction.has_answered(out);
                    } else {
                        self.replies.put_rest(rest);
                    }
                }
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
        let waits_for_flow = !self.replies.is_ready() && self.flows.are_under_way();
        if self.closing && (self.replies.is_empty() || waits_for_flow) {
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
