//! Approximate wire size of an answer or an event, so that a component that buffers many of them can limit
//! their memory.

use crate::array::ArrayInfo;
use crate::command::{Accepted, Answer, Reply, TaskInfo, WorkerAbout, WorkerInfo};
use crate::demand::Devices;
use crate::dependency::DependencyInfo;
use crate::event::{Event, EventData, EventSubject};
use crate::name::Name;
use crate::notice::Notice;
use crate::refusal::Refusal;
use crate::schedule::ScheduleInfo;
use crate::state::{Holding, TaskState};
use crate::terms::Terms;
use crate::why::Why;

/// The numeric fields of a task, worker, event or notice, with their names on the wire.
const NUMBERS: usize = 256;
/// The length and field name of one text.
const TEXT: usize = 16;

impl Answer {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        match self {
            Answer::Task(task) => task.size(),
            Answer::Why { why, reconciliation } => why.size() + optional(reconciliation.as_deref()),
            Answer::Tasks { tasks, .. } | Answer::ScannedTasks { tasks, .. } => {
                tasks.iter().map(TaskInfo::size).sum()
            }
            Answer::Workers(workers) | Answer::ScannedWorkers { workers, .. } => {
                workers.iter().map(WorkerInfo::size).sum()
            }
            Answer::Queues(queues) => queues.iter().map(|queue| NUMBERS + text(&queue.queue)).sum(),
            Answer::Limits(limits) => limits.iter().map(|limit| TEXT + text(&limit.tag)).sum(),
            Answer::Schedules(schedules) => schedules.iter().map(ScheduleInfo::size).sum(),
            Answer::Shares(shares) => shares.iter().map(|share| 3 * TEXT + text(&share.share)).sum(),
            Answer::Counts(_) => NUMBERS,
            Answer::Array(array) => array.size(),
            Answer::Arrays { arrays, .. } => arrays.iter().map(ArrayInfo::size).sum(),
        }
    }
}

impl Reply {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        match self {
            Reply::Done => 0,
            Reply::Submitted(each) => {
                each.iter().map(|each| each.as_ref().map_or_else(Refusal::size, Accepted::size)).sum()
            }
            Reply::ArraySubmitted(accepted) => 4 * TEXT + accepted.unserved.as_ref().map_or(0, Why::size),
            Reply::Held(each) | Reply::Registered { held: each, .. } => {
                each.iter().map(|each| each.as_ref().map_or_else(Refusal::size, |()| 1)).sum()
            }
        }
    }
}

impl Accepted {
    fn size(&self) -> usize {
        4 * TEXT + self.unserved.as_ref().map_or(0, Why::size)
    }
}

impl Refusal {
    /// A refusal is a sentence with one or two names.
    pub fn size(&self) -> usize {
        NUMBERS
    }
}

impl Why {
    fn size(&self) -> usize {
        match self {
            Why::NeedsUnmet { missing } => names(missing),
            Why::Dependencies { some, .. } | Why::Suspended { some, .. } => {
                some.iter().map(|one| 2 * TEXT + optional(one.name.as_deref())).sum()
            }
            _ => NUMBERS,
        }
    }
}

impl TaskInfo {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        let state = match &self.state {
            TaskState::Created
            | TaskState::Waiting { .. }
            | TaskState::Delayed { .. }
            | TaskState::Ready { .. } => 0,
            TaskState::Assigned(holding) | TaskState::Running(holding) => holding.size(),
            TaskState::Suspended(suspension) => suspension.holding.size(),
            TaskState::Paused(pause) => optional(pause.reason.as_deref()),
            TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => {
                optional(end.message.as_deref()) + optional(end.worker.as_deref())
            }
        };
        NUMBERS
            + self.terms.size()
            + names(&self.crashed_on)
            + optional(self.name.as_deref())
            + optional(self.reconciliation.as_deref())
            + dependencies(&self.after)
            + self.devices.as_deref().map_or(0, devices)
            + state
    }
}

impl Holding {
    fn size(&self) -> usize {
        let note = self.progress.as_ref().and_then(|progress| progress.note.as_deref());
        let reason = self.intent.as_ref().and_then(|intent| intent.reason.as_deref());
        text(&self.worker) + optional(note) + optional(reason)
    }
}

impl ArrayInfo {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        NUMBERS + text(&self.queue) + text(&self.submitter) + optional(self.name.as_deref())
    }
}

impl Terms {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        text(&self.namespace)
            + text(&self.queue)
            + text(&self.submitter)
            + names(&self.needs)
            + names(&self.tags)
            + self.demand.resources.iter().map(|resource| TEXT + text(&resource.name)).sum::<usize>()
            + optional(self.share.as_deref())
    }
}

