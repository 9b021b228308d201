//! Whether a READY / PING / PONG worker may still compute a job from a connection that is gone.
//!
//! Its socket reconnects by itself, and then it cannot be distinguished from a new worker, until it says that it is
//! free or sends a result.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_hub::words::Name;

/// Shared by all workers of one door.
#[derive(Debug, Default)]
pub struct OrphanedJobs {
    /// By namespace, for those checked since the broker started. Once there may be one, it stays so: such a worker may
    /// compute for days, or be dead.
    namespaces: Mutex<HashMap<Name, bool>>,
}

impl OrphanedJobs {
    /// There may be one.
    pub(super) fn mark(&self, namespace: Name) {
        self.lock().insert(namespace, true);
    }

    /// No task of this door was held when the broker started.
    pub(super) fn has_looked(&self, namespace: Name) {
        self.lock().entry(namespace).or_insert(false);
    }

    /// Whether there may be one, if that is known.
    pub(super) fn is_marked(&self, namespace: &Name) -> Option<bool> {
        self.lock().get(namespace).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, bool>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
