//! Topics while the broker runs: the pure shards of `tenure-topics`, each behind its own lock, with the clock, the
//! wakers and the disk around them.
//!
//! ```text
//! door → Topics::publish → NamespaceTopics (lock, shard, unlock) → wakers of the idle subscribers
//!                                                                             ↓
//! door ← Subscription::take ← NamespaceTopics (lock, take a batch, unlock) ← woken
//! ```
//!
//! No slow operation and no wait happens under a lock: a lock is held for one publish, one batch, or a bounded slice
//! of the reaper's work. A peer that does not read affects only its own queue. Namespaces share nothing.
//!
//! One file per verb: `publish`, `subscribe`, `subscription` (the stream's side of it), `request`, `list`, `reaper`.
//! The broker's own events come through a `feed`, with the topic names of `events` and the format of `event_json`.
//! State that survives a restart goes through `saver`, the thread that writes the topic log, as the `rows` that
//! `restore` reads back. The messages of `durable` topics go through the saver before subscribers get them.

mod allowance;
mod clock;
mod durable;
pub(crate) mod event_json;
mod events;
mod feed;
mod list;
mod log;
mod moving;
mod namespace;
mod publish;
mod reaper;
mod request;
mod restore;
mod rows;
mod saver;
mod settings;
mod stepped;
mod subscribe;
mod subscription;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use foldhash::fast::RandomState;
use tenure_engine::Name;
use tenure_topics::{Shard, Timestamp};
use tokio::sync::Notify;

use crate::handle::WeakHub;
use namespace::NamespaceTopics;
use request::OpenRequests;
use saver::SaverChannels;

pub use events::EVENT_PREFIXES;
pub(crate) use events::event_prefix;
pub(crate) use moving::{IdleTopics, TopicContents, has_rows_of};
pub use publish::{PublishReceipt, PublishResult};
pub use request::RequestAnswer;
pub use settings::{DURABLE_MESSAGES, TopicSettings};
pub use stepped::SteppedTopics;
pub use subscription::{Ended, SubscriptionHandle};
pub use tenure_store::TopicLogSettings;
pub use tenure_topics::{
    Delivery, DeliveryKind, Dropped, Gap, GapReason, Message, MessageId, PAGE_MAX, Policy, Publish, Recovery,
    ReplayComplete, Resume, Resumed, Sequence, Settings as ShardSettings, ShardStats, Subscribe,
    SubscriptionId, SubscriptionInfo, SubscriptionStats, Timestamp as TopicTime, TopicFilter, TopicInfo,
    TopicPage, TopicRefusal, Ttl, Warning, WarningReason, is_invisible,
};

/// The maximum number of namespaces with topics.
pub const NAMESPACES_MAX: usize = 10_000;

/// All topics of the broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Topics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: TopicSettings,
    namespaces: RwLock<HashMap<Name, Arc<NamespaceTopics>, RandomState>>,
    requests: Mutex<OpenRequests>,
    figures: Mutex<ShardStats>,
    stopping: AtomicBool,
    /// For subscriptions to events.
    hub: OnceLock<WeakHub>,
    /// Topics without saved state begin above this number, except those that match `exact`.
    floor: AtomicU64,
    /// Durable topics whose numbers are all on disk.
    exact: OnceLock<Vec<TopicFilter>>,
    /// Namespaces that have moved: where each begins in the log.
    starts: OnceLock<BTreeMap<Name, u64>>,
    saver: SaverChannels,
    /// Notified after each save.
    saved: Notify,
}

/// The saver waits for messages, and what it has yet to write can send some: it would wait for itself.
impl Drop for Shared {
    fn drop(&mut self) {
        self.saver.flush_soon();
    }
}

impl Topics {
    fn new(settings: TopicSettings, saver: SaverChannels) -> Topics {
        let shared = Shared {
            settings,
            floor: AtomicU64::new(0),
            exact: OnceLock::new(),
            starts: OnceLock::new(),
            saver,
            saved: Notify::new(),
            namespaces: RwLock::default(),
            requests: Mutex::default(),
            figures: Mutex::default(),
            stopping: AtomicBool::new(false),
            hub: OnceLock::new(),
        };
        Topics { shared: Arc::new(shared) }
    }

    /// Connects subscriptions to the events of the hub.
    pub(crate) fn connect(&self, hub: WeakHub) {
        // There is one hub, and it connects once.
        let _ = self.shared.hub.set(hub);
    }

    /// Ends every stream and refuses later requests; then writes the final state.
    pub(crate) async fn stop(&self) {
        self.end_streams();
        self.shared.saver.finish().await;
    }

    fn end_streams(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        for space in self.namespaces() {
            space.stop();
        }
        self.requests().drop_all();
    }

    fn now(&self) -> Timestamp {
        self.shared.saver.clock.now()
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// An existing namespace, or a new one.
    fn space(&self, namespace: &Name) -> Result<Arc<NamespaceTopics>, TopicRefusal> {
        if self.is_stopping() {
            return Err(TopicRefusal::Stopping);
        }
        if let Some(space) = self.known_space(namespace) {
            return Ok(space);
        }
        let mut namespaces = self.shared.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(space) = namespaces.get(namespace) {
            return Ok(Arc::clone(space));
        }
        if namespaces.len() >= NAMESPACES_MAX {
            return Err(TopicRefusal::TooManyNamespaces { limit: NAMESPACES_MAX });
        }
        let mut shard = Shard::new(self.shared.settings.shard());
        shard.raise_restart_floor(Sequence(self.shared.floor.load(Ordering::Acquire)), self.exact());
        let space = Arc::new(NamespaceTopics::new(Arc::clone(namespace), shard, self.shared.saver.clone()));
        namespaces.insert(Arc::clone(namespace), Arc::clone(&space));
        Ok(space)
    }

    fn exact(&self) -> &[TopicFilter] {
        self.shared.exact.get().map_or(&[], Vec::as_slice)
    }

    fn starts(&self) -> &BTreeMap<Name, u64> {
        static NONE: BTreeMap<Name, u64> = BTreeMap::new();
        self.shared.starts.get().unwrap_or(&NONE)
    }

    fn known_space(&self, namespace: &str) -> Option<Arc<NamespaceTopics>> {
        self.shared.namespaces.read().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned()
    }

    fn namespaces(&self) -> Vec<Arc<NamespaceTopics>> {
        self.shared.namespaces.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn requests(&self) -> MutexGuard<'_, OpenRequests> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new message id, ordered by time.
pub fn fresh_message_id() -> MessageId {
    MessageId(uuid::Uuid::now_v7().as_u128())
}

/// A new id for a subscription whose client did not choose one.
pub fn fresh_subscription_id() -> SubscriptionId {
    SubscriptionId::parse(&uuid::Uuid::now_v7().to_string()).expect("a UUID is a short text")
}
