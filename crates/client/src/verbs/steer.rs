//! Steering: what changes a task, a queue, a worker or a limit.

use tenure_wire::queue::Thresholds;
use tenure_wire::request::{
    Backup, Move as MoveRequest, OneQueue, OneTask, OneTaskWhy, OneWorker, SetLimit, SetThresholds,
};
use tenure_wire::{Name, Reply, Request, TaskId};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;

/// What to change about a waiting task; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    queue: Option<Name>,
    priority: Option<i32>,
    tags: Option<Vec<Name>>,
}

impl Move {
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Move {
        self.queue = Some(queue.into());
        self
    }

    #[must_use]
    pub fn priority(mut self, priority: i32) -> Move {
        self.priority = Some(priority);
        self
    }

    #[must_use]
    pub fn tags<N: Into<Name>>(mut self, tags: impl IntoIterator<Item = N>) -> Move {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }
}

impl Client {
    /// A task that was held back may run.
    pub async fn release(&self, task: TaskId) -> Result<(), Error> {
        self.command("release", Request::Release(OneTask { task })).await
    }

    /// Cancels a task in any state. One that runs is cancelled when its worker has confirmed, or when the lease ends.
    pub async fn cancel(&self, task: TaskId, reason: Option<&str>) -> Result<(), Error> {
        self.command("cancel", Request::Cancel(OneTaskWhy { task, reason: reason.map(Into::into) })).await
    }

    /// Pauses a task until it is resumed. A running one is paused when its worker has confirmed.
    pub async fn pause(&self, task: TaskId, reason: Option<&str>) -> Result<(), Error> {
        self.command("pause", Request::Pause(OneTaskWhy { task, reason: reason.map(Into::into) })).await
    }

    /// A paused task may run again.
    pub async fn resume(&self, task: TaskId) -> Result<(), Error> {
        self.command("resume", Request::Resume(OneTask { task })).await
    }

    /// An ended task once more.
    pub async fn retry(&self, task: TaskId) -> Result<(), Error> {
        self.command("retry", Request::Retry(OneTask { task })).await
    }

    /// Changes the queue, the priority or the tags of a waiting task.
    pub async fn move_task(&self, task: TaskId, to: Move) -> Result<(), Error> {
        let Move { queue, priority, tags } = to;
        self.command("move", Request::Move(MoveRequest { task, queue, priority, tags })).await
    }

    /// How many tasks of a tag may be held at once; without a limit, any number.
    pub async fn set_limit(&self, tag: impl Into<Name>, limit: Option<u32>) -> Result<(), Error> {
        self.command("set-limit", Request::SetLimit(SetLimit { tag: tag.into(), limit })).await
    }

    /// Nothing more is handed out from this queue.
    pub async fn pause_queue(&self, queue: impl Into<Name>) -> Result<(), Error> {
        self.command("pause-queue", Request::PauseQueue(OneQueue { queue: queue.into() })).await
    }

    pub async fn resume_queue(&self, queue: impl Into<Name>) -> Result<(), Error> {
        self.command("resume-queue", Request::ResumeQueue(OneQueue { queue: queue.into() })).await
    }

    /// From where on the queue has a backlog, of which events tell; without thresholds, from where all queues have.
    pub async fn set_thresholds(
        &self,
        queue: impl Into<Name>,
        thresholds: Option<Thresholds>,
    ) -> Result<(), Error> {
        let set = SetThresholds { queue: queue.into(), thresholds };
        self.command("set-thresholds", Request::SetThresholds(set)).await
    }

    /// The worker takes nothing new, finishes what it runs and leaves.
    pub async fn drain_worker(&self, worker: impl Into<Name>) -> Result<(), Error> {
        self.command("drain-worker", Request::DrainWorker(OneWorker { worker: worker.into() })).await
    }

    /// Ends a worker's quarantine.
    pub async fn clear_worker(&self, worker: impl Into<Name>) -> Result<(), Error> {
        self.command("clear-worker", Request::ClearWorker(OneWorker { worker: worker.into() })).await
    }

    /// Writes a copy of the store to a new directory below the broker's `backup_dir`, while it runs. Answers how many
    /// bytes it has.
    pub async fn backup(&self, name: &str) -> Result<u64, Error> {
        let backup = Backup { directory: name.into() };
        match self.ask("backup", Request::Backup(backup), Repeat::Unsafe).await? {
            Reply::BackedUp(backed_up) => Ok(backed_up.bytes),
            other => Err(unexpected("backup", &other)),
        }
    }
}
