//! The high-water mark: how far the journal is known to reach. Each frame confirms the frames before it, but
//! nothing confirms the last frame, or a last segment that is missing. The mark does.
//!
//! It is written when the store is opened, when a segment begins and when the store is closed, so it costs
//! nothing while tasks run. It is only a lower bound: a journal that reaches further is valid.
//!
//! The file holds two headers of the common 40-byte form, 512 bytes apart and written alternately, so that a
//! torn write leaves the older one.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, StoreError, is_full};
use crate::files::HIGH_WATER;
use crate::header::{HEADER_BYTES, HIGH_WATER_MAGIC, Header};

/// Everything before `position` was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HighWater {
    pub(crate) position: u64,
    /// The start of the last segment, if there was one.
    pub(crate) segment: Option<u64>,
}

/// The file, open for writing.
#[derive(Debug, Default)]
pub(crate) struct HighWaterFile {
    file: Option<Arc<dyn DiskFile>>,
    next_slot: u64,
}

const SLOTS: u64 = 2;
const SLOT_BYTES: u64 = 512;

impl HighWater {
    /// `None` if there is no valid mark.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<HighWater>, StoreError> {
        let names = disk.list().doing("listing", "the directory")?;
        if !names.iter().any(|name| name == HIGH_WATER) {
            return Ok(None);
        }
        let file = disk.open(HIGH_WATER).doing("opening", HIGH_WATER)?;
        let mut newest: Option<HighWater> = None;
        for slot in 0..SLOTS {
            let mut bytes = [0; HEADER_BYTES];
            file.read_at(&mut bytes, slot * SLOT_BYTES).doing("reading", HIGH_WATER)?;
            if let Some(Header { numbers: [position, segment], .. }) =
                Header::decode(&bytes, HIGH_WATER_MAGIC)
                && newest.is_none_or(|newest| position > newest.position)
            {
                newest = Some(HighWater { position, segment: segment.checked_sub(1) });
            }
        }
        Ok(newest)
    }

    /// Replaces any existing mark, lower or higher.
    pub(crate) fn replace(self, disk: &dyn Disk) -> Result<HighWaterFile, StoreError> {
        let file = disk.create(HIGH_WATER).doing("creating", HIGH_WATER)?;
        let mut mark = HighWaterFile { file: Some(file), next_slot: 0 };
        mark.write(self)?;
        disk.sync_dir().syncing("the directory")?;
        Ok(mark)
    }
}

impl HighWaterFile {
    /// Opens the file of a store whose mark was read, or creates it.
    pub(crate) fn open(disk: &dyn Disk) -> Result<HighWaterFile, StoreError> {
        match disk.open(HIGH_WATER) {
            Ok(file) => Ok(HighWaterFile { file: Some(file), next_slot: 0 }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let file = match disk.create(HIGH_WATER) {
                    Err(source) if is_full(&source) => return Ok(HighWaterFile::default()),
                    other => other.doing("creating", HIGH_WATER)?,
                };
                disk.sync_dir().syncing("the directory")?;
                Ok(HighWaterFile { file: Some(file), next_slot: 0 })
            }
            Err(error) => Err(error).doing("opening", HIGH_WATER),
        }
    }

    /// Raises the mark. On a full disk it stays lower, which is still correct.
    pub(crate) fn write(&mut self, mark: HighWater) -> Result<(), StoreError> {
        let Some(file) = &self.file else { return Ok(()) };
        let segment = mark.segment.map_or(0, |start| start + 1);
        let header = Header { magic: HIGH_WATER_MAGIC, salt: 0, numbers: [mark.position, segment] };
        match file.write_at(&header.encode(), self.next_slot * SLOT_BYTES) {
            Ok(()) => {}
            Err(source) if is_full(&source) => return Ok(()),
            Err(source) => return Err(source).doing("writing", HIGH_WATER),
        }
        self.next_slot = (self.next_slot + 1) % SLOTS;
        file.sync().syncing(HIGH_WATER)
    }
}
