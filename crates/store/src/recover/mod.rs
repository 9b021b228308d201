//! Recovery: reads the newest snapshot, then the journal from the snapshot's start. One thread reads, checks
//! and decodes while another feeds the engine.
//!
//! - [`inventory`] lists the files;
//! - [`read`] scans blocks and frames, and decides whether invalid bytes are a torn tail or damage;
//! - [`lost`] finds bodies and results that no file holds;
//! - [`decode`] turns bytes into tasks and settings.

mod decode;
mod inventory;
mod lost;
mod read;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use tenure_engine::{Engine, Restore, Settings, TermsKey, Timestamp};

use crate::codec::Setting;
use crate::codec::TaskRecord;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::events::EventFile;
use crate::high_water::HighWater;
use crate::recover::decode::{Fact, Piece};
use crate::segment::Segment;
use crate::shared::SnapshotFile;
use crate::snapshot::SnapshotReader;

pub(crate) use decode::Decoder;
pub(crate) use inventory::Inventory;
pub(crate) use lost::{LostBlobs, end_of, is_whole};
pub(crate) use read::{JournalEnd, missing_segments};

/// The findings of the opening of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Tasks in the snapshot, if there was one.
    pub snapshot_tasks: u64,
    /// Frames and records of the journal after it.
    pub frames: u64,
    /// Records in these frames.
    pub records: u64,
    /// All kept tasks, including ended ones.
    pub tasks: u64,
    /// The last frame was incomplete and not acknowledged, and has been cut off.
    pub cut: Option<Cut>,
}

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file that ended in the middle of a frame.
    pub file: String,
    /// Where the incomplete frame begins in it.
    pub offset: u64,
    /// Why it counts as incomplete.
    pub why: String,
}

#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) engine: Engine,
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) snapshot: Option<SnapshotFile>,
    pub(crate) events: Vec<EventFile>,
    pub(crate) end: JournalEnd,
    pub(crate) report: OpenReport,
}

/// The most pieces queued between the reading thread and the one that feeds the engine.
const PIECES_AHEAD: usize = 8;
/// Reading less than this is faster than starting a thread.
const WORTH_A_THREAD_BYTES: u64 = 4 << 20;

/// Reads everything; writes nothing to the disk.
pub(crate) fn recover(
    disk: &dyn Disk,
    inventory: &Inventory,
    settings: Settings,
    now: Timestamp,
) -> Result<Recovered, StoreError> {
    let segments = inventory.open_segments(disk)?;
    let events = inventory.open_events(disk)?;
    let snapshot = inventory.newest_snapshot(disk)?;
    let mark = HighWater::read(disk)?;
    let snapshot_file = snapshot.as_ref().map(SnapshotReader::file);
    let restore = Restore::new(settings);
    let (end, mut restore, mut report) = if bytes_to_read(&segments, snapshot_file)? < WORTH_A_THREAD_BYTES {
        let mut pieces = Vec::new();
        let end = read::read_all(snapshot, &segments, mark, &mut |piece| pieces.push(piece))?;
        let (restore, report) = apply(restore, pieces);
        (end, restore, report)
    } else {
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(PIECES_AHEAD);
            let segments = &segments;
            let reading = scope.spawn(move || {
                // A closed channel is no error here: its receiver has panicked, so the result is not used.
                read::read_all(snapshot, segments, mark, &mut |piece| drop(send.send(piece)))
            });
            let (restore, report) = apply(restore, receive);
            let end = reading.join().expect("the reading thread does not panic")?;
            Ok::<_, StoreError>((end, restore, report))
        })?
    };
    restore.event(end.next_event - 1);
    let engine = restore.finish(now);
    report.tasks = engine.task_count() as u64;
    report.cut.clone_from(&end.cut);
    Ok(Recovered { engine, segments, snapshot: snapshot_file, events, end, report })
}

/// Feeds everything to the engine, in order: the last state of each thing wins.
fn apply(mut restore: Restore, pieces: impl IntoIterator<Item = Piece>) -> (Restore, OpenReport) {
    let mut report = OpenReport::default();
    let mut keys: Vec<TermsKey> = Vec::new();
    for piece in pieces {
        report.snapshot_tasks += piece.snapshot_tasks;
        report.frames += piece.frames;
        report.records += piece.records;
        keys.extend(piece.terms.into_iter().map(|terms| restore.terms(terms)));
        for fact in piece.facts {
            match fact {
                Fact::Task(TaskRecord { mut task, after }) => {
                    task.terms = keys[task.terms.index()];
                    restore.task(task, &after);
                }
                Fact::Setting(Setting::Worker(worker)) => restore.worker(worker),
                Fact::Setting(Setting::Queue(queue)) => restore.queue(queue),
                Fact::Setting(Setting::Limit(limit)) => restore.limit(&limit),
                Fact::Setting(Setting::Schedule(schedule, progress)) => restore.schedule(*schedule, progress),
                Fact::Setting(Setting::ScheduleProgress(progress)) => restore.schedule_progress(progress),
                Fact::Setting(Setting::Array(array)) => restore.array(*array),
                Fact::Setting(Setting::Share(share)) => restore.share(&share),
                Fact::Setting(Setting::NamespaceLeft(namespace)) => restore.namespace_left(&namespace),
            }
        }
    }
    (restore, report)
}

fn bytes_to_read(segments: &[Arc<Segment>], snapshot: Option<SnapshotFile>) -> Result<u64, StoreError> {
    let (start, bytes) = snapshot.map_or((0, 0), |snapshot| (snapshot.start, snapshot.bytes));
    let end = segments.last().map_or(Ok(start), |last| last.file_end())?;
    Ok(bytes + end.saturating_sub(start))
}
