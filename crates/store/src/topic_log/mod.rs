//! The topic log: the durable state of pub/sub, in files of its own, so that neither tasks nor topics ever wait for
//! the other's disk writes.
//!
//! The log stores rows and messages and does not interpret them. A **row** is a key with its latest value; a
//! **message** is kept for as long as the settings say. The files are named `topics-<position>`; their frames are those
//! of the journal. A file begins with its *base*, all rows at that moment, so the files before it are needed only for
//! their messages.
//!
//! ```text
//! page of a frame:  kind (1 base, 2 end of the base, 3 changes)  row row row …
//! row:              1 put      key value
//!                   2 delete   key
//!                   3 message  millis key value          (texts with their length in front, numbers as varints)
//! ```
//!
//! A file gets its final name when its base is complete and synced. A torn tail of the last file is cut off; anything
//! else that is not a frame is damage, reported with file and offset.
//!
//! The key log (`key_log`) has files of the same format under another name: `family` distinguishes them.
//!
//! `rows` encodes pages, `open` reads the log at a start, `write` appends, `rotate` begins and deletes files, `check`
//! verifies. The leader of a group commits frames to the replicated journal before it writes them: `committing`.

mod check;
mod committing;
mod family;
mod open;
mod rotate;
mod rows;
mod write;

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::Timestamp;

use crate::segment::Segment;
use crate::shared::Shared;

use committing::Committing;
pub use open::TopicsOpened;
pub use rows::TopicRows;

pub(crate) use check::{check_file, good_part};
pub(crate) use family::LogFamily;
pub(crate) use open::TopicsFound;
pub(crate) use write::append_offline;

/// How much of durable topics is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLogSettings {
    /// A file that exceeds twice its base by this much is followed by the next.
    pub segment_bytes: u64,
    /// Messages kept, by bytes and by age. A file is deleted when all of its messages are beyond these
    /// limits.
    pub kept_bytes: u64,
    /// How long messages are kept.
    pub kept_for: Duration,
}

impl Default for TopicLogSettings {
    fn default() -> TopicLogSettings {
        TopicLogSettings {
            segment_bytes: 16 << 20,
            kept_bytes: 100 << 20,
            kept_for: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// The log, open for writing. One thread owns it.
#[derive(Debug)]
pub struct TopicLog {
    shared: Arc<Shared>,
    family: LogFamily,
    settings: TopicLogSettings,
    segment: Arc<Segment>,
    /// The position of the next frame.
    position: u64,
    /// Everything before this position survives a power failure.
    synced: u64,
    /// The end of the current file's base.
    base_end: u64,
    /// The messages of the current file.
    messages: Messages,
    failed: bool,
    /// For the leader of a group.
    committing: Option<Committing>,
}

/// The messages of a file, as opposed to its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Messages {
    pub(crate) bytes: u64,
    pub(crate) newest: Timestamp,
}

impl Messages {
    fn add(&mut self, at: Timestamp, bytes: usize) {
        self.bytes += bytes as u64;
        self.newest = self.newest.max(at);
    }

    fn join(&mut self, other: Messages) {
        self.bytes += other.bytes;
        self.newest = self.newest.max(other.newest);
    }
}

/// A file of the log, as backups and retention see it.
#[derive(Clone, Debug)]
pub(crate) struct TopicFile {
    pub(crate) segment: Arc<Segment>,
    /// Synced up to here.
    pub(crate) end: u64,
    messages: Messages,
}
