//! What the program keeps of a worker that runs: how to make it leave, and how it is doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;

use super::outbox::{Leaving, WorkerOutbox};
use super::unreported::Unreported;
use crate::error::Error;

/// A worker that runs. Cheap to clone. Dropping it does not end the worker.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    pub(crate) outbox: Arc<WorkerOutbox>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) ended: watch::Receiver<Option<Result<(), Error>>>,
}

/// How a worker is doing, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Handlers that have begun.
    pub started: u64,
    /// Reports that the broker has taken, by what they said.
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub paused: u64,
    pub given_back: u64,
    /// Attempts that were over before their end could be reported.
    pub stale: u64,
    /// Attempts held at this moment, with those that are reported and not answered.
    pub held: u64,
    /// Handlers that run at this moment.
    pub running: u64,
    /// Attempts that have ended here, and whose end the broker has not taken yet.
    pub unreported: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

impl WorkerHandle {
    /// Takes nothing new, finishes what runs, leaves.
    pub fn drain(&self) {
        self.outbox.leave(Leaving::Drain);
    }

    /// The same, but handlers are told to hurry ([`Interrupt::Leaving`](super::Interrupt::Leaving)), and after the
    /// [grace](super::WorkerBuilder::stop_grace) the worker leaves without them: their tasks count as crashed.
    pub fn stop(&self) {
        self.outbox.leave(Leaving::Stop);
    }

    /// Leaves at once, whatever runs and whether the broker is there or not. What it has not taken is in
    /// [`unreported`](WorkerHandle::unreported).
    pub fn leave_now(&self) {
        self.outbox.leave(Leaving::Now);
    }

    /// After the worker has [ended](WorkerHandle::ended): the ends of attempts that the broker has not taken. A later
    /// worker of the same name reports them if it [gets them](super::WorkerBuilder::unreported).
    pub fn unreported(&self) -> Vec<Unreported> {
        self.outbox.unreported()
    }

    pub fn stats(&self) -> WorkerStats {
        self.tally.stats()
    }

    /// Whether the broker knows this worker at this moment.
    pub fn is_connected(&self) -> bool {
        self.tally.connected.load(Ordering::Relaxed)
    }

    /// Waits until the worker has left. An error says that it could not go on.
    pub async fn ended(&self) -> Result<WorkerStats, Error> {
        let mut ended = self.ended.clone();
        let result = match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(Error::Closed)),
            // The worker's thread is gone without a word.
            Err(_) => Err(Error::Closed),
        };
        result.map(|()| self.stats())
    }
}

/// The worker's counters.
#[derive(Debug, Default)]
pub(crate) struct Tally {
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

impl Tally {
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
