//! Waiting for tasks to end.
//!
//! A wait is a series of short requests. So the broker soon forgets a wait that the program has abandoned, and a
//! wait of days survives any number of lost connections.

use std::time::Duration;

use tenure_wire::limits::ENTRIES_MAX;
use tenure_wire::reply::EndedReply;
use tenure_wire::request::WaitRequest;
use tenure_wire::task::Ended;
use tenure_wire::time::millis;
use tenure_wire::{Reply, Request, TaskId};
use tokio::time::Instant;

use crate::client::{Client, unexpected};
use crate::error::Error;

/// How long one request waits before the client repeats it.
const SLICE: Duration = Duration::from_secs(60);

/// The outcome of waiting for many tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waited {
    /// The ended tasks, without their results.
    pub ended: Vec<Ended>,
    /// The tasks that had not ended when the time was up.
    pub pending: Vec<TaskId>,
}

impl Client {
    /// Waits without a time limit until a task has ended. Returns it with its result.
    pub async fn wait(&self, task: TaskId) -> Result<Ended, Error> {
        loop {
            if let Some(ended) = self.wait_slice(task, SLICE).await? {
                return Ok(ended);
            }
        }
    }

    /// Waits until a task has ended or the timeout has passed.
    pub async fn wait_timeout(&self, task: TaskId, timeout: Duration) -> Result<Option<Ended>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = self.wait_slice(task, left.min(SLICE)).await?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
        }
    }

    /// Waits until all these tasks have ended or the timeout has passed. Leaves out the results, which may be many and
    /// large; fetch them with [`result`](Client::result).
    pub async fn wait_all(&self, tasks: &[TaskId], timeout: Option<Duration>) -> Result<Waited, Error> {
        self.wait_each(tasks, timeout, false).await
    }

    async fn wait_each(
        &self,
        tasks: &[TaskId],
        timeout: Option<Duration>,
        results: bool,
    ) -> Result<Waited, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut waited = Waited { ended: Vec::new(), pending: tasks.to_vec() };
        loop {
            let mut still_pending = Vec::new();
            for some in waited.pending.chunks(ENTRIES_MAX) {
                let left =
                    deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
                let left = left.min(SLICE);
                let mut reply = self.wait_for(some.to_vec(), left, results).await?;
                waited.ended.append(&mut reply.tasks);
                still_pending.append(&mut reply.pending);
            }
            waited.pending = still_pending;
            if waited.pending.is_empty() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(waited);
            }
        }
    }

    /// Like [`wait_all`](Client::wait_all), with the results. Fetches one by one those that do not fit into a frame.
    pub async fn wait_all_results(
        &self,
        tasks: &[TaskId],
        timeout: Option<Duration>,
    ) -> Result<Waited, Error> {
        let mut waited = self.wait_each(tasks, timeout, true).await?;
        for ended in &mut waited.ended {
            if ended.result.is_none() && ended.result_bytes > 0 {
                ended.result = Some(self.result(ended.task).await?);
            }
        }
        Ok(waited)
    }

    async fn wait_slice(&self, task: TaskId, slice: Duration) -> Result<Option<Ended>, Error> {
        let reply = self.wait_for(vec![task], slice, true).await?;
        let Some(mut ended) = reply.tasks.into_iter().next() else { return Ok(None) };
        if ended.result.is_none() && ended.result_bytes > 0 {
            // It did not fit into the frame.
            ended.result = Some(self.result(task).await?);
        }
        Ok(Some(ended))
    }

    async fn wait_for(
        &self,
        tasks: Vec<TaskId>,
        timeout: Duration,
        results: bool,
    ) -> Result<EndedReply, Error> {
        let wait = WaitRequest { tasks, timeout_ms: Some(millis(timeout)), results };
        match self.query("wait", Request::Wait(wait)).await? {
            Reply::Ended(ended) => Ok(ended),
            other => Err(unexpected("wait", &other)),
        }
    }
}
