//! The handle: all that a door sees of the hub. Cheap to clone.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tenure_engine::name::check as check_name;
use tenure_engine::{Blob, DEFAULT_NAMESPACE, Name, Peer, Refusal, SessionId};
use tenure_store::{ReadError, Reader};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};

use crate::audit::{Audit, AuditAct};
use crate::counters::Counters;
use crate::entered::Entered;
use crate::keys::{Grant, KeyId, Keys, REVOKED};
use crate::keyspace::Keyspaces;
use crate::limits::{INBOX_REQUESTS_MAX, LOG_READS_AT_ONCE, SESSIONS_MAX};
use crate::mailbox::{Mailbox, UnreadBytes};
use crate::principal::Principal;
use crate::request::{Ask, Request};
use crate::topics::Topics;
use crate::watches::WatchLife;

/// What the runtime receives.
#[derive(Debug)]
pub(crate) enum Inbound {
    Open {
        peer: Arc<Peer>,
        principal: Principal,
        mailbox: Arc<Mailbox>,
    },
    Asks {
        session: SessionId,
        asks: Vec<Ask>,
    },
    /// A request that came from within, and holds no permit.
    Own {
        session: SessionId,
        ask: Ask,
    },
    Close {
        session: SessionId,
    },
    /// A watch has read the log up to here.
    HasRead {
        watch: (SessionId, u64),
        /// Of the watch that it was read for. Another one may go by the same number since.
        life: WatchLife,
        next: u64,
    },
    /// An answer that was made outside the hub's turn.
    Reply {
        session: SessionId,
        token: u64,
        act: Option<AuditAct>,
        reply: Result<crate::request::Response, Refusal>,
    },
    Configure(Box<tenure_engine::Settings>),
    /// These keys allow nothing any more, or something else.
    Revoke {
        keys: HashSet<KeyId>,
    },
    Stop,
    /// The disk failed under the log of topics or of keys: the process must end.
    LogFailed(tenure_store::StoreError),
}

/// What stands beside the single writer, with locks and logs of its own.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) topics: Topics,
    pub(crate) keyspaces: Keyspaces,
}

/// Who may come in, and where what they do is told.
#[derive(Debug)]
pub(crate) struct AccessControl {
    pub(crate) keys: Keys,
    pub(crate) entered: Entered,
    pub(crate) audit: Option<Audit>,
}

#[derive(Clone, Debug)]
pub struct HubHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inbox: mpsc::UnboundedSender<Inbound>,
    /// Bounds the inbox: a request takes a permit until the hub has decided on it.
    permits: Arc<Semaphore>,
    next_session: AtomicU64,
    sessions: AtomicUsize,
    keys: watch::Sender<Arc<Keys>>,
    entered: Entered,
    audit: Option<Audit>,
    reader: Reader,
    beside: Beside,
    /// What waits in the mailboxes of all sessions.
    unread: Arc<UnreadBytes>,
    stopped: watch::Receiver<bool>,
    backup_dir: std::sync::RwLock<Option<PathBuf>>,
    /// Bounds how many watches read the log at once: it takes computing time that the hub and its doors need.
    log_reads: Semaphore,
}

#[derive(Debug)]
pub(crate) struct WeakHub(Weak<Shared>);

impl WeakHub {
    pub(crate) fn upgrade(&self) -> Option<HubHandle> {
        self.0.upgrade().map(|shared| HubHandle { shared })
    }
}

/// The hub is gone; the process is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker is stopping")]
pub struct Stopped;

impl HubHandle {
    pub(crate) fn new(
        inbox: mpsc::UnboundedSender<Inbound>,
        permits: Arc<Semaphore>,
        access: AccessControl,
        reader: Reader,
        beside: Beside,
        stopped: watch::Receiver<bool>,
    ) -> HubHandle {
        let AccessControl { keys, entered, audit } = access;
        let shared = Shared {
            inbox,
            permits,
            next_session: AtomicU64::new(1),
            sessions: AtomicUsize::new(0),
            keys: watch::Sender::new(Arc::new(keys)),
            entered,
            audit,
            reader,
            beside,
            unread: Arc::default(),
            stopped,
            backup_dir: std::sync::RwLock::default(),
            log_reads: Semaphore::new(LOG_READS_AT_ONCE),
        };
        HubHandle { shared: Arc::new(shared) }
    }

