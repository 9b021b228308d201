//! The handle of a running worker: how to make it leave, and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;

use super::outbox::{Leaving, WorkerOutbox};
use super::unreported::Unreported;
use crate::error::Error;

/// A running worker. Cheap to clone. Dropping it does not end the worker.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    pub(crate) outbox: Arc<WorkerOutbox>,
    pub(crate) tally: Arc<WorkerTotals>,
    pub(crate) ended: watch::Receiver<Option<Result<(), Error>>>,
}

/// The counters of a worker since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Handlers started.
    pub started: u64,
    /// Reports that the broker has accepted, by kind.
    pub completed: u64,
    /// Attempts that ended with a failure.
    pub failed: u64,
    /// Attempts that confirmed a cancel.
    pub cancelled: u64,
    /// Attempts that confirmed a pause.
    pub paused: u64,
    /// Attempts that were given back unfinished.
    pub given_back: u64,
    /// Attempts that were over before their end could be reported.
    pub stale: u64,
    /// Attempts held now, including those reported without an answer yet.
    pub held: u64,
    /// Handlers running now.
    pub running: u64,
    /// Attempts that have ended here, and whose end the broker has not accepted yet.
    pub unreported: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

impl WorkerHandle {
    /// Drains: takes nothing new, finishes what runs, leaves.
    pub fn drain(&self) {
        self.outbox.leave(Leaving::Drain);
    }

    /// Drains, but asks handlers to hurry ([`Interrupt::Leaving`](super::Interrupt::Leaving)). After the
    /// [grace](super::WorkerBuilder::stop_grace) the worker leaves without them: their tasks count as crashed.
    pub fn stop(&self) {
        self.outbox.leave(Leaving::Stop);
    }

    /// Leaves at once, whatever runs and whether or not the broker answers. [`unreported`](WorkerHandle::unreported)
    /// returns what the broker has not accepted.
    pub fn leave_now(&self) {
        self.outbox.leave(Leaving::Now);
    }

    /// After the worker has [ended](WorkerHandle::ended): returns the ends of attempts that the broker has not
    /// accepted. A later worker of the same name reports them if it [gets them](super::WorkerBuilder::unreported).
    pub fn unreported(&self) -> Vec<Unreported> {
        self.outbox.unreported()
    }

    /// Counters of this worker since it started.
    pub fn stats(&self) -> WorkerStats {
        self.tally.stats()
    }

    /// Reports whether the worker is registered now.
    pub fn is_connected(&self) -> bool {
        self.tally.connected.load(Ordering::Relaxed)
    }

    /// Waits until the worker has left. An error says why it could not continue.
    pub async fn ended(&self) -> Result<WorkerStats, Error> {
        let mut ended = self.ended.clone();
        let result = match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(Error::Closed)),
            // The worker's thread ended without a result.
            Err(_) => Err(Error::Closed),
        };
        result.map(|()| self.stats())
    }
}

#[derive(Debug, Default)]
pub(crate) struct WorkerTotals {
    pub(crate) started: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) paused: AtomicU64,
    pub(crate) given_back: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) unreported: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connected: AtomicBool,
}

impl WorkerTotals {
    fn stats(&self) -> WorkerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerStats {
            started: read(&self.started),
            completed: read(&self.completed),
            failed: read(&self.failed),
            cancelled: read(&self.cancelled),
            paused: read(&self.paused),
            given_back: read(&self.given_back),
            stale: read(&self.stale),
            held: read(&self.held),
            running: read(&self.running),
            unreported: read(&self.unreported),
            reconnects: read(&self.connections).saturating_sub(1),
        }
    }

    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
