//! The terms of a task: everything about it that many tasks have in common.
//!
//! A million tasks of one client differ in id and body but hardly in queue, tags or policy. The engine keeps each
//! distinct set of terms once and counts who uses it; a task holds a number.

use std::time::Duration;

use crate::limits::{NEEDS_MAX, TAGS_MAX};
use crate::name::{self, Name};
use crate::refusal::Refusal;

/// What happens to a task when the worker that runs it is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLost {
    /// Another worker tries, as long as the crash budget lasts.
    #[default]
    Requeue,
    /// A human decides: it runs zero times or once, never twice by itself.
    Pause,
    /// The crash ends it.
    Fail,
}

/// The delay before a task is tried again: doubles from `first` up to `max`.
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub namespace: Name,
    pub queue: Name,
    /// Capabilities a worker must offer, sorted, without repetition.
    pub needs: Vec<Name>,
    /// Tags to be counted under, sorted, without repetition.
    pub tags: Vec<Name>,
    /// Who is told, by the name it gave in its handshake.
    pub submitter: Name,
    pub on_lost: OnLost,
    /// The crash with this number is one too many: it ends the task.
    pub crash_budget: u16,
    /// How often a reported failure is tried again.
    pub retries: u16,
    pub backoff: Backoff,
    /// The delay before a task is tried again whose worker crashed. `None`, the default, is none at all.
    pub crash_backoff: Option<Backoff>,
    /// How long an assigned task may stay unconfirmed; `None` takes the broker's setting.
    pub accept_timeout: Option<Duration>,
    /// How long one attempt may run. `None`, the default, is as long as it takes.
    pub run_limit: Option<Duration>,
    /// An attempt that runs into its limit counts as a failure, within `retries`, instead of as a crash.
    pub overrun_fails: bool,
    /// How long a worker may take to stop a task that is cancelled. `None` takes the broker's setting, zero is as long as
    /// it takes.
    pub cancel_timeout: Option<Duration>,
    /// How long it may wait for its start when its submitter is gone and cannot come back. `None`, the default, is as long
    /// as it takes.
    pub abandon_after: Option<Duration>,
}

impl Terms {
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
        }
    }

    /// Brings needs and tags into their one order, so that equal terms compare equal.
    pub(crate) fn settle(&mut self) {
        self.needs.sort();
        self.needs.dedup();
        self.tags.sort();
        self.tags.dedup();
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        name::check("queue", &self.queue)?;
        if self.needs.len() > NEEDS_MAX {
            return Err(Refusal::TooMany { what: "needs", limit: NEEDS_MAX });
        }
        if self.tags.len() > TAGS_MAX {
            return Err(Refusal::TooMany { what: "tags", limit: TAGS_MAX });
        }
        self.needs.iter().try_for_each(|need| name::check("capability", need))?;
        self.tags.iter().try_for_each(|tag| name::check("tag", tag))
    }
}
