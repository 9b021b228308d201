//! Files of the store: any bytes in the place of a journal segment or a snapshot are read or refused.

use crc32c::{crc32c, crc32c_append};
use tenure_engine::{Settings, Timestamp};
use tenure_store::{MemoryDisk, dump, verify};

const JOURNAL: &str = "journal-00000000000000000000";
const SNAPSHOT: &str = "snapshot-00000000000000127476";
const HEADER_BYTES: usize = 40;
/// Of a frame of the journal and of a block of a snapshot.
const PART_HEADER_BYTES: usize = 48;
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// If the first byte is odd, checksums are mended first: otherwise a fuzzer would get no further than them.
pub(crate) fn journal(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 {
        mend(&mut bytes);
    }
    read(JOURNAL, &bytes);
}

pub(crate) fn snapshot(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 {
        mend(&mut bytes);
    }
    read(SNAPSHOT, &bytes);
}

/// What an operator can do with a data directory that a broker does not start on.
fn read(name: &str, bytes: &[u8]) {
    let disk = MemoryDisk::new();
    disk.put(name, bytes);
    let _ = verify(&disk, Settings::default(), NOW);
    let _ = dump(&disk, &mut |_| ());
    assert_eq!(disk.content(name).as_deref(), Some(bytes), "reading changes nothing");
}

/// Gives the header and every frame or block the checksums that fit them.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    put(bytes, 36, crc32c(&bytes[..36]));
    let salt = word(bytes, 12);
    let mut at = HEADER_BYTES;
    while bytes.len() - at >= PART_HEADER_BYTES {
        let part = &mut bytes[at..];
        // A frame has two parts behind its header, a block one. The checksum of a header includes where it belongs.
        let (length, place) = match &part[..4] {
            b"tnF1" => (word(part, 4) as usize + word(part, 8) as usize, salt),
            b"tnB1" => (word(part, 12) as usize, crc32c(&(at as u64).to_le_bytes())),
            _ => return,
        };
        let end = PART_HEADER_BYTES + length;
        if end > part.len() {
            return;
        }
        put(part, 40, crc32c(&part[PART_HEADER_BYTES..end]));
        put(part, 44, crc32c_append(place, &part[..44]));
        at += end;
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(bytes: &mut [u8], at: usize, crc: u32) {
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}