    /// What a peer with this key may do; `None` if it may not come in.
    pub fn admit(&self, key: Option<&[u8]>) -> Option<Arc<Grant>> {
        self.keys().admit(key)
    }

    /// Whether a grant may use a worker id.
    pub fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal> {
        self.keys().may_work_as(grant, worker)
    }

    /// Whether peers need a key at all.
    pub fn wants_keys(&self) -> bool {
        !self.keys().is_empty()
    }

    /// Replaces the keys. Sessions end whose key is gone or grants something else; all others notice nothing.
    pub fn set_keys(&self, keys: Keys) {
        // The lock is held until the hub has been told, so that no session of an old key comes in behind.
        self.shared.keys.send_modify(|known| {
            let old = std::mem::replace(known, Arc::new(keys));
            let revoked = old.revoked_by(known);
            if !revoked.is_empty() {
                self.send(Inbound::Revoke { keys: revoked });
            }
        });
    }

    /// Waits until the key of a grant is gone or grants something else. For connections that have no session of the hub
    /// to hear it from, such as those that only subscribe to topics. The grant is the one that `admit` gave.
    pub async fn revoked(&self, grant: &Grant) {
        let mut keys = self.shared.keys.subscribe();
        let changed = keys.wait_for(|keys| !keys.still(grant)).await;
        debug_assert!(changed.is_ok(), "the handle holds the sender");
    }

    /// The audit log, if there is one.
    pub fn audit(&self) -> Option<&Audit> {
        self.shared.audit.as_ref()
    }

    /// Begins a session for a peer that has been admitted.
    pub fn open(&self, principal: Principal, namespace: Name, identity: Name) -> Result<Session, Refusal> {
        let Some(audit) = self.audit() else { return self.enter(principal, namespace, identity) };
        let opened = self.enter(principal.clone(), namespace.clone(), identity);
        if let Err(no) = &opened {
            audit.refused(&principal, Some(&namespace), "connect", no);
        }
        opened
    }

