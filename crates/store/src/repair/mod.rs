//! Repairs a damaged store as far as possible and reports exactly what is lost. What it removes or overwrites
//! is kept in files named `removed-…`.
//!
//! - [`snapshot`] restores the newest snapshot;
//! - [`journal`] scans the segments and repairs or cuts what is not a frame;
//! - [`fill`] writes filler frames over lost bytes and empty segments in place of missing ones;
//! - [`topics`] does the same for the topic log, [`keys`] for the key log;
//! - [`lost`] finds the tasks whose body or result is no longer readable.

mod fill;
mod journal;
mod keys;
mod lost;
mod snapshot;
mod topics;

use std::sync::Arc;

use tenure_engine::{StateName, TaskId};

use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, StoreError};
use crate::events::{EventDecoder, EventFile};
use crate::files;
use crate::high_water::HighWater;
use crate::recover::Inventory;
use crate::segment::Segment;

/// The treatment of a damaged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Remove everything from the damage on: the store is as it was at that moment.
    Cut,
    /// Remove only the damaged frames. Later ones stay, though they may depend on what is lost.
    Skip,
}

/// The repairs, one sentence each. Empty if there was nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// One sentence for each change.
    pub done: Vec<String>,
    /// Tasks whose body or result is unreadable. They still exist, and fail when they are run.
    pub unreadable: Vec<(TaskId, StateName)>,
    /// Where the journal ends now.
    pub position: u64,
    /// The number of the next event.
    pub next_event: u64,
}

/// Repairs a store that no process has open. Afterwards it can be opened.
pub fn repair(disk: &dyn Disk, how: Repair) -> Result<Repaired, StoreError> {
    let _lock = disk.lock()?;
    let mut work = Work { disk, how, repaired: Repaired::default(), removed: 0 };
    let snapshot = work.snapshot(&Inventory::take(disk)?)?;
    work.old_segments(snapshot.as_ref())?;
    work.journal(&Inventory::take(disk)?, snapshot.as_ref())?;
    work.high_water(snapshot.as_ref())?;
    work.events(&Inventory::take(disk)?)?;
    work.topics()?;
    work.keys()?;
    work.lost_bytes()?;
    disk.sync_dir().syncing("the directory")?;
    Ok(work.repaired)
}

struct Work<'a> {
    disk: &'a dyn Disk,
    how: Repair,
    repaired: Repaired,
    removed: u64,
}

impl Work<'_> {
    fn report(&mut self, sentence: String) {
        self.repaired.done.push(sentence);
    }

    /// Lowers the mark: it must not cover what is lost.
    fn high_water(&mut self, snapshot: Option<&snapshot::Base>) -> Result<(), StoreError> {
        let Some(mark) = HighWater::read(self.disk)? else { return Ok(()) };
        let segments = Inventory::take(self.disk)?.segments;
        let snapshot_start = snapshot.map_or(0, |snapshot| snapshot.start);
        let expected = mark.segment.filter(|start| *start >= snapshot_start);
        let is_there = expected.is_none_or(|start| segments.contains(&start));
        let position = self.repaired.position;
        if is_there && mark.position <= position {
            return Ok(());
        }
        if mark.position > position {
            self.report(format!(
                "the journal was synced up to position {}; its last {} bytes are lost",
                mark.position,
                mark.position - position
            ));
        } else {
            self.report(
                "the last segment of the journal is missing; nothing in it was known to be synced".to_owned(),
            );
        }
        HighWater { position, segment: segments.last().copied() }.replace(self.disk).map(drop)
    }

    /// Removes event files that are unreadable or contain events the journal does not have.
    fn events(&mut self, inventory: &Inventory) -> Result<(), StoreError> {
        for first in &inventory.events {
            let name = files::events(*first);
            let why = match EventFile::open(self.disk, *first).and_then(|file| {
                file.read(&mut EventDecoder::default(), *first, &mut |_| true).map(|()| file.end)
            }) {
                Ok(end) if end <= self.repaired.next_event => continue,
                Ok(_) => format!("{name} holds events that the journal does not"),
                Err(StoreError::Damaged(damage)) => damage.to_string(),
                Err(other) => return Err(other),
            };
            let aside = self.set_aside(&name)?;
            self.report(format!("{why}. It was renamed to {aside}: its events are a gap in the history"));
        }
        Ok(())
    }

    /// Renames a file. Returns the new name.
    fn set_aside(&mut self, name: &str) -> Result<String, StoreError> {
        let aside = self.unused_name(name);
        self.disk.rename(name, &aside).doing("renaming", name)?;
        Ok(aside)
    }

    /// Saves a copy of a part of a segment.
    fn keep_range(&mut self, segment: &Segment, from: u64, to: u64) -> Result<(), StoreError> {
        let to = to.min(segment.file_end()?);
        if from >= to {
            return Ok(());
        }
        self.keep(&segment.name, &*segment.file, segment.offset(from), segment.offset(to))
    }

    fn keep_whole(&mut self, name: &str, file: &dyn DiskFile) -> Result<(), StoreError> {
        let end = file.len().doing("measuring", name)?;
        self.keep(name, file, 0, end)
    }

    fn keep(&mut self, name: &str, file: &dyn DiskFile, from: u64, to: u64) -> Result<(), StoreError> {
        let aside = self.unused_name(name);
        let copy: Arc<dyn DiskFile> = self.disk.create(&aside).doing("creating", &aside)?;
        let mut piece = vec![0; 1 << 20];
        let mut offset = from;
        while offset < to {
            let count = piece.len().min((to - offset) as usize);
            let read = file.read_at(&mut piece[..count], offset).doing("reading", name)?;
            copy.write_at(&piece[..read], offset - from).doing("writing", &aside)?;
            offset += count as u64;
        }
        copy.sync().syncing(&aside)?;
        self.disk.sync_dir().syncing("the directory")
    }

    /// An unused file name.
    fn unused_name(&mut self, name: &str) -> String {
        loop {
            self.removed += 1;
            let aside = format!("removed-{}-{name}", self.removed);
            if self.disk.open(&aside).is_err() {
                return aside;
            }
        }
    }
}
