//! The task log: what commands print while they run, in pieces, in files of its own (`printed-<number>`).
//!
//! It is kept apart from the journal because it promises less: no request waits for its sync, the oldest files are
//! deleted when all together exceed their limit, and damage costs the pieces behind it in one file, not the start of
//! the broker (docs/decisions/0045-a-log-of-what-tasks-print.md).
//!
//! ```text
//! file:   magic (8 bytes)  entry entry entry …
//! entry:  bytes (u32)  crc32c (u32)  namespace  task (16 bytes)  attempt  stream (1 byte)  offset  millis  piece
//! ```
//!
//! Numbers are varints, and the namespace has its length in front. An entry that is cut or has another checksum ends its
//! file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use crc32c::crc32c;
use tenure_engine::{TaskId, Timestamp};

use crate::codec::{ByteCursor, Malformed, put_varint as varint};
use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, StoreError, WriteError, is_full};
use crate::files::{self, Named};
use crate::reader::Reader;
use crate::shared::Shared;

const MAGIC: [u8; 8] = *b"tenureLG";
/// The size of the header before each entry.
const ENTRY_HEADER_BYTES: usize = 8;
/// The longest entry that a reader accepts.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// How much of a file is read: files are shorter, unless something else has written to them.
const FILE_READ_BYTES_MAX: u64 = 256 << 20;

/// How much of the output of tasks is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLogSettings {
    /// A longer file is followed by the next.
    pub file_bytes: u64,
    /// How much is kept in all files together.
    pub kept_bytes: u64,
}

impl Default for TaskLogSettings {
    fn default() -> TaskLogSettings {
        TaskLogSettings { file_bytes: 16 << 20, kept_bytes: 256 << 20 }
    }
}

/// A piece of what an attempt printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The namespace of the task.
    pub namespace: Arc<str>,
    /// The task that printed it.
    pub task: TaskId,
    /// The attempt that printed it.
    pub attempt: u32,
    /// As its door numbers it.
    pub stream: u8,
    /// Where the piece begins in its stream.
    pub offset: u64,
    /// When the broker received the piece.
    pub at: Timestamp,
    /// The printed bytes.
    pub piece: Bytes,
}

/// Where the piece of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// The number of the file.
    pub file: u64,
    offset: u64,
    /// The length of the piece.
    pub bytes: u32,
}

impl LogPlace {
    /// A number that increases along the log: the file, and the place in it. A file is shorter than 4 GB.
    pub fn number(self) -> u64 {
        (self.file << 32) | self.offset
    }
}

/// The log, open for writing. One thread owns it.
#[derive(Debug)]
pub struct TaskLog {
    shared: Arc<Shared>,
    settings: TaskLogSettings,
    files: TaskLogReader,
    /// The end of the last file.
    end: u64,
    is_synced: bool,
}

/// Reads pieces back. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct TaskLogReader {
    files: Arc<Mutex<BTreeMap<u64, PrintedFile>>>,
}

/// A file of the log, as readers, backups and retention see it.
#[derive(Clone, Debug)]
pub(crate) struct PrintedFile {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Whole entries end here.
    pub(crate) end: u64,
}

impl Reader {
    /// Opens the task log beside the journal, or creates it. `see` gets every entry that is kept, oldest first.
    pub fn open_task_log(
        &self,
        settings: TaskLogSettings,
        mut see: impl FnMut(LogPlace, LogEntry),
    ) -> Result<TaskLog, StoreError> {
        let shared = Arc::clone(&self.shared);
        let mut files = BTreeMap::new();
        for number in numbers(&*shared.disk)? {
            let name = files::task_log(number);
            let file = shared.disk.open(&name).doing("opening", &name)?;
            let end = read_file(&*file, &name, |offset, entry| {
                let place = LogPlace { file: number, offset, bytes: entry.piece.len() as u32 };
                see(place, entry);
            })?;
            files.insert(number, PrintedFile { name, file, end });
        }
        let last = files.last_key_value().map(|(number, file)| (*number, file.clone()));
        let reader = shared.task_log.clone();
        *reader.lock() = files;
        let mut log = TaskLog { shared, settings, files: reader, end: 0, is_synced: true };
        match last {
            Some((_, last)) if last.end >= MAGIC.len() as u64 => {
                last.file.set_len(last.end).doing("cutting back", &last.name)?;
                log.end = last.end;
            }
            // Not even the magic is there.
            Some((number, _)) => log.begin(number)?,
            None => log.begin(0)?,
        }
        Ok(log)
    }
}

