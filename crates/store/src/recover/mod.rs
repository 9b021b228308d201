//! Coming back: the newest snapshot, then the journal from where the snapshot began. One thread reads, checks and
//! decodes while another hands what was found to the engine.
//!
//! - [`inventory`] looks at which files there are;
//! - [`read`] walks over blocks and frames, and judges what is not a frame: a torn tail, or damage;
//! - [`lost`] finds bodies and results that no file holds;
//! - [`decode`] makes tasks and settings of bytes.

mod decode;
mod inventory;
mod lost;
mod read;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use tenure_engine::{Engine, Restore, Settings, TermsKey, Timestamp};

use crate::codec::Setting;
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

/// What was found when the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Tasks in the snapshot, if there was one.
    pub snapshot_tasks: u64,
    /// Frames and records of the journal after it.
    pub frames: u64,
    pub records: u64,
    /// Tasks that are remembered, ended ones with them.
    pub tasks: u64,
    /// The last frame was not complete: it had not been acknowledged, and it was cut off.
    pub cut: Option<Cut>,
}

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
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

/// Pieces on their way from the thread that reads to the one that feeds the engine.
const PIECES_AHEAD: usize = 8;
/// Less than this is read faster than a thread starts.
const WORTH_A_THREAD_BYTES: u64 = 4 << 20;

/// Reads everything; changes nothing on the disk.
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
                // A receiver that is gone is no reason to stop: nobody hears the end.
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

/// Hands everything to the engine, in order: the last state of each thing wins.
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
                Fact::Task(mut task) => {
                    task.terms = keys[task.terms.index()];
                    restore.task(task);
                }
                Fact::Setting(Setting::Worker(worker)) => restore.worker(worker),
                Fact::Setting(Setting::Queue(queue)) => restore.queue(queue),
                Fact::Setting(Setting::Limit(limit)) => restore.limit(&limit),
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