impl WorkerInfo {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        let WorkerAbout { host, platform, version, door: _ } = &self.about;
        let about: usize = [host, platform, version].into_iter().map(|each| optional(each.as_deref())).sum();
        NUMBERS
            + text(&self.worker)
            + names(&self.queues)
            + names(&self.capabilities)
            + self.held.len() * 2 * TEXT
            + self.resources.iter().map(|resource| 2 * TEXT + text(&resource.name)).sum::<usize>()
            + about
            + optional(self.profile.as_deref())
    }
}

impl ScheduleInfo {
    /// Doors show how long the body is, not the body.
    fn size(&self) -> usize {
        let schedule = &self.schedule;
        NUMBERS
            + text(&schedule.name)
            + text(&schedule.when)
            + optional(schedule.zone.as_deref())
            + schedule.terms.size()
    }
}

impl Event {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        let about = match &self.about {
            EventSubject::Task { terms, .. } => terms.size(),
            EventSubject::Worker { namespace, worker: name }
            | EventSubject::Queue { namespace, queue: name }
            | EventSubject::Tag { namespace, tag: name }
            | EventSubject::Schedule { namespace, schedule: name } => text(namespace) + text(name),
            EventSubject::Array { id: _, namespace, queue, submitter, name } => {
                text(namespace) + text(queue) + text(submitter) + optional(name.as_deref())
            }
            EventSubject::Share { namespace, share: name } => text(namespace) + text(name),
        };
        let kind = match &self.kind {
            EventData::Submitted { unserved, reconciliation } => {
                unserved.as_ref().map_or(0, Why::size) + optional(reconciliation.as_deref())
            }
            EventData::Progress { note: told, .. }
            | EventData::GivenBack { reason: told, .. }
            | EventData::CancelRequested { reason: told }
            | EventData::PauseRequested { reason: told }
            | EventData::Paused { reason: told }
            | EventData::Failed { message: told, .. }
            | EventData::Cancelled { reason: told, .. } => optional(told.as_deref()),
            EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => names(needs),
            // A number or the name of a worker.
            EventData::Released
            | EventData::DependenciesMet
            | EventData::Due
            | EventData::Assigned { .. }
            | EventData::Started { .. }
            | EventData::Checkpoint { .. }
            | EventData::Suspended { .. }
            | EventData::Continued { .. }
            | EventData::TakenBack { .. }
            | EventData::HolderLost { .. }
            | EventData::HolderReturned { .. }
            | EventData::Crashed { .. }
            | EventData::IntentDelivered { .. }
            | EventData::Resumed
            | EventData::Retried
            | EventData::Moved
            | EventData::Completed { .. }
            | EventData::Expired
            | EventData::WorkerRegistered
            | EventData::WorkerLost { .. }
            | EventData::WorkerReturned
            | EventData::WorkerLeft
            | EventData::WorkerDraining
            | EventData::WorkerQuarantined { .. }
            | EventData::WorkerCleared
            | EventData::QueuePaused
            | EventData::QueueResumed
            | EventData::QueueBacklog { .. }
            | EventData::QueueBacklogCleared { .. }
            | EventData::QueueThresholdsSet { .. }
            | EventData::LimitSet { .. }
            | EventData::ScheduleSet
            | EventData::ScheduleFired { .. }
            | EventData::ScheduleSkipped { .. }
            | EventData::SchedulePaused
            | EventData::ScheduleResumed
            | EventData::ScheduleRemoved
            | EventData::ArraySubmitted { .. }
            | EventData::ArrayEnded { .. }
            | EventData::ArrayLimitSet { .. }
            | EventData::QueueRateSet { .. }
            | EventData::RateSet { .. }
            | EventData::ShareSet { .. } => 0,
        };
        NUMBERS + about + kind
    }
}

impl Notice {
    /// How many bytes it occupies in memory.
    pub fn size(&self) -> usize {
        NUMBERS
            + match self {
                Notice::Assign(assignment) => {
                    assignment.terms.size()
                        + optional(assignment.name.as_deref())
                        + dependencies(&assignment.after)
                        + devices(&assignment.devices)
                }
                Notice::Wanted { reason, .. } => optional(reason.as_deref()),
                Notice::Continue { ends, .. } => ends.len() * 2 * TEXT,
                Notice::Stop { .. } | Notice::Drain | Notice::Replaced { .. } => 0,
            }
    }
}

fn dependencies(after: &[DependencyInfo]) -> usize {
    after.iter().map(|one| 4 * TEXT + optional(one.name.as_deref())).sum()
}

fn devices(devices: &Devices) -> usize {
    (devices.cpus.len() + devices.gpus.len()) * 3
}

fn names(names: &[Name]) -> usize {
    names.iter().map(|name| text(name)).sum()
}

fn optional(told: Option<&str>) -> usize {
    told.map_or(0, text)
}

fn text(text: &str) -> usize {
    TEXT + text.len()
}
