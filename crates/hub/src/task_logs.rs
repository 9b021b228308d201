//! The output of tasks while they run: pieces from workers, kept for a while, for those who want to look.
//!
//! ```text
//! worker → Core::take checks who holds the attempt → append (a queue) → saver: write, one sync a second → index
//! client → page: places from the index, pieces from the files
//! ```
//!
//! It is independent of the engine, as topics are. Workers do not wait for it: if the disk is slower than the workers, pieces
//! are dropped, and a reader sees by the offsets how many bytes are missing.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use foldhash::fast::RandomState;
use tenure_engine::{Held, Name, TaskId, Timestamp};
use tenure_store::{
    LogEntry, LogPlace, Reader, StoreError, TaskLog, TaskLogReader, TaskLogSettings, WriteError,
};

use crate::refusal::HubRefusal;

/// The longest piece that a worker may send.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;
/// How many bytes may wait to be written; more are dropped.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How much is kept of one task: its beginning and its end.
const TASK_BYTES_MAX: u64 = 2 << 20;
const TASK_PIECES_MAX: usize = 1_000;
/// How much of its beginning stays when there is too much.
const TASK_HEAD_BYTES: u64 = 256 << 10;
/// How many pieces of all tasks are known. More cost too much memory, however short they are.
const PIECES_MAX: usize = 500_000;
/// How many bytes one answer has.
const PAGE_BYTES_MAX: usize = 256 << 10;
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A piece of output, as a worker sends it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    pub stream: OutputStream,
    /// Where it begins in its stream.
    pub offset: u64,
    pub bytes: Bytes,
}

/// Where a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

impl OutputStream {
    /// The number on disk.
    pub const fn number(self) -> u8 {
        match self {
            OutputStream::Stdout => 1,
            OutputStream::Stderr => 2,
        }
    }

    /// The stream with this number.
    pub const fn of(number: u8) -> Option<OutputStream> {
        match number {
            1 => Some(OutputStream::Stdout),
            2 => Some(OutputStream::Stderr),
            _ => None,
        }
    }
}

/// A piece that is kept.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPiece {
    /// Its place in the log. A reader that has this piece goes on after it.
    pub number: u64,
    pub attempt: u32,
    pub at: Timestamp,
    pub piece: LogPiece,
}

/// Some of what a task printed.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrintedPage {
    pub pieces: Vec<KeptPiece>,
    /// The place to ask for next.
    pub next: u64,
    /// There is more already.
    pub more: bool,
}

/// The logs of all tasks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TaskLogs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<LogBuffer>,
    arrived: Condvar,
    /// Apart from what waits, so that the hub never waits for a search in it.
    index: Mutex<Index>,
    reader: TaskLogReader,
}

#[derive(Debug, Default)]
struct LogBuffer {
    entries: Vec<LogEntry>,
    bytes: usize,
    dropped: u64,
    /// The broker stops.
    is_over: bool,
}

#[derive(Debug, Default)]
struct Index {
    tasks: HashMap<(Name, TaskId), Vec<Kept>, RandomState>,
    pieces: usize,
    oldest_file: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    attempt: u32,
    stream: u8,
    offset: u64,
    at: Timestamp,
    place: LogPlace,
}

/// The thread that writes.
#[derive(Debug)]
pub struct TaskLogSaver {
    logs: Weak<Shared>,
    log: TaskLog,
    synced_at: Instant,
    is_full: bool,
}

impl TaskLogs {
    /// Opens the log beside the journal. The caller starts the saver's thread.
    pub fn open(reader: &Reader, settings: TaskLogSettings) -> Result<(TaskLogs, TaskLogSaver), StoreError> {
        let mut index = Index::default();
        let log = reader.open_task_log(settings, |place, entry| index.add(place, &entry))?;
        let shared = Shared {
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            index: Mutex::new(index),
            reader: log.reader(),
        };
        let logs = TaskLogs { shared: Arc::new(shared) };
        let weak = Arc::downgrade(&logs.shared);
        Ok((logs, TaskLogSaver { logs: weak, log, synced_at: Instant::now(), is_full: false }))
    }

