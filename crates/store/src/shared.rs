//! State shared by the parts of an open store: the disk, the files, and the progress of the journal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use bytes::BytesMut;

use crate::disk::{Disk, DiskFile, DiskLock};
use crate::error::{IoContext, StoreError};
use crate::events::EventFile;
use crate::files;
use crate::header::HEADER_BYTES;
use crate::high_water::{HighWater, HighWaterFile};
use crate::random::Random;
use crate::replicated::LeaderState;
use crate::segment::{self, Segment, SegmentRest};
use crate::settings::StoreSettings;
use crate::tail::Tail;
use crate::task_log::TaskLogReader;
use crate::topic_log::{LogFamily, TopicFile, TopicsFound};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) settings: StoreSettings,
    pub(crate) files: RwLock<Files>,
    /// The files of the topic log, oldest first.
    pub(crate) topics: Mutex<Vec<TopicFile>>,
    /// The findings of the start in it, until the log is opened.
    topics_found: Mutex<Option<TopicsFound>>,
    /// The same for the key log.
    pub(crate) keys: Mutex<Vec<TopicFile>>,
    keys_found: Mutex<Option<TopicsFound>>,
    /// The state that this broker shares with the replicated journal, if it leads a group.
    pub(crate) leader: Option<Arc<LeaderState>>,
    /// The files of the task log.
    pub(crate) task_log: TaskLogReader,
    pub(crate) tail: Tail,
    pub(crate) progress: JournalProgress,
    spares: Mutex<Vec<Spare>>,
    buffer: Mutex<Option<BytesMut>>,
    salts: Mutex<Random>,
    mark: Mutex<HighWaterFile>,
    spare_number: AtomicU64,
    /// The disk is low on space.
    short: AtomicBool,
    _lock: DiskLock,
}

/// The files that are in use.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// By start position.
    pub(crate) segments: BTreeMap<u64, Arc<Segment>>,
    pub(crate) snapshot: Option<SnapshotFile>,
    /// Oldest first, without gaps between them.
    pub(crate) events: Vec<Arc<EventFile>>,
    /// The number of backups in progress: while there is one, no file is deleted.
    pub(crate) pins: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotFile {
    /// The position at which the journal continues the snapshot.
    pub(crate) start: u64,
    /// The number of the first event at or after `start`.
    pub(crate) first_event: u64,
    pub(crate) bytes: u64,
}

/// The progress of the journal. Positions only grow.
#[derive(Debug, Default)]
pub(crate) struct JournalProgress {
    /// Everything before this position may be acknowledged to clients and workers.
    acknowledged: AtomicU64,
    /// The number of the first event that is not acknowledged yet.
    next_event: AtomicU64,
    /// Everything before it survives a power failure.
    synced: AtomicU64,
    /// A snapshot waits until the journal is synced up to here.
    wanted: AtomicU64,
}

