//! Records that wait for the disk, in the order of decisions, and the progress of the disk.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_engine::Name;
use tenure_keyspace::Record;
use tokio::sync::{oneshot, watch};

/// How many bytes may wait for the disk before connections have to wait as well.
const WAITING_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct PendingWrites {
    queue: Mutex<WriteQueue>,
    /// Signals a new record.
    arrived: Condvar,
    progress: watch::Sender<WriteProgress>,
}

/// The progress of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteProgress {
    /// All records up to this place are on disk.
    pub(super) durable: u64,
    /// The disk is full for the records after `durable`.
    pub(super) full: bool,
}

#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    pub(super) records: Vec<(Name, Record)>,
    /// Their approximate size on disk.
    bytes: usize,
    /// The place of the last record.
    pub(super) last: u64,
    pub(super) finish: Option<oneshot::Sender<()>>,
    is_over: bool,
}

impl Default for PendingWrites {
    fn default() -> PendingWrites {
        let (progress, _) = watch::channel(WriteProgress::default());
        PendingWrites { queue: Mutex::default(), arrived: Condvar::new(), progress }
    }
}

impl PendingWrites {
    /// Adds a record and returns its place. The caller holds the lock of its namespace, so places keep the
    /// order of decisions.
    pub(super) fn add(&self, namespace: &Name, record: Record, bytes: usize) -> u64 {
        let mut queue = self.queue();
        queue.last += 1;
        queue.bytes += bytes;
        queue.records.push((Name::clone(namespace), record));
        if queue.records.len() == 1 {
            self.arrived.notify_one();
        }
        queue.last
    }

    pub(super) fn progress(&self) -> watch::Receiver<WriteProgress> {
        self.progress.subscribe()
    }

    pub(super) fn is_full(&self) -> bool {
        self.progress.borrow().full
    }

    /// The broker is stopping: the saver has ended or is about to.
    pub(super) fn is_over(&self) -> bool {
        let queue = self.queue();
        queue.is_over || queue.finish.is_some()
    }

    /// Waits until the backlog is below the limit.
    pub(super) async fn room(&self) {
        let mut progress = self.progress();
        while self.queue().bytes > WAITING_BYTES_MAX && !progress.borrow_and_update().full {
            if progress.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes all records; waits up to `wait` for the first.
    pub(super) fn take(&self, wait: Duration) -> WriteQueue {
        let mut queue = self.queue();
        if queue.records.is_empty() && queue.finish.is_none() && !wait.is_zero() {
            (queue, _) = self.arrived.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner);
        }
        let last = queue.last;
        let is_over = queue.is_over;
        std::mem::replace(&mut *queue, WriteQueue { last, is_over, ..WriteQueue::default() })
    }

    pub(super) fn written(&self, durable: u64) {
        self.progress.send_replace(WriteProgress { durable, full: false });
    }

    pub(super) fn full(&self) {
        self.progress.send_if_modified(|progress| !std::mem::replace(&mut progress.full, true));
    }

    /// The stop waits until what is on its way is durable.
    pub(super) fn restore_finish(&self, finish: Option<oneshot::Sender<()>>) {
        if finish.is_some() {
            self.queue().finish = finish;
        }
    }

    /// Ends writing without the last records: their answers never leave.
    pub(super) fn abandon(&self) {
        let mut queue = self.queue();
        queue.is_over = true;
        if let Some(done) = queue.finish.take() {
            let _ = done.send(());
        }
    }

    /// Ends writing.
    pub(super) fn end(&self) {
        self.queue().is_over = true;
    }

    pub(super) async fn finish(&self) {
        let (done, is_done) = oneshot::channel();
        {
            let mut queue = self.queue();
            if queue.is_over {
                return;
            }
            queue.finish = Some(done);
            self.arrived.notify_one();
        }
        let _ = is_done.await;
    }

    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
