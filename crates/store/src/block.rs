//! Blocks: the units of snapshots and event files. A block is a page with a checksummed header.
//!
//! ```text
//!  0        4        8        12       16                24                32                40       44       48
//! | magic  | kind   | count  | page   | base: time      | base: event     | base: place     | crc    | crc    | page …
//!                              bytes                                                           page     header
//! ```
//!
//! The header's checksum includes the block's offset, so a block at another offset does not pass for this one.

use crc32c::{crc32c, crc32c_append};
use tenure_engine::Timestamp;

use crate::codec::Base;
use crate::disk::DiskFile;
use crate::error::{Damage, IoContext, StoreError};

pub(crate) const BLOCK_HEADER_BYTES: usize = 48;
/// The longest block a reader accepts.
const BLOCK_BYTES_MAX: u32 = 1 << 28;
const BLOCK_MAGIC: [u8; 4] = *b"tnB1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Events = 1,
    Tasks = 2,
    Settings = 3,
    /// The last block of a snapshot: the totals of all others.
    Sum = 4,
}

/// A block without its offset in a file.
#[derive(Debug)]
pub(crate) struct SnapshotBlock {
    pub(crate) kind: BlockKind,
    pub(crate) count: u32,
    pub(crate) base: Base,
    pub(crate) page: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) kind: BlockKind,
    pub(crate) count: u32,
    pub(crate) base: Base,
    pub(crate) page_bytes: u32,
    page_crc: u32,
}

impl SnapshotBlock {
    pub(crate) fn bytes(&self) -> u64 {
        (BLOCK_HEADER_BYTES + self.page.len()) as u64
    }

    /// The bytes of the block at `offset` of its file.
    pub(crate) fn encode(&self, offset: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER_BYTES + self.page.len());
        bytes.extend_from_slice(&BLOCK_MAGIC);
        bytes.extend_from_slice(&(self.kind as u32).to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&(self.page.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.base.time.0.to_le_bytes());
        bytes.extend_from_slice(&self.base.event.to_le_bytes());
        bytes.extend_from_slice(&self.base.place.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&self.page).to_le_bytes());
        let crc = crc32c_append(crc32c(&offset.to_le_bytes()), &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&self.page);
        bytes
    }
}

impl BlockHeader {
    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Option<BlockHeader> {
        let bytes: &[u8; BLOCK_HEADER_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let crc = crc32c_append(crc32c(&offset.to_le_bytes()), &bytes[..44]);
        if bytes[..4] != BLOCK_MAGIC || word(44) != crc || word(12) > BLOCK_BYTES_MAX {
            return None;
        }
        let kind = match word(4) {
            1 => BlockKind::Events,
            2 => BlockKind::Tasks,
            3 => BlockKind::Settings,
            4 => BlockKind::Sum,
            _ => return None,
        };
        let base = Base { time: Timestamp(long(16)), event: long(24), place: long(32) };
        Some(BlockHeader { kind, count: word(8), base, page_bytes: word(12), page_crc: word(40) })
    }

    pub(crate) fn read(file: &dyn DiskFile, name: &str, offset: u64) -> Result<BlockHeader, StoreError> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let count = file.read_at(&mut bytes, offset).doing("reading", name)?;
        let header = if count == BLOCK_HEADER_BYTES { BlockHeader::decode(&bytes, offset) } else { None };
        header.ok_or_else(|| Damage::new(name, offset, "the header of a block is wrong").into())
    }

    /// Reads and checks the page that belongs to this header.
    pub(crate) fn read_page(
        &self,
        file: &dyn DiskFile,
        name: &str,
        offset: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let mut page = vec![0; self.page_bytes as usize];
        let count = file.read_at(&mut page, offset + BLOCK_HEADER_BYTES as u64).doing("reading", name)?;
        if count < page.len() || !self.is_of(&page) {
            return Err(Damage::new(name, offset, "the checksum of a block is wrong").into());
        }
        Ok(page)
    }

    /// Whether the checksum matches the page.
    pub(crate) fn is_of(&self, page: &[u8]) -> bool {
        crc32c(page) == self.page_crc
    }

    pub(crate) fn end(&self, offset: u64) -> u64 {
        offset + BLOCK_HEADER_BYTES as u64 + u64::from(self.page_bytes)
    }
}
