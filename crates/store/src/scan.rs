//! Scans the frames of one segment, front to back. The caller decides what a bad frame means.

use crc32c::crc32c;

use crate::error::{IoContext, StoreError};
use crate::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader};
use crate::segment::Segment;

const WINDOW_BYTES: usize = 1 << 20;
const SMALL_WINDOW_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Scan<'a> {
    segment: &'a Segment,
    /// The position of the next frame.
    at: u64,
    /// No frame extends past this position.
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    window_bytes: usize,
}

/// The finding of a scan at a position.
#[derive(Debug)]
pub(crate) enum Found<'w> {
    Frame(FrameHeader, &'w [u8]),
    /// Only zeros, or the end.
    End,
    Bad(&'static str),
}

impl<'a> Scan<'a> {
    /// Scans from `from`, a frame boundary, to `end` or the end of the file.
    pub(crate) fn new(segment: &'a Segment, from: u64, end: u64) -> Result<Scan<'a>, StoreError> {
        let end = end.min(segment.file_end()?);
        Ok(Scan { segment, at: from, end, window: Vec::new(), window_at: from, window_bytes: WINDOW_BYTES })
    }

    /// Reads in smaller pieces, for callers that need little.
    pub(crate) fn in_small_pieces(self) -> Scan<'a> {
        Scan { window_bytes: SMALL_WINDOW_BYTES, ..self }
    }

    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// The next frame; the scan then stands after it. Anything else leaves the scan where it is.
    pub(crate) fn next(&mut self) -> Result<Found<'_>, StoreError> {
        if self.at >= self.end {
            return Ok(Found::End);
        }
        if self.end - self.at < FRAME_HEADER_BYTES as u64 {
            return Ok(Found::Bad("the file ends within the header of a frame"));
        }
        self.fill(FRAME_HEADER_BYTES)?;
        let index = (self.at - self.window_at) as usize;
        let Some(header) = FrameHeader::decode(&self.window[index..], self.segment.salt) else {
            let zeros = self.window[index..index + FRAME_HEADER_BYTES].iter().all(|byte| *byte == 0);
            return Ok(if zeros { Found::End } else { Found::Bad("the header of a frame is wrong") });
        };
        if header.position != self.at {
            return Ok(Found::Bad("a frame is not at its own position"));
        }
        if header.frame_bytes() > FRAME_BYTES_MAX || header.end() > self.end {
            return Ok(Found::Bad("a frame is longer than the file"));
        }
        self.fill(header.frame_bytes() as usize)?;
        let start = (self.at - self.window_at) as usize + FRAME_HEADER_BYTES;
        let payload = &self.window[start..start + header.payload_bytes() as usize];
        if crc32c(payload) != header.payload_crc {
            return Ok(Found::Bad("the checksum of a frame is wrong"));
        }
        self.at = header.end();
        Ok(Found::Frame(header, payload))
    }

    /// Skips bytes that are not a frame.
    pub(crate) fn skip_to(&mut self, position: u64) {
        self.at = position;
    }

    /// The next position at or after `from` with the magic number of a frame.
    pub(crate) fn find_magic(&mut self, from: u64) -> Result<Option<u64>, StoreError> {
        self.at = from;
        loop {
            if self.end < self.at + FRAME_HEADER_BYTES as u64 {
                return Ok(None);
            }
            self.fill(FRAME_HEADER_BYTES)?;
            let seen = &self.window[(self.at - self.window_at) as usize..];
            match memchr::memmem::find(seen, &FRAME_MAGIC) {
                Some(index) => {
                    self.at += index as u64;
                    return Ok(Some(self.at));
                }
                None => self.at += (seen.len() - FRAME_MAGIC.len() + 1) as u64,
            }
        }
    }

    /// Loads `count` bytes from the current position into the window. The caller knows that they exist.
    fn fill(&mut self, count: usize) -> Result<(), StoreError> {
        let index = (self.at - self.window_at) as usize;
        if index + count <= self.window.len() {
            return Ok(());
        }
        // The rest of the window moves to its front, and the read appends to it.
        let kept = self.window.len().saturating_sub(index);
        if kept > 0 {
            self.window.copy_within(index.., 0);
        }
        self.window_at = self.at;
        let want = count.max(self.window_bytes).min((self.end - self.at) as usize);
        self.window.resize(want.max(kept), 0);
        let offset = self.segment.offset(self.at + kept as u64);
        let read = self
            .segment
            .file
            .read_at(&mut self.window[kept..], offset)
            .doing("reading", &self.segment.name)?;
        self.window.truncate(kept + read);
        if self.window.len() < count {
            let source = std::io::ErrorKind::UnexpectedEof.into();
            return Err(StoreError::Io { doing: "reading", file: self.segment.name.clone(), source });
        }
        Ok(())
    }
}

/// Whether a frame after the bad one at `bad` was written when the bad one was already synced. Then the bad
/// one is damage; else its write was still pending when the power failed.
pub(crate) fn synced_frame_behind(segment: &Segment, bad: u64) -> Result<bool, StoreError> {
    let mut scan = Scan::new(segment, bad, u64::MAX)?;
    let mut from = bad + 1;
    while let Some(at) = scan.find_magic(from)? {
        if let Found::Frame(header, _) = scan.next()?
            && header.synced > bad
        {
            return Ok(true);
        }
        from = at + 1;
    }
    Ok(false)
}

/// The next valid frame after a bad one.
pub(crate) fn next_frame_behind(segment: &Segment, bad: u64) -> Result<Option<FrameHeader>, StoreError> {
    frame_behind(segment, bad, |_| true)
}

/// The next valid frame after a bad one that satisfies the condition.
pub(crate) fn frame_behind(
    segment: &Segment,
    bad: u64,
    is_wanted: impl Fn(&FrameHeader) -> bool,
) -> Result<Option<FrameHeader>, StoreError> {
    let mut scan = Scan::new(segment, bad, u64::MAX)?;
    let mut from = bad + 1;
    while let Some(at) = scan.find_magic(from)? {
        if let Found::Frame(header, _) = scan.next()?
            && is_wanted(&header)
        {
            return Ok(Some(header));
        }
        from = at + 1;
    }
    Ok(None)
}
