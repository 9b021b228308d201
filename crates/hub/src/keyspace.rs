//! The key space while the broker runs: the pure spaces of `tenure-keyspace`, each behind its own lock, with the clock
//! and the disk around them.
//!
//! ```text
//! door → Client::run → space of the namespace (lock, run, unlock) → records, in order → saver: append, one sync
//!                                                                                         ↓ only then
//! door ← Client::answered ←──────────────── answers whose records are on disk ←────────────┘
//! ```
//!
//! It stands beside the engine, as topics do, and shares nothing with it but the directory. An answer leaves when
//! everything that its namespace has changed before it is on disk, so a reader never sees what a power failure may
//! undo. While the saver writes, the next round fills: that is the group commit.
//!
//! `client` is a connection's end, `pending` is what waits for the disk, `saver` the thread that writes, `sweep`
//! rewrites the log, `restore` comes back.

mod client;
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

use client::Sink;
use pending::PendingWrites;

pub use client::{KeyspaceAnswer, KeyspaceCall, KeyspaceClient, KeyspaceFailure};
pub use saver::{KeySaver, Round};
pub use settings::KeyspaceSettings;
pub use tenure_keyspace::Settings as KeyLimits;
pub use tenure_keyspace::{
    AddCondition, Blocking, Bound, Combine, Command, ExpireCondition, HashCommand, Insert, KeyAct,
    KeyCommand, KeyScan, KeyspaceRefusal, Limit, ListCommand, ListEnd, NewId, Only, Page, RangeBy, Reply,
    Script, ScriptCall, SetCommand, SetCondition, SetExpiry, SortedCommand, StreamCommand, StreamId,
    StringCommand, Timestamp as KeyTime, Trim, Weighing, glob, literal_prefix,
};

/// In how many namespaces keys may be in use.
pub const NAMESPACES_MAX: usize = 10_000;

/// The keys of all namespaces. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyspaces {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: KeyspaceSettings,
    spaces: RwLock<HashMap<Name, Arc<Mutex<NamespaceKeys>>, RandomState>>,
    pending: PendingWrites,
}

/// One namespace.
#[derive(Debug)]
struct NamespaceKeys {
    name: Name,
    space: Keyspace,
    /// The place of its last record among all.
    last: u64,
    /// Where those are that wait.
    sinks: HashMap<WaiterId, Sink, RandomState>,
}

/// What the keys of a namespace, or of all, amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFigures {
    pub keys: usize,
    pub expiring: usize,
    pub bytes: usize,
    pub bytes_max: usize,
    pub waiting: usize,
}

impl Keyspaces {
    fn new(settings: KeyspaceSettings) -> Keyspaces {
        let shared = Shared { settings, spaces: RwLock::default(), pending: PendingWrites::default() };
        Keyspaces { shared: Arc::new(shared) }
    }

    /// The keys of one namespace.
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

    /// Writes what is decided and ends the saver.
    pub(crate) async fn stop(&self) {
        self.shared.pending.finish().await;
    }

    /// A namespace that is there, or a new one.
    fn space(&self, namespace: &Name) -> Result<Arc<Mutex<NamespaceKeys>>, KeyspaceFailure> {
        if let Some(state) = self.spaces_read().get(namespace) {
            return Ok(Arc::clone(state));
        }
        let mut spaces = self.shared.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if !spaces.contains_key(namespace) && spaces.len() >= NAMESPACES_MAX {
            return Err(KeyspaceFailure::TooManyNamespaces);
        }
        let limits = self.shared.settings.limits;
        let state = spaces.entry(Arc::clone(namespace)).or_insert_with(|| {
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
        self.shared.spaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn spaces(&self) -> Vec<Arc<Mutex<NamespaceKeys>>> {
        self.spaces_read().values().cloned().collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two statements, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
