//! Messages that were sent to a subscriber and may not have been read: a socket buffers more than its reader took.
//!
//! ```text
//!   oldest ─▶ [ ranges by topic ] [ ranges by topic ] … [ in order ] [ in order ] ◀─ newest
//!              a segment covers up to a mebibyte         256 messages each
//! ```
//! A subscriber that resumes with one number is located by it: the oldest matching place counts, so nothing after it is
//! missed, whichever topic the number belongs to. Recent segments keep the order of the messages, so the place is
//! exact; older ones keep a range per topic, so the replay begins with their first message.
//!
//! The memory is bounded. A message that is followed by [`UNREAD_BYTES_MAX`] counts as read: no connection buffers that
//! much. Beyond [`UNCONFIRMED_RANGES_MAX`] ranges the oldest are dropped, and the subscriber learns that it may have
//! lost messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::delivery::{Delivery, DeliveryKind};
use crate::message::{MESSAGE_OVERHEAD_BYTES, Sequence};
use crate::saved::{SavedRange, SavedSegment};

/// The most that a connection buffers between the broker and the reading program: sockets, windows,
/// libraries.
pub const UNREAD_BYTES_MAX: u64 = 32 << 20;
/// How many ranges of numbers are kept per subscriber.
pub const UNCONFIRMED_RANGES_MAX: usize = 16_384;
/// The messages of a segment that keeps their order, and the number of such segments.
const SEGMENT_MESSAGES: u64 = 256;
const SEGMENTS_IN_ORDER: usize = 16;
/// The bytes that a segment covers, and its number of ranges if it has one per topic.
const SEGMENT_BYTES: u64 = 1 << 20;
const SEGMENT_RANGES: usize = 1_024;
/// The minimum size of a message on a wire besides its payload and texts.
const WIRE_OVERHEAD_BYTES: u64 = 16;

impl LastRead {
    /// Whether it says nothing.
    pub fn is_plain(&self) -> bool {
        *self == LastRead::Plain
    }
}

/// The deliveries of one subscriber, from the oldest that it may not have read.
#[derive(Debug, Default)]
pub struct Unconfirmed {
    segments: VecDeque<Segment>,
    ranges: usize,
    bytes: u64,
    /// How many bytes were sent after the last range that was dropped for lack of room.
    since_forgotten: Option<u64>,
    begins: LastRead,
}

/// The last number that the subscriber may have read when the oldest of these was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastRead {
    /// No message, or one that it has certainly read.
    #[default]
    Plain,
    /// It resumed with this number. If it gives the same number again, it has read nothing since.
    After(Sequence),
    /// It resumed without a number, so any number it gives may be from before.
    // The name in the files of earlier versions.
    #[serde(rename = "AfterAny")]
    UnknownNumber,
}

#[derive(Debug)]
struct Segment {
    ranges: Vec<Range>,
    in_order: bool,
    messages: u64,
    bytes: u64,
}

/// Consecutive numbers of a topic that were sent in sequence.
#[derive(Debug)]
struct Range {
    topic: Arc<str>,
    first: Sequence,
    last: Sequence,
    /// A retained value: the subscriber may name its number, and need not get it again.
    is_retained: bool,
}

/// Where a resuming subscriber has to continue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// For each topic, the first number that it may not have read.
    pub first: BTreeMap<Arc<str>, Sequence>,
    /// It has certainly read none of these.
    pub is_exact: bool,
    /// There may be more unread messages that are no longer remembered.
    pub is_incomplete: bool,
}

impl Unconfirmed {
    /// Clears everything: the subscriber has resumed, and continues after the number it gave.
    pub fn begin(&mut self, after: Option<Sequence>) {
        let begins = after.map_or(LastRead::UnknownNumber, LastRead::After);
        *self = Unconfirmed { begins, ..Unconfirmed::default() };
    }

