//! What handlers pass to the link: outcomes, progress and checkpoints. It never makes a handler wait, and the worker's
//! slots bound it: one outcome, one progress report and one checkpoint per attempt.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_wire::request::AppendLog;
use tenure_wire::task::Held;
use tokio::sync::Notify;

use super::outcome::Outcome;
use super::pending_checkpoint::{PendingCheckpoint, Receipt};
use super::unreported::Unreported;
use super::waiting::PendingWait;

/// How much output may wait to be sent.
const LOG_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct WorkerOutbox {
    inner: Mutex<Inner>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    finished: Vec<Finished>,
    progress: HashMap<Held, PendingProgress>,
    checkpoints: HashMap<Held, PendingCheckpoint>,
    waits: HashMap<Held, PendingWait>,
    /// Pieces of output, in order.
    logs: VecDeque<AppendLog>,
    log_bytes: usize,
    leaving: Leaving,
    unreported: Vec<Unreported>,
    /// The worker has left, and the link takes nothing more.
    closed: bool,
}

/// A handler has returned; without an outcome it was dropped instead.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) held: Held,
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingProgress {
    pub(crate) percent: Option<u8>,
    pub(crate) note: Option<Box<str>>,
}

/// How the program wants its worker to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leaving {
    #[default]
    No,
    /// Take nothing new, finish, leave.
    Drain,
    /// The same, but ask the handlers to hurry.
    Stop,
    /// Leave without waiting. The program gets what the broker has not accepted.
    Now,
}

impl WorkerOutbox {
    pub(crate) fn finished(&self, held: Held, outcome: Option<Outcome>) {
        let mut inner = self.lock();
        inner.progress.remove(&held);
        let first = inner.finished.is_empty();
        inner.finished.push(Finished { held, outcome });
        drop(inner);
        // The first entry wakes the link; entries added before the link looks go with it.
        if first {
            self.wake.notify_one();
        }
    }

    /// A later report replaces an earlier one.
    pub(crate) fn progress(&self, held: Held, progress: PendingProgress) {
        self.lock().progress.insert(held, progress);
        self.wake.notify_one();
    }

    /// A later checkpoint replaces an earlier one, and resolves its receipt as well.
    pub(crate) fn save_checkpoint(&self, held: Held, checkpoint: Bytes) -> Receipt {
        let mut inner = self.lock();
        if inner.closed {
            return Receipt::closed();
        }
        let receipt = inner.checkpoints.entry(held).or_default().replace(checkpoint);
        drop(inner);
        self.wake.notify_one();
        receipt
    }

    /// A later wait of an attempt replaces an earlier one. A handler that gives up its wait for tasks does not end one
    /// for a client.
    pub(crate) fn suspend(&self, held: Held, wait: PendingWait) {
        let mut inner = self.lock();
        let is_for_client = inner.waits.get(&held).is_some_and(PendingWait::is_for_resume);
        if !inner.closed && (wait.is_heard() || !is_for_client) {
            inner.waits.insert(held, wait);
        }
        drop(inner);
        self.wake.notify_one();
    }

    pub(crate) fn take_waits(&self) -> HashMap<Held, PendingWait> {
        std::mem::take(&mut self.lock().waits)
    }

    /// Keeps a piece of output until the link takes it. If too many wait, it is dropped.
    pub(crate) fn append_log(&self, piece: AppendLog) {
        let mut inner = self.lock();
        if inner.closed || inner.log_bytes + piece.bytes.len() > LOG_BYTES_MAX {
            return;
        }
        inner.log_bytes += piece.bytes.len();
        inner.logs.push_back(piece);
        drop(inner);
        self.wake.notify_one();
    }

    /// Puts a piece back whose answer never came.
    pub(crate) fn put_back_log(&self, piece: AppendLog) {
        let mut inner = self.lock();
        inner.log_bytes += piece.bytes.len();
        inner.logs.push_front(piece);
    }

    /// The pieces that go now: all of attempts that have ended, because nothing may follow their end, and of the others
    /// as many as there is room for.
    pub(crate) fn take_logs(&self, mut room: usize, has_ended: impl Fn(Held) -> bool) -> Vec<AppendLog> {
        let mut inner = self.lock();
        let mut taken = Vec::new();
        let mut left = VecDeque::new();
        for piece in std::mem::take(&mut inner.logs) {
            let held = Held { task: piece.task, attempt: piece.attempt };
            if room > 0 || has_ended(held) {
                room = room.saturating_sub(1);
                inner.log_bytes -= piece.bytes.len();
                taken.push(piece);
            } else {
                left.push_back(piece);
            }
        }
        inner.logs = left;
        taken
    }

