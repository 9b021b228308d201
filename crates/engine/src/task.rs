//! One task. Kept small, because a million may wait.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::blob::Blob;
use crate::demand::Devices;
use crate::edges::EdgeList;
use crate::id::{Slot, TaskId};
use crate::limits::CRASHED_ON_MAX;
use crate::name::Name;
use crate::state::TaskState;
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// The number of a set of terms in the engine's table (see [`crate::terms::Terms`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermsKey(pub(crate) u32);

impl TermsKey {
    /// For tools that read records without an engine and number the terms themselves.
    pub fn from_index(index: u32) -> TermsKey {
        TermsKey(index)
    }

    /// For tables that are indexed by terms.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A task as the engine keeps it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    pub body: Blob,
    pub terms: TermsKey,
    /// Higher first.
    pub priority: i32,
    /// Increases with every assignment. Every report must carry it.
    pub attempt: u32,
    pub crashes: u16,
    pub failures: u16,
    /// Where the engine keeps the task's dependencies.
    pub edges: EdgeList,
    /// The event number of the submission. At equal priority, the lower goes first.
    pub age: u64,
    pub submitted_at: Timestamp,
    pub state: TaskState,
    /// Fields that most tasks do not have.
    pub extras: Option<Box<Extras>>,
}

/// The rare fields, which most tasks do not have.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The idempotency key of the submission.
    pub name: Option<Name>,
    /// A hash of the named request, to recognise a repeated submission.
    pub fingerprint: u64,
    pub parent: Option<TaskId>,
    pub not_before: Option<Timestamp>,
    /// The task fails if it has not started by then.
    pub expires_at: Option<Timestamp>,
    /// Workers that crashed on the task or never confirmed it, newest last. They are the last choice for the
    /// next attempt.
    pub crashed_on: Vec<Name>,
    pub checkpoint: Option<Checkpoint>,
    /// How long the current attempt has been suspended so far. That time does not count as run time.
    pub suspended_for: Duration,
    pub trace: Option<Box<TraceContext>>,
    /// A reconciliation submitted it: this many bytes of its name are the key prefix.
    pub reconciled_prefix: Option<u8>,
    /// By age. Rebuilt from `parent` at recovery, never stored.
    pub(crate) children: BTreeSet<(u64, Slot)>,
}

/// A task's checkpoint: the worker's saved progress, for itself after an interruption and for the next
/// attempt.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The attempt that saved it.
    pub attempt: u32,
    pub at: Timestamp,
    pub blob: Blob,
}

impl Extras {
    /// Makes a worker the last choice for the next attempt.
    pub(crate) fn avoid_worker(&mut self, worker: Name) {
        self.crashed_on.retain(|name| *name != worker);
        self.crashed_on.push(worker);
        if self.crashed_on.len() > CRASHED_ON_MAX {
            self.crashed_on.remove(0);
        }
    }
}

impl Task {
    /// The idempotency key.
    pub fn name(&self) -> Option<&Name> {
        self.extras.as_ref()?.name.as_ref()
    }

    /// The parent.
    pub fn parent(&self) -> Option<TaskId> {
        self.extras.as_ref()?.parent
    }

    /// When it may run.
    pub fn not_before(&self) -> Option<Timestamp> {
        self.extras.as_ref()?.not_before
    }

    /// The last checkpoint.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.extras.as_ref()?.checkpoint.as_ref()
    }

    /// The devices that its attempt has.
    pub fn devices(&self) -> Option<&Devices> {
        self.state.holding()?.devices.as_deref()
    }

    /// Gives a task that is read from the store the devices that its attempt has.
    pub fn restore_devices(&mut self, devices: Box<Devices>) {
        if let Some(holding) = self.state.holding_mut() {
            holding.devices = Some(devices);
        }
    }

    /// How long its attempts were suspended.
    pub fn suspended_for(&self) -> Duration {
        self.extras.as_ref().map_or(Duration::ZERO, |extras| extras.suspended_for)
    }

    /// The trace it belongs to.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extras.as_ref()?.trace.as_deref()
    }

    /// The key prefix of the reconciliation that submitted it.
    pub fn reconciliation(&self) -> Option<&str> {
        self.name()?.get(..usize::from(self.extras.as_ref()?.reconciled_prefix?))
    }

    pub(crate) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_task_stays_small() {
        assert!(size_of::<Task>() <= 88, "{}", size_of::<Task>());
    }

    #[test]
    fn a_named_task_stays_small() {
        assert!(size_of::<Extras>() <= 208, "{}", size_of::<Extras>());
    }
}
