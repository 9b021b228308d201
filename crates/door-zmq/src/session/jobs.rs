//! The jobs that a client has submitted on this connection and waits for.

use std::collections::HashMap;
use std::sync::Arc;

use tenure_hub::words::TaskId;

use crate::mdp::ReturnPath;

/// How many jobs one connection may wait for.
pub(super) const JOBS_MAX: usize = 200_000;

#[derive(Debug)]
pub(super) struct Job {
    pub(super) path: Arc<ReturnPath>,
    pub(super) service: Arc<str>,
    /// The client's own name for it.
    pub(super) job_id: Option<Box<str>>,
    batch: Option<u64>,
}

/// Calls that were submitted together.
#[derive(Debug)]
struct Batch {
    commit: Box<str>,
    left: usize,
}

#[derive(Debug, Default)]
pub(super) struct Jobs {
    by_task: HashMap<TaskId, Job>,
    batches: HashMap<u64, Batch>,
    next_batch: u64,
    /// How many have ended since the client last asked.
    finished: u64,
}

impl Jobs {
    pub(super) fn len(&self) -> usize {
        self.by_task.len()
    }

    pub(super) fn get(&self, task: TaskId) -> Option<&Job> {
        self.by_task.get(&task)
    }

    /// The job that the client calls so.
    pub(super) fn named(&self, job_id: &str) -> Option<TaskId> {
        let is_it = |job: &Job| job.job_id.as_deref() == Some(job_id);
        self.by_task.iter().find(|(_, job)| is_it(job)).map(|(task, _)| *task)
    }

    /// All tasks that have not ended.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.by_task.keys().copied()
    }

    pub(super) fn add(&mut self, task: TaskId, path: &Arc<ReturnPath>, service: &Arc<str>) {
        self.add_call(task, path, service, None, None);
    }

    /// Opens a batch with the name that workers receive when its last call is done.
    pub(super) fn open_batch(&mut self, commit: String, calls: usize) -> u64 {
        self.next_batch += 1;
        self.batches.insert(self.next_batch, Batch { commit: commit.into(), left: calls });
        self.next_batch
    }

    pub(super) fn add_call(
        &mut self,
        task: TaskId,
        path: &Arc<ReturnPath>,
        service: &Arc<str>,
        job_id: Option<String>,
        batch: Option<u64>,
    ) {
        let job = Job {
            path: Arc::clone(path),
            service: Arc::clone(service),
            job_id: job_id.map(Into::into),
            batch,
        };
        self.by_task.insert(task, job);
    }

    /// A job is over. Returns it, and the name of its batch if it was the last of it.
    pub(super) fn end(&mut self, task: TaskId) -> Option<(Job, Option<Box<str>>)> {
        let job = self.by_task.remove(&task)?;
        self.finished += 1;
        let commit = job.batch.and_then(|number| {
            let batch = self.batches.get_mut(&number)?;
            batch.left -= 1;
            if batch.left > 0 {
                return None;
            }
            self.batches.remove(&number).map(|batch| batch.commit)
        });
        Some((job, commit.filter(|commit| !commit.is_empty())))
    }

    /// The broker refused a job.
    pub(super) fn forget(&mut self, task: TaskId) -> Option<Job> {
        let ended = self.end(task);
        self.finished -= u64::from(ended.is_some());
        ended.map(|(job, _)| job)
    }

    pub(super) fn take_finished(&mut self) -> u64 {
        std::mem::take(&mut self.finished)
    }
}
