//! The log of topics: what pub/sub must remember, in files of its own, so that neither the tasks nor the topics ever
//! wait for the other's disk.
//!
//! It knows rows and messages, not what they mean. A **row** is a key with its latest value; a **message** is kept for
//! as long as the settings say. The files are named `topics-<position>`; their frames are those of the journal. A file
//! begins with its *base*, all rows as they stood, so the files before it are needed for their messages only.
//!
//! ```text
//! page of a frame:  kind (1 base, 2 end of the base, 3 changes)  row row row …
//! row:              1 put      key value
//!                   2 delete   key
//!                   3 message  millis key value          (texts with their length in front, numbers as varints)
//! ```
//!
//! A file gets its name when its base is complete and synced. A torn tail of the last file is cut off; anything else
//! that is not a frame is damage, told with file and offset.
//!
//! The log of keys (`key_log`) has files of the same kind under another name: `family` says which.
//!
//! `rows` is the page, `open` comes back, `write` appends, `rotate` begins files and lets old ones go, `check`
//! verifies.

mod check;
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

pub use open::TopicsOpened;
pub use rows::TopicRows;

pub(crate) use check::{check_file, good_part};
pub(crate) use family::LogFamily;
pub(crate) use open::TopicsFound;
pub(crate) use write::append_offline;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLogSettings {
    /// A file this much longer than twice its base is followed by the next.
    pub segment_bytes: u64,
    /// Messages kept, by bytes and by age. A file goes when nothing in it has to be kept.
    pub kept_bytes: u64,
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

/// The log, open for writing. One thread has it.
#[derive(Debug)]
pub struct TopicLog {
    shared: Arc<Shared>,
    family: LogFamily,
    settings: TopicLogSettings,
    segment: Arc<Segment>,
    /// Where the next frame stands.
    position: u64,
    /// Everything before it survives a power failure.
    synced: u64,
    /// Where the base of the current file ends.
    base_end: u64,
    /// Messages of the current file.
    messages: Messages,
    failed: bool,
}

/// What a file holds besides its rows.
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
    /// Certain up to here.
    pub(crate) end: u64,
    messages: Messages,
}
