//! Commands that change a task, a queue, a worker or a limit.

use tenure_wire::hook::Redeliver;
use tenure_wire::queue::Thresholds;
use tenure_wire::rate::Rate;
use tenure_wire::reply::BackedUp;
use tenure_wire::request::{
    Backup, Move as MoveRequest, OneQueue, OneTask, OneTaskWhy, OneWorker, PauseTask, SetLimit, SetRate,
    SetShare, SetThresholds,
};
use tenure_wire::{Name, Reply, Request, TaskId};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;

/// A change of a waiting task. Options that are not set stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    queue: Option<Name>,
    priority: Option<i32>,
    tags: Option<Vec<Name>>,
}

impl Move {
    /// Moves the task to this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Move {
        self.queue = Some(queue.into());
        self
    }

    /// Changes the priority; higher runs first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Move {
        self.priority = Some(priority);
        self
    }

    /// Replaces all tags of the task.
    #[must_use]
    pub fn tags<N: Into<Name>>(mut self, tags: impl IntoIterator<Item = N>) -> Move {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }
}

impl Client {
    /// Lets a held task run.
    pub async fn release(&self, task: TaskId) -> Result<(), Error> {
        self.command("release", Request::Release(OneTask { task })).await
    }

    /// Cancels a task in any state. A running task is cancelled when its worker confirms, or when the lease ends.
    pub async fn cancel(&self, task: TaskId, reason: Option<&str>) -> Result<(), Error> {
        self.command("cancel", Request::Cancel(OneTaskWhy { task, reason: reason.map(Into::into) })).await
    }

    /// Pauses a task until a client resumes it. A worker that can stops a running task in place: the attempt is
    /// suspended, and continues when it is resumed. Otherwise its attempt ends, and the task is paused when the worker
    /// confirms.
    pub async fn pause(&self, task: TaskId, reason: Option<&str>) -> Result<(), Error> {
        self.pause_task(PauseTask { task, reason: reason.map(Into::into), terminate: false }).await
    }

    /// Pauses a task like [`Client::pause`], but never in place: a running attempt ends.
    pub async fn pause_and_terminate(&self, task: TaskId, reason: Option<&str>) -> Result<(), Error> {
        self.pause_task(PauseTask { task, reason: reason.map(Into::into), terminate: true }).await
    }

    async fn pause_task(&self, pause: PauseTask) -> Result<(), Error> {
        self.command("pause", Request::Pause(pause)).await
    }

    /// Lets a paused task run again.
    pub async fn resume(&self, task: TaskId) -> Result<(), Error> {
        self.command("resume", Request::Resume(OneTask { task })).await
    }

    /// Runs an ended task again.
    pub async fn retry(&self, task: TaskId) -> Result<(), Error> {
        self.command("retry", Request::Retry(OneTask { task })).await
    }

    /// Changes the queue, the priority or the tags of a waiting task.
    pub async fn move_task(&self, task: TaskId, to: Move) -> Result<(), Error> {
        let Move { queue, priority, tags } = to;
        self.command("move", Request::Move(MoveRequest { task, queue, priority, tags })).await
    }

    /// Sets how many tasks of a tag workers may hold at once; `None` removes the limit.
    pub async fn set_limit(&self, tag: impl Into<Name>, limit: Option<u32>) -> Result<(), Error> {
        self.command("set-limit", Request::SetLimit(SetLimit { tag: tag.into(), limit })).await
    }

    /// Sets how often the broker hands out a task with this tag; `None` removes the rate.
    pub async fn set_tag_rate(&self, tag: impl Into<Name>, rate: Option<Rate>) -> Result<(), Error> {
        let set = SetRate { tag: Some(tag.into()), queue: None, rate };
        self.command("set-rate", Request::SetRate(set)).await
    }

    /// Sets how often the broker hands out a task of this queue; `None` removes the rate.
    pub async fn set_queue_rate(&self, queue: impl Into<Name>, rate: Option<Rate>) -> Result<(), Error> {
        let set = SetRate { tag: None, queue: Some(queue.into()), rate };
        self.command("set-rate", Request::SetRate(set)).await
    }

    /// Sets the weight of a share key; `None` gives it the default weight, 1.
    pub async fn set_share(&self, share: impl Into<Name>, weight: Option<u32>) -> Result<(), Error> {
        self.command("set-share", Request::SetShare(SetShare { share: share.into(), weight })).await
    }

    /// Stops assigning tasks from this queue.
    pub async fn pause_queue(&self, queue: impl Into<Name>) -> Result<(), Error> {
        self.command("pause-queue", Request::PauseQueue(OneQueue { queue: queue.into() })).await
    }

    /// Lets a paused queue assign tasks again.
    pub async fn resume_queue(&self, queue: impl Into<Name>) -> Result<(), Error> {
        self.command("resume-queue", Request::ResumeQueue(OneQueue { queue: queue.into() })).await
    }

    /// Sets the thresholds at which events report a backlog of the queue. Without thresholds, the broker-wide ones
    /// apply.
    pub async fn set_thresholds(
        &self,
        queue: impl Into<Name>,
        thresholds: Option<Thresholds>,
    ) -> Result<(), Error> {
        let set = SetThresholds { queue: queue.into(), thresholds };
        self.command("set-thresholds", Request::SetThresholds(set)).await
    }

    /// Drains a worker: it takes nothing new, finishes what it runs and leaves.
    pub async fn drain_worker(&self, worker: impl Into<Name>) -> Result<(), Error> {
        self.command("drain-worker", Request::DrainWorker(OneWorker { worker: worker.into() })).await
    }

    /// Ends a worker's quarantine.
    pub async fn clear_worker(&self, worker: impl Into<Name>) -> Result<(), Error> {
        self.command("clear-worker", Request::ClearWorker(OneWorker { worker: worker.into() })).await
    }

    /// Lets a hook send an event that it has given up again, or all such events. Returns how many.
    pub async fn redeliver(&self, hook: impl Into<Name>, event: Option<u64>) -> Result<u64, Error> {
        let again = Redeliver { hook: hook.into(), event };
        match self.ask("redeliver", Request::Redeliver(again), Repeat::Unsafe).await? {
            Reply::Redelivered(reply) => Ok(reply.events),
            other => Err(unexpected("redeliver", &other)),
        }
    }

    /// Copies the store of the running broker to a new directory below its `backup_dir`.
    pub async fn backup(&self, name: &str) -> Result<BackedUp, Error> {
        let backup = Backup { directory: name.into() };
        match self.ask("backup", Request::Backup(backup), Repeat::Unsafe).await? {
            Reply::BackedUp(backed_up) => Ok(backed_up),
            other => Err(unexpected("backup", &other)),
        }
    }
}
