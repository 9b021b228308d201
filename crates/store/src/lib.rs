//! The store: the only crate that uses files.
//!
//! Everything durable goes into the **journal**, one checksummed frame per batch, synced before it is
//! acknowledged. **Snapshots** keep restarts short, **event files** keep the history when segments of the
//! journal are deleted, and **cleaning** limits the disk usage. `spec/journal.md` shows every byte and argues
//! why a power failure at any moment is safe.
//!
//! The path of a batch: [`Batches`] (filled in the hub's turn) → [`JournalFrame`] → [`Writer`] (append, sync)
//! → [`Reader`]. [`TopicLog`] is the same for pub/sub, with its own files and thread. [`Maintenance`] and
//! [`MaintenanceThread`] do the background work. Where to look: `codec/` for the encoding of records;
//! `frame.rs`, `segment.rs` and `scan.rs` for the journal; `recover/` for recovery; [`disk`] for the
//! interface to a disk.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

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
mod hook_file;
mod key_log;
mod maintenance;
mod maintenance_thread;
mod namespace_move;
mod random;
mod reader;
mod recover;
mod repair;
mod replicated;
mod scan;
mod segment;
mod segment_usage;
mod settings;
mod shared;
mod snapshot;
mod store;
mod tail;
mod task_log;
mod topic_log;
mod verify;
mod writer;

pub use backup::{Manifest, ManifestFile, check_backup, restore};
pub use batches::{BatchMark, Batches};
pub use disk::{Disk, DiskFile, DiskLock, MemoryDisk, RealDisk};
pub use dump::dump;
pub use error::{AppendError, Damage, ReadError, StoreError, WriteError};
pub use events::Events;
pub use frame::{FRAME_BYTES_MAX, JournalFrame};
pub use key_log::{KeyLog, KeyRecords, KeysOpened};
pub use maintenance::{Maintenance, MaintenanceEvent, Pace};
pub use maintenance_thread::MaintenanceThread;
pub use namespace_move::{IdleJournal, MoveError, NamespaceContents};
pub use reader::{Reader, Usage};
pub use recover::{Cut, OpenReport};
pub use repair::{Repair, Repaired, repair};
pub use replicated::{
    CopyBackup, FileEntry, Followed, FrameGroup, GroupState, JournalFaults, LeaderClaim, LeaderLease,
    Leadership, Member, MemoryJournal, PerStream, Place, Replica, ReplicaSettings, ReplicatedJournal,
    ReplicatedSession, ReplicationError, ReplicationMutation, StoredGroup, Stream, StreamState, Tail,
};
pub use settings::{StoreSettings, Sync};
pub use store::{Opened, Parts, Store};
pub use task_log::{LogEntry, LogPlace, TaskLog, TaskLogReader, TaskLogSettings};
pub use topic_log::{TopicLog, TopicLogSettings, TopicRows, TopicsOpened};
pub use verify::{Verification, verify};
pub use writer::Writer;
