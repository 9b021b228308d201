//! The files in the data directory.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::events::EventFile;
use crate::files::{self, Named};
use crate::segment::Segment;
use crate::snapshot::SnapshotReader;

#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    /// Each in order.
    pub(crate) segments: Vec<u64>,
    pub(crate) snapshots: Vec<u64>,
    pub(crate) events: Vec<u64>,
    pub(crate) topics: Vec<u64>,
    pub(crate) keys: Vec<u64>,
    /// Leftovers of an earlier process: spare segments and unfinished files.
    pub(crate) leftovers: Vec<String>,
}

impl Inventory {
    pub(crate) fn take(disk: &dyn Disk) -> Result<Inventory, StoreError> {
        let mut inventory = Inventory::default();
        for name in disk.list().doing("listing", "the directory")? {
            match files::named(&name) {
                Named::Journal(start) => inventory.segments.push(start),
                Named::Snapshot(start) => inventory.snapshots.push(start),
                Named::Events(first) => inventory.events.push(first),
                Named::Topics(start) => inventory.topics.push(start),
                Named::Keys(start) => inventory.keys.push(start),
                Named::Spare(_) | Named::Unfinished => inventory.leftovers.push(name),
                // Its own opening reads it: damage in it must not keep the broker from starting.
                Named::TaskLog(_) | Named::Hook | Named::Other => {}
            }
        }
        Ok(inventory)
    }

    pub(crate) fn open_segments(&self, disk: &dyn Disk) -> Result<Vec<Arc<Segment>>, StoreError> {
        self.segments.iter().map(|start| Segment::open(disk, *start).map(Arc::new)).collect()
    }

    pub(crate) fn open_events(&self, disk: &dyn Disk) -> Result<Vec<EventFile>, StoreError> {
        self.events.iter().map(|first| EventFile::open(disk, *first)).collect()
    }

    /// A snapshot gets its name when it is complete, so the newest is the one to use. Older ones exist only
    /// if the process ended before it deleted them.
    pub(crate) fn newest_snapshot(&self, disk: &dyn Disk) -> Result<Option<SnapshotReader>, StoreError> {
        self.snapshots.last().map(|start| SnapshotReader::open(disk, *start)).transpose()
    }
}
