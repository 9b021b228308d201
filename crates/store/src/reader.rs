//! The reader: bodies, results and events, usable from any thread. It never waits for the writer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tenure_engine::Blob;

use crate::error::{Damage, ReadError, StoreError};
use crate::events::{EventDecoder, EventFile, Events};
use crate::frame::{BLOB_CRC_BYTES, checked_blob};
use crate::replicated::LeaderLease;
use crate::scan::{Found, Scan};
use crate::segment::Segment;
use crate::settings::Sync;
use crate::shared::Shared;

/// Reads blobs and events, from any thread.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) shared: Arc<Shared>,
    ahead: Arc<Mutex<ReadAhead>>,
}

/// The disk usage of the store, by kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The segments of the journal.
    pub journal_bytes: u64,
    /// How many segments there are.
    pub segments: u64,
    /// The newest snapshot.
    pub snapshot_bytes: u64,
    /// The event files.
    pub event_bytes: u64,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Reader {
        Reader { shared, ahead: Arc::default() }
    }

    /// The lease of a leader. Without a replicated journal there is none.
    pub fn lease(&self) -> Option<LeaderLease> {
        self.shared.leader.as_ref().map(|leader| leader.lease())
    }

    /// The bytes of a body or a result. Recent ones come from memory, others from the segment, where their
    /// checksum is verified.
    pub fn read(&self, blob: Blob) -> Result<Bytes, ReadError> {
        if let Some(bytes) = self.cached(blob) {
            return Ok(bytes);
        }
        let at = blob.at();
        if at >= self.shared.progress.acknowledged() {
            return Err(ReadError::Gone { at });
        }
        let segment = self.shared.segment_of(at).ok_or(ReadError::Gone { at })?;
        let wanted = blob.bytes() as usize + BLOB_CRC_BYTES;
        let found = self.read_ahead(&segment, at, wanted)?;
        if found.len() == wanted
            && let Some(bytes) = checked_blob(blob, found)
        {
            return Ok(bytes);
        }
        // The segment may have been deleted, and its file reused, since the lookup.
        if self.is_gone(&segment) {
            return Err(ReadError::Gone { at });
        }
        Err(Damage::new(&segment.name, segment.offset(at), "the checksum of a body or result is wrong")
            .into())
    }

    /// The bytes, if they are in memory. Never reads a file.
    pub fn cached(&self, blob: Blob) -> Option<Bytes> {
        if blob.is_empty() {
            return Some(Bytes::new());
        }
        self.shared.tail.read(blob)
    }

    /// The events from number `from` on, at most `max` of them.
    pub fn events(&self, from: u64, max: usize) -> Result<Events, ReadError> {
        loop {
            match self.find_events(from)? {
                EventPlace::Nowhere => return Ok(Events::Some { events: Vec::new(), next: from }),
                EventPlace::Gap { oldest } => return Ok(Events::Gap { oldest }),
                EventPlace::File(file) => {
                    let mut events = Vec::new();
                    file.read(&mut EventDecoder::default(), from, &mut |event| {
                        events.push(event);
                        events.len() < max
                    })?;
                    let next = from + events.len() as u64;
                    return Ok(Events::Some { events, next });
                }
                EventPlace::Segment(segment) => match self.events_in(&segment, from, max) {
                    Err(_) if self.is_gone(&segment) => {} // Its events are in a file by now.
                    other => return other,
                },
            }
        }
    }

    /// The position up to which everything is acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.shared.progress.acknowledged()
    }

    /// The number of the first event that is not acknowledged yet.
    pub fn next_event(&self) -> u64 {
        self.shared.progress.next_event()
    }

    /// The free space of the disk.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.shared.disk.free_bytes()
    }

    /// When the store syncs.
    pub fn sync_mode(&self) -> Sync {
        self.shared.settings.sync
    }

    /// The disk usage now.
    pub fn usage(&self) -> Usage {
        let files = self.shared.files.read().expect("no holder of the lock panics");
        let end = self.shared.progress.acknowledged();
        let ends = files.segments.keys().skip(1).copied().chain([end]);
        let lengths = files.segments.values().zip(ends).map(|(segment, end)| {
            // If the next segment was deleted, the file's own length gives its end.
            segment.file_end().unwrap_or(end).min(end).saturating_sub(segment.start)
        });
        Usage {
            journal_bytes: lengths.sum(),
            segments: files.segments.len() as u64,
            snapshot_bytes: files.snapshot.map_or(0, |snapshot| snapshot.bytes),
            event_bytes: files.events.iter().map(|file| file.bytes).sum(),
        }
    }

    fn is_gone(&self, segment: &Arc<Segment>) -> bool {
        let files = self.shared.files.read().expect("no holder of the lock panics");
        files.segments.get(&segment.start).is_none_or(|known| !Arc::ptr_eq(known, segment))
    }

    fn find_events(&self, from: u64) -> Result<EventPlace, ReadError> {
        if from >= self.next_event() {
            return Ok(EventPlace::Nowhere);
        }
        let files = self.shared.files.read().expect("no holder of the lock panics");
        let in_journal = files.snapshot.map_or(1, |snapshot| snapshot.first_event);
        if let Some(file) = files.events.iter().find(|file| file.end > from && file.end > file.first) {
            if file.first <= from {
                return Ok(EventPlace::File(file.clone()));
            }
            if from < in_journal {
                return Ok(EventPlace::Gap { oldest: file.first.min(in_journal) });
            }
        }
        if from < in_journal {
            return Ok(EventPlace::Gap { oldest: in_journal });
        }
        let found = files.segments.values().rev().find(|segment| segment.mark_before(from).is_some());
        Ok(found.map_or(EventPlace::Nowhere, |segment| EventPlace::Segment(segment.clone())))
    }

    fn events_in(&self, segment: &Segment, from: u64, max: usize) -> Result<Events, ReadError> {
        let mark = segment.mark_before(from).ok_or(ReadError::Gone { at: from })?;
        let end = self.shared.end_of_segment(segment.start).min(self.shared.progress.acknowledged());
        let (mut events, mut decoder) = (Vec::new(), EventDecoder::default());
        let mut scan = Scan::new(segment, mark.position, end)?.in_small_pieces();
        while events.len() < max {
            let position = scan.position();
            let damage = |why: &str| Damage::new(&segment.name, segment.offset(position), why);
            match scan.next()? {
                Found::Frame(header, _) if header.next_event() <= from => {}
                Found::Frame(header, _) if header.page_bytes == 0 && header.events > 0 => {
                    if events.is_empty() {
                        return Ok(Events::Gap { oldest: header.next_event() });
                    }
                    break;
                }
                Found::Frame(header, payload) => decoder
                    .frame(&header, payload, from, &mut |event| {
                        events.push(event);
                        events.len() < max
                    })
                    .map_err(|why| damage(&why.to_string()))?,
                Found::End => break,
                Found::Bad(why) => return Err(damage(why).into()),
            }
        }
        let next = from + events.len() as u64;
        Ok(Events::Some { events, next })
    }

    /// Reads a piece of a segment. Bodies that were submitted together are often delivered together, so
    /// sequential reads read ahead.
    fn read_ahead(&self, segment: &Arc<Segment>, at: u64, wanted: usize) -> Result<Bytes, ReadError> {
        let mut ahead = self.ahead.lock().expect("no holder of the lock panics");
        if let Some(found) = ahead.find(at, wanted) {
            return Ok(found);
        }
        let follows = at >= ahead.last_end && at - ahead.last_end < AHEAD_WITHIN_BYTES;
        ahead.last_end = at + wanted as u64;
        drop(ahead);
        let known_end = self.shared.end_of_segment(segment.start);
        let count = if follows { wanted.max(AHEAD_BYTES) } else { wanted };
        let count = count.min(known_end.saturating_sub(at) as usize);
        let mut bytes = vec![0; count];
        let read = segment.file.read_at(&mut bytes, segment.offset(at)).map_err(|source| {
            let file = segment.name.clone();
            ReadError::Io { file, source }
        })?;
        bytes.truncate(read);
        let bytes = Bytes::from(bytes);
        if count <= wanted {
            return Ok(bytes);
        }
        let found = Bytes::copy_from_slice(&bytes[..wanted.min(read)]);
        self.ahead.lock().expect("no holder of the lock panics").keep(at, bytes);
        Ok(found)
    }
}

