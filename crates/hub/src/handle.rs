//! The handle: the interface of the hub for doors. Cheap to clone.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tenure_engine::name::check as check_name;
use tenure_engine::{Blob, DEFAULT_NAMESPACE, Name, Peer, Refusal, SessionId};
use tenure_store::{ReadError, Reader, StoreError};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc, watch};

use crate::audit::{Audit, AuditAct};
use crate::counters::Counters;
use crate::entered_namespaces::EnteredNamespaces;
use crate::hooks::Hooks;
use crate::keys::{Grant, KeyId, Keys, REVOKED};
use crate::keyspace::Keyspaces;
use crate::leader_status::{LeaderStatus, LeaderStatusCell};
use crate::limits::{INBOX_REQUESTS_MAX, LOG_READS_AT_ONCE, SESSIONS_MAX};
use crate::mailbox::{Mailbox, UnreadBytes};
use crate::placement::{Placement, PlacementCell};
use crate::principal::Principal;
use crate::refusal::HubRefusal;
use crate::request::{Ask, Request};
use crate::task_logs::TaskLogs;
use crate::topics::Topics;
use crate::watches::WatchLife;

/// A message to the runtime.
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
    /// A request from inside the broker, without a permit.
    Own {
        session: SessionId,
        ask: Ask,
    },
    Close {
        session: SessionId,
    },
    /// A follower has read the log up to here.
    HasRead {
        watch: (SessionId, u64),
        /// Identifies the watch that it read for. Another watch may have the same number by now.
        life: WatchLife,
        next: u64,
    },
    /// A reply that was made outside the hub's turn.
    Reply {
        session: SessionId,
        token: u64,
        act: Option<AuditAct>,
        reply: Result<crate::request::Response, HubRefusal>,
    },
    Configure(Box<tenure_engine::Settings>),
    /// These keys are gone or their grants have changed.
    Revoke {
        keys: HashSet<KeyId>,
    },
    Stop,
    /// The disk failed under the topic log or the key log: the process must end.
    LogFailed(StoreError),
}

/// Parts beside the single writer, with their own locks and logs.
#[derive(Debug)]
pub(crate) struct SharedServices {
    pub(crate) topics: Topics,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) task_logs: TaskLogs,
    pub(crate) hooks: Hooks,
}

/// The keys, and the audit log.
#[derive(Debug)]
pub(crate) struct AccessControl {
    pub(crate) keys: Keys,
    pub(crate) entered: EnteredNamespaces,
    pub(crate) audit: Option<Audit>,
}

/// How doors reach the hub.
#[derive(Clone, Debug)]
pub struct HubHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inbox: mpsc::UnboundedSender<Inbound>,
    /// Bounds the inbox: a request holds a permit until the hub has decided it.
    permits: Arc<Semaphore>,
    next_session: AtomicU64,
    sessions: AtomicUsize,
    keys: watch::Sender<Arc<Keys>>,
    entered: EnteredNamespaces,
    audit: Option<Audit>,
    reader: Reader,
    services: SharedServices,
    /// The unread bytes of all sessions.
    unread: Arc<UnreadBytes>,
    stopped: watch::Receiver<bool>,
    stop_asked: Notify,
    leader: LeaderStatusCell,
    placement: PlacementCell,
    backup_dir: std::sync::RwLock<Option<PathBuf>>,
    /// Bounds how many watches read the log at once, because reading takes CPU time from the hub and its
    /// doors.
    log_reads: Semaphore,
}

#[derive(Debug)]
pub(crate) struct WeakHub(Weak<Shared>);

impl WeakHub {
    pub(crate) fn upgrade(&self) -> Option<HubHandle> {
        self.0.upgrade().map(|shared| HubHandle { shared })
    }
}

/// The hub has stopped; the process is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker is stopping")]
pub struct Stopped;

