//! Opening a store, and its parts.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;

use tenure_engine::{Engine, Settings, Task, Timestamp, Which};

use crate::batches::Batches;
use crate::disk::{Disk, DiskLock};
use crate::error::{Damage, IoContext, StoreError};
use crate::files;
use crate::high_water::{HighWater, HighWaterFile};
use crate::key_log;
use crate::maintenance::Maintenance;
use crate::maintenance_thread::MaintenanceThread;
use crate::random::Random;
use crate::reader::Reader;
use crate::recover::{Inventory, JournalEnd, LostBlobs, OpenReport, Recovered, recover};
use crate::replicated::{ReplicatedTarget, Uploads};
use crate::segment;
use crate::segment_usage::SegmentUsage;
use crate::settings::StoreSettings;
use crate::shared::{Files, Found, JournalProgress, Shared};
use crate::topic_log::{LogFamily, TopicsFound};
use crate::writer::{WriteTarget, Writer};

/// An open store, before it is split into parts that work independently.
#[derive(Debug)]
pub struct Store {
    parts: Parts,
}

/// The result of opening a store.
#[derive(Debug)]
pub struct Opened {
    /// The engine, rebuilt from the snapshot and the journal.
    pub engine: Engine,
    /// The open store.
    pub store: Store,
    /// The findings of the opening.
    pub report: OpenReport,
}

/// The parts of a store, each for a different thread or component.
#[derive(Debug)]
pub struct Parts {
    /// For the hub's turn.
    pub batches: Batches,
    /// For the thread that waits for the disk.
    pub writer: Writer,
    /// For any thread.
    pub reader: Reader,
    /// For the hub, between its turns.
    pub maintenance: Maintenance,
    /// For a background thread.
    pub maintenance_thread: MaintenanceThread,
}

impl Store {
    /// Opens the store in a directory, or creates one there. Keeps other processes out while any part lives.
    ///
    /// A torn tail is cut off. Damage anywhere else is an error that names the file and the offset; then
    /// nothing is changed.
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: StoreSettings,
        engine: Settings,
        now: Timestamp,
    ) -> Result<Opened, StoreError> {
        Store::open_with(disk, settings, engine, now, WriteTarget::Local)
    }

    /// The same, for the leader of a group: its writer appends to the replicated journal first.
    pub(crate) fn open_replicated(
        disk: Arc<dyn Disk>,
        settings: StoreSettings,
        engine: Settings,
        now: Timestamp,
        target: ReplicatedTarget,
    ) -> Result<Opened, StoreError> {
        let position = target.position();
        let opened =
            Store::open_with(disk, settings, engine, now, WriteTarget::Replicated(Box::new(target)))?;
        if opened.store.parts.batches.position() != position {
            return Err(StoreError::Diverged { position });
        }
        Ok(opened)
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        settings: StoreSettings,
        engine: Settings,
        now: Timestamp,
        target: WriteTarget,
    ) -> Result<Opened, StoreError> {
        let lock = disk.lock()?;
        let inventory = Inventory::take(&*disk)?;
        let recovered = recover(&*disk, &inventory, engine, now)?;
        check_events(&recovered)?;
        let segment_usage = count_live(&recovered)?;
        let (topics, keys) = match target {
            WriteTarget::Local => (TopicsFound::read(&*disk, LogFamily::Topics)?, key_log::read(&*disk)?),
            WriteTarget::Replicated(_) => {
                (TopicsFound::read_copy(&*disk, LogFamily::Topics)?, key_log::read_copy(&*disk)?)
            }
        };
        // Nothing is changed up to here. From here on only the disk itself can fail.
        clear_away(&*disk, &inventory, &recovered)?;
        settle_tail(&recovered, settings.longer_by())?;
        assemble(disk, settings, recovered, segment_usage, (topics, keys), (lock, target), now)
    }

    /// Splits the store into the parts that different threads own.
    pub fn split(self) -> Parts {
        self.parts
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.parts.reader
    }
}

/// Checks that the copied events belong to this journal.
fn check_events(recovered: &Recovered) -> Result<(), StoreError> {
    match recovered.events.last() {
        Some(last) if last.end > recovered.end.next_event => {
            let why = format!(
                "it ends with event {}, but the journal with {}",
                last.end - 1,
                recovered.end.next_event - 1
            );
            Err(Damage::new(&last.name, 24, why).into())
        }
        _ => Ok(()),
    }
}

