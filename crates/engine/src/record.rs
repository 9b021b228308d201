//! Records: what must be remembered, and the port through which the engine says it.
//!
//! A record is the whole new state of one thing plus the event that explains it. Applying it is replacing, so
//! recovery is "the last one wins". The engine hands records out by reference, at the moment of the change; whoever
//! listens encodes or copies what it needs, and a task in flight costs no allocation.

use crate::backlog::{Passed, Thresholds};
use crate::blob::Blob;
use crate::event::Event;
use crate::id::SessionId;
use crate::name::Name;
use crate::notice::Notice;
use crate::task::Task;
use crate::terms::Terms;
use crate::time::Timestamp;

/// What a record replaces.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    Task {
        task: &'a Task,
        terms: &'a Terms,
    },
    Worker(&'a WorkerHealth),
    Queue(&'a QueueSetting),
    Limit(&'a LimitSetting),
    /// The event is worth remembering but no state changes.
    Nothing,
}

/// What is known of a worker even when it is away. Everything else about a worker is presence: soft, never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerHealth {
    pub namespace: Name,
    pub worker: Name,
    pub crashes: u32,
    pub last_crash: Option<Timestamp>,
    /// The crashes inside the quarantine window, oldest first.
    pub recent_crashes: Vec<Timestamp>,
    pub quarantined_until: Option<Timestamp>,
    /// What it says of itself in the words of its door, until it says goodbye or is cleared.
    pub profile: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSetting {
    pub namespace: Name,
    pub queue: Name,
    pub paused: bool,
    /// A worker has served it at some time.
    pub ever_served: bool,
    /// When the last live worker was lost, if none is there.
    pub unserved_since: Option<Timestamp>,
    /// Its own thresholds. `None`: those of all queues.
    pub thresholds: Option<Thresholds>,
    /// Of which backlogs was told that are not over.
    pub passed: Passed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSetting {
    pub namespace: Name,
    pub tag: Name,
    pub limit: Option<u32>,
}

/// The small port between the engine and the world. The hub journals the records and delivers the notices after the
/// records are on disk; a test just collects them.
pub trait Output {
    fn record(&mut self, event: Event, change: Change<'_>);
    fn notice(&mut self, to: SessionId, notice: Notice);
    /// Nobody needs these bytes any more: their task is forgotten, they are the result of an attempt that another
    /// follows, or a checkpoint that has served. Nothing is journaled for it: recovery comes to the same conclusion from the tasks it finds.
    fn freed(&mut self, blob: Blob);
}
