//! A journal that lives in a replicated database, shared by a group of brokers. One of them leads: it appends
//! chunks of frames, each fenced by its epoch and by the place where the journal ends. The others copy what is
//! committed into their local files, and one of them takes over when the leader is gone.
//!
//! The database decides who leads and what is committed; there is no consensus here. Local files are a copy of
//! it: always a prefix of what is committed, and never synced in the path of an acknowledgement.
//! `spec/replication.md` describes the rules and the fault that each of them prevents.

mod backup;
mod commit;
mod copy;
mod error;
mod hook_files;
mod leader;
mod lease;
mod local;
mod memory;
mod mirror;
mod mutation;
mod place;
mod replica;
mod stream;
mod stream_writer;
mod target;
mod uploads;

use std::fmt;
use std::time::Duration;

pub use backup::CopyBackup;
pub use error::ReplicationError;
pub use lease::LeaderLease;
pub use memory::{JournalFaults, MemoryJournal};
pub use mutation::ReplicationMutation;
pub use place::{FrameGroup, Place, StoredGroup};
pub use replica::{Followed, Replica, ReplicaSettings};
pub use stream::{PerStream, Stream};

pub(crate) use leader::LeaderState;
pub(crate) use local::create_segment;
pub(crate) use place::localized;
pub(crate) use stream_writer::{PendingFrame, StreamWriter};
pub(crate) use target::ReplicatedTarget;
pub(crate) use uploads::Uploads;

/// A database that holds the journal of a group of brokers.
pub trait ReplicatedJournal: Send + Sync + fmt::Debug {
    /// Opens a connection.
    fn connect(&self) -> Result<Box<dyn ReplicatedSession>, ReplicationError>;
}

/// One connection to the database. Every call blocks until the database has answered, and a change is committed
/// and replicated when its call returns `Ok`. After [`ReplicationError::Doubt`] or [`ReplicationError::Away`]
/// the session is useless: the caller drops it and connects again.
pub trait ReplicatedSession: Send + fmt::Debug {
    /// The current state of the group.
    fn look(&mut self) -> Result<GroupState, ReplicationError>;

    /// Begins a new epoch. `None` if the claim does not hold. The ends of the streams are read after the epoch
    /// has begun: an append of an earlier epoch can no longer add to them.
    fn lead(&mut self, member: &Member, claim: LeaderClaim) -> Result<Option<Leadership>, ReplicationError>;

    /// Extends the lease, and says up to which positions the leader has seen the streams committed.
    fn renew(&mut self, leadership: &Leadership, settled: PerStream<u64>) -> Result<(), ReplicationError>;

    /// Ends the lease at once, so that another member need not wait for it.
    fn release(&mut self, leadership: &Leadership) -> Result<(), ReplicationError>;

    /// Appends a chunk, all of it or nothing.
    fn append(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        group: &FrameGroup,
    ) -> Result<(), ReplicationError>;

    /// The committed chunks of a stream, in order, up to about this many bytes. The first one is the last that ends at or
    /// before `from`: it shows whether the reader's copy belongs to this journal.
    fn read(
        &mut self,
        stream: Stream,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredGroup>, ReplicationError>;

    /// Begins a segment at the end of a stream. Does nothing if it has begun there already.
    fn begin_segment(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        at: Place,
    ) -> Result<(), ReplicationError>;

    /// Drops segments of a stream, but never the newest one.
    fn drop_segments(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        starts: &[u64],
    ) -> Result<(), ReplicationError>;

    /// Stores a file as a whole. A longer file of the same name stays: it is the newer one.
    fn put_file(&mut self, leadership: &Leadership, name: &str, bytes: &[u8])
    -> Result<(), ReplicationError>;

    /// Reads a whole file.
    fn get_file(&mut self, name: &str) -> Result<Vec<u8>, ReplicationError>;

    /// Deletes a file, if it exists.
    fn remove_file(&mut self, leadership: &Leadership, name: &str) -> Result<(), ReplicationError>;
}

/// One broker of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name, unique in the group.
    pub name: String,
    /// Differs for every process, so that a process does not mistake its successor for itself.
    pub instance: u64,
    /// How long the lease lasts without a renewal.
    pub lease: Duration,
    /// The addresses of its doors, for the other members.
    pub doors: String,
}

#[allow(missing_docs, reason = "an epoch is the number of a leadership")]
/// Why a member may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderClaim {
    /// The lease of the last leader has ended, or the last leader was an earlier process of this member.
    LeaseEnded,
    /// It leads already, with this epoch, and begins a new one on a new connection.
    Own { epoch: u64 },
    /// The session of the leader with this epoch is gone.
    LeaderGone { epoch: u64 },
}

/// The right to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The number of this leadership.
    pub epoch: u64,
    /// Where the streams ended when the epoch began.
    pub tails: PerStream<Tail>,
    /// How long the lease lasts from each renewal.
    pub lease: Duration,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The place after the last chunk.
    pub end: Place,
    /// The start of the newest segment.
    pub segment: u64,
}

/// The group as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The number of the last leadership.
    pub epoch: u64,
    /// The last leader, if there was one, and the addresses of its doors.
    pub holder: Option<String>,
    /// The process of the last leader.
    pub instance: u64,
    /// The addresses of the last leader's doors.
    pub doors: String,
    /// How long the lease still lasts. Zero: any member may lead.
    pub lease_left: Duration,
    /// The database knows that the leader's session is gone.
    pub is_leader_gone: bool,
    /// The state of each stream.
    pub streams: PerStream<StreamState>,
    /// All stored files.
    pub files: Vec<FileEntry>,
}

/// A stream as the database knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The place after the last chunk.
    pub end: Place,
    /// Up to where the leader has seen it committed. What lies behind it, and is not followed by another
    /// chunk, may vanish.
    pub settled: u64,
    /// The starts of all segments with the chain there, in order. The first one of a new stream begins at 0.
    pub segments: Vec<Place>,
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32C of its bytes.
    pub crc: u32,
}