impl TaskLog {
    /// Appends entries and returns where their pieces are. On a full disk nothing is written.
    pub fn append(&mut self, entries: &[LogEntry]) -> Result<Vec<LogPlace>, WriteError> {
        if self.end >= self.settings.file_bytes {
            self.sync()?;
            let next = self.last_number() + 1;
            match self.begin(next) {
                Err(error) if error.is_full() => return Err(WriteError::Full { needed: MAGIC.len() as u64 }),
                begun => begun?,
            }
        }
        let number = self.last_number();
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(entries.len()));
        for entry in entries {
            encode(entry, &mut bytes);
            let piece = entry.piece.len();
            places.push(LogPlace {
                file: number,
                offset: self.end + (bytes.len() - piece) as u64,
                bytes: piece as u32,
            });
        }
        let Some(PrintedFile { name, file, .. }) = self.files.lock().get(&number).cloned() else {
            return Err(StoreError::Failed.into());
        };
        if let Err(source) = file.write_at(&bytes, self.end) {
            if is_full(&source) {
                file.set_len(self.end).doing("cutting back", &name)?;
                return Err(WriteError::Full { needed: bytes.len() as u64 });
            }
            return Err(source).doing("writing", &name).map_err(WriteError::Fatal);
        }
        self.end += bytes.len() as u64;
        self.is_synced = false;
        if let Some(file) = self.files.lock().get_mut(&number) {
            file.end = self.end;
        }
        Ok(places)
    }

    /// Syncs what was appended.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if !self.is_synced {
            let last = self.files.lock().last_key_value().map(|(_, file)| file.clone());
            if let Some(last) = last {
                last.file.sync().syncing(&last.name)?;
            }
            self.is_synced = true;
        }
        Ok(())
    }

    /// Deletes the oldest files while all together exceed the limit, and one if there are too many entries. A backup in progress keeps all of them. Returns
    /// the number of the oldest file that is left.
    pub fn delete_old_files(&mut self, has_too_many: bool) -> Result<u64, StoreError> {
        let mut one_more = has_too_many;
        loop {
            if self.shared.files.read().expect("no holder of the lock panics").pins > 0 {
                break;
            }
            let mut files = self.files.lock();
            let total: u64 = files.values().map(|file| file.end).sum();
            if total <= self.settings.kept_bytes && !one_more || files.len() < 2 {
                break;
            }
            one_more = false;
            let oldest = files.pop_first();
            drop(files);
            if let Some((_, oldest)) = oldest {
                self.shared.disk.remove(&oldest.name).doing("removing", &oldest.name)?;
            }
        }
        Ok(self.files.lock().keys().next().copied().unwrap_or_default())
    }

    /// A reader, for any thread.
    pub fn reader(&self) -> TaskLogReader {
        self.files.clone()
    }

    fn last_number(&self) -> u64 {
        self.files.lock().keys().next_back().copied().unwrap_or_default()
    }

    fn begin(&mut self, number: u64) -> Result<(), StoreError> {
        let name = files::task_log(number);
        let file = self.shared.disk.create(&name).doing("creating", &name)?;
        file.write_at(&MAGIC, 0).doing("writing", &name)?;
        self.shared.disk.sync_dir().syncing("the directory")?;
        self.end = MAGIC.len() as u64;
        self.files.lock().insert(number, PrintedFile { name, file, end: self.end });
        Ok(())
    }
}

impl TaskLogReader {
    /// Reads a piece; `None` if its file is deleted.
    pub fn read(&self, place: LogPlace) -> Result<Option<Bytes>, StoreError> {
        let Some(PrintedFile { name, file, .. }) = self.lock().get(&place.file).cloned() else {
            return Ok(None);
        };
        let mut piece = vec![0; place.bytes as usize];
        let read = file.read_at(&mut piece, place.offset).doing("reading", &name)?;
        Ok((read == piece.len()).then(|| piece.into()))
    }

