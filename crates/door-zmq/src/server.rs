//! The sockets: listeners, and one task per connection that reads and writes. No other code awaits.

mod connection;
mod identities;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_door_kit::{DoorListener, DoorStream};
use tenure_hub::words::{Answer, DEFAULT_NAMESPACE, Name, Refusal, StateName};
use tenure_hub::{
    Ask, ClockReading, Counters, Delivery, Grant, HubHandle, HubRefusal, Principal, Request, Response, Right,
    Stats,
};
use tokio::net::TcpListener;

use crate::codec::CodecError;
use crate::registry::Registry;
use crate::session::{
    Majordomo, OrphanedJobs, PeerIdentity, PeerOutput, PeerSession, PingPongClient, PingPongWorker, namespace,
};
use crate::settings::{PingPongSettings, Settings, Transport};
use crate::translate;
use connection::Connection;
use identities::{Holder, Identities, IdentityClaim, IdentityKey};

/// Serves the Majordomo door. Returns when the hub stops.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let settings = Arc::new(settings);
    let registry = Arc::new(Registry::default());
    let (transport, counters) = (settings.transport.clone(), Arc::clone(&settings.counters));
    hub.show(Arc::clone(&counters)).await;
    if has_held_tasks(&hub).await {
        registry.expect_lost_workers();
    }
    let begin = move |me| Majordomo::new(me, Arc::clone(&settings), Arc::clone(&registry));
    accept(listener, Door::new("mdp", hub, transport, counters), begin).await;
    Ok(())
}

/// Serves the READY / PING / PONG door: one address for clients, one for workers. Returns when the hub stops.
pub async fn serve_ping_pong(
    clients: TcpListener,
    workers: TcpListener,
    hub: HubHandle,
    settings: PingPongSettings,
) -> io::Result<()> {
    let settings = Arc::new(settings);
    hub.show(Arc::clone(&settings.counters)).await;
    let door =
        || Door::new("pingpong", hub.clone(), settings.transport.clone(), Arc::clone(&settings.counters));
    let for_clients = Arc::clone(&settings);
    let for_workers = Arc::clone(&settings);
    let orphaned = Arc::new(OrphanedJobs::default());
    let clients = accept(clients, door(), move |me| PingPongClient::new(me, Arc::clone(&for_clients)));
    let workers = accept(workers, door(), move |me| {
        PingPongWorker::new(me, Arc::clone(&for_workers), Arc::clone(&orphaned))
    });
    tokio::join!(clients, workers);
    Ok(())
}

/// Whether workers may still compute jobs from before the broker started.
async fn has_held_tasks(hub: &HubHandle) -> bool {
    let Ok(session) = hub.open(Principal::trusted("mdp"), DEFAULT_NAMESPACE.into(), "mdp".into()) else {
        return true;
    };
    let asked = session.send(vec![Ask { token: 0, request: Request::Stats }]).await;
    if asked.is_err() {
        return true;
    }
    session.mailbox().arrived().await;
    let mut deliveries = Vec::new();
    session.mailbox().take(&mut deliveries);
    let held = |stats: &Stats| {
        let by_state = &stats.gauges.by_state;
        let of = |state: StateName| by_state[state as usize];
        of(StateName::Assigned) + of(StateName::Running) + of(StateName::Suspended)
    };
    !matches!(
        &deliveries[..],
        [Delivery::Reply { reply: Ok(Response::Stats(stats)), .. }] if held(stats) == 0
    )
}

/// What all connections of one address share.
struct Door {
    kit: Arc<tenure_door_kit::Door>,
    transport: Transport,
    identities: Identities,
    /// When the log last reported a peer refused for its identity.
    refusal_logged_at: Mutex<Option<Instant>>,
}

/// Minimum interval between such log lines, because a refused peer reconnects again and again.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Door {
    fn new(name: &'static str, hub: HubHandle, transport: Transport, counters: Arc<Counters>) -> Arc<Door> {
        let kit = Arc::new(tenure_door_kit::Door::new(name, hub, transport.door.clone(), counters));
        let (identities, refusal_logged_at) = (Identities::default(), Mutex::default());
        Arc::new(Door { kit, transport, identities, refusal_logged_at })
    }

    fn may_log_refusal(&self) -> bool {
        let mut refusal_logged_at = self.refusal_logged_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = refusal_logged_at.is_none_or(|at| at.elapsed() >= REFUSAL_LOG_INTERVAL);
        if is_due {
            *refusal_logged_at = Some(Instant::now());
        }
        is_due
    }
}

async fn accept<C, F>(listener: TcpListener, door: Arc<Door>, begin: F)
where
    C: PeerSession + 'static,
    F: Fn(PeerIdentity) -> C + Clone + Send + Sync + 'static,
{
    let kit = Arc::clone(&door.kit);
    let serve = move |stream, address, login_by| {
        let (door, begin) = (Arc::clone(&door), begin.clone());
        async move {
            if let Err(error) = serve_connection(stream, address, login_by, &door, begin).await {
                door.kit.counters.count(error.kind());
            }
        }
    };
    kit.accept(DoorListener::Tcp(listener), serve).await;
}

/// Why a connection ended, other than by its peer.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the peer did not finish the handshake in time")]
    HandshakeTimeout,
    #[error("the limit of sessions is reached")]
    Full,
    #[error("the peer did not answer a PING")]
    Silent,
    #[error("the peer did not finish a message in time")]
    Slow,
    #[error("the connection buffers are full")]
    Memory,
    #[error("another connection holds the identity")]
    IdentityTaken,
    #[error("the identity belongs to another key")]
    IdentityOfAnotherKey,
    #[error("another group serves the namespace")]
    Elsewhere,
}