    /// Remembers what was sent.
    pub fn sent(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            match delivery {
                Delivery::Message { kind, message } => {
                    let bytes = (message.cost() - MESSAGE_OVERHEAD_BYTES) as u64 + WIRE_OVERHEAD_BYTES;
                    let number = message.sequence;
                    self.add(&message.topic, number, number, bytes, *kind == DeliveryKind::Retained);
                }
                // A gap that the subscriber did not read has to be sent again.
                Delivery::Gap(gap) => {
                    self.add(&gap.topic, gap.first_missed, gap.last_missed, WIRE_OVERHEAD_BYTES, false);
                }
                Delivery::ReplayComplete(_) | Delivery::Warning(_) => {}
            }
        }
    }

    /// The subscriber has read these topics up to these numbers.
    pub fn confirm(&mut self, read: &BTreeMap<&str, Sequence>) {
        for segment in &mut self.segments {
            let before = segment.ranges.len();
            segment.ranges.retain_mut(|range| match read.get(&*range.topic) {
                Some(&last) if range.last <= last => false,
                Some(&last) => {
                    range.first = range.first.max(last.next());
                    true
                }
                None => true,
            });
            self.ranges -= before - segment.ranges.len();
        }
        while self.segments.front().is_some_and(|segment| segment.ranges.is_empty()) {
            self.forget_oldest();
        }
    }

    /// The messages that a subscriber that gives this number, or none, may not have read.
    pub fn unread(&self, last_read: Option<Sequence>) -> Unread {
        let mut places = self.places(last_read);
        let found = places.next();
        let is_only_one = places.next().is_none();
        let forgotten = self.since_forgotten.is_some();
        let is_empty = self.segments.iter().all(|segment| segment.ranges.is_empty());
        let mut unread = Unread {
            first: BTreeMap::new(),
            is_exact: match found {
                Some(place) => is_only_one && place.is_exact && !forgotten,
                None => is_empty && !forgotten,
            },
            is_incomplete: forgotten,
        };
        let place = found.unwrap_or_default();
        for (number, segment) in self.segments.iter().enumerate().skip(place.segment) {
            let skipped = if number == place.segment { place.range } else { 0 };
            for (index, range) in segment.ranges.iter().enumerate().skip(skipped) {
                let is_here = place.within && (number, index) == (place.segment, place.range);
                let first = last_read.filter(|_| is_here).map_or(range.first, Sequence::next);
                if !range.is_retained {
                    let known = unread.first.entry(Arc::clone(&range.topic)).or_insert(first);
                    *known = first.min(*known);
                }
            }
        }
        unread
    }

    /// The places where a subscriber that read this number last may be, oldest first.
    fn places(&self, last_read: Option<Sequence>) -> impl Iterator<Item = SentPlace> + '_ {
        let is_beginning = match self.begins {
            LastRead::Plain => false,
            LastRead::After(number) => last_read == Some(number),
            LastRead::UnknownNumber => last_read.is_some(),
        };
        let beginning = is_beginning.then_some(SentPlace { is_exact: true, ..SentPlace::default() });
        let ranges = self.segments.iter().enumerate().flat_map(|(segment, one)| {
            one.ranges.iter().enumerate().map(move |(number, range)| (segment, number, one, range))
        });
        let fitting = ranges.filter_map(move |(segment, number, one, range)| {
            let last = last_read.filter(|last| range.contains(*last))?;
            Some(if one.in_order {
                // After the range if the number is its last.
                let is_over = range.last == last;
                SentPlace { segment, range: number + usize::from(is_over), within: !is_over, is_exact: true }
            } else {
                SentPlace { segment, ..SentPlace::default() }
            })
        });
        beginning.into_iter().chain(fitting)
    }

    pub(crate) fn begins(&self) -> LastRead {
        self.begins
    }

    /// Everything as ranges, for a restart: in sending order as far as it is known, or by topic.
    pub(crate) fn save(&self, with_order: bool) -> Vec<SavedSegment> {
        let save = |range: &Range| SavedRange {
            topic: range.topic.as_ref().to_owned(),
            first: range.first,
            last: range.last,
        };
        if with_order {
            let segments = self.segments.iter().map(|segment| SavedSegment {
                in_order: segment.in_order,
                ranges: segment.ranges.iter().filter(|range| !range.is_retained).map(save).collect(),
            });
            return segments.collect();
        }
        let mut all: Vec<Range> = Vec::new();
        for segment in &self.segments {
            all.extend(segment.ranges.iter().map(Range::copy));
        }
        let ranges = by_topic(all);
        if ranges.is_empty() {
            return Vec::new();
        }
        vec![SavedSegment { in_order: false, ranges: ranges.iter().map(save).collect() }]
    }

    /// Restores what was saved. The number of bytes is unknown, so it stays until the subscriber resumes.
    pub(crate) fn restore(saved: Vec<SavedSegment>, begins: LastRead) -> Unconfirmed {
        let mut unconfirmed = Unconfirmed { begins, ..Unconfirmed::default() };
        for SavedSegment { in_order, ranges } in saved {
            unconfirmed.ranges += ranges.len();
            let restore = |range: SavedRange| Range {
                topic: Arc::from(range.topic),
                first: range.first,
                last: range.last,
                is_retained: false,
            };
            let ranges = ranges.into_iter().map(restore).collect();
            unconfirmed.segments.push_back(Segment { ranges, in_order, messages: 0, bytes: 0 });
        }
        unconfirmed
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges
    }

    fn add(&mut self, topic: &Arc<str>, first: Sequence, last: Sequence, bytes: u64, is_retained: bool) {
        if self.segments.back().is_none_or(Segment::is_full) {
            self.begin_segment();
        }
        let newest = self.segments.back_mut().expect("one has begun");
        newest.messages += 1;
        newest.bytes += bytes;
        self.bytes += bytes;
        match newest.ranges.last_mut() {
            Some(range)
                if Arc::ptr_eq(&range.topic, topic)
                    && range.last.next() == first
                    && range.is_retained == is_retained =>
            {
                range.last = last;
            }
            _ => {
                newest.ranges.push(Range { topic: Arc::clone(topic), first, last, is_retained });
                self.ranges += 1;
            }
        }
        self.since_forgotten =
            self.since_forgotten.map(|sent| sent + bytes).filter(|sent| *sent < UNREAD_BYTES_MAX);
        while let Some(oldest) = self.segments.front()
            && self.bytes - oldest.bytes >= UNREAD_BYTES_MAX
        {
            self.forget_oldest();
        }
        while self.ranges > UNCONFIRMED_RANGES_MAX && self.segments.len() > 1 {
            self.forget_oldest();
            self.since_forgotten = Some(self.bytes);
        }
    }

    fn begin_segment(&mut self) {
        let segment = Segment { ranges: Vec::new(), in_order: true, messages: 0, bytes: 0 };
        self.segments.push_back(segment);
        let Some(index) = self.segments.len().checked_sub(SEGMENTS_IN_ORDER + 1) else { return };
        let Some(mut old) = self.segments.remove(index) else { return };
        let before = old.ranges.len();
        let mut neighbour = index.checked_sub(1).and_then(|index| self.segments.get_mut(index));
        if let Some(older) = &mut neighbour
            && !older.in_order
            && older.bytes + old.bytes <= SEGMENT_BYTES
            && older.ranges.len() + before <= SEGMENT_RANGES
        {
            let before = before + older.ranges.len();
            older.ranges.append(&mut old.ranges);
            older.ranges = by_topic(std::mem::take(&mut older.ranges));
            older.bytes += old.bytes;
            older.messages += old.messages;
            self.ranges -= before - older.ranges.len();
            return;
        }
        old.ranges = by_topic(old.ranges);
        old.in_order = false;
        self.ranges -= before - old.ranges.len();
        self.segments.insert(index, old);
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.segments.pop_front() {
            self.ranges -= oldest.ranges.len();
            self.bytes -= oldest.bytes;
            self.begins = LastRead::Plain;
        }
    }
}