    /// Sends an unanswered checkpoint again, unless there is a later one.
    pub(crate) fn put_back(&self, held: Held, checkpoint: PendingCheckpoint) {
        match self.lock().checkpoints.entry(held) {
            Entry::Occupied(mut later) => later.get_mut().follow(checkpoint),
            Entry::Vacant(place) => drop(place.insert(checkpoint)),
        }
    }

    /// The checkpoints that may go now.
    pub(crate) fn take_checkpoints(&self, may_go: impl Fn(Held) -> bool) -> Vec<(Held, PendingCheckpoint)> {
        self.lock().checkpoints.extract_if(|held, _| may_go(*held)).collect()
    }

    /// Leaving cannot be undone, only become more urgent.
    pub(crate) fn leave(&self, leaving: Leaving) {
        let mut inner = self.lock();
        inner.leaving = inner.leaving.max(leaving);
        drop(inner);
        self.wake.notify_one();
    }

    pub(crate) fn leaving(&self) -> Leaving {
        self.lock().leaving
    }

    pub(crate) fn take_finished(&self) -> Vec<Finished> {
        std::mem::take(&mut self.lock().finished)
    }

    pub(crate) fn take_progress(&self) -> HashMap<Held, PendingProgress> {
        std::mem::take(&mut self.lock().progress)
    }

    pub(crate) fn has_progress(&self) -> bool {
        !self.lock().progress.is_empty()
    }

    /// The reports that the broker had not accepted when the worker left.
    pub(crate) fn unreported(&self) -> Vec<Unreported> {
        self.lock().unreported.clone()
    }

    pub(crate) fn set_unreported(&self, unreported: Vec<Unreported>) {
        self.lock().unreported = unreported;
    }

    /// The worker has left: pending receipts fail.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.checkpoints.clear();
        inner.waits.clear();
    }

    /// Cancel-safe.
    pub(crate) async fn notified(&self) {
        self.wake.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tenure_wire::TaskId;

    use super::*;

    #[test]
    fn the_latest_progress_counts_and_none_after_the_end() {
        let outbox = WorkerOutbox::default();
        let held = Held { task: TaskId::default(), attempt: 1 };
        for percent in [1, 2, 3] {
            outbox.progress(held, PendingProgress { percent: Some(percent), note: None });
        }
        assert_eq!(outbox.take_progress()[&held].percent, Some(3));
        assert!(!outbox.has_progress());
        outbox.progress(held, PendingProgress { percent: Some(99), note: None });
        outbox.finished(held, Some(Outcome::complete("")));
        assert!(!outbox.has_progress());
        assert_eq!(outbox.take_finished().len(), 1);
    }

    #[test]
    fn output_waits_within_bounds_and_leaves_before_the_end() {
        let outbox = WorkerOutbox::default();
        let piece = |attempt, bytes: usize| AppendLog {
            task: TaskId::default(),
            attempt,
            stream: 1,
            offset: 0,
            bytes: Bytes::from(vec![b'x'; bytes]),
        };
        for attempt in [1, 2, 2] {
            outbox.append_log(piece(attempt, 10));
        }
        outbox.append_log(piece(3, LOG_BYTES_MAX));
        let attempts = |taken: Vec<AppendLog>| taken.iter().map(|piece| piece.attempt).collect::<Vec<_>>();
        assert_eq!(attempts(outbox.take_logs(0, |held| held.attempt == 2)), [2, 2], "the third was too much");
        assert_eq!(attempts(outbox.take_logs(8, |_| false)), [1]);
        outbox.append_log(piece(4, LOG_BYTES_MAX));
        assert_eq!(attempts(outbox.take_logs(8, |_| false)), [4]);
    }

    #[test]
    fn leaving_only_becomes_more_urgent() {
        let outbox = WorkerOutbox::default();
        outbox.leave(Leaving::Stop);
        outbox.leave(Leaving::Drain);
        assert_eq!(outbox.leaving(), Leaving::Stop);
    }
}
