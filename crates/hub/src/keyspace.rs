//! The key space while the broker runs: the pure key spaces of `tenure-keyspace`, each behind its own lock, with the
//! clock and the disk around them.
//!
//! ```text
//! door → KeyspaceClient::run → namespace (lock, run, unlock) → records, in order → saver: append, one sync
//!                                                                                    ↓ only then
//! door ← KeyspaceClient::answered ←──────── answers whose records are on disk ←───────┘
//! ```
//!
//! It is independent of the engine, as topics are, and shares only the directory with it. An answer leaves when all
//! earlier changes of its namespace are on disk, so a reader never sees what a power failure may undo. While the saver
//! writes, the next round fills: that is the group commit.
//!
//! `client` is a connection's side, `pending` holds what waits for the disk, `saver` is the thread that writes,
//! `sweep` rewrites the log, `restore` reads it at a start.

mod client;
mod moving;
mod pending;
mod restore;
mod saver;
mod settings;
mod sweep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use foldhash::fast::RandomState;
use tenure_engine::Name;
use tenure_keyspace::{Keyspace, WaiterId};
use tenure_store::LeaderLease;

use client::Sink;
use pending::PendingWrites;

pub use client::{KeyspaceAnswer, KeyspaceCall, KeyspaceClient, KeyspaceFailure};
pub(crate) use moving::{IdleKeys, KeyReplay};
pub use saver::{KeySaver, Round};
pub use settings::KeyspaceSettings;
pub use tenure_keyspace::Settings as KeyLimits;
pub use tenure_keyspace::{
    AddCondition, Blocking, Bound, Combine, Command, ExpireCondition, HashCommand, Insert, KeyAct,
    KeyCommand, KeyScan, KeyspaceRefusal, Limit, ListCommand, ListEnd, NewId, Only, Page, RangeBy, Reply,
    ScoreCondition, Script, ScriptCall, SetCommand, SetCondition, SetExpiry, SortedCommand, StreamCommand,
    StreamId, StringCommand, Timestamp as KeyTime, Trim, glob, literal_prefix,
};

/// The maximum number of namespaces with keys.
pub const NAMESPACES_MAX: usize = 10_000;

/// The key spaces of all namespaces. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyspaces {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: KeyspaceSettings,
    namespaces: RwLock<HashMap<Name, Arc<Mutex<NamespaceKeys>>, RandomState>>,
    pending: PendingWrites,
    /// The lease of the leader of a group.
    lease: Option<LeaderLease>,
}

/// The key space of one namespace.
#[derive(Debug)]
struct NamespaceKeys {
    name: Name,
    space: Keyspace,
    /// The place of its last record in the log.
    last: u64,
    /// The connections of blocked calls.
    sinks: HashMap<WaiterId, Sink, RandomState>,
}

/// The number and size of keys, in a namespace or in all.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFigures {
    pub keys: usize,
    pub expiring: usize,
    pub bytes: usize,
    pub bytes_max: usize,
    pub waiting: usize,
}

impl Keyspaces {
    fn new(settings: KeyspaceSettings, lease: Option<LeaderLease>) -> Keyspaces {
        let shared =
            Shared { settings, namespaces: RwLock::default(), pending: PendingWrites::default(), lease };
        Keyspaces { shared: Arc::new(shared) }
    }

    /// The figures of one namespace.
    pub fn figures(&self, namespace: &str) -> KeyFigures {
        let bytes_max = self.shared.settings.limits.bytes_max;
        let known = self.spaces_read().get(namespace).cloned();
        known.map_or(KeyFigures { bytes_max, ..KeyFigures::default() }, |state| {
            let state = locked(&state);
            KeyFigures {
                keys: state.space.len(),
                expiring: state.space.expiring(),
                bytes: state.space.bytes(),
                bytes_max,
                waiting: state.space.waiting(),
            }
        })
    }

    /// Writes what is decided and stops the saver.
    pub(crate) async fn stop(&self) {
        self.shared.pending.finish().await;
    }

    /// An existing namespace, or a new one.
    fn space(&self, namespace: &Name) -> Result<Arc<Mutex<NamespaceKeys>>, KeyspaceFailure> {
        if let Some(state) = self.spaces_read().get(namespace) {
            return Ok(Arc::clone(state));
        }
        let mut namespaces = self.shared.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains_key(namespace) && namespaces.len() >= NAMESPACES_MAX {
            return Err(KeyspaceFailure::TooManyNamespaces);
        }
        let limits = self.shared.settings.limits;
        let state = namespaces.entry(Arc::clone(namespace)).or_insert_with(|| {
            let space = Keyspace::new(limits);
            let state =
                NamespaceKeys { name: Arc::clone(namespace), space, last: 0, sinks: HashMap::default() };
            Arc::new(Mutex::new(state))
        });
        Ok(Arc::clone(state))
    }

    fn spaces_read(
        &self,
    ) -> std::sync::RwLockReadGuard<'_, HashMap<Name, Arc<Mutex<NamespaceKeys>>, RandomState>> {
        self.shared.namespaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn namespaces(&self) -> Vec<Arc<Mutex<NamespaceKeys>>> {
        self.spaces_read().values().cloned().collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind these locks is consistent between any two statements, even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
