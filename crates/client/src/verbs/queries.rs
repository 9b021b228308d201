//! Queries: they change nothing, so the client repeats them after a lost connection.

use bytes::Bytes;
use tenure_wire::hook::{HookInfo, OneHook, UndeliveredEvent};
use tenure_wire::queue::{Counts, LimitInfo, QueueInfo};
use tenure_wire::reply::Figure;
use tenure_wire::request::{LogsQuery, OneName, OneTask};
use tenure_wire::task::TaskInfo;
use tenure_wire::why::Why;
use tenure_wire::worker::WorkerInfo;
use tenure_wire::{Name, Reply, Request, TaskId};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;
use crate::log::LogChunks;

impl Client {
    /// Returns a task in any state.
    pub async fn show(&self, task: TaskId) -> Result<TaskInfo, Error> {
        match self.query("show", Request::Show(OneTask { task })).await? {
            Reply::Task(task) => Ok(*task),
            other => Err(unexpected("show", &other)),
        }
    }

    /// Returns the task that was submitted under this name.
    pub async fn find(&self, name: impl Into<Name>) -> Result<TaskInfo, Error> {
        match self.query("find", Request::Find(OneName { name: name.into() })).await? {
            Reply::Task(task) => Ok(*task),
            other => Err(unexpected("find", &other)),
        }
    }

    /// Returns the exact reason why a task is not running.
    pub async fn explain(&self, task: TaskId) -> Result<Why, Error> {
        match self.query("explain", Request::Explain(OneTask { task })).await? {
            Reply::Why(why) => Ok(*why),
            other => Err(unexpected("explain", &other)),
        }
    }

    /// Returns a task's body.
    pub async fn body(&self, task: TaskId) -> Result<Bytes, Error> {
        match self.query("body", Request::Body(OneTask { task })).await? {
            Reply::Bytes(reply) => Ok(reply.bytes),
            other => Err(unexpected("body", &other)),
        }
    }

    /// Returns the result of an ended task.
    pub async fn result(&self, task: TaskId) -> Result<Bytes, Error> {
        match self.query("result", Request::Result(OneTask { task })).await? {
            Reply::Bytes(reply) => Ok(reply.bytes),
            other => Err(unexpected("result", &other)),
        }
    }

    /// Returns what a task has printed after a place in its log: 0, or `next` of the previous page.
    pub async fn logs(&self, task: TaskId, after: u64) -> Result<LogChunks, Error> {
        match self.query("logs", Request::Logs(LogsQuery { task, after })).await? {
            Reply::Logs(reply) => Ok(LogChunks::from(reply)),
            other => Err(unexpected("logs", &other)),
        }
    }

    /// Returns the last checkpoint of a task; empty if there is none.
    pub async fn checkpoint(&self, task: TaskId) -> Result<Bytes, Error> {
        match self.query("checkpoint", Request::Checkpoint(OneTask { task })).await? {
            Reply::Bytes(reply) => Ok(reply.bytes),
            other => Err(unexpected("checkpoint", &other)),
        }
    }

    /// Returns every queue with its counts, thresholds and workers.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        match self.query("queues", Request::Queues).await? {
            Reply::Queues(reply) => Ok(reply.queues),
            other => Err(unexpected("queues", &other)),
        }
    }

    /// Returns every worker that the broker knows, with what it holds.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        match self.query("workers", Request::Workers).await? {
            Reply::Workers(reply) => Ok(reply.workers),
            other => Err(unexpected("workers", &other)),
        }
    }

    /// Returns the limits of tags, and how much of each is in use.
    pub async fn limits(&self) -> Result<Vec<LimitInfo>, Error> {
        match self.query("limits", Request::Limits).await? {
            Reply::Limits(reply) => Ok(reply.limits),
            other => Err(unexpected("limits", &other)),
        }
    }

    /// Returns the hooks of the namespace, and how they fare.
    pub async fn hooks(&self) -> Result<Vec<HookInfo>, Error> {
        match self.query("hooks", Request::Hooks).await? {
            Reply::Hooks(reply) => Ok(reply.hooks),
            other => Err(unexpected("hooks", &other)),
        }
    }

    /// Returns the events that a hook has given up, oldest first.
    pub async fn undelivered(&self, hook: impl Into<Name>) -> Result<Vec<UndeliveredEvent>, Error> {
        match self.query("undelivered", Request::Undelivered(OneHook { hook: hook.into() })).await? {
            Reply::Undelivered(reply) => Ok(reply.events),
            other => Err(unexpected("undelivered", &other)),
        }
    }

    /// Returns the main counts: tasks by state, workers, the last event.
    pub async fn counts(&self) -> Result<Counts, Error> {
        match self.query("counts", Request::Counts).await? {
            Reply::Counts(counts) => Ok(*counts),
            other => Err(unexpected("counts", &other)),
        }
    }

    /// Returns every counter and gauge of the broker, by the names of its metrics.
    pub async fn stats(&self) -> Result<Vec<Figure>, Error> {
        match self.query("stats", Request::Stats).await? {
            Reply::Stats(stats) => Ok(stats.figures),
            other => Err(unexpected("stats", &other)),
        }
    }

    pub(crate) async fn query(&self, verb: &'static str, request: Request) -> Result<Reply, Error> {
        self.ask(verb, request, Repeat::Safe).await
    }
}
