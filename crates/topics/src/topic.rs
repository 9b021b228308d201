//! One topic. An idle topic is a name and two numbers; the rest is boxed and allocated on use.

use std::sync::Arc;

use crate::message::{Message, Sequence};
use crate::ring::Ring;
use crate::subscriptions::SubscriptionIndex;
use crate::time::Timestamp;

/// How many numbers are reserved at a time, as powers of two.
const RESERVATION_MIN: u8 = 6;
const RESERVATION_MAX: u8 = 20;
const RESERVATION_SHRINKS_AFTER_S: u32 = 60;

/// The index of a topic in [`crate::topics::TopicTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TopicIndex(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    /// The number of the latest message.
    pub(crate) sequence: Sequence,
    /// The highest number evicted from the ring buffer for lack of room. Expired messages do not count,
    /// because they are no loss.
    pub(crate) evicted_to: Sequence,
    /// Numbers up to this one may never have been assigned: they were reserved when the broker crashed, or
    /// belong to another topic with the same floor.
    pub(crate) skipped_to: Sequence,
    /// Numbers up to this one were assigned before the broker restarted, or skipped by the restart.
    pub(crate) restarted_to: Sequence,
    /// Numbers up to this one are reserved on disk; zero if none are.
    pub(crate) reserved_to: Sequence,
    active: Option<Box<ActiveTopic>>,
    /// In seconds, for choosing which idle topic to forget.
    pub(crate) used_at: u32,
    /// Already in the list of topics to save.
    pub(crate) dirty: bool,
    /// How many numbers are reserved at a time, as a power of two.
    reservation: u8,
    /// In seconds, for choosing how many to reserve.
    saved_at: u32,
}

/// Fields that only a topic in use has.
#[derive(Debug)]
pub(crate) struct ActiveTopic {
    pub(crate) ring: Ring,
    pub(crate) subscribers: Vec<SubscriptionIndex>,
    pub(crate) retained: Option<Arc<Message>>,
    /// When the reaper checks this topic; [`Timestamp::NEVER`] if it need not.
    pub(crate) deadline: Timestamp,
}

impl Topic {
    pub(crate) fn new(name: Arc<str>, floor: Sequence, used_at: u32) -> Topic {
        Topic {
            name,
            sequence: floor,
            evicted_to: floor,
            skipped_to: floor,
            active: None,
            used_at,
            dirty: false,
            restarted_to: Sequence::ZERO,
            reserved_to: Sequence::ZERO,
            reservation: RESERVATION_MIN,
            saved_at: 0,
        }
    }

    /// Whether to reserve more numbers: half of them are used.
    #[inline]
    pub(crate) fn needs_reservation(&self) -> bool {
        self.sequence.0 + (1 << self.reservation >> 1) > self.reserved_to.0
    }

    /// Reserves numbers: more if the last reservation did not last a second, fewer if it lasted a minute.
    /// Returns the last one.
    pub(crate) fn reserve(&mut self, limit: u64, now: u32) -> Sequence {
        if self.reserved_to > Sequence::ZERO {
            let lasted = now.saturating_sub(self.saved_at);
            if self.needs_reservation() && lasted <= 1 {
                self.reservation = (self.reservation + 2).min(RESERVATION_MAX);
            } else if lasted >= RESERVATION_SHRINKS_AFTER_S {
                self.reservation = (self.reservation - 2).max(RESERVATION_MIN);
            }
        }
        self.saved_at = now;
        self.reserved_to = Sequence(self.sequence.0 + (1 << self.reservation).min(limit.max(2)));
        self.reserved_to
    }

    pub(crate) fn active(&self) -> Option<&ActiveTopic> {
        self.active.as_deref()
    }

    pub(crate) fn active_mut(&mut self) -> Option<&mut ActiveTopic> {
        self.active.as_deref_mut()
    }

    pub(crate) fn activate(&mut self) -> &mut ActiveTopic {
        self.active.get_or_insert_with(|| {
            Box::new(ActiveTopic {
                ring: Ring::default(),
                subscribers: Vec::new(),
                retained: None,
                deadline: Timestamp::NEVER,
            })
        })
    }

    /// Releases the memory if it is empty. The caller must remove the deadline first.
    pub(crate) fn release_buffers(&mut self) {
        let Some(active) = &self.active else { return };
        let empty = active.ring.is_empty() && active.subscribers.is_empty() && active.retained.is_none();
        if empty && active.deadline == Timestamp::NEVER {
            self.active = None;
        }
    }

    pub(crate) fn subscribers(&self) -> &[SubscriptionIndex] {
        self.active().map_or(&[], |active| &active.subscribers)
    }

    pub(crate) fn retained(&self, now: Timestamp) -> Option<&Arc<Message>> {
        self.active()?.retained.as_ref().filter(|message| !message.is_expired(now))
    }

    pub(crate) fn evict_oldest(&mut self) -> Option<Arc<Message>> {
        let oldest = self.active.as_mut()?.ring.pop_oldest()?;
        self.evicted_to = self.evicted_to.max(oldest.sequence);
        Some(oldest)
    }
}
