//! The workers of this door, by namespace and name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tenure_hub::ClockReading;
use tenure_hub::words::{Name, Refusal};

use super::worker::HttpWorker;
use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::translate;

/// How often silent workers are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct WorkerTable {
    workers: Mutex<HashMap<(Name, Name), Arc<HttpWorker>, RandomState>>,
}

impl WorkerTable {
    /// The worker of a peer. Another key's worker counts as unknown.
    pub(crate) fn find(&self, peer: &HttpPeer, name: &Name) -> Result<Arc<HttpWorker>, ProblemDetails> {
        let workers = self.lock();
        let found = workers.get(&(peer.namespace.clone(), name.clone()));
        let found = found.filter(|worker| worker.grant == peer.principal.grant && !worker.has_ended());
        found.cloned().ok_or_else(|| translate::problem(&Refusal::NotAWorker))
    }

    /// The worker of a peer with a session: the one it has, or another.
    pub(crate) fn open(&self, peer: &HttpPeer, name: &Name) -> Result<Arc<HttpWorker>, ProblemDetails> {
        if let Ok(worker) = self.find(peer, name) {
            return Ok(worker);
        }
        let named = HttpPeer { identity: name.clone(), ..peer.clone() };
        Ok(HttpWorker::start(named.open()?, Arc::clone(&peer.principal.grant)))
    }

    /// The worker has registered.
    pub(crate) fn keep(&self, peer: &HttpPeer, name: &Name, worker: Arc<HttpWorker>) {
        self.lock().insert((peer.namespace.clone(), name.clone()), worker);
    }

    pub(crate) fn remove(&self, peer: &HttpPeer, name: &Name) {
        self.lock().remove(&(peer.namespace.clone(), name.clone()));
    }

    /// Drops the sessions of workers that are gone. The hub has counted them as lost long before.
    pub(crate) fn sweep(&self, now: ClockReading) {
        self.lock().retain(|_, worker| !worker.has_ended() && !worker.is_forgotten(now));
    }

    /// Sweeps until this is dropped.
    pub(crate) async fn keep_swept(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            self.sweep(ClockReading::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Name, Name), Arc<HttpWorker>, RandomState>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for WorkerTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WorkerTable")
    }
}