    /// Takes a piece of an attempt. Never waits.
    pub fn append(&self, now: Timestamp, namespace: &Name, held: Held, piece: LogPiece) {
        let mut waiting = lock(&self.shared.waiting);
        if waiting.bytes + piece.bytes.len() > WAITING_BYTES_MAX {
            waiting.dropped += piece.bytes.len() as u64;
            return;
        }
        waiting.bytes += piece.bytes.len();
        waiting.entries.push(LogEntry {
            namespace: Arc::clone(namespace),
            task: held.task,
            attempt: held.attempt,
            stream: piece.stream.number(),
            offset: piece.offset,
            at: now,
            piece: piece.bytes,
        });
        drop(waiting);
        self.shared.arrived.notify_one();
    }

    /// The output of a task after a place in its log; 0 for everything. Reads files, so it must not run in the hub's
    /// turn.
    pub fn page(&self, namespace: &Name, task: TaskId, after: u64) -> Result<PrintedPage, HubRefusal> {
        let key = (Arc::clone(namespace), task);
        let kept: Vec<Kept> = {
            let index = lock(&self.shared.index);
            let pieces = index.tasks.get(&key).map(Vec::as_slice).unwrap_or_default();
            pieces.iter().filter(|kept| kept.number() > after).copied().collect()
        };
        let mut page = PrintedPage { next: after, ..PrintedPage::default() };
        let mut bytes = 0;
        for kept in kept {
            if bytes >= PAGE_BYTES_MAX {
                page.more = true;
                break;
            }
            page.next = kept.number();
            let read = self.shared.reader.read(kept.place).map_err(|error| {
                tracing::warn!(%error, "the output of a task cannot be read");
                HubRefusal::Unreadable { what: "log" }
            })?;
            // Its file may have been deleted a moment ago.
            if let (Some(piece), Some(stream)) = (read, OutputStream::of(kept.stream)) {
                bytes += piece.len();
                let piece = LogPiece { stream, offset: kept.offset, bytes: piece };
                page.pieces.push(KeptPiece {
                    number: kept.number(),
                    attempt: kept.attempt,
                    at: kept.at,
                    piece,
                });
            }
        }
        Ok(page)
    }

    /// Lets the saver write what waits and end.
    pub(crate) fn stop(&self) {
        lock(&self.shared.waiting).is_over = true;
        self.shared.arrived.notify_one();
    }
}

impl TaskLogSaver {
    /// Runs until the broker stops or is dropped. An error means that the disk failed and the process must end.
    pub fn run(mut self) -> Result<(), StoreError> {
        loop {
            let Some(shared) = self.logs.upgrade() else { return Ok(()) };
            let is_over = self.round(&shared, SYNC_EVERY)?;
            if is_over {
                return self.log.sync();
            }
        }
    }

    /// Writes what waits, after waiting for it up to `wait`. Returns whether the broker stops.
    fn round(&mut self, shared: &Shared, wait: Duration) -> Result<bool, StoreError> {
        let waiting = lock(&shared.waiting);
        let is_idle = |waiting: &mut LogBuffer| waiting.entries.is_empty() && !waiting.is_over;
        let (mut waiting, _) =
            shared.arrived.wait_timeout_while(waiting, wait, is_idle).unwrap_or_else(PoisonError::into_inner);
        let (entries, dropped) = (std::mem::take(&mut waiting.entries), std::mem::take(&mut waiting.dropped));
        waiting.bytes = 0;
        let is_over = waiting.is_over;
        drop(waiting);
        if dropped > 0 {
            tracing::warn!(
                bytes = dropped,
                "output of tasks was dropped: the disk is slower than the workers"
            );
        }
        if !entries.is_empty() {
            self.write(shared, &entries)?;
        }
        if self.synced_at.elapsed() >= SYNC_EVERY {
            self.log.sync()?;
            self.synced_at = Instant::now();
        }
        Ok(is_over)
    }

