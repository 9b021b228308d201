//! A task to submit, as the engine takes it.

use std::time::Duration;

use crate::blob::Blob;
use crate::demand::Demand;
use crate::dependency::{After, OnBroken};
use crate::id::TaskId;
use crate::name::Name;
use crate::terms::{Backoff, OnLost};
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// One task to submit.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// Chosen by the client or made by the hub.
    pub id: TaskId,
    /// An idempotency key, unique in the namespace.
    pub name: Option<Name>,
    /// The queue in which it waits.
    pub queue: Name,
    /// Default: the parent's priority plus one for a child, else zero.
    pub priority: Option<i32>,
    /// Capabilities that its worker must offer.
    pub needs: Vec<Name>,
    /// Tags, counted by limits.
    pub tags: Vec<Name>,
    /// The slots and resources that it occupies.
    pub demand: Demand,
    /// With whom the task takes turns: a user, a project.
    pub share: Option<Name>,
    /// The task whose cancellation cancels this one.
    pub parent: Option<TaskId>,
    /// The tasks that have to end before this one may run.
    pub after: Vec<After>,
    /// How to proceed if a task of `after` ends otherwise.
    pub on_broken: OnBroken,
    /// Hold the task back until a client releases it.
    pub hold: bool,
    /// Delayed until this time.
    pub not_before: Option<Timestamp>,
    /// Fails if it has not started by this time.
    pub expires_at: Option<Timestamp>,
    /// How to proceed if its worker is lost.
    pub on_lost: OnLost,
    /// Fails after this many crashes.
    pub crash_budget: u16,
    /// How often it is retried after a failure.
    pub retries: u16,
    /// The delay before a retry.
    pub backoff: Backoff,
    /// The delay before it runs again after a crash; `None` for none.
    pub crash_backoff: Option<Backoff>,
    /// How long a worker may take to start it; `None` for the broker's setting.
    pub accept_timeout: Option<Duration>,
    /// The maximum run time of an attempt.
    pub run_limit: Option<Duration>,
    /// An attempt that exceeds its run limit counts as a failure instead of a crash.
    pub overrun_fails: bool,
    /// How long a worker may take to stop it; `None` for the broker's setting.
    pub cancel_timeout: Option<Duration>,
    /// How long it may wait once its submitter is gone for good.
    pub abandon_after: Option<Duration>,
    /// Where its body is.
    pub body: Blob,
    /// The trace that the task belongs to. It does not distinguish two submissions of one name.
    pub trace: Option<Box<TraceContext>>,
    /// A reconciliation submits it: this many bytes of its name are the key prefix. It does not distinguish two
    /// submissions of one name either.
    pub reconciled_prefix: Option<u8>,
    /// A stable hash of the body's bytes, needed only if the task has a name.
    pub body_digest: u64,
}

impl NewTask {
    /// A task in one queue with default terms.
    pub fn new(id: TaskId, queue: impl Into<Name>) -> NewTask {
        NewTask {
            id,
            name: None,
            queue: queue.into(),
            priority: None,
            needs: Vec::new(),
            tags: Vec::new(),
            demand: Demand::default(),
            share: None,
            parent: None,
            after: Vec::new(),
            on_broken: OnBroken::default(),
            hold: false,
            not_before: None,
            expires_at: None,
            on_lost: OnLost::default(),
            crash_budget: 3,
            retries: 0,
            backoff: Backoff::default(),
            crash_backoff: None,
            trace: None,
            reconciled_prefix: None,
            accept_timeout: None,
            run_limit: None,
            overrun_fails: false,
            cancel_timeout: None,
            abandon_after: None,
            body: Blob::EMPTY,
            body_digest: 0,
        }
    }
}
