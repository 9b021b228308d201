//! The messages that a full queue dropped, as ranges per topic, until they are reported to the subscriber.

use std::sync::Arc;

use crate::delivery::{Gap, GapReason};
use crate::message::{Message, Sequence};

/// How many ranges one subscriber's queue keeps. Beyond that, drops are only counted.
pub const GAPS_MAX: usize = 64;

/// Ranges of dropped numbers, in the order of the drops.
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

    /// Extends the range that ends before this message, or adds a new one if there is `room`.
    pub(crate) fn record(&mut self, message: &Message, room: bool) {
        let (topic, number) = (&message.topic, message.sequence);
        // A topic's name is one allocation as long as the topic lives, so comparing pointers is enough.
        let same = self.ranges.iter_mut().rev().find(|range| Arc::ptr_eq(&range.topic, topic));
        if let Some(range) = same
            && range.last.next() == number
        {
            range.last = number;
        } else if room {
            self.ranges.push(Range { topic: Arc::clone(topic), first: number, last: number });
        }
    }

    /// The first number of each range.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = (&Arc<str>, Sequence)> {
        self.ranges.iter().map(|range| (&range.topic, range.first))
    }

    /// Removes all ranges and returns them as gaps for the subscriber.
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
