//! Notices: unasked news for a worker's session. (Clients hear events instead, through a watch.)

use std::sync::Arc;

use crate::blob::Blob;
use crate::id::TaskId;
use crate::name::Name;
use crate::state::Wanted;
use crate::terms::Terms;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Here is work. The attempt goes back with every report.
    Assign(Box<Assignment>),
    /// Somebody wants the task cancelled or paused. Wind it down and confirm.
    Wanted { task: TaskId, attempt: u32, wanted: Wanted, reason: Option<Box<str>> },
    /// The attempt is over, whatever the worker does: drop it without a report.
    Stop { task: TaskId, attempt: u32, why: StopWhy },
    /// Take nothing new, finish what runs, leave.
    Drain,
    /// Another session of the same worker has taken over.
    Replaced { worker: Name },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub task: TaskId,
    pub attempt: u32,
    pub priority: i32,
    pub body: Blob,
    /// How far an earlier attempt got.
    pub checkpoint: Blob,
    pub terms: Arc<Terms>,
    pub name: Option<Name>,
    pub parent: Option<TaskId>,
    pub submitted_at: Timestamp,
    pub crashes: u16,
    pub failures: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopWhy {
    /// The attempt's number is not the current one any more.
    Stale,
    /// Not confirmed in time, or a freer worker takes it.
    TakenBack,
    Cancelled,
    Paused,
    RunLimit,
    Expired,
}

impl StopWhy {
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
