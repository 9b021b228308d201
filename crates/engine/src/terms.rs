//! The terms of a task: everything that many tasks have in common.
//!
//! A million tasks of one client differ in id and body but hardly in queue, tags or policy. The engine keeps
//! each distinct set of terms once, with a reference count; a task holds only its key.

use std::time::Duration;

use crate::array::{ArrayTerms, Element};
use crate::demand::Demand;
use crate::dependency::OnBroken;
use crate::id::TaskId;
use crate::limits::{NEEDS_MAX, TAGS_MAX};
use crate::name::{self, Name};
use crate::refusal::Refusal;

/// The crash policy: how the broker treats a task when the worker that runs it is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLost {
    /// Another worker tries again, within the crash budget.
    #[default]
    Requeue,
    /// A person decides: the task runs at most once by itself.
    Pause,
    /// The crash ends the task.
    Fail,
}

impl OnLost {
    /// All policies.
    pub const ALL: [OnLost; 3] = [OnLost::Requeue, OnLost::Pause, OnLost::Fail];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            OnLost::Requeue => "requeue",
            OnLost::Pause => "pause",
            OnLost::Fail => "fail",
        }
    }

    /// The policy with this word.
    pub fn parse(text: &str) -> Option<OnLost> {
        OnLost::ALL.into_iter().find(|policy| policy.as_str() == text)
    }
}

/// The delay before a retry: doubles from `first` up to `max`.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(1), max: Duration::from_secs(300) }
    }
}

/// The properties that many tasks share.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub namespace: Name,
    pub queue: Name,
    /// Capabilities a worker must offer, sorted, without repetition.
    pub needs: Vec<Name>,
    /// Tags that count this task, sorted, without repetition.
    pub tags: Vec<Name>,
    /// The identity of the submitting client, from its handshake. Clients can watch by it.
    pub submitter: Name,
    pub on_lost: OnLost,
    /// The crash with this number ends the task.
    pub crash_budget: u16,
    /// How often a task is retried after a reported failure.
    pub retries: u16,
    pub backoff: Backoff,
    /// The delay before a retry after a crash. `None`, the default, means no delay.
    pub crash_backoff: Option<Backoff>,
    /// How long an assigned task may stay unconfirmed; `None` takes the broker's setting.
    pub accept_timeout: Option<Duration>,
    /// How long one attempt may run. `None`, the default, means no limit.
    pub run_limit: Option<Duration>,
    /// An attempt that exceeds its run limit counts as a failure, within `retries`, instead of a crash.
    pub overrun_fails: bool,
    /// How long a worker may take to stop a cancelled task. `None` takes the broker's setting, zero means no
    /// limit.
    pub cancel_timeout: Option<Duration>,
    /// How long the task may wait for its start once its submitter is gone and cannot come back. `None`, the
    /// default, means no limit.
    pub abandon_after: Option<Duration>,
    /// How to proceed if a dependency ends otherwise than it should.
    pub on_broken: OnBroken,
    /// The slots and resources that the task occupies on its worker.
    pub demand: Demand,
    /// The array of which the task is an element.
    pub array: Option<ArrayTerms>,
    /// With whom the tasks take turns in their queue: a user, a project. Tasks without a key take turns as if
    /// they had one of their own.
    pub share: Option<Name>,
}

impl Terms {
    /// The default terms of a queue.
    pub fn new(namespace: Name, queue: Name, submitter: Name) -> Terms {
        Terms {
            namespace,
            queue,
            needs: Vec::new(),
            tags: Vec::new(),
            submitter,
            on_lost: OnLost::default(),
            crash_budget: 3,
            retries: 0,
            backoff: Backoff::default(),
            crash_backoff: None,
            accept_timeout: None,
            run_limit: None,
            overrun_fails: false,
            cancel_timeout: None,
            abandon_after: None,
            on_broken: OnBroken::default(),
            demand: Demand::default(),
            array: None,
            share: None,
        }
    }

    /// The place of the task with this id in its array.
    pub fn element(&self, task: TaskId) -> Option<Element> {
        self.array.map(|array| Element { array: array.id, index: array.index(task) })
    }

    /// Sorts what has no order, so that equal terms compare equal.
    pub(crate) fn normalize(&mut self) {
        self.needs.sort();
        self.needs.dedup();
        self.tags.sort();
        self.tags.dedup();
        self.demand.normalize();
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        name::check("queue", &self.queue)?;
        self.demand.check()?;
        if self.needs.len() > NEEDS_MAX {
            return Err(Refusal::TooMany { what: "needs", limit: NEEDS_MAX });
        }
        if self.tags.len() > TAGS_MAX {
            return Err(Refusal::TooMany { what: "tags", limit: TAGS_MAX });
        }
        self.needs.iter().try_for_each(|need| name::check("capability", need))?;
        self.tags.iter().try_for_each(|tag| name::check("tag", tag))?;
        self.share.iter().try_for_each(|share| name::check("share", share))
    }
}
