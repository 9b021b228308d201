//! The key log: the records of the key space in order, in files of their own (`keys-<position>`), with the
//! same code as the topic log.
//!
//! A **sweep** rewrites the log while it is in use, so that it does not grow without limit. A sweep begins a
//! file, writes the whole value of every key among the new records, and ends with a row that marks its end.
//! Then the files before it are no longer needed. Until that row is on disk, they stay.
//!
//! A record is a message row: its key is the namespace, and the store does not interpret its value. The row
//! `complete` holds the position of the file at which the last finished sweep began.

use tenure_engine::Timestamp;

use crate::disk::Disk;
use crate::error::{AppendError, Damage, StoreError, WriteError};
use crate::reader::Reader;
use crate::recover::Cut;
use crate::topic_log::{
    LogFamily, TopicLog, TopicLogSettings, TopicRows, TopicsFound, TopicsOpened, append_offline, good_part,
};

const COMPLETE: &[u8] = b"complete";

/// Records that are written atomically: all of them or none.
#[derive(Clone, Debug, Default)]
pub struct KeyRecords {
    rows: TopicRows,
}

impl KeyRecords {
    /// Adds a record of a namespace.
    pub fn add(&mut self, namespace: &[u8], record: &[u8]) {
        self.rows.message(Timestamp::default(), namespace, record);
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Their size on disk.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }
}

/// The result of opening the key log.
#[derive(Debug)]
pub struct KeysOpened {
    /// The open log.
    pub log: KeyLog,
    /// The last frame was incomplete and has been cut off.
    pub cut: Option<Cut>,
}

/// The log, open for writing. One thread owns it.
#[derive(Debug)]
pub struct KeyLog {
    log: TopicLog,
    /// Where the last finished sweep began.
    complete: u64,
    /// Where the current sweep began.
    sweeping: Option<u64>,
    /// Files before `complete` still exist.
    has_old: bool,
}

impl Reader {
    /// Opens the key log beside the journal, or creates it.
    pub fn open_keys(&self) -> Result<KeysOpened, StoreError> {
        let found = match self.shared.take_found(LogFamily::Keys) {
            Some(found) => found,
            None => read(&*self.shared.disk)?,
        };
        let TopicsOpened { log, rows, cut } = found.open(&self.shared, TopicLogSettings::default())?;
        let complete = complete(rows.get(COMPLETE).map(Vec::as_slice));
        let mut log = KeyLog { log, complete, sweeping: None, has_old: true };
        log.delete_unused_files()?;
        Ok(KeysOpened { log, cut })
    }
}

impl KeyLog {
    /// Reads all records, oldest first.
    pub fn records(&self, mut see: impl FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.log.messages(|_, namespace, record| see(namespace, record))
    }

    /// Appends records as one frame. They are durable after the next [`KeyLog::sync`]. On a full disk nothing
    /// is written.
    pub fn append(&mut self, records: &KeyRecords) -> Result<(), WriteError> {
        self.log.append(&records.rows)
    }

    /// Syncs everything, unless the settings leave that to the operating system. The leader of a group commits
    /// everything; see [`TopicLog::sync`].
    pub fn sync(&mut self) -> Result<(), AppendError> {
        self.log.sync()
    }

    /// Whether something was appended that is not committed yet.
    pub fn is_committing(&self) -> bool {
        self.log.is_committing()
    }

    /// The size since the last finished sweep began.
    pub fn bytes(&self) -> u64 {
        self.log.position() - self.complete
    }

    /// Whether the log is being rewritten.
    pub fn is_sweeping(&self) -> bool {
        self.sweeping.is_some()
    }

    /// Begins a sweep: the caller then writes the whole value of every key. Returns `false` if the disk is
    /// full.
    pub fn begin_sweep(&mut self) -> Result<bool, StoreError> {
        let start = self.log.position();
        let row = (COMPLETE.to_vec(), self.complete.to_le_bytes().to_vec());
        let begun = self.log.begin(std::iter::once(row))?;
        self.sweeping = begun.then_some(start);
        Ok(begun)
    }

    /// Ends a sweep: every key is written, so the files before it are no longer needed.
    pub fn end_sweep(&mut self) -> Result<(), WriteError> {
        let Some(start) = self.sweeping else { return Ok(()) };
        let mut rows = TopicRows::default();
        rows.put(COMPLETE, &start.to_le_bytes());
        self.log.append(&rows)?;
        self.log.sync_now()?;
        (self.complete, self.sweeping, self.has_old) = (start, None, true);
        Ok(self.delete_unused_files()?)
    }

    /// Deletes files that are no longer needed, once no backup reads them.
    pub fn delete_unused_files(&mut self) -> Result<(), StoreError> {
        if self.has_old && self.log.delete_files_before(self.complete)? {
            self.has_old = false;
        }
        Ok(())
    }
}

/// Reads all files before anything is changed. A log must reach back to the start of its last finished sweep.
pub(crate) fn read(disk: &dyn Disk) -> Result<TopicsFound, StoreError> {
    check_start(TopicsFound::read(disk, LogFamily::Keys)?)
}

/// The same for the copy of a replicated log.
pub(crate) fn read_copy(disk: &dyn Disk) -> Result<TopicsFound, StoreError> {
    check_start(TopicsFound::read_copy(disk, LogFamily::Keys)?)
}

fn check_start(found: TopicsFound) -> Result<TopicsFound, StoreError> {
    let complete = complete(found.rows.get(COMPLETE).map(Vec::as_slice));
    if found.start().is_some_and(|start| start > complete) {
        let why = "the log of keys begins there";
        return Err(Damage::missing(&LogFamily::Keys.file_name(complete), why).into());
    }
    Ok(found)
}

/// The files before the first of these are lost: records in the log that it begins there.
pub(crate) fn record_lost_start(disk: &dyn Disk, starts: &[u64]) -> Result<(), StoreError> {
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return Ok(()) };
    let Some((segment, end)) = good_part(disk, LogFamily::Keys, *last)? else { return Ok(()) };
    let mut rows = TopicRows::default();
    rows.put(COMPLETE, &first.to_le_bytes());
    append_offline(&segment, end, &rows)
}

fn complete(row: Option<&[u8]>) -> u64 {
    row.and_then(|row| row.try_into().ok()).map_or(0, u64::from_le_bytes)
}
