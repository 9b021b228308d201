//! The store: the only crate that knows files.
//!
//! Everything that must be remembered goes into the **journal**, one checksummed frame per batch, synced before it is
//! acknowledged. **Snapshots** keep restarts short, **files of events** keep the history when segments of the journal
//! go, and **cleaning** keeps the disk small. `spec/journal.md` shows every byte and argues for every moment at which
//! the power may fail.
//!
//! The path of a batch: [`Batches`] (filled in the hub's turn) → [`JournalFrame`] → [`Writer`] (append, sync) →
//! [`Reader`]. [`TopicLog`] is the same for pub/sub, with files and a thread of its own. [`Maintenance`] and
//! [`MaintenanceThread`] do the rest in the background. Where to look: `codec/` for records as bytes, `frame.rs`,
//! `segment.rs` and `scan.rs` for the journal, `recover/` for coming back, [`disk`] for what a disk is to us.

mod backup;
mod batches;
mod block;
mod cleaning;
mod codec;
pub mod disk;
mod dump;
mod error;
mod events;
mod files;
mod frame;
mod header;
mod high_water;
mod key_log;
mod maintenance;
mod maintenance_thread;
mod random;
mod reader;
mod recover;
mod repair;
mod scan;
mod segment;
mod segment_usage;
mod settings;
mod shared;
mod snapshot;
mod store;
mod tail;
mod topic_log;
mod verify;
mod writer;

pub use backup::{Manifest, ManifestFile, check_backup, restore};
pub use batches::{Batches, Mark};
pub use disk::{Disk, DiskFile, MemoryDisk, RealDisk};
pub use dump::dump;
pub use error::{Damage, ReadError, StoreError, WriteError};
pub use events::Events;
pub use frame::{FRAME_BYTES_MAX, JournalFrame};
pub use key_log::{KeyLog, KeyRecords, KeysOpened};
pub use maintenance::{Maintenance, MaintenanceEvent, Pace};
pub use maintenance_thread::MaintenanceThread;
pub use reader::{Reader, Usage};
pub use recover::{Cut, OpenReport};
pub use repair::{Repair, Repaired, repair};
pub use settings::{StoreSettings, Sync};
pub use store::{Opened, Parts, Store};
pub use topic_log::{TopicLog, TopicLogSettings, TopicRows, TopicsOpened};
pub use verify::{Verification, verify};
pub use writer::Writer;
