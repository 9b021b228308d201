//! Places in a replicated journal. A position alone does not tell two journals apart; the chain, a checksum of
//! everything before the position, does.

use crc32c::crc32c_append;

use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, JournalFrame};

/// A position, and the checksum of all portable frames before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// How many bytes are before it.
    pub position: u64,
    /// The CRC-32C of these bytes.
    pub chain: u32,
}

impl Place {
    /// The place after these portable frames.
    pub fn after(self, bytes: &[u8]) -> Place {
        Place { position: self.position + bytes.len() as u64, chain: crc32c_append(self.chain, bytes) }
    }
}

/// Frames that are appended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameGroup {
    /// The place before the first frame.
    pub start: Place,
    /// The place after the last frame.
    pub end: Place,
    /// The portable frames, one after the other.
    pub bytes: Vec<u8>,
}

impl FrameGroup {
    pub(crate) fn new(start: Place) -> FrameGroup {
        FrameGroup { start, end: start, bytes: Vec::new() }
    }

    pub(crate) fn add(&mut self, frame: &[u8]) {
        self.end = self.end.after(frame);
        self.bytes.extend_from_slice(frame);
    }

    /// Whether the chunk has no frames.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A chunk of frames as the database holds it. The beginning of a segment is a chunk without bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGroup {
    /// The start of its segment.
    pub segment: u64,
    /// The position before its first frame.
    pub start: u64,
    /// The place after its last frame.
    pub end: Place,
    /// The epoch that appended it.
    pub epoch: u64,
    /// The portable frames, one after the other.
    pub bytes: Vec<u8>,
}

impl JournalFrame {
    /// The frame as it is in a replicated journal: without the salt of a file, and without a claim about what a
    /// disk has synced.
    pub(crate) fn portable(&mut self) -> &[u8] {
        self.finish(0, 0);
        &self.bytes
    }
}

/// The next portable frame of a chunk: its header and the whole of its bytes. `None` if the bytes are no frame.
pub(crate) fn next_portable(bytes: &[u8]) -> Option<(FrameHeader, &[u8])> {
    let header = FrameHeader::decode(bytes, 0)?;
    let end = usize::try_from(header.frame_bytes()).ok()?;
    Some((header, bytes.get(..end)?))
}

/// The frame with the header of a local segment.
pub(crate) fn localized(header: FrameHeader, portable: &[u8], salt: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(portable.len());
    bytes.extend_from_slice(&FrameHeader { synced: 0, ..header }.encode(salt));
    bytes.extend_from_slice(&portable[FRAME_HEADER_BYTES..]);
    bytes
}

/// The same back: a frame of a local segment as it is in a replicated journal.
pub(crate) fn portable_of(header: FrameHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&FrameHeader { synced: 0, ..header }.encode(0));
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc32c::crc32c;

    #[test]
    fn a_frame_keeps_its_payload_and_its_position_in_every_file() {
        let payload = b"payload";
        let header = FrameHeader {
            blob_bytes: 3,
            page_bytes: 4,
            events: 1,
            position: 900,
            first_event: 5,
            synced: 800,
            payload_crc: crc32c(payload),
        };
        let portable = portable_of(header, payload);
        let (read, whole) = next_portable(&portable).expect("a portable frame");
        assert_eq!((read.position, read.synced, whole), (900, 0, &portable[..]));
        let local = localized(read, whole, 77);
        assert_eq!(FrameHeader::decode(&local, 77), Some(FrameHeader { synced: 0, ..header }));
        assert_eq!(FrameHeader::decode(&local, 0), None, "a local frame has the salt of its file");
        assert_eq!(portable_of(FrameHeader::decode(&local, 77).unwrap(), payload), portable);
        assert!(next_portable(&portable[..portable.len() - 1]).is_none(), "a torn frame is none");
    }

    #[test]
    fn the_chain_does_not_depend_on_how_frames_are_grouped() {
        let start = Place { position: 100, chain: 9 };
        let mut one = FrameGroup::new(start);
        one.add(b"first");
        one.add(b"second");
        assert_eq!(one.end, start.after(b"first").after(b"second"));
        assert_eq!(one.end, start.after(b"firstsecond"));
        assert_ne!(one.end.chain, Place { chain: 8, ..start }.after(b"firstsecond").chain);
    }
}
