//! Schedules: tasks that the broker submits again and again.

use std::time::Duration;

use tenure_wire::schedule::{CatchUp, OneSchedule, Overlap, ScheduleInfo, SetSchedule};
use tenure_wire::task::Accepted;
use tenure_wire::time::millis;
use tenure_wire::{Code, Name, Refusal, Reply, Request};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;
use crate::submission::Submission;

/// A schedule to set. Its task is a [`Submission`] without name, id, parent, dependencies and times.
///
/// ```
/// use std::time::Duration;
/// use tenure_client::{CatchUp, NewSchedule, Overlap, Submission};
///
/// let nightly = NewSchedule::new("nightly", "0 2 * * *", Submission::to("reports").body("all"))
///     .zone("Europe/Zurich")
///     .catch_up(CatchUp::Last)
///     .overlap(Overlap::Skip)
///     .jitter(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewSchedule {
    set: SetSchedule,
    extra: Option<&'static str>,
}

impl NewSchedule {
    /// Creates a schedule. `when` is a cron expression in UTC, or `every` and a duration: `every 15m`.
    pub fn new(name: impl Into<Name>, when: impl Into<Box<str>>, task: Submission) -> NewSchedule {
        let Submission { terms, task } = task;
        // The broker would refuse them; here their names are known.
        let extra = [
            ("a name", task.name.is_some()),
            ("an id", task.id.is_some()),
            ("a parent", task.parent.is_some()),
            ("dependencies", !task.after.is_empty()),
            ("hold", task.hold),
            ("an earliest start time", task.not_before.is_some()),
            ("a start deadline: use expires_after of the schedule", task.expires_at.is_some()),
        ];
        let extra = extra.into_iter().find(|(_, is_set)| *is_set).map(|(what, _)| what);
        let set = SetSchedule {
            schedule: name.into(),
            when: when.into(),
            zone: None,
            catch_up: CatchUp::None,
            overlap: Overlap::Queue,
            jitter_ms: 0,
            paused: false,
            terms,
            priority: task.priority,
            expires_after_ms: None,
            body: task.body,
        };
        NewSchedule { set, extra }
    }

    /// Sets the time zone of a cron expression, by its IANA name. Default: UTC.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<Name>) -> NewSchedule {
        self.set.zone = Some(zone.into());
        self
    }

    /// Sets what happens to due times that were missed. Default: nothing.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> NewSchedule {
        self.set.catch_up = catch_up;
        self
    }

    /// Sets what happens if the last task has not ended. Default: the new one waits for it.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> NewSchedule {
        self.set.overlap = overlap;
        self
    }

    /// Delays each firing by a part of this duration.
    #[must_use]
    pub fn jitter(mut self, duration: Duration) -> NewSchedule {
        self.set.jitter_ms = millis(duration);
        self
    }

    /// Lets a task fail if it has not started this long after its submission.
    #[must_use]
    pub fn expires_after(mut self, duration: Duration) -> NewSchedule {
        self.set.expires_after_ms = Some(millis(duration));
        self
    }

    /// Creates the schedule paused.
    #[must_use]
    pub fn paused(mut self, paused: bool) -> NewSchedule {
        self.set.paused = paused;
        self
    }
}

impl Client {
    /// Creates a schedule, or changes the one of this name.
    pub async fn set_schedule(&self, schedule: NewSchedule) -> Result<(), Error> {
        if let Some(what) = schedule.extra {
            let message = format!("the task of a schedule cannot have {what}");
            return Err(Error::Refused(Box::new(Refusal::new(Code::BadValue, message))));
        }
        self.command("set-schedule", Request::SetSchedule(Box::new(schedule.set))).await
    }

    /// Returns all schedules with their next due times.
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>, Error> {
        match self.query("schedules", Request::Schedules).await? {
            Reply::Schedules(reply) => Ok(reply.schedules),
            other => Err(unexpected("schedules", &other)),
        }
    }

    /// Returns one schedule.
    pub async fn schedule(&self, name: impl Into<Name>) -> Result<ScheduleInfo, Error> {
        let request = Request::Schedule(OneSchedule { schedule: name.into() });
        match self.query("schedule", request).await? {
            Reply::Schedules(mut reply) if reply.schedules.len() == 1 => Ok(reply.schedules.remove(0)),
            other => Err(unexpected("schedule", &other)),
        }
    }

    /// Stops a schedule until it is resumed.
    pub async fn pause_schedule(&self, name: impl Into<Name>) -> Result<(), Error> {
        let one = OneSchedule { schedule: name.into() };
        self.command("pause-schedule", Request::PauseSchedule(one)).await
    }

    /// Lets a paused schedule fire again. Due times that it missed follow its `catch_up`.
    pub async fn resume_schedule(&self, name: impl Into<Name>) -> Result<(), Error> {
        let one = OneSchedule { schedule: name.into() };
        self.command("resume-schedule", Request::ResumeSchedule(one)).await
    }

    /// Removes a schedule. Its tasks stay.
    pub async fn remove_schedule(&self, name: impl Into<Name>) -> Result<(), Error> {
        let one = OneSchedule { schedule: name.into() };
        self.command("remove-schedule", Request::RemoveSchedule(one)).await
    }

    /// Submits the task of a schedule now, whatever its times.
    pub async fn run_schedule(&self, name: impl Into<Name>) -> Result<Accepted, Error> {
        let request = Request::RunSchedule(OneSchedule { schedule: name.into() });
        match self.ask("run-schedule", request, Repeat::Unsafe).await? {
            Reply::Submitted(mut submitted) if submitted.tasks.len() == 1 => {
                submitted.tasks.remove(0).0.map_err(|refusal| Error::Refused(Box::new(refusal)))
            }
            other => Err(unexpected("run-schedule", &other)),
        }
    }
}