impl Ended {
    fn kind(&self) -> &'static str {
        match self {
            Ended::Codec(error) => error.kind(),
            Ended::HandshakeTimeout => "handshake_timeout",
            Ended::Full => "full",
            Ended::Silent => "silent",
            Ended::Slow => "slow",
            Ended::Memory => "memory_ended",
            Ended::IdentityTaken => "identity_taken",
            Ended::IdentityOfAnotherKey => "identity_of_another_key",
            Ended::Elsewhere => "elsewhere",
        }
    }
}

/// One connection, from its first byte to its last.
async fn serve_connection<C: PeerSession>(
    stream: DoorStream,
    address: Option<IpAddr>,
    login_by: tokio::time::Instant,
    door: &Door,
    begin: impl Fn(PeerIdentity) -> C,
) -> Result<(), Ended> {
    let mut connection = Connection::new(stream, address, door);
    let Ok(introduced) = tokio::time::timeout_at(login_by, connection.introduce()).await else {
        return Err(Ended::HandshakeTimeout);
    };
    let Some((identity, principal)) = introduced? else { return Ok(()) };
    let grant = Arc::clone(&principal.grant);
    let name = translate::peer_name(&identity);
    let key = IdentityKey { namespace: namespace(&grant), identity: identity.clone() };
    let claimed = claim(door, &key, &name, &grant).await;
    if let (Err(Ended::IdentityOfAnotherKey), Some(audit)) = (&claimed, door.kit.hub.audit()) {
        let no = Refusal::NotAllowed { what: "use this identity" }.into();
        audit.refused(&principal, Some(&key.namespace), "connect", &no);
    }
    let (holder, is_known) = claimed?;
    // A client with the right to submit gets the outcome of its own requests. `rights.rs` decides what else this peer
    // may read.
    let principal = principal.with(Right::Read);
    let mut has_jobs = false;
    let ended = match door.kit.hub.open(principal, key.namespace.clone(), name.clone()) {
        Ok(session) => {
            let mut conversation =
                begin(PeerIdentity { name, is_chosen: identity.is_chosen(), is_known, grant });
            let ended = connection.talk(&session, &mut conversation, &holder).await;
            let mut last = PeerOutput::default();
            conversation.end(ClockReading::now(), &mut last);
            has_jobs = identity.is_chosen() && conversation.has_jobs();
            let _ = session.send(last.asks).await;
            // The hub must learn of the end before the identity is free.
            drop(session);
            ended
        }
        Err(no @ HubRefusal::Elsewhere { .. }) => {
            if door.may_log_refusal() {
                tracing::warn!(door = door.kit.name, %no, "a ZeroMQ peer was refused: another group serves its namespace");
            }
            Err(Ended::Elsewhere)
        }
        Err(_) => Err(Ended::Full),
    };
    door.identities.leave(&key, &holder, has_jobs);
    ended
}

/// Claims the identity, if this key may have it. Returns whether the key is known to have used it before.
async fn claim(door: &Door, key: &IdentityKey, name: &Name, grant: &Grant) -> Result<(Holder, bool), Ended> {
    let is_bound = door.kit.hub.may_work_as(&Grant::everything(), name).is_err();
    if is_bound && grant.worker.as_ref() != Some(name) {
        if door.may_log_refusal() {
            tracing::warn!(identity = %name, key = %grant.name, "a ZeroMQ peer was refused: its identity has a key of its own");
        }
        identities::delay_refusal().await;
        return Err(Ended::IdentityOfAnotherKey);
    }
    let has_jobs = has_jobs(&door.kit.hub, &key.namespace, name);
    match door.identities.claim(key, grant.key, has_jobs).await {
        IdentityClaim::Granted { holder, replaced, is_known } => {
            if replaced {
                door.kit.counters.count("replaced");
            }
            Ok((holder, is_known))
        }
        IdentityClaim::Refused { is_new } => {
            if is_new {
                tracing::warn!(identity = %name, namespace = %key.namespace, "two ZeroMQ peers use one identity, one is refused");
            }
            Err(Ended::IdentityTaken)
        }
        IdentityClaim::OfAnotherKey => {
            if door.may_log_refusal() {
                tracing::warn!(identity = %name, namespace = %key.namespace, key = %grant.name, "a ZeroMQ peer was refused: another key uses its identity");
            }
            Err(Ended::IdentityOfAnotherKey)
        }
    }
}

/// Whether anything is unfinished under this name. If the hub cannot answer, there may be.
async fn has_jobs(hub: &HubHandle, namespace: &Name, name: &Name) -> bool {
    let Ok(session) = hub.open(Principal::trusted("zmq"), namespace.clone(), "zmq".into()) else {
        return true;
    };
    let request = translate::unfinished_of(name);
    if session.send(vec![Ask { token: 0, request }]).await.is_err() {
        return true;
    }
    session.mailbox().arrived().await;
    let mut deliveries = Vec::new();
    session.mailbox().take(&mut deliveries);
    !matches!(
        &deliveries[..],
        [Delivery::Reply { reply: Ok(Response::Answer(Answer::Tasks { tasks, next: None })), .. }] if tasks.is_empty()
    )
}