    fn write(&mut self, shared: &Shared, entries: &[LogEntry]) -> Result<(), StoreError> {
        let places = match self.log.append(entries) {
            Ok(places) => places,
            Err(WriteError::Full { .. }) => {
                if !std::mem::replace(&mut self.is_full, true) {
                    tracing::warn!("the disk is full; output of tasks is dropped until space is free");
                }
                return Ok(());
            }
            Err(WriteError::Fatal(error)) => return Err(error),
        };
        self.is_full = false;
        let mut index = lock(&shared.index);
        for (place, entry) in places.into_iter().zip(entries) {
            index.add(place, entry);
        }
        let (has_too_many, oldest) = (index.pieces > PIECES_MAX, index.oldest_file);
        drop(index);
        let left = self.log.delete_old_files(has_too_many)?;
        if left > oldest {
            lock(&shared.index).forget_before(left);
        }
        Ok(())
    }
}

impl Kept {
    /// Increases along the log, also over restarts: the file, and the place in it.
    fn number(&self) -> u64 {
        self.place.number()
    }
}

impl Index {
    fn add(&mut self, place: LogPlace, entry: &LogEntry) {
        let key = (Arc::clone(&entry.namespace), entry.task);
        let kept = self.tasks.entry(key).or_default();
        let before = kept.len();
        kept.push(Kept {
            attempt: entry.attempt,
            stream: entry.stream,
            offset: entry.offset,
            at: entry.at,
            place,
        });
        let (mut bytes, mut head) = (0, 0);
        for kept in kept.iter() {
            bytes += u64::from(kept.place.bytes);
            head += usize::from(bytes <= TASK_HEAD_BYTES && head < TASK_PIECES_MAX / 2);
        }
        while (kept.len() > TASK_PIECES_MAX || bytes > TASK_BYTES_MAX) && kept.len() > head + 1 {
            // The beginning stays, and so does the end.
            bytes -= u64::from(kept.remove(head).place.bytes);
        }
        self.pieces = self.pieces + kept.len() - before;
    }