/// A position in what was sent: everything after it may be unread.
#[derive(Clone, Copy, Debug, Default)]
struct SentPlace {
    segment: usize,
    range: usize,
    /// The range itself is read up to the number.
    within: bool,
    is_exact: bool,
}

impl Segment {
    fn is_full(&self) -> bool {
        !self.in_order || self.messages >= SEGMENT_MESSAGES || self.bytes >= SEGMENT_BYTES
    }
}

impl Range {
    fn contains(&self, number: Sequence) -> bool {
        (self.first..=self.last).contains(&number)
    }

    fn copy(&self) -> Range {
        Range { topic: Arc::clone(&self.topic), ..*self }
    }
}

/// Merges into one range per topic, from its first number to its last. A retained value counts only for the
/// numbers before it.
fn by_topic(ranges: Vec<Range>) -> Vec<Range> {
    let mut topics: BTreeMap<Arc<str>, Range> = BTreeMap::new();
    for range in ranges.into_iter().filter(|range| !range.is_retained) {
        match topics.get_mut(&range.topic) {
            Some(known) => {
                known.first = known.first.min(range.first);
                known.last = known.last.max(range.last);
            }
            None => {
                topics.insert(Arc::clone(&range.topic), range);
            }
        }
    }
    topics.into_values().collect()
}
