//! The open batch: what the hub's turn adds to the journal before it is written. Bodies come first, so that a
//! body has its position before the engine runs the command; records follow. Sealing turns the batch into a
//! frame and opens the next one.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tenure_engine::{Blob, Change, Event};

use crate::codec::{Base, Dictionary, encode_record, put_varint};
use crate::frame::{BLOB_CRC_BYTES, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, JournalFrame, blob_crc};
use crate::segment_usage::SegmentUsage;
use crate::shared::Shared;

/// The open batch: records and blobs that go to the journal with the next frame.
#[derive(Debug)]
pub struct Batches {
    shared: Arc<Shared>,
    pub(crate) segment_usage: SegmentUsage,
    /// Space for the header, then the blobs.
    bytes: BytesMut,
    /// The records, and the dictionary they refer to.
    entries: Vec<u8>,
    book: Dictionary,
    base: Base,
    events: u32,
    blobs: u64,
    position: u64,
    segment: u64,
    /// The segment's file was filled with zeros or used before, so that appends to it change no metadata.
    prepared: bool,
    first_event: u64,
    /// How many batches have been sealed.
    sealed: u64,
}

/// A point in the open batch to roll back to.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct BatchMark {
    bytes: usize,
    entries: usize,
    events: u32,
    blobs: u64,
    sealed: u64,
}

impl Batches {
    pub(crate) fn new(
        shared: Arc<Shared>,
        segment_usage: SegmentUsage,
        position: u64,
        segment: u64,
        first_event: u64,
    ) -> Batches {
        let mut batches = Batches {
            shared,
            segment_usage,
            bytes: BytesMut::new(),
            entries: Vec::new(),
            book: Dictionary::default(),
            base: Base::default(),
            events: 0,
            blobs: 0,
            position,
            segment,
            prepared: false,
            first_event,
            sealed: 0,
        };
        batches.begin();
        batches
    }

    /// Adds a body or a result. It gets its final position at once and counts as live.
    pub fn blob(&mut self, bytes: &[u8]) -> Blob {
        if bytes.is_empty() {
            return Blob::EMPTY;
        }
        assert!(
            (self.len() + bytes.len()) as u64 <= FRAME_BYTES_MAX / 2,
            "{} bytes are too many",
            bytes.len()
        );
        let at = self.position + self.bytes.len() as u64;
        self.bytes.reserve(bytes.len() + BLOB_CRC_BYTES);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(&blob_crc(at, bytes).to_le_bytes());
        let blob = Blob::new(at, bytes.len() as u32);
        self.segment_usage.alive(blob);
        self.blobs += 1;
        blob
    }

    /// Adds a record. Its event must have the next number.
    pub fn record(&mut self, event: &Event, change: Change<'_>) {
        assert_eq!(event.seq, self.next_event(), "event numbers have no holes");
        if self.entries.is_empty() {
            self.base.time = event.at;
        }
        encode_record(&mut self.entries, &mut self.book, &self.base, Some(event), change);
        self.events += 1;
    }

    /// Adds a state without an event: the store has moved a task's bytes.
    pub fn restate(&mut self, change: Change<'_>) {
        if let (true, Change::Task { task, .. }) = (self.entries.is_empty(), change) {
            self.base.time = task.submitted_at;
        }
        encode_record(&mut self.entries, &mut self.book, &self.base, None, change);
    }

    /// Marks a body or a result as no longer needed: its task was dropped or has moved on.
    pub fn dead(&mut self, blob: Blob) {
        self.segment_usage.dead(blob);
    }

    /// The current end of the batch, for [`Batches::rollback`].
    pub fn mark(&self) -> BatchMark {
        BatchMark {
            bytes: self.bytes.len(),
            entries: self.entries.len(),
            events: self.events,
            blobs: self.blobs,
            sealed: self.sealed,
        }
    }

