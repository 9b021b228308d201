//! Notices: what the broker sends to a worker's session unasked. (Clients get events through a watch
//! instead.)

use std::sync::Arc;

use crate::blob::Blob;
use crate::demand::Devices;
use crate::dependency::{DependencyInfo, WaitEnd};
use crate::id::TaskId;
use crate::name::Name;
use crate::state::Wanted;
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// A message of the engine to a worker that did not ask for it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A new assignment. Every report must carry its attempt number.
    Assign(Box<Assignment>),
    /// A client wants the task cancelled or paused. The worker stops it and confirms. If `in_place` is set, a
    /// worker that can stop the attempt without ending it does so instead, and reports that it waits.
    Wanted { task: TaskId, attempt: u32, wanted: Wanted, in_place: bool, reason: Option<Box<str>> },
    /// The tasks that the suspended attempt waited for have ended. It has a slot again.
    Continue { task: TaskId, attempt: u32, ends: Vec<WaitEnd> },
    /// The attempt is over, whatever the worker does: the worker drops it without a report.
    Stop { task: TaskId, attempt: u32, why: StopWhy },
    /// Take nothing new, finish what runs, leave.
    Drain,
    /// A newer session of the same worker has taken over.
    Replaced { worker: Name },
}

/// A task for a worker.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub task: TaskId,
    pub attempt: u32,
    pub priority: i32,
    pub body: Blob,
    /// The checkpoint of an earlier attempt.
    pub checkpoint: Blob,
    pub terms: Arc<Terms>,
    pub name: Option<Name>,
    pub parent: Option<TaskId>,
    /// The tasks it waited for, so that the worker can fetch their results.
    pub after: Vec<DependencyInfo>,
    pub submitted_at: Timestamp,
    pub crashes: u16,
    pub failures: u16,
    /// The cpus and gpus that belong to this attempt.
    pub devices: Devices,
    pub trace: Option<Box<TraceContext>>,
}

/// Why a worker must stop an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopWhy {
    /// The attempt is no longer the current one.
    Stale,
    /// Not confirmed in time, or a worker with more free slots takes the task.
    TakenBack,
    /// A client has cancelled the task.
    Cancelled,
    /// A client has paused the task.
    Paused,
    /// The attempt exceeded its run limit.
    RunLimit,
    /// The time of the task is over.
    Expired,
}

impl StopWhy {
    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            StopWhy::Stale => "stale",
            StopWhy::TakenBack => "taken-back",
            StopWhy::Cancelled => "cancelled",
            StopWhy::Paused => "paused",
            StopWhy::RunLimit => "run-limit",
            StopWhy::Expired => "expired",
        }
    }
}
