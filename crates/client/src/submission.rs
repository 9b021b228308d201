//! A task to submit, with all its options.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tenure_wire::task::{self, NewTask, Resource, Terms};
use tenure_wire::time::millis;
use tenure_wire::words::{Condition, OnBroken, OnLost};
use tenure_wire::{Name, TaskId, Timestamp};

use crate::quantity::Quantity;

/// A task to submit. Only the queue is required.
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
    /// Creates a task for this queue.
    pub fn to(queue: impl Into<Name>) -> Submission {
        Submission { terms: Terms::new(queue), task: NewTask::default() }
    }

    /// Sets the body: opaque bytes for the worker.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Submission {
        self.task.body = body.into();
        self
    }

    /// Sets the idempotency key: if the same submission comes again, the broker answers with the existing task. After
    /// a lost connection the client repeats only submissions with a name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Name>) -> Submission {
        self.task.name = Some(name.into());
        self
    }

    /// Chooses the task's id, so that the task can be looked up even if the reply is lost. Otherwise the broker
    /// chooses it.
    #[must_use]
    pub fn id(mut self, id: TaskId) -> Submission {
        self.task.id = Some(id);
        self
    }

    /// Sets the priority; higher runs first. Default: the parent's priority plus one for a child, otherwise 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Submission {
        self.task.priority = Some(priority);
        self
    }

    /// Sets the capabilities that a worker must offer.
    #[must_use]
    pub fn needs<N: Into<Name>>(mut self, needs: impl IntoIterator<Item = N>) -> Submission {
        self.terms.needs = needs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tags whose limits apply to the task.
    #[must_use]
    pub fn tags<N: Into<Name>>(mut self, tags: impl IntoIterator<Item = N>) -> Submission {
        self.terms.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how many slots the task occupies (1). With 0, for a task that mostly waits, it occupies a light slot
    /// instead.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Submission {
        self.terms.slots = slots;
        self
    }

    /// Sets how much of a resource the task needs. The worker must have that much free.
    ///
    /// ```
    /// use tenure_client::{Quantity, Submission};
    ///
    /// let train = Submission::to("training")
    ///     .resource("gpus", Quantity::parse("0.5")?)
    ///     .resource("mem", Quantity::parse("8GB")?);
    /// # Ok::<(), tenure_client::BadQuantity>(())
    /// ```
    #[must_use]
    pub fn resource(mut self, name: impl Into<Name>, quantity: Quantity) -> Submission {
        let name = name.into();
        self.terms.resources.retain(|resource| resource.name != name);
        self.terms.resources.push(Resource { name, quantity: quantity.0 });
        self
    }

    /// Sets the share key: a user, a project. In a queue, the tasks of different keys take turns.
    #[must_use]
    pub fn share(mut self, share: impl Into<Name>) -> Submission {
        self.terms.share = Some(share.into());
        self
    }

    /// Sets the parent. The broker cancels the task together with its parent.
    #[must_use]
    pub fn parent(mut self, parent: TaskId) -> Submission {
        self.task.parent = Some(parent);
        self
    }

    /// Adds a task that has to end before this one may run: its id, its name, or an [`After`] that says more.
    ///
    /// ```
    /// use tenure_client::{After, OnBroken, Submission};
    ///
    /// let report = Submission::to("reports")
    ///     .after("scan-7")
    ///     .after(After::name("clean-up").ended())
    ///     .on_broken(OnBroken::Hold);
    /// ```
    #[must_use]
    pub fn after(mut self, task: impl Into<After>) -> Submission {
        self.task.after.push(task.into().0);
        self
    }

    /// Sets what happens if one of those tasks ends otherwise than it should. Default: the task is cancelled.
    #[must_use]
    pub fn on_broken(mut self, policy: OnBroken) -> Submission {
        self.terms.on_broken = policy;
        self
    }

    /// Sets the trace that the task belongs to, as `traceparent` of the W3C recommendation. The worker gets it with the
    /// task; a broker that exports spans adds its own between the two.
    ///
    /// ```
    /// use tenure_client::Submission;
    ///
    /// let scan = Submission::to("images").traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    /// ```
    #[must_use]
    pub fn traceparent(mut self, parent: impl Into<Box<str>>) -> Submission {
        self.task.traceparent = Some(parent.into());
        self
    }

    /// Sets what tracing systems add to the trace, up to 512 bytes.
    #[must_use]
    pub fn tracestate(mut self, state: impl Into<Box<str>>) -> Submission {
        self.task.tracestate = Some(state.into());
        self
    }

    /// Sets whether the task waits until a client releases it.
    #[must_use]
    pub fn hold(mut self, hold: bool) -> Submission {
        self.task.hold = hold;
        self
    }

    /// Sets the earliest start time.
    #[must_use]
    pub fn not_before(mut self, time: impl Into<When>) -> Submission {
        self.task.not_before = Some(time.into().0);
        self
    }

    /// Sets the earliest start time, counted from now by this machine's clock.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Submission {
        self.not_before(SystemTime::now() + delay)
    }

    /// Sets a start deadline. The task fails if it has not started by then.
    #[must_use]
    pub fn expires_at(mut self, time: impl Into<When>) -> Submission {
        self.task.expires_at = Some(time.into().0);
        self
    }

    /// Sets a start deadline, counted from now by this machine's clock. The task fails if it has not started by then.
    #[must_use]
    pub fn expires_in(self, duration: Duration) -> Submission {
        self.expires_at(SystemTime::now() + duration)
    }

    /// Sets what the broker does with the task when its worker is lost.
    #[must_use]
    pub fn on_lost(mut self, policy: OnLost) -> Submission {
        self.terms.on_lost = policy;
        self
    }

    /// Sets the crash budget: the broker does not requeue the task after the crash of this number (3).
    #[must_use]
    pub fn crash_budget(mut self, crashes: u16) -> Submission {
        self.terms.crash_budget = crashes;
        self
    }

    /// Sets how often the broker retries the task after a reported failure (0).
    #[must_use]
    pub fn retries(mut self, retries: u16) -> Submission {
        self.terms.retries = retries;
        self
    }

    /// Sets the delay before the first retry, which doubles up to `longest` (1 s, 5 min).
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Submission {
        self.terms.backoff_first_ms = millis(first);
        self.terms.backoff_max_ms = millis(longest);
        self
    }

    /// Sets how long the task may stay assigned without being started. Default: the broker's setting.
    #[must_use]
    pub fn accept_timeout(mut self, duration: Duration) -> Submission {
        self.terms.accept_timeout_ms = Some(millis(duration));
        self
    }

    /// Sets how long one attempt may run. Default: no limit.
    #[must_use]
    pub fn run_limit(mut self, duration: Duration) -> Submission {
        self.terms.run_limit_ms = Some(millis(duration));
        self
    }

    /// Sets how long a worker may take to stop the task after a cancellation. Default: the broker's setting. Zero
    /// means no limit.
    #[must_use]
    pub fn cancel_timeout(mut self, duration: Duration) -> Submission {
        self.terms.cancel_timeout_ms = Some(millis(duration));
        self
    }

    /// Upper bound of this submission's size on the wire.
    pub(crate) fn bytes(&self) -> usize {
        let names = |names: &[Name]| names.iter().map(|name| name.len() + 5).sum::<usize>();
        let name = self.task.name.as_ref().map_or(0, |name| name.len());
        self.task.body.len()
            + name
            + self.terms.queue.len()
            + names(&self.terms.needs)
            + names(&self.terms.tags)
            + self.terms.resources.iter().map(|resource| resource.name.len() + 16).sum::<usize>()
            + self
                .task
                .after
                .iter()
                .map(|after| 48 + after.name.as_ref().map_or(0, |name| name.len()))
                .sum::<usize>()
            + 384
    }
}

