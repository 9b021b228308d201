//! Frames: one per batch, checksummed, each with its own position.
//!
//! ```text
//!  0        4        8        12       16                24                32                40       44       48
//! | magic  | blobs  | page   | events | position        | first event     | synced up to    | crc    | crc    | blobs … page …
//!            bytes    bytes    count                                                           payload  header
//! ```
//!
//! *Synced up to* is the position that the writer knew to be synced when it wrote the frame. After a crash it tells
//! whether a bad frame before this one had been synced (then it is damage) or not (then it is a torn tail).

use bytes::{Bytes, BytesMut};
use crc32c::{crc32c, crc32c_append};
use tenure_engine::Blob;

pub(crate) const FRAME_MAGIC: [u8; 4] = *b"tnF1";
pub(crate) const FRAME_HEADER_BYTES: usize = 48;
/// The checksum after every blob in a frame.
pub(crate) const BLOB_CRC_BYTES: usize = 4;
/// The longest frame a reader accepts.
pub const FRAME_BYTES_MAX: u64 = 1 << 30;

/// A sealed batch: a self-contained value with a position, ready to be written.
#[derive(Debug)]
pub struct JournalFrame {
    /// The header (filled in by the writer), the blobs, the page of records.
    pub(crate) bytes: BytesMut,
    pub(crate) blob_bytes: u32,
    pub(crate) events: u32,
    pub(crate) position: u64,
    pub(crate) first_event: u64,
    /// The position at which the segment of this frame starts.
    pub(crate) segment: u64,
}

impl JournalFrame {
    /// Where the frame begins in the journal.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The position of the next frame: once the journal is synced up to here, this frame is synced.
    pub fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    /// The number of the first event after this frame.
    pub fn next_event(&self) -> u64 {
        self.first_event + u64::from(self.events)
    }

    /// Fills in the header.
    pub(crate) fn finish(&mut self, salt: u32, synced: u64) {
        let payload = &self.bytes[FRAME_HEADER_BYTES..];
        let header = FrameHeader {
            blob_bytes: self.blob_bytes,
            page_bytes: payload.len() as u32 - self.blob_bytes,
            events: self.events,
            position: self.position,
            first_event: self.first_event,
            synced,
            payload_crc: crc32c(payload),
        };
        self.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode(salt));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) blob_bytes: u32,
    pub(crate) page_bytes: u32,
    pub(crate) events: u32,
    pub(crate) position: u64,
    pub(crate) first_event: u64,
    pub(crate) synced: u64,
    pub(crate) payload_crc: u32,
}

impl FrameHeader {
    /// The salt belongs to the segment: a frame left from an earlier use of the file, or one that a client
    /// put into a task's body, does not pass for a frame of this segment.
    pub(crate) fn encode(&self, salt: u32) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4..8].copy_from_slice(&self.blob_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.events.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_event.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.synced.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c_append(salt, &bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], salt: u32) -> Option<FrameHeader> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..4] != FRAME_MAGIC || word(44) != crc32c_append(salt, &bytes[..44]) {
            return None;
        }
        Some(FrameHeader {
            blob_bytes: word(4),
            page_bytes: word(8),
            events: word(12),
            position: long(16),
            first_event: long(24),
            synced: long(32),
            payload_crc: word(40),
        })
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        u64::from(self.blob_bytes) + u64::from(self.page_bytes)
    }

    pub(crate) fn frame_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + self.payload_bytes()
    }

    pub(crate) fn end(&self) -> u64 {
        self.position + self.frame_bytes()
    }

    pub(crate) fn next_event(&self) -> u64 {
        self.first_event + u64::from(self.events)
    }
}

/// The checksum covers the position too: valid bytes at another position are not the requested blob.
pub(crate) fn blob_crc(at: u64, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&at.to_le_bytes()), bytes)
}

/// Extracts a blob from the bytes read at its position, which include its checksum.
pub(crate) fn checked_blob(blob: Blob, mut read: Bytes) -> Option<Bytes> {
    let stored = read.split_off(blob.bytes() as usize);
    let stored = u32::from_le_bytes(stored.as_ref().try_into().ok()?);
    (stored == blob_crc(blob.at(), &read)).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_only_under_its_own_salt() {
        let header = FrameHeader {
            blob_bytes: 1,
            page_bytes: 2,
            events: 3,
            position: 4,
            first_event: 5,
            synced: 6,
            payload_crc: 7,
        };
        let bytes = header.encode(99);
        assert_eq!(FrameHeader::decode(&bytes, 99), Some(header));
        assert_eq!(FrameHeader::decode(&bytes, 98), None);
        for at in 0..bytes.len() {
            let mut flipped = bytes;
            flipped[at] ^= 1;
            assert_eq!(FrameHeader::decode(&flipped, 99), None, "byte {at}");
        }
    }
}