enum EventPlace {
    Nowhere,
    Gap { oldest: u64 },
    File(Arc<EventFile>),
    Segment(Arc<Segment>),
}

const AHEAD_BYTES: usize = 128 << 10;
const AHEAD_WITHIN_BYTES: u64 = 64 << 10;
const AHEAD_PIECES: usize = 4;

/// The bytes read ahead. A position is never reused, so this buffer cannot become stale.
#[derive(Debug, Default)]
struct ReadAhead {
    pieces: VecDeque<(u64, Bytes)>,
    last_end: u64,
}

impl ReadAhead {
    fn find(&mut self, at: u64, wanted: usize) -> Option<Bytes> {
        let (position, piece) = self.pieces.iter().find(|(position, piece)| {
            *position <= at && at + wanted as u64 <= *position + piece.len() as u64
        })?;
        let start = (at - position) as usize;
        let found = Bytes::copy_from_slice(&piece[start..start + wanted]);
        self.last_end = at + wanted as u64;
        Some(found)
    }

    fn keep(&mut self, at: u64, piece: Bytes) {
        if self.pieces.len() == AHEAD_PIECES {
            self.pieces.pop_front();
        }
        self.pieces.push_back((at, piece));
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> ReadError {
        match error {
            StoreError::Damaged(damage) => ReadError::Damaged(damage),
            StoreError::Io { file, source, .. } | StoreError::Sync { file, source } => {
                ReadError::Io { file, source }
            }
            other => {
                ReadError::Io { file: "the store".to_owned(), source: io::Error::other(other.to_string()) }
            }
        }
    }
}
