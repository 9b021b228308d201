//! What the store is told at its start. Every number has a name and a unit.

use std::time::Duration;

/// When what was written is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Before it is acknowledged.
    #[default]
    Always,
    /// Within this span. A power failure may lose what was acknowledged in the last one; a crash of the broker does
    /// not.
    Interval(Duration),
    /// When the operating system likes. A power failure may lose half a minute; a crash of the broker loses nothing.
    Os,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    pub sync: Sync,
    /// A batch that begins past this size of its segment begins a new one.
    pub segment_bytes: u64,
    /// Segments kept ready. One is prepared ahead, so that an append touches no metadata; so many are kept to be used
    /// again when a snapshot lets them go. With zero, none of this is done.
    pub spare_segments: usize,
    /// A batch of this size should be sealed.
    pub batch_bytes: usize,
    /// So much journal since the last snapshot (or the size of that snapshot, if it is larger) asks for the next one.
    pub snapshot_bytes: u64,
    /// How many tasks one turn adds to a snapshot.
    pub snapshot_slice: usize,
    /// A segment is cleaned when less than this share of it is alive.
    pub clean_below_percent: u64,
    /// How many bytes one turn of cleaning moves, besides the one blob that passes the limit.
    pub clean_slice_bytes: usize,
    /// The newest frames, kept in memory for the workers that get their tasks at once.
    pub cache_bytes: usize,
    /// Events kept, by count and by age.
    pub events_kept: u64,
    pub events_kept_for: Duration,
    /// Makes what marks a segment's frames unguessable; comes from outside, the store has no randomness.
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

/// A broker that has filled one part in so many of a segment since its start is a busy one.
const BUSY_FROM_ONE_IN: u64 = 32;

impl StoreSettings {
    /// So much in a segment that is not prepared makes preparing one worth while.
    pub(crate) fn busy_bytes(&self) -> u64 {
        self.segment_bytes / BUSY_FROM_ONE_IN
    }

    /// A segment that is not prepared is made longer by so many zeros: an append into blocks that exist has about half
    /// as much to sync. It is not more, because a start waits for them to be written, and the next one looks through
    /// them.
    pub(crate) fn longer_by(&self) -> u64 {
        // While the second half of them is used up, a prepared segment is made.
        2 * self.busy_bytes()
    }
}
