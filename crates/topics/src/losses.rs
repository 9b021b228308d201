//! What a full queue dropped, as ranges per topic, until the subscriber can be told.

use std::sync::Arc;

use crate::delivery::{Gap, GapReason};
use crate::message::{Message, Sequence};

/// How many ranges one subscriber's queue remembers. Beyond that drops are only counted.
pub const GAPS_MAX: usize = 64;

/// Ranges of dropped numbers, in the order in which they were dropped.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    ranges: Vec<Range>,
}

#[derive(Debug)]
struct Range {
    topic: Arc<str>,
    first: Sequence,
    last: Sequence,
}

impl Losses {
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a message to the range it continues, or begins a new one if `room` is left.
    pub(crate) fn record(&mut self, message: &Message, room: bool) {
        let (topic, number) = (&message.topic, message.sequence);
        // A topic's name is one allocation for as long as the topic lives.
        let same = self.ranges.iter_mut().rev().find(|range| Arc::ptr_eq(&range.topic, topic));
        if let Some(range) = same
            && range.last.next() == number
        {
            range.last = number;
        } else if room {
            self.ranges.push(Range { topic: Arc::clone(topic), first: number, last: number });
        }
    }

    /// Where each range begins.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = (&Arc<str>, Sequence)> {
        self.ranges.iter().map(|range| (&range.topic, range.first))
    }

    /// Everything recorded, as what the subscriber is told.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Gap> {
        self.ranges.drain(..).map(|range| Gap {
            topic: range.topic,
            first_missed: range.first,
            last_missed: range.last,
            oldest_kept: range.last.next(),
            reason: GapReason::QueueFull,
        })
    }
}
