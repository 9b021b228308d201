//! Older attempts: this worker never runs two attempts of one task at once.
//!
//! The broker may have ended an attempt, because of a run limit or a lost lease, while its command still uses its
//! grace period. If the next attempt comes to the same worker, it starts when the command is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_client::TaskId;
use tokio::sync::OwnedMutexGuard;

#[derive(Debug, Default)]
pub(crate) struct AttemptLocks {
    attempts: Mutex<HashMap<TaskId, Arc<tokio::sync::Mutex<()>>>>,
}

impl AttemptLocks {
    /// Waits until no other attempt of this task is here. No other one begins as long as the caller keeps the lock.
    pub(crate) async fn lock(&self, task: TaskId) -> AttemptLock<'_> {
        let turn = Arc::clone(self.attempts().entry(task).or_default());
        // Created before the wait, so that a cancelled wait cleans up as well.
        let mut held = AttemptLock { locks: self, task, turn: None };
        held.turn = Some(turn.lock_owned().await);
        held
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<tokio::sync::Mutex<()>>>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct AttemptLock<'a> {
    locks: &'a AttemptLocks,
    task: TaskId,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Drop for AttemptLock<'_> {
    fn drop(&mut self) {
        self.turn = None;
        let mut attempts = self.locks.attempts();
        // Attempts that wait or run hold the lock's other handles.
        if attempts.get(&self.task).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            attempts.remove(&self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_next_attempt_waits_for_the_older_one_and_for_no_other_task() {
        let locks = AttemptLocks::default();
        let (task, other) = (TaskId::new(), TaskId::new());
        let first = locks.lock(task).await;
        assert!(locks.lock(task).now_or_never().is_none());
        assert!(locks.lock(other).now_or_never().is_some());
        let mut second = Box::pin(locks.lock(task));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        drop(second.now_or_never().expect("its turn"));
        assert!(locks.attempts().is_empty(), "nothing is kept of what has ended");
    }
}
