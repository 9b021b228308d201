//! The reasons why a task is not running.

use std::fmt;

use crate::demand::{Amount, Quantity};
use crate::dependency::Condition;
use crate::id::TaskId;
use crate::name::Name;
use crate::rate::Rate;
use crate::state::StateName;
use crate::time::Timestamp;

/// Why a task is not running.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The task runs or has ended: there is nothing to explain.
    NotWaiting { state: StateName },
    /// Held back until a client releases it.
    Held,
    /// Waits for other tasks to end.
    Dependencies {
        open: u32,
        /// Some of them.
        some: Vec<WaitedFor>,
    },
    /// Its time has not come.
    NotBefore { until: Timestamp },
    /// Paused until a client resumes it.
    Paused,
    /// Its queue is paused.
    QueuePaused { queue: Name },
    /// No worker has ever served this queue.
    NoWorkerEver { queue: Name },
    /// Workers served the queue, but all of them are lost or gone.
    AllLost { queue: Name, since: Timestamp },
    /// Live workers serve the queue, but none offers all needed capabilities.
    NeedsUnmet { missing: Vec<Name> },
    /// The only workers that could take it are in quarantine.
    Quarantined { worker: Name, until: Timestamp },
    /// The only workers that could take it are draining.
    Draining { workers: u32 },
    /// As many tasks with one of its tags run as the limit allows.
    TagLimit { tag: Name, limit: u32, in_use: u32 },
    /// The array runs as many elements at once as it may.
    ArrayLimit { array: TaskId, limit: u32, in_use: u32 },
    /// The rate of a tag has no token.
    TagRate { tag: Name, rate: Rate, next_at: Timestamp },
    /// The rate of the queue has no token.
    QueueRate { queue: Name, rate: Rate, next_at: Timestamp },
    /// All workers that could take it have no free slot.
    AllFull { workers: u32, slots: u32 },
    /// The workers that could take it have too little free. This one has the most.
    Short { resource: Name, needed: Quantity, free: Quantity, worker: Name },
    /// No live worker is large enough. This one comes closest.
    TooLarge { resource: Name, needed: Quantity, total: Quantity, worker: Name },
    /// The only workers with room keep it for a more urgent task that needs more.
    Reserved { worker: Name, task: TaskId },
    /// The workers pull, and none is asking now.
    NoWorkerAsks { workers: u32 },
    /// Its attempt is suspended until other tasks have ended.
    Suspended {
        open: u32,
        /// Some of them.
        some: Vec<WaitedFor>,
    },
    /// The tasks that its attempt waited for have ended. The attempt continues when its worker has a free slot.
    AwaitingSlot { worker: Name },
    /// Sent to a worker that has not confirmed yet.
    AwaitingAcceptance { worker: Name, since: Timestamp },
    /// The change is decided but not yet on disk.
    AwaitingDisk,
    /// The replicated journal does not answer.
    AwaitingJournal,
}

/// A task that another one waits for.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedFor {
    pub task: TaskId,
    pub name: Option<Name>,
    pub condition: Condition,
    pub state: StateName,
}

impl fmt::Display for WaitedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.task)?;
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        write!(f, ", which is {}", self.state)?;
        match self.condition {
            Condition::Completed | Condition::Waited => Ok(()),
            condition => write!(f, " (until {condition})"),
        }
    }
}