/// A task to wait for. It has to be completed, unless another end is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct After(pub(crate) task::After);

impl After {
    /// Waits for the task of this id.
    pub fn task(task: TaskId) -> After {
        After(task::After { task: Some(task), ..After::nothing() })
    }

    /// Waits for the task of this name.
    pub fn name(name: impl Into<Name>) -> After {
        After(task::After { name: Some(name.into()), ..After::nothing() })
    }

    /// Waits for an earlier task of the same [`submit_many`](crate::Client::submit_many), counted from 0.
    pub fn index(index: u32) -> After {
        After(task::After { index: Some(index), ..After::nothing() })
    }

    /// The task may end in any way.
    #[must_use]
    pub fn ended(mut self) -> After {
        self.0.condition = Condition::Ended;
        self
    }

    /// The task has to fail.
    #[must_use]
    pub fn failed(mut self) -> After {
        self.0.condition = Condition::Failed;
        self
    }

    fn nothing() -> task::After {
        task::After { task: None, condition: Condition::Completed, name: None, index: None }
    }
}

impl From<TaskId> for After {
    fn from(task: TaskId) -> After {
        After::task(task)
    }
}

impl From<&str> for After {
    fn from(name: &str) -> After {
        After::name(name)
    }
}

/// A point in time, converted from several types.
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