    /// These files are deleted.
    fn forget_before(&mut self, file: u64) {
        self.oldest_file = file;
        let mut pieces = 0;
        self.tasks.retain(|_, kept| {
            kept.retain(|kept| kept.place.file >= file);
            pieces += kept.len();
            !kept.is_empty()
        });
        self.pieces = pieces;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind these locks is consistent between any two statements, even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tenure_engine::Settings;
    use tenure_store::{MemoryDisk, Opened, Store, StoreSettings};

    use super::*;

    struct World {
        logs: TaskLogs,
        saver: TaskLogSaver,
    }

    fn open(disk: &MemoryDisk, settings: TaskLogSettings) -> World {
        let opened =
            Store::open(Arc::new(disk.clone()), StoreSettings::default(), Settings::default(), Timestamp(1));
        let Opened { store, .. } = opened.expect("the store opens");
        let (logs, saver) = TaskLogs::open(&store.split().reader, settings).expect("the log opens");
        World { logs, saver }
    }

    impl World {
        fn print(&mut self, attempt: u32, offset: u64, text: &str) {
            let held = Held { task: TaskId([7; 16]), attempt };
            let bytes = Bytes::copy_from_slice(text.as_bytes());
            let piece = LogPiece { stream: OutputStream::Stdout, offset, bytes };
            self.logs.append(Timestamp(5), &"default".into(), held, piece);
            let shared = Arc::clone(&self.logs.shared);
            self.saver.round(&shared, Duration::ZERO).expect("the disk works");
        }

        fn read(&self, after: u64) -> (Vec<(u32, String)>, u64) {
            let page = self.logs.page(&"default".into(), TaskId([7; 16]), after).expect("it is readable");
            let text = |kept: &KeptPiece| String::from_utf8_lossy(&kept.piece.bytes).into_owned();
            (page.pieces.iter().map(|kept| (kept.attempt, text(kept))).collect(), page.next)
        }
    }

    #[test]
    fn what_an_attempt_printed_outlives_the_broker_and_a_reader_goes_on_where_it_was() {
        let disk = MemoryDisk::new();
        let mut world = open(&disk, TaskLogSettings::default());
        world.print(1, 0, "one ");
        let (first, next) = world.read(0);
        assert_eq!(first, [(1, "one ".to_owned())]);
        world.print(2, 0, "two");
        assert_eq!(world.read(next).0, [(2, "two".to_owned())]);
        drop(world);
        let world = open(&disk, TaskLogSettings::default());
        assert_eq!(world.read(0).0.len(), 2);
        assert_eq!(world.read(next).0, [(2, "two".to_owned())], "places do not change");
        let other = world.logs.page(&"other".into(), TaskId([7; 16]), 0).expect("it is readable");
        assert!(other.pieces.is_empty(), "another namespace has other tasks");
    }

    #[test]
    fn what_workers_send_faster_than_the_disk_writes_is_dropped_and_counted() {
        let disk = MemoryDisk::new();
        let mut world = open(&disk, TaskLogSettings::default());
        let text = Bytes::from("x".repeat(PIECE_BYTES_MAX));
        let length = text.len() as u64;
        let fitting = (WAITING_BYTES_MAX / PIECE_BYTES_MAX) as u64;
        for number in 0..fitting + 3 {
            let held = Held { task: TaskId([7; 16]), attempt: 1 };
            let piece =
                LogPiece { stream: OutputStream::Stdout, offset: number * length, bytes: text.clone() };
            world.logs.append(Timestamp(5), &"default".into(), held, piece);
        }
        let state = |world: &World| {
            let waiting = lock(&world.logs.shared.waiting);
            (waiting.entries.len() as u64, waiting.bytes, waiting.dropped)
        };
        assert_eq!(state(&world), (fitting, WAITING_BYTES_MAX, 3 * length), "the bound holds");
        let shared = Arc::clone(&world.logs.shared);
        world.saver.round(&shared, Duration::ZERO).expect("the disk works");
        assert_eq!(state(&world), (0, 0, 0), "there is room again, and the log has said what was dropped");
        world.print(1, (fitting + 3) * length, "after");
        let index = lock(&world.logs.shared.index);
        let kept = &index.tasks[&(Name::from("default"), TaskId([7; 16]))];
        let [.., before, after] = kept.as_slice() else { panic!("{kept:?}") };
        // A reader sees by the offsets how much is missing.
        assert_eq!(after.offset - before.offset - length, 3 * length);
    }

    #[test]
    fn the_oldest_files_make_room() {
        let disk = MemoryDisk::new();
        let mut world = open(&disk, TaskLogSettings { file_bytes: 200, kept_bytes: 600 });
        for number in 0..100 {
            world.print(1, number * 10, "0123456789");
        }
        let (kept, _) = world.read(0);
        assert!((2..30).contains(&kept.len()), "{}", kept.len());
        let names = tenure_store::Disk::list(&disk).expect("a directory");
        assert!(names.iter().filter(|name| name.starts_with("printed-")).count() <= 4, "{names:?}");
    }

    #[test]
    fn the_beginning_and_the_end_of_much_output_are_kept() {
        let disk = MemoryDisk::new();
        let mut world = open(&disk, TaskLogSettings::default());
        let text = "x".repeat(32 << 10);
        for number in 0..100 {
            world.print(1, number * text.len() as u64, &text);
        }
        let index = lock(&world.logs.shared.index);
        let kept = &index.tasks[&(Name::from("default"), TaskId([7; 16]))];
        let bytes: u64 = kept.iter().map(|kept| u64::from(kept.place.bytes)).sum();
        assert!(bytes <= TASK_BYTES_MAX + text.len() as u64, "{bytes}");
        assert_eq!((kept[0].offset, kept[kept.len() - 1].offset), (0, 99 * text.len() as u64));
        assert_eq!(index.pieces, kept.len());
    }
}