/// Deletes unfinished files of an earlier process, and snapshots that a newer one has replaced.
fn clear_away(disk: &dyn Disk, inventory: &Inventory, recovered: &Recovered) -> Result<(), StoreError> {
    let newest = recovered.snapshot.map(|snapshot| snapshot.start);
    let old = inventory
        .snapshots
        .iter()
        .filter(|start| Some(**start) != newest)
        .map(|start| files::snapshot(*start));
    let names: Vec<String> = inventory.leftovers.iter().cloned().chain(old).collect();
    for name in &names {
        disk.remove(name).doing("removing", name)?;
    }
    if names.is_empty() { Ok(()) } else { disk.sync_dir().syncing("the directory") }
}

/// Truncates the last segment after its last valid frame and syncs it.
fn settle_tail(recovered: &Recovered, longer_by: u64) -> Result<(), StoreError> {
    let JournalEnd { position, segment, synced, .. } = recovered.end;
    let Some(last) = recovered.segments.last().filter(|last| last.start == segment) else { return Ok(()) };
    last.cut_and_rewrite(synced, position)?;
    segment::lengthen(&*last.file, &last.name, last.offset(position), longer_by)
}

fn assemble(
    disk: Arc<dyn Disk>,
    settings: StoreSettings,
    recovered: Recovered,
    segment_usage: SegmentUsage,
    (topics, keys): (TopicsFound, TopicsFound),
    (lock, target): (DiskLock, WriteTarget),
    now: Timestamp,
) -> Result<Opened, StoreError> {
    let Recovered { engine, segments, snapshot, events, end, report } = recovered;
    let mut mark = HighWaterFile::open(&*disk)?;
    mark.write(HighWater { position: end.position, segment: segments.last().map(|last| last.start) })?;
    let current = segments.last().cloned();
    let mut files = Files { snapshot, ..Files::default() };
    files.segments = segments.into_iter().map(|segment| (segment.start, segment)).collect();
    files.events = events.into_iter().map(Arc::new).collect();
    let mut salts = Random::new(settings.seed);
    // Time and position make the salts of this run differ from those of the last, even with the same seed.
    let mut salts = Random::new(salts.next() ^ now.0.rotate_left(32) ^ end.position);
    salts.next();
    let progress = JournalProgress::new(end.position, end.next_event);
    let leader = match &target {
        WriteTarget::Local => None,
        WriteTarget::Replicated(target) => Some(target.leader()),
    };
    let uploads = leader.clone().map(Uploads::of);
    let found = Found { files, mark, topics, keys, leader };
    let shared = Arc::new(Shared::new(disk, settings, found, progress, salts, lock));
    let (jobs, job_queue) = channel();
    let (done, done_queue) = channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let parts = Parts {
        batches: Batches::new(shared.clone(), segment_usage, end.position, end.segment, end.next_event),
        writer: Writer::new(shared.clone(), current, end.position, end.next_event, target),
        reader: Reader::new(shared.clone()),
        maintenance: Maintenance::new(shared.clone(), jobs, done_queue, queued.clone(), snapshot),
        maintenance_thread: MaintenanceThread::new(shared, job_queue, done, queued, uploads),
    };
    Ok(Opened { engine, store: Store { parts }, report })
}

/// Counts the live bytes. All of them must be in a segment.
fn count_live(recovered: &Recovered) -> Result<SegmentUsage, StoreError> {
    let (segments, last) = (&recovered.segments, recovered.end.segment);
    let mut segment_usage = SegmentUsage::default();
    for (index, segment) in segments.iter().enumerate() {
        if segment.start == last {
            segment_usage.open_segment(last);
        } else {
            let next = segments.get(index + 1).map_or(last, |next| next.start);
            segment_usage.close_segment(segment.start, segment.file_end()?.min(next));
        }
    }
    let mut lost = LostBlobs::default();
    let see = &mut |task: &Task, _: &_, _: &_| {
        for blob in Which::ALL.map(|which| which.of(task)) {
            if !segment_usage.still_alive(blob) && !recovered.may_be_gone(task) {
                lost.add(task.id, blob);
            }
        }
    };
    assert_eq!(recovered.engine.scan_tasks(None, usize::MAX, see), None, "all tasks were seen");
    for array in recovered.engine.arrays() {
        if !segment_usage.still_alive(array.body) && !recovered.array_may_be_gone(array) {
            lost.add(array.id, array.body);
        }
    }
    lost.damage(segments).map_or(Ok(segment_usage), |damage| Err(damage.into()))
}
