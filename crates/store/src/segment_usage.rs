//! Live bytes of bodies and results per segment. A segment without any is not needed after the next snapshot;
//! one with few is worth cleaning.

use std::collections::BTreeMap;

use tenure_engine::Blob;

use crate::frame::BLOB_CRC_BYTES;

/// The approximate overhead of a blob in its segment: its record and its share of the frame's header.
const BESIDE_BYTES: u64 = 48;

#[derive(Debug, Default)]
pub(crate) struct SegmentUsage {
    /// By the start position of the segment.
    segments: BTreeMap<u64, SegmentEntry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SegmentEntry {
    /// Where the segment ends; the last one has no end yet.
    end: Option<u64>,
    live_bytes: u64,
    live_blobs: u64,
}

/// The live bytes of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveBytes {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blobs: u64,
}

impl LiveBytes {
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn live_percent(&self) -> u64 {
        self.live_bytes * 100 / self.bytes().max(1)
    }
}

impl SegmentUsage {
    pub(crate) fn open_segment(&mut self, start: u64) {
        self.segments.entry(start).or_default();
    }

    pub(crate) fn close_segment(&mut self, start: u64, end: u64) {
        self.segments.entry(start).or_default().end = Some(end);
    }

    pub(crate) fn forget_segment(&mut self, start: u64) {
        self.segments.remove(&start);
    }

    pub(crate) fn alive(&mut self, blob: Blob) {
        if let Some(account) = self.account(blob) {
            account.live_bytes += weight(blob);
            account.live_blobs += 1;
        }
    }

    /// Counts a blob that was written earlier as live. Returns `false` if it is in no segment.
    pub(crate) fn still_alive(&mut self, blob: Blob) -> bool {
        let end = blob.at() + u64::from(blob.bytes()) + BLOB_CRC_BYTES as u64;
        let Some(account) = self.account(blob) else { return blob.is_empty() };
        account.live_bytes += weight(blob);
        account.live_blobs += 1;
        account.end.is_none_or(|known| end <= known)
    }

    pub(crate) fn dead(&mut self, blob: Blob) {
        if let Some(account) = self.account(blob) {
            account.live_bytes = account.live_bytes.saturating_sub(weight(blob));
            account.live_blobs = account.live_blobs.saturating_sub(1);
        }
    }

    /// Subtracts blobs of the open batch that were rolled back: their number, and their bytes with checksums.
    pub(crate) fn take_back(&mut self, segment: u64, blobs: u64, bytes: u64) {
        if let Some(account) = self.segments.get_mut(&segment) {
            account.live_bytes = account.live_bytes.saturating_sub(bytes + blobs * BESIDE_BYTES);
            account.live_blobs = account.live_blobs.saturating_sub(blobs);
        }
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.values().map(|account| account.live_bytes).sum()
    }

    /// The segments that end at or before `position`, oldest first.
    pub(crate) fn before(&self, position: u64) -> impl Iterator<Item = LiveBytes> {
        let balances = self.segments.iter().filter_map(|(start, account)| {
            let SegmentEntry { live_bytes, live_blobs, .. } = *account;
            Some(LiveBytes { start: *start, end: account.end?, live_bytes, live_blobs })
        });
        balances.filter(move |live| live.end <= position)
    }

    fn account(&mut self, blob: Blob) -> Option<&mut SegmentEntry> {
        if blob.is_empty() {
            return None;
        }
        self.segments.range_mut(..=blob.at()).next_back().map(|(_, account)| account)
    }
}

fn weight(blob: Blob) -> u64 {
    u64::from(blob.bytes()) + BLOB_CRC_BYTES as u64 + BESIDE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_empty_when_its_last_blob_dies() {
        let mut segment_usage = SegmentUsage::default();
        segment_usage.close_segment(0, 1000);
        segment_usage.close_segment(1000, 3000);
        segment_usage.open_segment(3000);
        let (first, second) = (Blob::new(100, 500), Blob::new(1200, 900));
        segment_usage.alive(first);
        segment_usage.alive(second);
        segment_usage.dead(first);
        let balances: Vec<_> = segment_usage.before(3000).map(|live| (live.start, live.live_blobs)).collect();
        assert_eq!(balances, [(0, 0), (1000, 1)]);
        assert_eq!(segment_usage.before(2999).count(), 1, "the second ends at 3000");
        segment_usage.dead(Blob::EMPTY);
        assert_eq!(segment_usage.live_bytes(), 952);
    }
}
