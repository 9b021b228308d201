//! Coming back: the newest snapshot, then the journal from where the snapshot began. One thread reads and checks while
//! another decodes and hands what it finds to the engine.
//!
//! - [`inventory`] looks at which files there are;
//! - [`read`] walks over blocks and frames, and judges what is not a frame: a torn tail, or damage;
//! - [`apply`] decodes and feeds the engine.

mod apply;
mod inventory;
mod read;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use tenure_engine::{Engine, Restore, Settings, Timestamp};

use crate::disk::Disk;
use crate::error::StoreError;
use crate::events::EventFile;
use crate::segment::Segment;
use crate::shared::SnapshotFile;
use crate::snapshot::SnapshotReader;

pub(crate) use apply::Applier;
pub(crate) use inventory::Inventory;
pub(crate) use read::{JournalEnd, read_journal, read_snapshot};

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

/// Pieces on their way from the thread that reads to the one that decodes.
const PIECES_AHEAD: usize = 8;

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
    let snapshot_file = snapshot.as_ref().map(SnapshotReader::file);
    let mut applier = Applier::new(Restore::new(settings));
    if let Some(file) = snapshot_file {
        applier.seen_event(file.first_event - 1);
    }
    let end = std::thread::scope(|scope| {
        let (send, receive) = sync_channel(PIECES_AHEAD);
        let segments = &segments;
        let reader = scope.spawn(move || {
            let sum = match snapshot {
                Some(snapshot) => Some(read_snapshot(snapshot, &send)?),
                None => None,
            };
            read_journal(segments, snapshot_file, sum.map(|sum| sum.end), &send)
        });
        let mut applied = Ok(());
        // After a failure the rest is taken and thrown away, so that the reading thread comes to its end.
        for piece in receive {
            if applied.is_ok() {
                applied = applier.apply(&piece);
            }
        }
        let end = reader.join().expect("the reading thread does not panic")?;
        applied.map(|()| end)
    })?;
    let (restore, mut report) = applier.finish();
    let engine = restore.finish(now);
    report.tasks = engine.task_count() as u64;
    report.cut.clone_from(&end.cut);
    Ok(Recovered { engine, segments, snapshot: snapshot_file, events, end, report })
}
