//! The doors of a standby: accept connections and pass them to the leader.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::Counters;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::group::{DoorGroup, GroupView, LeaderDoor};
use super::header::ForwardHeader;
use super::relay::relay;
use super::standby_door::{StandbyDoor, asks_for};
use crate::accept::{ACCEPT_PAUSE, DoorListener, LogInterval, keep_alive};
use crate::connections::ConnectionSlot;
use crate::settings::DoorSettings;
use crate::stream::DoorStream;

/// How long a connection waits for a leader that can be reached.
const LEADER_WITHIN: Duration = Duration::from_secs(5);
/// Delay after a leader could not be reached.
const DIAL_PAUSE: Duration = Duration::from_millis(100);
/// How long one attempt to reach the leader may take.
const DIAL_WITHIN: Duration = Duration::from_secs(2);

/// One door of a standby.
#[derive(Clone, Debug)]
pub struct Forwarder {
    /// The name of the door in logs and limits.
    pub name: &'static str,
    /// Which of the leader's doors gets the connections.
    pub to: &'static str,
    /// Who leads.
    pub group: DoorGroup,
    /// The limits of the door.
    pub settings: DoorSettings,
    /// What the door counts.
    pub counters: Arc<Counters>,
    /// How long a connection waits for a leader that can be reached.
    pub leader_within: Duration,
    /// Answers some connections in place of the leader.
    pub itself: Option<Arc<dyn StandbyDoor>>,
}

impl Forwarder {
    /// A door that passes its connections to the leader's door of the name `to`.
    pub fn new(
        name: &'static str,
        to: &'static str,
        group: DoorGroup,
        settings: DoorSettings,
        counters: Arc<Counters>,
    ) -> Forwarder {
        Forwarder { name, to, group, settings, counters, leader_within: LEADER_WITHIN, itself: None }
    }

    /// Forwards every connection until `stopped`, then closes all of them. The listener may be a duplicate of the one
    /// that serves while this member leads.
    pub async fn run(self, listener: DoorListener, stopped: impl Future<Output = ()>) {
        let (forwarder, closing) = (Arc::new(self), CancellationToken::new());
        let (connections, mut log) = (TaskTracker::new(), LogInterval::default());
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept_from() => accepted,
                () = &mut stopped => break,
            };
            match accepted {
                Ok((stream, source)) => {
                    let Some(place) = forwarder.place_for(source) else {
                        forwarder.counters.count("turned_away");
                        continue;
                    };
                    let (forwarder, closing) = (Arc::clone(&forwarder), closing.clone());
                    connections.spawn(async move {
                        let _connected = forwarder.counters.connected();
                        tokio::select! {
                            () = forwarder.forward(stream, source) => {}
                            () = closing.cancelled() => {}
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    forwarder.counters.count("not_accepted");
                    if log.is_due() {
                        tracing::warn!(door = forwarder.name, %error, "cannot accept connections");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        closing.cancel();
        connections.close();
        connections.wait().await;
    }

    fn place_for(&self, source: Option<SocketAddr>) -> Option<ConnectionSlot> {
        let DoorSettings { connections, connections_max, connections_per_address_max, .. } = &self.settings;
        let address = source.map(|source| source.ip());
        connections.take_place(self.name, address, *connections_max, *connections_per_address_max)
    }

    async fn forward(&self, client: DoorStream, source: Option<SocketAddr>) {
        if let Some(itself) = &self.itself
            && asks_for(&**itself, &client).await
        {
            return itself.answer(client).await;
        }
        let mut view = self.group.view.clone();
        let Some((leader, stream)) = self.reach_leader(&client, source, &mut view).await else {
            self.counters.count("no_leader");
            return;
        };
        tokio::select! {
            relayed = relay(client, stream, self.settings.read_within) => {
                if let Err(error) = relayed {
                    tracing::debug!(door = self.name, %error, "a forwarded connection broke");
                }
            }
            () = self.another_leads(&leader, &mut view) => {}
        }
    }

    /// Connects to the leader, and to the next one if that fails, as long as a client may be kept waiting.
    async fn reach_leader(
        &self,
        client: &DoorStream,
        source: Option<SocketAddr>,
        view: &mut watch::Receiver<GroupView>,
    ) -> Option<(LeaderDoor, TcpStream)> {
        let deadline = Instant::now() + self.leader_within;
        loop {
            let known = timeout_at(deadline, view.wait_for(|view| view.leader_at(self.to).is_some())).await;
            let leader = known.ok()?.ok()?.leader_at(self.to)?;
            let dial = self.dial(client, source, &leader);
            match timeout_at(deadline.min(Instant::now() + DIAL_WITHIN), dial).await {
                Ok(Ok(stream)) => return Some((leader, stream)),
                Ok(Err(error)) => {
                    let (door, address) = (self.name, &leader.address);
                    tracing::debug!(door, address, %error, "cannot reach the leader");
                }
                Err(_) => {}
            }
            if Instant::now() + DIAL_PAUSE >= deadline {
                return None;
            }
            sleep(DIAL_PAUSE).await;
        }
    }

    async fn dial(
        &self,
        client: &DoorStream,
        source: Option<SocketAddr>,
        leader: &LeaderDoor,
    ) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&leader.address).await?;
        keep_alive(&stream);
        let addresses = match (client, source) {
            (DoorStream::Tcp(client), Some(source)) => Some((source, client.local_addr()?)),
            _ => None,
        };
        let header = ForwardHeader { addresses, member: self.group.name.clone() };
        stream.write_all(&header.encode(&self.group.secret)).await?;
        Ok(stream)
    }

    /// Returns when another process leads. While no leader is known, the old one may lead on: the member that looks may
    /// be the one that is cut off.
    async fn another_leads(&self, leader: &LeaderDoor, view: &mut watch::Receiver<GroupView>) {
        let is_another = |view: &GroupView| {
            view.leader.as_ref().is_some_and(|now| now.name != leader.name || now.instance != leader.instance)
        };
        if view.wait_for(is_another).await.is_err() {
            // The broker ends.
            std::future::pending::<()>().await;
        }
    }
}
