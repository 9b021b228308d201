//! A segment of the journal: one file, named by the position of its first byte. The frames follow the header
//! without gaps; after the last one there may be zeros or bytes from an earlier use of the file.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, StoreError, is_full};
use crate::files;
use crate::header::{HEADER_BYTES, Header, JOURNAL_MAGIC};

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) salt: u32,
    pub(crate) rest: SegmentRest,
    pub(crate) file: Arc<dyn DiskFile>,
    /// A sparse index of its frames by their first events, in order.
    marks: Mutex<Vec<FrameMark>>,
}

/// A frame at which to start searching for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameMark {
    pub(crate) first_event: u64,
    pub(crate) position: u64,
}

/// One mark per this many bytes: a reader scans up to this much to find an event.
const MARK_EVERY_BYTES: u64 = 256 << 10;

impl Segment {
    pub(crate) fn new(start: u64, salt: u32, rest: SegmentRest, file: Arc<dyn DiskFile>) -> Segment {
        Segment::named(files::journal(start), start, salt, rest, file)
    }

    pub(crate) fn named(
        name: String,
        start: u64,
        salt: u32,
        rest: SegmentRest,
        file: Arc<dyn DiskFile>,
    ) -> Segment {
        Segment { name, start, salt, rest, file, marks: Mutex::default() }
    }

    pub(crate) fn open(disk: &dyn Disk, start: u64) -> Result<Segment, StoreError> {
        Segment::open_named(disk, files::journal(start), start, JOURNAL_MAGIC)
    }

    pub(crate) fn open_named(
        disk: &dyn Disk,
        name: String,
        start: u64,
        magic: [u8; 8],
    ) -> Result<Segment, StoreError> {
        let file = disk.open(&name).doing("opening", &name)?;
        let header = Header::read(&*file, &name, magic)?;
        let rest = if header.numbers[0] == 0 { SegmentRest::Fresh } else { SegmentRest::Used };
        Ok(Segment::named(name, start, header.salt, rest, file))
    }

    /// Truncates the file at `position` and syncs what is before it.
    ///
    /// Bytes that no later frame confirms as synced are written again. They may exist only in the page cache:
    /// if an earlier process ended because a sync failed, the kernel considers those pages clean and would
    /// never write them.
    pub(crate) fn cut_and_rewrite(&self, synced: u64, position: u64) -> Result<(), StoreError> {
        let name = &self.name;
        self.file.set_len(self.offset(position)).doing("cutting", name)?;
        let mut at = synced.max(self.start);
        let mut bytes = vec![0; 1 << 20];
        while at < position {
            let count = bytes.len().min((position - at) as usize);
            let read = self.file.read_at(&mut bytes[..count], self.offset(at)).doing("reading", name)?;
            self.file.write_at(&bytes[..read], self.offset(at)).doing("writing", name)?;
            at += count as u64;
        }
        self.file.sync().syncing(name)
    }

    /// The file offset of a position.
    pub(crate) fn offset(&self, position: u64) -> u64 {
        position - self.start + HEADER_BYTES as u64
    }

    /// The position after the last byte of the file.
    pub(crate) fn file_end(&self) -> Result<u64, StoreError> {
        let len = self.file.len().doing("measuring", &self.name)?;
        Ok(self.start + len.saturating_sub(HEADER_BYTES as u64))
    }

    pub(crate) fn mark(&self, first_event: u64, position: u64) {
        let mut marks = self.marks.lock().expect("no holder of the lock panics");
        if marks.last().is_none_or(|last| position >= last.position + MARK_EVERY_BYTES) {
            marks.push(FrameMark { first_event, position });
        }
    }

    /// The last mark at or before the event, if the event can be in this segment.
    pub(crate) fn mark_before(&self, event: u64) -> Option<FrameMark> {
        let marks = self.marks.lock().expect("no holder of the lock panics");
        let after = marks.partition_point(|mark| mark.first_event <= event);
        after.checked_sub(1).map(|index| marks[index])
    }
}

/// The bytes that follow the frames of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentRest {
    /// Nothing, or zeros.
    Fresh,
    /// Bytes from an earlier use of the file.
    Used,
}

/// Writes the header of a segment whose position is not known yet.
pub(crate) fn write_header(file: &dyn DiskFile, salt: u32, rest: SegmentRest) -> io::Result<()> {
    let numbers = [u64::from(rest == SegmentRest::Used), 0];
    file.write_at(&Header { magic: JOURNAL_MAGIC, salt, numbers }.encode(), 0)
}

const FILL_BYTES: u64 = 1 << 20;

/// Writes zeros in pieces and syncs each before the next, so that the journal's own syncs never wait for all
/// of them.
pub(crate) fn fill(file: &dyn DiskFile, name: &str, range: Range<u64>) -> Result<(), StoreError> {
    let zeros = vec![0; FILL_BYTES.min(range.end.saturating_sub(range.start)) as usize];
    let mut offset = range.start;
    while offset < range.end {
        let count = FILL_BYTES.min(range.end - offset);
        file.write_at(&zeros[..count as usize], offset).doing("writing", name)?;
        file.sync().syncing(name)?;
        offset += count;
    }
    Ok(())
}

/// Appends zeros to a file, if the disk has room for them.
pub(crate) fn lengthen(file: &dyn DiskFile, name: &str, end: u64, by: u64) -> Result<(), StoreError> {
    match fill(file, name, end..end + by) {
        Err(StoreError::Io { source, .. }) if is_full(&source) => {
            file.set_len(end).doing("cutting back", name)
        }
        other => other,
    }
}
