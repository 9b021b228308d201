//! The plugin descriptions of the connected `_PL` workers. The broker knows which queues a worker serves; only this
//! door knows the rest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_hub::words::Name;

use crate::lost_workers::LostWorkers;
use crate::mdp::MdpRegistration;

/// All registrations of one door, by namespace and worker.
#[derive(Debug, Default)]
pub struct Registry {
    workers: Mutex<Workers>,
    pub(crate) lost: LostWorkers,
}

/// How much of a server's name goes into a worker's name; a number follows.
const SERVER_BYTES_MAX: usize = 240;

type Workers = BTreeMap<(Name, Name), Arc<MdpRegistration>>;

/// A registration that lasts until this is dropped.
#[derive(Debug)]
pub(crate) struct ServiceListing {
    registry: Arc<Registry>,
    worker: (Name, Name),
    registration: Arc<MdpRegistration>,
}

impl Registry {
    pub(crate) fn enter(
        self: &Arc<Self>,
        namespace: Name,
        worker: &Name,
        registration: MdpRegistration,
    ) -> ServiceListing {
        let (worker, registration) = ((namespace, worker.clone()), Arc::new(registration));
        self.lock().insert(worker.clone(), Arc::clone(&registration));
        ServiceListing { registry: Arc::clone(self), worker, registration }
    }

    /// Registers a worker without an identity under the name of its server and a number, so that the broker recognises
    /// it when it returns. The numbers distinguish workers of one server.
    pub(crate) fn enter_by_server(
        self: &Arc<Self>,
        namespace: &Name,
        registration: MdpRegistration,
    ) -> ServiceListing {
        let mut end = registration.name.len().min(SERVER_BYTES_MAX);
        while !registration.name.is_char_boundary(end) {
            end -= 1;
        }
        let mut workers = self.lock();
        let numbered =
            |number: usize| (namespace.clone(), format!("{}/{number}", &registration.name[..end]).into());
        let mut names = (1..).map(numbered);
        let worker = names.find(|name: &(Name, Name)| !workers.contains_key(name)).expect("a number is free");
        let registration = Arc::new(registration);
        workers.insert(worker.clone(), Arc::clone(&registration));
        drop(workers);
        ServiceListing { registry: Arc::clone(self), worker, registration }
    }

    /// Workers may still compute jobs from before the broker started.
    pub fn expect_lost_workers(&self) {
        self.lost.add_unknown();
    }

    /// The record of a plugin, from the first worker of the namespace that has it.
    pub(crate) fn record(&self, namespace: &Name, path: &str) -> Option<Bytes> {
        let workers = self.lock();
        let here = workers.iter().filter(|((space, _), _)| space == namespace);
        let mut plugins = here.flat_map(|(_, registration)| &registration.plugins);
        plugins.find(|plugin| plugin.path == path).map(crate::mdp::Plugin::record)
    }

    /// The version that a worker has of a plugin.
    pub(crate) fn version(&self, namespace: &Name, worker: &Name, path: &str) -> String {
        let workers = self.lock();
        let registration = workers.get(&(namespace.clone(), worker.clone()));
        let plugin = registration.and_then(|known| known.plugins.iter().find(|plugin| plugin.path == path));
        plugin.map(|plugin| plugin.version.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceListing {
    /// The worker's name in the broker.
    pub(crate) fn worker(&self) -> &Name {
        &self.worker.1
    }

    pub(crate) fn registration(&self) -> &MdpRegistration {
        &self.registration
    }
}

impl Drop for ServiceListing {
    fn drop(&mut self) {
        let mut workers = self.registry.lock();
        // A newer connection of the same worker may have registered its own.
        if workers.get(&self.worker).is_some_and(|known| Arc::ptr_eq(known, &self.registration)) {
            workers.remove(&self.worker);
        }
    }
}
