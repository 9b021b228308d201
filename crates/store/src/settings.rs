//! The settings of the store. Every number has a name and a unit.

use std::time::Duration;

/// When writes are synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Before they are acknowledged.
    #[default]
    Always,
    /// Within this interval. A power failure may lose what was acknowledged in the last interval; a crash of
    /// the broker loses nothing.
    Interval(Duration),
    /// When the operating system decides. A power failure may lose half a minute; a crash of the broker loses
    /// nothing.
    Os,
}

/// The settings of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// When to sync.
    pub sync: Sync,
    /// A batch that would begin beyond this size of its segment begins a new segment.
    pub segment_bytes: u64,
    /// The number of spare segments. One is prepared ahead, so that an append touches no metadata; up to this
    /// many are kept for reuse when a snapshot releases them. Zero disables both.
    pub spare_segments: usize,
    /// A batch of this size should be sealed.
    pub batch_bytes: usize,
    /// The next snapshot is due after this much journal since the last one, or after the size of the last one
    /// if that is larger.
    pub snapshot_bytes: u64,
    /// How many tasks one turn adds to a snapshot.
    pub snapshot_slice: usize,
    /// A segment is cleaned when less than this share of it is alive.
    pub clean_below_percent: u64,
    /// How many bytes one turn of cleaning moves, not counting the blob that exceeds the limit.
    pub clean_slice_bytes: usize,
    /// The memory for the newest frames, for workers that get their tasks at once.
    pub cache_bytes: usize,
    /// Events kept, by count and by age.
    pub events_kept: u64,
    /// How long events are kept.
    pub events_kept_for: Duration,
    /// Seeds the salts of segments, so that clients cannot forge frames. Passed in, because the store has no
    /// randomness.
    pub seed: u64,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings {
            sync: Sync::default(),
            segment_bytes: 64 << 20,
            spare_segments: 2,
            batch_bytes: 1 << 20,
            snapshot_bytes: 128 << 20,
            snapshot_slice: 1000,
            clean_below_percent: 50,
            clean_slice_bytes: 256 << 10,
            cache_bytes: 8 << 20,
            events_kept: 1_000_000,
            events_kept_for: Duration::from_secs(7 * 24 * 3600),
            seed: 0,
        }
    }
}

/// A broker counts as busy once it has filled one part in this many of a segment since its start.
const BUSY_FROM_ONE_IN: u64 = 32;

impl StoreSettings {
    /// Once an unprepared segment holds this much, preparing the next one is worthwhile.
    pub(crate) fn busy_bytes(&self) -> u64 {
        self.segment_bytes / BUSY_FROM_ONE_IN
    }

    /// How many zeros extend an unprepared segment: an append into allocated blocks has about half as much to
    /// sync. It is not more, because a start waits for them to be written, and the next start scans them.
    pub(crate) fn longer_by(&self) -> u64 {
        // A prepared segment is created while the second half of them is used up.
        2 * self.busy_bytes()
    }
}