impl HubHandle {
    pub(crate) fn new(
        inbox: mpsc::UnboundedSender<Inbound>,
        permits: Arc<Semaphore>,
        access: AccessControl,
        reader: Reader,
        services: SharedServices,
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
            services,
            unread: Arc::default(),
            stopped,
            stop_asked: Notify::new(),
            leader: LeaderStatusCell::default(),
            placement: PlacementCell::default(),
            backup_dir: std::sync::RwLock::default(),
            log_reads: Semaphore::new(LOG_READS_AT_ONCE),
        };
        HubHandle { shared: Arc::new(shared) }
    }

    /// The grant for a peer with this key; `None` if the peer is not admitted.
    pub fn admit(&self, key: Option<&[u8]>) -> Option<Arc<Grant>> {
        self.keys().admit(key)
    }

    /// Whether a grant may use a worker id.
    pub fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal> {
        self.keys().may_work_as(grant, worker)
    }

    /// Whether peers need a key at all.
    pub fn wants_keys(&self) -> bool {
        !self.keys().is_empty()
    }

    /// Replaces the keys. Ends the sessions whose key is gone or has another grant; other sessions are not
    /// affected.
    pub fn set_keys(&self, keys: Keys) {
        // Hold the lock until the hub has the message, so that no session with an old key can open after it.
        self.shared.keys.send_modify(|known| {
            let old = std::mem::replace(known, Arc::new(keys));
            let revoked = old.revoked_by(known);
            if !revoked.is_empty() {
                self.send(Inbound::Revoke { keys: revoked });
            }
        });
    }

    /// Whether the key of a grant is known and grants the same. The grant must come from `admit`.
    pub fn is_current(&self, grant: &Grant) -> bool {
        self.keys().is_current(grant)
    }

    /// Waits until the key of a grant is gone or has another grant. For connections without a hub session,
    /// such as those that only subscribe to topics. The grant must come from `admit`.
    pub async fn revoked(&self, grant: &Grant) {
        let mut keys = self.shared.keys.subscribe();
        let changed = keys.wait_for(|keys| !keys.is_current(grant)).await;
        debug_assert!(changed.is_ok(), "the handle holds the sender");
    }

    /// The audit log, if there is one.
    pub fn audit(&self) -> Option<&Audit> {
        self.shared.audit.as_ref()
    }

    /// Opens a session for an admitted peer.
    pub fn open(&self, principal: Principal, namespace: Name, identity: Name) -> Result<Session, HubRefusal> {
        let Some(audit) = self.audit() else { return self.enter(principal, namespace, identity) };
        let opened = self.enter(principal.clone(), namespace.clone(), identity);
        if let Err(no) = &opened {
            audit.refused(&principal, Some(&namespace), "connect", no);
        }
        opened
    }

    fn enter(&self, principal: Principal, namespace: Name, identity: Name) -> Result<Session, HubRefusal> {
        // One rule for all doors.
        check_name("namespace", &namespace)?;
        check_name("identity", &identity)?;
        if !principal.is_broker {
            self.check_placement(principal.door, &namespace)?;
        }
        // Held until the hub knows the session: see `set_keys`.
        let keys = self.shared.keys.borrow();
        if !keys.knows(principal.grant.key) {
            return Err(Refusal::NotAllowed { what: REVOKED }.into());
        }
        self.shared.entered.enter(&principal.grant, &namespace)?;
        if self.shared.sessions.fetch_add(1, Ordering::Relaxed) >= SESSIONS_MAX {
            self.shared.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Full { what: "sessions", limit: SESSIONS_MAX as u64 }.into());
        }
        let id = SessionId(self.shared.next_session.fetch_add(1, Ordering::Relaxed));
        let peer = Arc::new(Peer { session: id, namespace, identity });
        let mailbox = Arc::new(Mailbox::new(self.unread()));
        let session =
            Session { hub: self.clone(), id, peer: Arc::clone(&peer), mailbox: Arc::clone(&mailbox) };
        // If the hub has stopped, the first request finds out.
        let _ = self.shared.inbox.send(Inbound::Open { peer, principal, mailbox });
        drop(keys);
        Ok(session)
    }

    /// Adds a door's counters to the broker's statistics. Doors live as long as the hub, so they are never
    /// removed.
    pub async fn show(&self, counters: Arc<Counters>) {
        let principal = Principal::trusted("broker");
        let Ok(session) = self.open(principal, DEFAULT_NAMESPACE.into(), "door".into()) else { return };
        // A stopped hub shows no statistics.
        let _ = session.send(vec![Ask { token: 0, request: Request::ShowCounters(counters) }]).await;
    }

    /// Reads a body or result from the cache or from disk. Never runs in the hub's turn.
    pub async fn read(&self, blob: Blob) -> Result<Bytes, HubRefusal> {
        let mut read = self.read_many(vec![blob]).await;
        read.pop().unwrap_or(Err(HubRefusal::Unreadable { what: "body" }))
    }

    /// Reads several blobs, in order. One blocking task reads all that need the disk, because waking a thread
    /// for each would cost more than the reads.
    pub async fn read_many(&self, mut blobs: Vec<Blob>) -> Vec<Result<Bytes, HubRefusal>> {
        let mut read = Vec::with_capacity(blobs.len());
        read.extend(blobs.iter().map_while(|blob| self.cached(*blob)).map(Ok));
        let rest = blobs.split_off(read.len());
        if rest.is_empty() {
            return read;
        }
        let reader = self.shared.reader.clone();
        let count = rest.len();
        let reading = move || rest.into_iter().map(|blob| read_blob(&reader, blob)).collect();
        let reading = tokio::task::spawn_blocking(reading).await;
        read.extend(reading.unwrap_or_else(|_| vec![Err(HubRefusal::Unreadable { what: "body" }); count]));
        read
    }

    /// The same, if the bytes are in memory.
    pub fn cached(&self, blob: Blob) -> Option<Bytes> {
        if blob.is_empty() {
            return Some(Bytes::new());
        }
        self.shared.reader.cached(blob)
    }

    /// Pub/sub.
    pub fn topics(&self) -> &Topics {
        &self.shared.services.topics
    }

    /// The keys of Redis clients. They are independent of the hub's turn, as topics are.
    pub fn keyspaces(&self) -> &Keyspaces {
        &self.shared.services.keyspaces
    }

    /// The hooks, for the part that delivers.
    pub fn hooks(&self) -> &Hooks {
        &self.shared.services.hooks
    }

    /// The bytes that a hook keeps on disk; `None` if there are none.
    pub async fn read_hook_file(&self, hook: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (reader, hook) = (self.shared.reader.clone(), hook.to_owned());
        tokio::task::spawn_blocking(move || reader.read_hook_file(&hook)).await.unwrap_or(Ok(None))
    }

    /// Replaces what a hook keeps on disk.
    pub async fn write_hook_file(&self, hook: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let (reader, hook) = (self.shared.reader.clone(), hook.to_owned());
        tokio::task::spawn_blocking(move || reader.write_hook_file(&hook, &bytes)).await.unwrap_or(Ok(()))
    }

    /// The output of tasks.
    pub(crate) fn task_logs(&self) -> &TaskLogs {
        &self.shared.services.task_logs
    }

    /// Changes settings while the broker runs.
    pub fn configure(&self, settings: tenure_engine::Settings) {
        let _ = self.shared.inbox.send(Inbound::Configure(Box::new(settings)));
    }

    /// Sets the directory for backups. Without one, the hub takes none.
    pub fn set_backup_dir(&self, directory: PathBuf) {
        *self.shared.backup_dir.write().expect("no holder of the lock panics") = Some(directory);
    }

    pub(crate) fn backup_dir(&self) -> Option<PathBuf> {
        self.shared.backup_dir.read().expect("no holder of the lock panics").clone()
    }

    /// Says where the namespaces of the cluster are. A namespace may only be added to this broker's group: sessions that
    /// are open stay open.
    pub fn set_placement(&self, placement: Option<Placement>) {
        self.shared.placement.set(placement);
    }

    /// Refuses a namespace that another group serves. Opening a session does this as well; it is for peers that use
    /// topics or stored keys without a session.
    pub fn check_placement(&self, door: &str, namespace: &Name) -> Result<(), HubRefusal> {
        self.shared.placement.check(door, namespace)
    }

    /// The first event of this broker that can be about a namespace which came from another group.
    pub(crate) fn first_event(&self, namespace: &Name) -> u64 {
        self.shared.placement.first_event(namespace)
    }

    /// Says how the leader of a group is.
    pub fn set_leader_status(&self, status: LeaderStatus) {
        self.shared.leader.set(status);
    }

    /// How the leader of a group is. `None` for a broker without a group.
    pub fn leader_status(&self) -> Option<LeaderStatus> {
        self.shared.leader.get()
    }

    /// Whether the replicated journal does not answer, so that replies wait.
    pub fn is_journal_away(&self) -> bool {
        self.shared.leader.is_journal_away()
    }

    pub(crate) fn set_journal_away(&self, is_away: bool) {
        self.shared.leader.set_journal_away(is_away);
    }

    /// Up to where the journal of tasks is acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.shared.reader.acknowledged()
    }

    /// Asks the hub to stop: it accepts nothing new, writes what is decided, and takes a last snapshot.
    pub fn stop(&self) {
        let _ = self.shared.inbox.send(Inbound::Stop);
        self.shared.stop_asked.notify_one();
    }

    /// Waits until the hub is asked to stop, for the hub while it does not read its inbox.
    pub(crate) async fn asked_to_stop(&self) {
        self.shared.stop_asked.notified().await;
    }

    /// Waits until the hub begins to stop, for doors that listen.
    pub async fn stopped(&self) {
        let mut stopped = self.shared.stopped.clone();
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Whether the hub has begun to stop.
    pub fn is_stopping(&self) -> bool {
        *self.shared.stopped.borrow()
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

fn read_blob(reader: &Reader, blob: Blob) -> Result<Bytes, HubRefusal> {
    reader.read(blob).map_err(|error: ReadError| {
        tracing::warn!(at = blob.at(), bytes = blob.bytes(), %error, "bytes of a task cannot be read from disk; stop the broker and run `tenure journal verify`");
        HubRefusal::Unreadable { what: "body" }
    })
}

/// One peer's session. Dropping it closes the session in the hub.
#[derive(Debug)]
pub struct Session {
    hub: HubHandle,
    id: SessionId,
    peer: Arc<Peer>,
    mailbox: Arc<Mailbox>,
}

impl Session {
    /// The id of the session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The peer of the session.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// The hub it belongs to.
    pub fn hub(&self) -> &HubHandle {
        &self.hub
    }

    /// Where its deliveries arrive.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Sends requests to the hub, in order. Waits while the inbox is full: that is the back-pressure.
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
    /// Sends a request from inside the broker without waiting. There are few of these.
    pub(crate) fn send_now(&self, ask: Ask) {
        self.hub.send(Inbound::Own { session: self.id, ask });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.shared.sessions.fetch_sub(1, Ordering::Relaxed);
        // Uses the same channel as the requests, so that the close does not overtake a last report.
        self.hub.send(Inbound::Close { session: self.id });
    }
}
