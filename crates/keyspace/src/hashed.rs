//! Bytes ordered by their hash, for tables that SCAN walks: a cursor is a hash, so added and removed keys do
//! not move the others.

use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hashed {
    pub(crate) hash: u64,
    pub(crate) bytes: Bytes,
}

/// Cursors stay below this many bits: some clients keep them in a floating point number.
pub(crate) const CURSOR_BITS: u32 = 48;

impl Hashed {
    pub(crate) fn new(bytes: &Bytes) -> Hashed {
        Hashed { hash: hash(bytes), bytes: bytes.clone() }
    }

    /// The first position with this hash or a higher one.
    pub(crate) fn from_cursor(cursor: u64) -> Hashed {
        Hashed { hash: cursor, bytes: Bytes::new() }
    }
}

/// FNV-1a, folded. Collisions only make comparisons longer, so it need not resist attacks. It must stay the
/// same, because a client may hold a cursor while the broker restarts.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Zero is the cursor of a new scan.
    (hash >> (64 - CURSOR_BITS)).max(1)
}