    /// Removes everything since the mark: the bodies of a refused submission. Their callers must no longer
    /// use the positions.
    pub fn rollback(&mut self, mark: BatchMark) {
        assert_eq!(mark.sealed, self.sealed, "a mark is good for its own batch");
        assert!(mark.events <= self.events && mark.bytes <= self.bytes.len(), "a mark is good once");
        self.entries.truncate(mark.entries);
        self.events = mark.events;
        self.segment_usage.take_back(
            self.segment,
            self.blobs - mark.blobs,
            (self.bytes.len() - mark.bytes) as u64,
        );
        self.blobs = mark.blobs;
        self.bytes.truncate(mark.bytes);
    }

    /// Whether the batch holds neither records nor blobs.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.bytes.len() == FRAME_HEADER_BYTES
    }

    /// The approximate size of the frame.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.entries.len() + self.book.len()
    }

    /// Whether the batch is large enough to be sealed now.
    pub fn is_full(&self) -> bool {
        self.len() >= self.shared.settings.batch_bytes
    }

    /// Where the open batch begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number the next event must have.
    pub fn next_event(&self) -> u64 {
        self.first_event + u64::from(self.events)
    }

    /// How many bytes of the journal hold live bodies and results.
    pub fn live_bytes(&self) -> u64 {
        self.segment_usage.live_bytes()
    }

    /// The number of the first event of the open batch, even if that event does not exist yet.
    pub(crate) fn first_event(&self) -> u64 {
        self.first_event
    }

    /// How much of its segment lies before the open batch.
    pub(crate) fn segment_used(&self) -> u64 {
        self.position - self.segment
    }

    /// Whether the segment is not prepared, and used enough to make preparing the next one worthwhile.
    pub(crate) fn wants_preparation(&self) -> bool {
        !self.prepared && self.segment_used() >= self.shared.settings.busy_bytes()
    }

    /// Seals the batch and opens the next one. `None` if the batch is empty.
    pub fn seal(&mut self) -> Option<JournalFrame> {
        if self.is_empty() {
            return None;
        }
        let blob_bytes = (self.bytes.len() - FRAME_HEADER_BYTES) as u32;
        let mut page = Vec::with_capacity(self.book.len() + 16);
        put_varint(&mut page, self.base.time.0);
        self.book.write(&mut page);
        self.bytes.reserve(page.len() + self.entries.len());
        self.bytes.extend_from_slice(&page);
        self.bytes.extend_from_slice(&self.entries);
        // Under load a batch is about as large as the one before, and a buffer that grows copies what it holds.
        let mut spare = self.shared.take_buffer();
        spare.clear();
        spare.reserve(self.bytes.len());
        let frame = JournalFrame {
            bytes: std::mem::replace(&mut self.bytes, spare),
            blob_bytes,
            events: self.events,
            position: self.position,
            first_event: self.first_event,
            segment: self.segment,
        };
        self.position = frame.end();
        self.first_event = frame.next_event();
        self.sealed += 1;
        self.begin();
        Some(frame)
    }

    /// A batch belongs to one segment, so this decides whether a new segment begins before it assigns the
    /// first position.
    fn begin(&mut self) {
        let used = self.segment_used();
        let full = used >= self.shared.settings.segment_bytes;
        // After a start the journal continues in a file whose blocks are not allocated yet. Under load, a
        // prepared segment is worth leaving that file early.
        let better = self.wants_preparation() && self.shared.spare_count() > 0;
        if full || better {
            self.segment_usage.close_segment(self.segment, self.position);
            self.segment = self.position;
            self.prepared = self.shared.spare_count() > 0;
        }
        self.segment_usage.open_segment(self.segment);
        self.bytes.clear();
        self.bytes.put_bytes(0, FRAME_HEADER_BYTES);
        self.entries.clear();
        self.book.clear();
        self.base = Base { event: self.first_event, place: self.position, ..Base::default() };
        self.events = 0;
        self.blobs = 0;
    }
}