    /// The files, for a backup.
    pub(crate) fn files(&self) -> Vec<PrintedFile> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, PrintedFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn numbers(disk: &dyn Disk) -> Result<Vec<u64>, StoreError> {
    let names = disk.list().doing("listing", "the directory")?;
    let number = |name: &String| match files::named(name) {
        Named::TaskLog(number) => Some(number),
        _ => None,
    };
    Ok(names.iter().filter_map(number).collect())
}

fn encode(entry: &LogEntry, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; ENTRY_HEADER_BYTES]);
    varint(into, entry.namespace.len() as u64);
    into.extend_from_slice(entry.namespace.as_bytes());
    into.extend_from_slice(&entry.task.0);
    varint(into, u64::from(entry.attempt));
    into.push(entry.stream);
    varint(into, entry.offset);
    varint(into, entry.at.0);
    into.extend_from_slice(&entry.piece);
    let body = start + ENTRY_HEADER_BYTES;
    let (length, crc) = ((into.len() - body) as u32, crc32c(&into[body..]));
    into[start..start + 4].copy_from_slice(&length.to_le_bytes());
    into[start + 4..body].copy_from_slice(&crc.to_le_bytes());
}

/// Reads the entries of a file as far as they are whole. Returns where they end.
fn read_file(file: &dyn DiskFile, name: &str, mut see: impl FnMut(u64, LogEntry)) -> Result<u64, StoreError> {
    let length = file.len().doing("measuring", name)?.min(FILE_READ_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    let read = file.read_at(&mut bytes, 0).doing("reading", name)?;
    bytes.truncate(read);
    if !bytes.starts_with(&MAGIC) {
        return Ok(0);
    }
    let mut at = MAGIC.len();
    while let Some((entry, end)) = next_entry(&bytes, at) {
        see((end - entry.piece.len()) as u64, entry);
        at = end;
    }
    Ok(at as u64)
}

/// The entry at this place, if it is whole, and where it ends.
fn next_entry(bytes: &[u8], at: usize) -> Option<(LogEntry, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (length, crc) = (word(at)? as usize, word(at + 4)?);
    let body = at + ENTRY_HEADER_BYTES;
    let entry = bytes.get(body..body.checked_add(length)?)?;
    if length > ENTRY_BYTES_MAX || crc32c(entry) != crc {
        return None;
    }
    Some((decode(entry).ok()?, body + length))
}

fn decode(bytes: &[u8]) -> Result<LogEntry, Malformed> {
    let mut take = ByteCursor::new(bytes);
    let length = take.varint()?;
    let namespace = take.bytes(usize::try_from(length).unwrap_or(usize::MAX))?;
    let namespace = std::str::from_utf8(namespace).map_err(|_| Malformed("a name is not text"))?;
    let task = take.bytes(16)?.try_into().map_err(|_| Malformed("it ends too early"))?;
    let attempt = u32::try_from(take.varint()?).map_err(|_| Malformed("an attempt is too large"))?;
    let stream = take.byte()?;
    let (offset, at) = (take.varint()?, Timestamp(take.varint()?));
    let piece = Bytes::copy_from_slice(take.rest());
    Ok(LogEntry { namespace: namespace.into(), task: TaskId(task), attempt, stream, offset, at, piece })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(offset: u64, piece: &'static str) -> LogEntry {
        LogEntry {
            namespace: "default".into(),
            task: TaskId([7; 16]),
            attempt: 2,
            stream: 1,
            offset,
            at: Timestamp(1_769_860_800_000),
            piece: piece.into(),
        }
    }

    #[test]
    fn an_entry_reads_back_and_no_cut_one_passes_for_it() {
        let mut bytes = Vec::new();
        encode(&entry(300, "hello"), &mut bytes);
        let body = &bytes[ENTRY_HEADER_BYTES..];
        assert_eq!(decode(body), Ok(entry(300, "hello")));
        for end in 0..body.len() - "hello".len() {
            assert!(decode(&body[..end]).is_err(), "{end}");
        }
    }
}