impl Why {
    /// The stable code, the same in every door.
    pub fn code(&self) -> &'static str {
        match self {
            Why::NotWaiting { .. } => "not-waiting",
            Why::Held => "held",
            Why::Dependencies { .. } => "dependencies",
            Why::NotBefore { .. } => "not-before",
            Why::Paused => "paused",
            Why::QueuePaused { .. } => "queue-paused",
            Why::NoWorkerEver { .. } => "no-worker-ever",
            Why::AllLost { .. } => "all-lost",
            Why::NeedsUnmet { .. } => "needs-unmet",
            Why::Quarantined { .. } => "quarantined",
            Why::Draining { .. } => "draining",
            Why::TagLimit { .. } => "tag-limit",
            Why::ArrayLimit { .. } => "array-limit",
            Why::TagRate { .. } => "tag-rate",
            Why::QueueRate { .. } => "queue-rate",
            Why::AllFull { .. } => "all-full",
            Why::Short { .. } => "resources-short",
            Why::TooLarge { .. } => "too-large",
            Why::Reserved { .. } => "reserved",
            Why::NoWorkerAsks { .. } => "nobody-asks",
            Why::Suspended { .. } => "suspended",
            Why::AwaitingSlot { .. } => "awaiting-slot",
            Why::AwaitingAcceptance { .. } => "awaiting-acceptance",
            Why::AwaitingDisk => "awaiting-disk",
            Why::AwaitingJournal => "awaiting-journal",
        }
    }

    /// Whether no live worker can take the task at all, so that its submitter should learn of it at once.
    pub fn is_unserved(&self) -> bool {
        matches!(
            self,
            Why::NoWorkerEver { .. }
                | Why::AllLost { .. }
                | Why::NeedsUnmet { .. }
                | Why::TooLarge { .. }
                | Why::Quarantined { .. }
                | Why::Draining { .. }
        )
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotWaiting { state } => write!(f, "it is {state}"),
            Why::Held => f.write_str("it is held back: release it"),
            Why::Dependencies { open, some } => write_waited_for(f, *open, some),
            Why::Suspended { open, some } => {
                f.write_str("it is suspended and ")?;
                write_waited_for(f, *open, some)
            }
            Why::AwaitingSlot { worker } => {
                write!(f, "what it waited for has ended; it continues when worker {worker} has a free slot")
            }
            Why::NotBefore { until } => write!(f, "not before {}", until.rfc3339()),
            Why::Paused => f.write_str("it is paused: resume it"),
            Why::QueuePaused { queue } => write!(f, "queue {queue} is paused: resume the queue"),
            Why::NoWorkerEver { queue } => write!(f, "no worker has ever served queue {queue}: start one"),
            Why::AllLost { queue, since } => {
                write!(f, "all workers of queue {queue} have been gone since {}", since.rfc3339())
            }
            Why::NeedsUnmet { missing } => {
                f.write_str("no live worker of the queue offers ")?;
                for (index, need) in missing.iter().enumerate() {
                    write!(f, "{}{need}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Why::Quarantined { worker, until } => {
                write!(f, "worker {worker} is quarantined until {}", until.rfc3339())
            }
            Why::Draining { workers } => write!(f, "all {workers} workers that could take it are draining"),
            Why::TagLimit { tag, limit, in_use } => {
                write!(f, "tag {tag} is at its limit: {in_use} of {limit} in use")
            }
            Why::ArrayLimit { array, limit, in_use } => {
                write!(f, "array {array} is at its limit: {in_use} of {limit} elements in use")
            }

            Why::TagRate { tag, rate, next_at } => {
                write!(f, "rate limit of tag {tag} ({rate}): next at {}", next_at.rfc3339())
            }
            Why::QueueRate { queue, rate, next_at } => {
                write!(f, "rate limit of queue {queue} ({rate}): next at {}", next_at.rfc3339())
            }
            Why::AllFull { workers, slots } => {
                write!(f, "all {workers} workers that could take it are full: {slots} slots in use")
            }
            Why::Short { resource, needed, free, worker } => {
                let (needed, free) = (amount(resource, *needed), amount(resource, *free));
                write!(f, "needs {needed} {resource}, worker {worker} has {free} free")
            }
            Why::TooLarge { resource, needed, total, worker } => {
                let (needed, total) = (amount(resource, *needed), amount(resource, *total));
                write!(f, "no worker is large enough: needs {needed} {resource}, worker {worker} has {total}")
            }
            Why::Reserved { worker, task } => {
                write!(f, "worker {worker} keeps its room for task {task}")
            }
            Why::NoWorkerAsks { workers } => {
                write!(f, "{workers} workers could take it, but none is fetching tasks now")
            }
            Why::AwaitingAcceptance { worker, since } => {
                write!(f, "sent to worker {worker} at {}, not confirmed yet", since.rfc3339())
            }
            Why::AwaitingDisk => f.write_str("waiting for the disk"),
            Why::AwaitingJournal => {
                f.write_str("the replicated journal does not answer; it goes on when the journal is back")
            }
        }
    }
}

fn amount(of: &str, quantity: Quantity) -> Amount<'_> {
    Amount { of, quantity }
}

fn write_waited_for(f: &mut fmt::Formatter<'_>, open: u32, some: &[WaitedFor]) -> fmt::Result {
    write!(f, "waits for {open} {}: ", if open == 1 { "task" } else { "tasks" })?;
    for (index, one) in some.iter().enumerate() {
        write!(f, "{}{one}", if index == 0 { "" } else { ", " })?;
    }
    if some.len() < open as usize { f.write_str(", …") } else { Ok(()) }
}