    fn enter(&self, principal: Principal, namespace: Name, identity: Name) -> Result<Session, Refusal> {
        // One rule for every door.
        check_name("namespace", &namespace)?;
        check_name("identity", &identity)?;
        // Held until the hub knows of the session: see `set_keys`.
        let keys = self.shared.keys.borrow();
        if !keys.knows(principal.grant.key) {
            return Err(Refusal::NotAllowed { what: REVOKED });
        }
        self.shared.entered.enter(&principal.grant, &namespace)?;
        if self.shared.sessions.fetch_add(1, Ordering::Relaxed) >= SESSIONS_MAX {
            self.shared.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Full { what: "sessions", limit: SESSIONS_MAX as u64 });
        }
        let id = SessionId(self.shared.next_session.fetch_add(1, Ordering::Relaxed));
        let peer = Arc::new(Peer { session: id, namespace, identity });
        let mailbox = Arc::new(Mailbox::new(self.unread()));
        let session =
            Session { hub: self.clone(), id, peer: Arc::clone(&peer), mailbox: Arc::clone(&mailbox) };
        // If the hub is gone, the first request finds out.
        let _ = self.shared.inbox.send(Inbound::Open { peer, principal, mailbox });
        drop(keys);
        Ok(session)
    }

    /// Makes what a door counts part of the broker's figures. Doors stand as long as the hub, so it stays.
    pub async fn show(&self, counters: Arc<Counters>) {
        let principal = Principal::trusted("broker");
        let Ok(session) = self.open(principal, DEFAULT_NAMESPACE.into(), "door".into()) else { return };
        // A hub that has stopped shows no figures any more.
        let _ = session.send(vec![Ask { token: 0, request: Request::ShowCounters(counters) }]).await;
    }

    /// A body or result, from the cache or from disk. Never inside the hub's turn.
    pub async fn read(&self, blob: Blob) -> Result<Bytes, Refusal> {
        let mut read = self.read_many(vec![blob]).await;
        read.pop().unwrap_or(Err(Refusal::Unreadable { what: "body" }))
    }

    /// Several of them, in their order. What needs the disk is read in one go, because waking a thread for each would
    /// cost more than the reading.
    pub async fn read_many(&self, blobs: Vec<Blob>) -> Vec<Result<Bytes, Refusal>> {
        let cached: Vec<Option<Bytes>> = blobs.iter().map(|blob| self.cached(*blob)).collect();
        if cached.iter().all(Option::is_some) {
            return cached.into_iter().flatten().map(Ok).collect();
        }
        let reader = self.shared.reader.clone();
        let count = blobs.len();
        let reading = move || {
            let fetch =
                |(cached, blob): (Option<Bytes>, Blob)| cached.map_or_else(|| read_back(&reader, blob), Ok);
            cached.into_iter().zip(blobs).map(fetch).collect()
        };
        let read = tokio::task::spawn_blocking(reading).await;
        read.unwrap_or_else(|_| vec![Err(Refusal::Unreadable { what: "body" }); count])
    }

    /// The same, if no disk is needed.
    pub fn cached(&self, blob: Blob) -> Option<Bytes> {
        if blob.is_empty() {
            return Some(Bytes::new());
        }
        self.shared.reader.cached(blob)
    }

    /// Pub/sub.
    pub fn topics(&self) -> &Topics {
        &self.shared.beside.topics
    }

    /// The keys that programs written for Redis keep here. They stand beside the hub as topics do.
    pub fn keyspaces(&self) -> &Keyspaces {
        &self.shared.beside.keyspaces
    }

    /// Changes settings while the broker runs.
    pub fn configure(&self, settings: tenure_engine::Settings) {
        let _ = self.shared.inbox.send(Inbound::Configure(Box::new(settings)));
    }

    /// Names the directory that backups go below. Without one, none is taken.
    pub fn set_backup_dir(&self, directory: PathBuf) {
        *self.shared.backup_dir.write().expect("no holder of the lock panics") = Some(directory);
    }

    pub(crate) fn backup_dir(&self) -> Option<PathBuf> {
        self.shared.backup_dir.read().expect("no holder of the lock panics").clone()
    }

    /// Asks the hub to stop: nothing new is taken, what is decided is written, a last snapshot is made.
    pub fn stop(&self) {
        let _ = self.shared.inbox.send(Inbound::Stop);
    }

    /// Waits until the hub has begun to stop, for doors that listen.
    pub async fn stopped(&self) {
        let mut stopped = self.shared.stopped.clone();
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// A handle that does not keep the hub alive.
    pub(crate) fn downgrade(&self) -> WeakHub {
        WeakHub(Arc::downgrade(&self.shared))
    }

    pub(crate) fn send(&self, inbound: Inbound) {
        let _ = self.shared.inbox.send(inbound);
    }

    pub(crate) fn unread(&self) -> Arc<UnreadBytes> {
        Arc::clone(&self.shared.unread)
    }

    /// Waits until this watch may read the log.
    pub(crate) async fn log_read(&self) -> Option<SemaphorePermit<'_>> {
        self.shared.log_reads.acquire().await.ok()
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.shared.keys.borrow())
    }
}

fn read_back(reader: &Reader, blob: Blob) -> Result<Bytes, Refusal> {
    reader.read(blob).map_err(|error: ReadError| {
        tracing::warn!(at = blob.at(), bytes = blob.bytes(), %error, "bytes of a task cannot be read back");
        Refusal::Unreadable { what: "body" }
    })
}

/// One peer's conversation. Dropping it tells the hub that the peer is gone.
#[derive(Debug)]
pub struct Session {
    hub: HubHandle,
    id: SessionId,
    peer: Arc<Peer>,
    mailbox: Arc<Mailbox>,
}

impl Session {
    pub fn id(&self) -> SessionId {
        self.id
    }

    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub fn hub(&self) -> &HubHandle {
        &self.hub
    }

    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Hands requests to the hub, in order. Waits while the hub has too much to do: that is the back-pressure.
    pub async fn send(&self, asks: Vec<Ask>) -> Result<(), Stopped> {
        if asks.is_empty() {
            return Ok(());
        }
        let count = asks.len().min(INBOX_REQUESTS_MAX) as u32;
        let permits = self.hub.shared.permits.acquire_many(count).await.map_err(|_| Stopped)?;
        permits.forget();
        self.hub.shared.inbox.send(Inbound::Asks { session: self.id, asks }).map_err(|_| Stopped)
    }
}

impl Session {
    /// Hands over a request of the hub's own, without waiting. There are few of these.
    pub(crate) fn send_now(&self, ask: Ask) {
        self.hub.send(Inbound::Own { session: self.id, ask });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.shared.sessions.fetch_sub(1, Ordering::Relaxed);
        // The same channel as the requests, so that the goodbye does not overtake a last report.
        self.hub.send(Inbound::Close { session: self.id });
    }
}
