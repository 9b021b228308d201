//! The first bytes of every file: what it is, and in which version of the format.
//!
//! ```text
//!  0                8        12       16                24                32       36       40
//! | magic          | version| salt   | number          | number          | zero   | crc    |
//! ```

use crc32c::crc32c;

use crate::disk::DiskFile;
use crate::error::{Damage, IoContext, StoreError};

pub(crate) const HEADER_BYTES: usize = 40;
pub(crate) const VERSION: u32 = 2;
/// Files of every version from this one on can be read: a newer one only adds codes.
const OLDEST_VERSION: u32 = 1;

pub(crate) const JOURNAL_MAGIC: [u8; 8] = *b"tenureJL";
pub(crate) const SNAPSHOT_MAGIC: [u8; 8] = *b"tenureSN";
pub(crate) const TOPICS_MAGIC: [u8; 8] = *b"tenureTP";
pub(crate) const KEYS_MAGIC: [u8; 8] = *b"tenureKY";
pub(crate) const HIGH_WATER_MAGIC: [u8; 8] = *b"tenureHW";
pub(crate) const EVENTS_MAGIC: [u8; 8] = *b"tenureEV";

/// The header of a file. The meaning of the numbers depends on the file: see the module of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) magic: [u8; 8],
    pub(crate) salt: u32,
    pub(crate) numbers: [u64; 2],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.magic);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.salt.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.numbers[0].to_le_bytes());
        bytes[24..32].copy_from_slice(&self.numbers[1].to_le_bytes());
        let crc = crc32c(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` unless the bytes are a valid header of this kind and version.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], magic: [u8; 8]) -> Option<Header> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let whole = bytes[..8] == magic && is_known(word(8)) && word(36) == crc32c(&bytes[..36]);
        whole.then(|| Header { magic, salt: word(12), numbers: [long(16), long(24)] })
    }

    /// Reads and checks a header. It checks the version before the checksum, because a later version may
    /// compute the checksum differently.
    pub(crate) fn read(file: &dyn DiskFile, name: &str, magic: [u8; 8]) -> Result<Header, StoreError> {
        let mut bytes = [0; HEADER_BYTES];
        let count = file.read_at(&mut bytes, 0).doing("reading", name)?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if count < HEADER_BYTES {
            return Err(Damage::new(name, count as u64, "it ends within its header").into());
        }
        if bytes[..8] != magic {
            return Err(Damage::new(name, 0, "it does not begin with the mark of its kind").into());
        }
        if !is_known(word(8)) && word(36) == crc32c(&bytes[..36]) {
            return Err(StoreError::Version { file: name.to_owned(), found: word(8), known: VERSION });
        }
        Header::decode(&bytes, magic)
            .ok_or_else(|| Damage::new(name, 0, "the checksum of its header is wrong").into())
    }
}

fn is_known(version: u32) -> bool {
    (OLDEST_VERSION..=VERSION).contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_every_earlier_version_is_read_and_none_of_a_later_one() {
        let header = Header { magic: JOURNAL_MAGIC, salt: 7, numbers: [1, 2] };
        for (version, is_read) in [(0, false), (1, true), (VERSION, true), (VERSION + 1, false)] {
            let mut bytes = header.encode();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = crc32c(&bytes[..36]);
            bytes[36..].copy_from_slice(&crc.to_le_bytes());
            let read = Header::decode(&bytes, JOURNAL_MAGIC);
            assert_eq!(read.is_some(), is_read, "version {version}");
        }
    }
}
