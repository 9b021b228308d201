//! A task to submit, and everything that can be said about it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tenure_wire::task::{NewTask, Terms};
use tenure_wire::time::millis;
use tenure_wire::words::OnLost;
use tenure_wire::{Name, TaskId, Timestamp};

/// A task to submit. Only its queue must be said.
///
/// ```
/// use std::time::Duration;
/// use tenure_client::{OnLost, Submission};
///
/// let scan = Submission::to("images")
///     .body("scan 7")
///     .name("scan-7")
///     .needs(["gpu"])
///     .on_lost(OnLost::Pause)
///     .retries(3)
///     .backoff(Duration::from_secs(1), Duration::from_secs(60))
///     .run_limit(Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    pub(crate) terms: Terms,
    pub(crate) task: NewTask,
}

impl Submission {
    /// To this queue.
    pub fn to(queue: impl Into<Name>) -> Submission {
        Submission { terms: Terms::new(queue), task: NewTask::default() }
    }

    /// What the worker gets: opaque bytes.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Submission {
        self.task.body = body.into();
        self
    }

    /// Makes the submission idempotent: the same again is answered with the task that is there. Only submissions that
    /// carry a name are repeated by the client when a connection breaks.
    #[must_use]
    pub fn name(mut self, name: impl Into<Name>) -> Submission {
        self.task.name = Some(name.into());
        self
    }

    /// Chooses the task's id, so that it can be looked up even if the answer is lost. Else the broker chooses.
    #[must_use]
    pub fn id(mut self, id: TaskId) -> Submission {
        self.task.id = Some(id);
        self
    }

    /// Higher first. Without it: the parent's plus one for a child, else zero.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Submission {
        self.task.priority = Some(priority);
        self
    }

    /// Capabilities that a worker must offer.
    #[must_use]
    pub fn needs<N: Into<Name>>(mut self, needs: impl IntoIterator<Item = N>) -> Submission {
        self.terms.needs = needs.into_iter().map(Into::into).collect();
        self
    }

    /// Tags to be limited under.
    #[must_use]
    pub fn tags<N: Into<Name>>(mut self, tags: impl IntoIterator<Item = N>) -> Submission {
        self.terms.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// The task is cancelled with its parent.
    #[must_use]
    pub fn parent(mut self, parent: TaskId) -> Submission {
        self.task.parent = Some(parent);
        self
    }

    /// Whether it waits until it is released.
    #[must_use]
    pub fn hold(mut self, hold: bool) -> Submission {
        self.task.hold = hold;
        self
    }

    /// Does not start before this time.
    #[must_use]
    pub fn not_before(mut self, time: impl Into<When>) -> Submission {
        self.task.not_before = Some(time.into().0);
        self
    }

    /// Does not start before so much time has passed, by this machine's clock.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Submission {
        self.not_before(SystemTime::now() + delay)
    }

    /// Fails if it has not started by this time.
    #[must_use]
    pub fn expires_at(mut self, time: impl Into<When>) -> Submission {
        self.task.expires_at = Some(time.into().0);
        self
    }

    /// Fails if it has not started after so much time, by this machine's clock.
    #[must_use]
    pub fn expires_in(self, span: Duration) -> Submission {
        self.expires_at(SystemTime::now() + span)
    }

    /// What a lost worker means for the task.
    #[must_use]
    pub fn on_lost(mut self, policy: OnLost) -> Submission {
        self.terms.on_lost = policy;
        self
    }

    /// The crash with this number is one too many (3).
    #[must_use]
    pub fn crash_budget(mut self, crashes: u16) -> Submission {
        self.terms.crash_budget = crashes;
        self
    }

    /// How often a reported failure is tried again (0).
    #[must_use]
    pub fn retries(mut self, retries: u16) -> Submission {
        self.terms.retries = retries;
        self
    }

    /// The delay before the first retry, doubling up to the longest (1 s, 5 min).
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Submission {
        self.terms.backoff_first_ms = millis(first);
        self.terms.backoff_max_ms = millis(longest);
        self
    }

    /// How long it may stay assigned without being started, if not as long as the broker's setting says.
    #[must_use]
    pub fn accept_timeout(mut self, span: Duration) -> Submission {
        self.terms.accept_timeout_ms = Some(millis(span));
        self
    }

    /// How long one attempt may run, if not as long as it takes.
    #[must_use]
    pub fn run_limit(mut self, span: Duration) -> Submission {
        self.terms.run_limit_ms = Some(millis(span));
        self
    }

    /// How long a worker may take to stop it once it is cancelled, if not as long as the broker's setting says. Zero is as
    /// long as it takes.
    #[must_use]
    pub fn cancel_timeout(mut self, span: Duration) -> Submission {
        self.terms.cancel_timeout_ms = Some(millis(span));
        self
    }

    /// Bytes that this submission takes on the wire, at most.
    pub(crate) fn bytes(&self) -> usize {
        let names = |names: &[Name]| names.iter().map(|name| name.len() + 5).sum::<usize>();
        let name = self.task.name.as_ref().map_or(0, |name| name.len());
        self.task.body.len()
            + name
            + self.terms.queue.len()
            + names(&self.terms.needs)
            + names(&self.terms.tags)
            + 384
    }
}

/// A point in time, from whatever the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(pub Timestamp);

impl From<Timestamp> for When {
    fn from(time: Timestamp) -> When {
        When(time)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> When {
        When(Timestamp::from_system_time(time))
    }
}