/// A segment for later use: its header is written and synced.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) salt: u32,
    pub(crate) rest: SegmentRest,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// The findings of a start in the data directory.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) files: Files,
    pub(crate) mark: HighWaterFile,
    pub(crate) topics: TopicsFound,
    pub(crate) keys: TopicsFound,
    pub(crate) leader: Option<Arc<LeaderState>>,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        settings: StoreSettings,
        found: Found,
        progress: JournalProgress,
        salts: Random,
        lock: DiskLock,
    ) -> Shared {
        let Found { files, mark, topics, keys, leader } = found;
        let tail = Tail::new(settings.cache_bytes);
        Shared {
            disk,
            settings,
            files: RwLock::new(files),
            topics: Mutex::default(),
            topics_found: Mutex::new(Some(topics)),
            keys: Mutex::default(),
            keys_found: Mutex::new(Some(keys)),
            leader,
            task_log: TaskLogReader::default(),
            tail,
            progress,
            spares: Mutex::default(),
            buffer: Mutex::default(),
            salts: Mutex::new(salts),
            mark: Mutex::new(mark),
            spare_number: AtomicU64::new(0),
            short: AtomicBool::new(false),
            _lock: lock,
        }
    }

    /// The segment that contains a position, if it still exists.
    pub(crate) fn segment_of(&self, position: u64) -> Option<Arc<Segment>> {
        let files = self.files.read().expect("no holder of the lock panics");
        files.segments.range(..=position).next_back().map(|(_, segment)| segment.clone())
    }

    /// The end of a segment: the start of the next one, or the end of the journal.
    pub(crate) fn end_of_segment(&self, start: u64) -> u64 {
        let files = self.files.read().expect("no holder of the lock panics");
        files
            .segments
            .range(start + 1..)
            .next()
            .map_or_else(|| self.progress.acknowledged(), |(next, _)| *next)
    }

    pub(crate) fn take_buffer(&self) -> BytesMut {
        self.buffer.lock().expect("no holder of the lock panics").take().unwrap_or_default()
    }

    pub(crate) fn keep_buffer(&self, buffer: BytesMut) {
        *self.buffer.lock().expect("no holder of the lock panics") = Some(buffer);
    }

    pub(crate) fn spare_count(&self) -> usize {
        self.spares.lock().expect("no holder of the lock panics").len()
    }

    pub(crate) fn add_spare(&self, spare: Spare) {
        self.spares.lock().expect("no holder of the lock panics").push(spare);
    }

    pub(crate) fn take_spare(&self) -> Option<Spare> {
        self.spares.lock().expect("no holder of the lock panics").pop()
    }

    pub(crate) fn next_spare_name(&self) -> String {
        files::spare(self.spare_number.fetch_add(1, Ordering::Relaxed))
    }

    /// A salt that differs from that of the file's earlier use.
    pub(crate) fn new_salt(&self, not: u32) -> u32 {
        let mut salts = self.salts.lock().expect("no holder of the lock panics");
        loop {
            let salt = salts.next() as u32;
            if salt != not {
                return salt;
            }
        }
    }

    /// Creates an empty spare with a synced header.
    pub(crate) fn create_spare(&self) -> Result<Spare, StoreError> {
        let name = self.next_spare_name();
        let file = self.disk.create(&name).doing("creating", &name)?;
        let salt = self.new_salt(0);
        if let Err(source) = segment::write_header(&*file, salt, SegmentRest::Fresh) {
            let _ = self.disk.remove(&name);
            return Err(source).doing("writing", &name);
        }
        file.sync().syncing(&name)?;
        segment::lengthen(&*file, &name, HEADER_BYTES as u64, self.settings.longer_by())?;
        Ok(Spare { name, salt, rest: SegmentRest::Fresh, file })
    }

    /// Gives a spare its place in the journal. A named segment always has a synced header, because every
    /// spare has one.
    pub(crate) fn place_spare(&self, spare: Spare, start: u64) -> Result<Arc<Segment>, StoreError> {
        let Spare { name, salt, rest, file } = spare;
        let segment = Arc::new(Segment::new(start, salt, rest, file));
        self.disk.rename(&name, &segment.name).doing("renaming", &name)?;
        self.disk.sync_dir().syncing("the directory")?;
        let mut files = self.files.write().expect("no holder of the lock panics");
        files.segments.insert(start, segment.clone());
        Ok(segment)
    }

    pub(crate) fn set_short(&self, short: bool) {
        self.short.store(short, Ordering::Release);
    }

    /// How many segments may be kept for reuse.
    pub(crate) fn spares_wanted(&self) -> usize {
        if self.short.load(Ordering::Acquire) { 0 } else { self.settings.spare_segments }
    }

    pub(crate) fn take_found(&self, family: LogFamily) -> Option<TopicsFound> {
        self.found(family).take()
    }

    /// The findings of the start in a log, until the log is opened.
    pub(crate) fn found(&self, family: LogFamily) -> MutexGuard<'_, Option<TopicsFound>> {
        let found = match family {
            LogFamily::Topics => &self.topics_found,
            LogFamily::Keys => &self.keys_found,
        };
        found.lock().expect("no holder of the lock panics")
    }

    /// Notes that everything before `position` is synced.
    pub(crate) fn raise_high_water(&self, mark: HighWater) -> Result<(), StoreError> {
        self.mark.lock().expect("no holder of the lock panics").write(mark)
    }
}

impl JournalProgress {
    pub(crate) fn new(position: u64, next_event: u64) -> JournalProgress {
        JournalProgress {
            acknowledged: AtomicU64::new(position),
            next_event: AtomicU64::new(next_event),
            synced: AtomicU64::new(position),
            wanted: AtomicU64::new(0),
        }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    pub(crate) fn next_event(&self) -> u64 {
        self.next_event.load(Ordering::Acquire)
    }

    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn acknowledge(&self, position: u64, next_event: u64) {
        self.acknowledged.store(position, Ordering::Release);
        self.next_event.store(next_event, Ordering::Release);
    }

    pub(crate) fn set_synced(&self, position: u64) {
        self.synced.store(position, Ordering::Release);
    }

    /// Asks the writer to sync up to `position`, even if its settings would sync later.
    pub(crate) fn request_sync(&self, position: u64) {
        self.wanted.fetch_max(position, Ordering::AcqRel);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.synced()
    }
}
