//! Filler frames: frames without records over lost bytes, so that positions and event numbers continue after
//! them.

use crc32c::crc32c_append;

use super::Work;
use crate::error::{Damage, IoContext, StoreError};
use crate::files;
use crate::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader};
use crate::segment::{Segment, SegmentRest, write_header};

/// The shortest frame.
pub(super) const FILLER_BYTES_MIN: u64 = FRAME_HEADER_BYTES as u64;
/// The salt of a segment that a repair has created.
const SALT: u32 = 1;

/// A range of lost positions and event numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) first_event: u64,
    pub(super) next_event: u64,
}

impl Lost {
    /// A range of bytes without events.
    pub(super) fn bytes(from: u64, to: u64) -> Lost {
        Lost { from, to, first_event: 0, next_event: 0 }
    }

    /// Whether a filler frame can cover it.
    pub(super) fn can_be_filled(&self) -> bool {
        self.to >= self.from + FILLER_BYTES_MIN
            && self.next_event >= self.first_event
            && u32::try_from(self.next_event - self.first_event).is_ok()
    }
}

impl Work<'_> {
    /// Covers bytes that are not a frame with a filler frame. Only its header is written: the rest stays, so
    /// that bodies among those bytes remain readable.
    pub(super) fn fill(&mut self, segment: &Segment, lost: Lost) -> Result<(), StoreError> {
        assert!(lost.can_be_filled(), "{lost:?} is too small for a frame");
        let name = &segment.name;
        if segment.file_end()? < lost.to {
            segment.file.set_len(segment.offset(lost.to)).doing("lengthening", name)?;
        }
        let (mut from, mut first_event) = (lost.from, lost.first_event);
        while from < lost.to {
            let mut bytes = (lost.to - from).min(FRAME_BYTES_MAX);
            // The rest must be long enough for another frame.
            if lost.to - from > bytes && lost.to - from - bytes < FILLER_BYTES_MIN {
                bytes -= FILLER_BYTES_MIN;
            }
            self.keep_range(segment, from, from + FILLER_BYTES_MIN)?;
            let header = FrameHeader {
                blob_bytes: (bytes - FILLER_BYTES_MIN) as u32,
                page_bytes: 0,
                events: (lost.next_event - first_event) as u32,
                position: from,
                first_event,
                synced: from,
                payload_crc: checksum(segment, from + FILLER_BYTES_MIN, from + bytes)?,
            };
            let offset = segment.offset(from);
            segment.file.write_at(&header.encode(segment.salt), offset).doing("writing", name)?;
            first_event = lost.next_event;
            from += bytes;
        }
        segment.file.sync().syncing(name)
    }

    /// An empty segment in place of a missing one.
    pub(super) fn stand_in(&mut self, lost: Lost) -> Result<Segment, StoreError> {
        let name = files::journal(lost.from);
        let file = self.disk.create(&name).doing("creating", &name)?;
        write_header(&*file, SALT, SegmentRest::Fresh).doing("writing", &name)?;
        file.sync().syncing(&name)?;
        let segment = Segment::new(lost.from, SALT, SegmentRest::Fresh, file);
        self.lengthen(&segment, lost)?;
        Ok(segment)
    }

    /// Extends the segment with zeros up to the end of the lost bytes, in a filler frame if there is room for
    /// one.
    pub(super) fn lengthen(&mut self, segment: &Segment, lost: Lost) -> Result<(), StoreError> {
        if lost.can_be_filled() {
            return self.fill(segment, lost);
        }
        segment.file.set_len(segment.offset(lost.to.max(lost.from))).doing("lengthening", &segment.name)?;
        segment.file.sync().syncing(&segment.name)
    }

    /// Opens a segment. Without its header none of its frames can be verified; bodies can, because they have
    /// their own checksums.
    pub(super) fn open_or_renew(&mut self, start: u64) -> Result<Segment, StoreError> {
        match Segment::open(self.disk, start) {
            Err(StoreError::Damaged(damage)) => self.renew_header(start, &damage),
            other => other,
        }
    }

    fn renew_header(&mut self, start: u64, damage: &Damage) -> Result<Segment, StoreError> {
        let name = files::journal(start);
        let file = self.disk.open(&name).doing("opening", &name)?;
        self.keep_whole(&name, &*file)?;
        write_header(&*file, SALT, SegmentRest::Fresh).doing("writing", &name)?;
        file.sync().syncing(&name)?;
        self.report(format!("{damage}. All records in it are lost; bodies in it have their own checksums"));
        Ok(Segment::new(start, SALT, SegmentRest::Fresh, file))
    }
}

fn checksum(segment: &Segment, from: u64, to: u64) -> Result<u32, StoreError> {
    let mut piece = vec![0; 1 << 20];
    let (mut crc, mut at) = (0, from);
    while at < to {
        let count = piece.len().min((to - at) as usize);
        let read =
            segment.file.read_at(&mut piece[..count], segment.offset(at)).doing("reading", &segment.name)?;
        crc = crc32c_append(crc, &piece[..read]);
        at += count as u64;
    }
    Ok(crc)
}
