//! Accepting connections: one loop for all doors, with limits, keepalive and TLS handshake.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::{Counters, HubHandle};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::authenticator::Authenticator;
use crate::connections::ConnectionSlot;
use crate::settings::DoorSettings;
use crate::stream::DoorStream;

/// Delay after a failed accept: usually the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Minimum interval between log lines about connections that failed or were rejected.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// A peer whose machine is gone is detected after about this much silence.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Where a door listens.
#[derive(Debug)]
pub enum DoorListener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixListener),
}

/// What all connections of a door share.
#[derive(Debug)]
pub struct Door {
    /// The name of the door in logs, counters and the audit log.
    pub name: &'static str,
    /// The hub behind the door.
    pub hub: HubHandle,
    /// What the operator has set.
    pub settings: DoorSettings,
    /// What the door counts.
    pub counters: Arc<Counters>,
    /// Checks the keys of its peers.
    pub authenticator: Authenticator,
    /// Sent to a peer that is over the connection limit, if the protocol has a message for it.
    pub full: &'static [u8],
}

impl Door {
    /// A door with its name, its hub and its settings.
    pub fn new(name: &'static str, hub: HubHandle, settings: DoorSettings, counters: Arc<Counters>) -> Door {
        let authenticator = Authenticator::new(hub.clone(), name, Arc::clone(&counters));
        Door { name, hub, settings, counters, authenticator, full: b"" }
    }

    /// Accepts connections until the hub stops, then waits for the open ones to end. `serve` handles one peer.
    pub async fn accept<F>(
        self: &Arc<Self>,
        listener: DoorListener,
        serve: impl Fn(DoorStream, Option<IpAddr>) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let connections = TaskTracker::new();
        let mut log = LogInterval::default();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.hub.stopped() => break,
            };
            match accepted {
                Ok((stream, address)) => match self.place_for(address) {
                    Some(place) => {
                        let (door, serve) = (Arc::clone(self), serve.clone());
                        let connected = self.counters.connected();
                        connections.spawn(async move {
                            if let Some(stream) = door.secure(stream).await {
                                serve(stream, address).await;
                            }
                            drop((place, connected));
                        });
                    }
                    None => self.reject_connection(&stream, &mut log),
                },
                Err(error) => {
                    self.counters.count("not_accepted");
                    if log.is_due() {
                        tracing::warn!(door = self.name, %error, "cannot accept connections");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }

    fn place_for(&self, address: Option<IpAddr>) -> Option<ConnectionSlot> {
        let DoorSettings { connections, connections_max, connections_per_address_max, .. } = &self.settings;
        connections.take_place(self.name, address, *connections_max, *connections_per_address_max)
    }

    fn reject_connection(&self, stream: &DoorStream, log: &mut LogInterval) {
        self.counters.count("turned_away");
        // A new socket has buffer space for one line; if not, it is just closed.
        if let (DoorStream::Tcp(stream), None) = (stream, &self.settings.tls) {
            let _ = stream.try_write(self.full);
        }
        if log.is_due() {
            let (of_door, in_all) = (self.settings.connections_max, self.settings.connections.max());
            tracing::warn!(door = self.name, of_door, in_all, "too many connections, new ones are rejected");
        }
    }

    /// Sets up a TCP connection, with the TLS handshake if the door uses TLS. `None` if the handshake fails.
    async fn secure(&self, stream: DoorStream) -> Option<DoorStream> {
        let DoorStream::Tcp(stream) = stream else { return Some(stream) };
        keep_alive(&stream);
        let Some(tls) = &self.settings.tls else { return Some(DoorStream::Tcp(stream)) };
        match timeout(self.settings.login_within, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => Some(DoorStream::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                self.counters.count("tls_handshake");
                tracing::debug!(door = self.name, %error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                self.counters.count("tls_handshake");
                None
            }
        }
    }
}

impl DoorListener {
    async fn accept(&self) -> io::Result<(DoorStream, Option<IpAddr>)> {
        match self {
            DoorListener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((DoorStream::Tcp(stream), Some(address.ip())))
            }
            #[cfg(unix)]
            DoorListener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((DoorStream::Unix(stream), None))
            }
        }
    }
}

fn keep_alive(stream: &TcpStream) {
    // Replies are small, and peers wait for them.
    let _ = stream.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Limits the log lines of one loop.
#[derive(Debug, Default)]
struct LogInterval {
    last: Option<Instant>,
}

impl LogInterval {
    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}
