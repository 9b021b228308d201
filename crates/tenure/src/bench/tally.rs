//! Counts the progress of all workers together, and signals when the target is reached.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct BenchTotals {
    wanted: usize,
    done: AtomicUsize,
    enough: Notify,
}

impl BenchTotals {
    pub(crate) fn new(wanted: usize) -> BenchTotals {
        BenchTotals { wanted, done: AtomicUsize::new(0), enough: Notify::new() }
    }

    pub(crate) fn add(&self, done: usize) {
        if self.done.fetch_add(done, Ordering::Relaxed) + done >= self.wanted {
            self.enough.notify_waiters();
        }
    }

    pub(crate) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) async fn finished(&self) {
        let mut notified = std::pin::pin!(self.enough.notified());
        // Enrolled before looking, so that the last one is not missed.
        notified.as_mut().enable();
        if self.done() < self.wanted {
            notified.await;
        }
    }
}
