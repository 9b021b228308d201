//! Accepting connections: one loop for all doors, with limits, keepalive and TLS handshake.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::{Counters, HubHandle};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::authenticator::Authenticator;
use crate::connections::ConnectionSlot;
use crate::forward::{Arrival, arrive};
use crate::settings::DoorSettings;
use crate::stream::DoorStream;

/// Delay after a failed accept: usually the process has no file descriptors left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Minimum interval between log lines about connections that failed or were rejected.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// A peer whose machine is gone is detected after about this much silence.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long a member that forwards a connection may take for its header. A direct peer that is silent waits this long.
const HEADER_WITHIN: Duration = Duration::from_secs(5);
/// The same at a door whose protocol lets the broker speak first.
const HEADER_BEFORE_GREETING_WITHIN: Duration = Duration::from_millis(250);

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
    /// In its protocol the broker speaks first.
    pub speaks_first: bool,
}

impl Door {
    /// A door with its name, its hub and its settings.
    pub fn new(name: &'static str, hub: HubHandle, settings: DoorSettings, counters: Arc<Counters>) -> Door {
        let authenticator = Authenticator::new(hub.clone(), name, Arc::clone(&counters));
        Door { name, hub, settings, counters, authenticator, full: b"", speaks_first: false }
    }

    /// Accepts connections until the hub stops, then waits for the open ones to end. `serve` handles one peer, which has
    /// to log in by the moment that it gets. When this future is dropped, the open connections are closed.
    pub async fn accept<F>(
        self: &Arc<Self>,
        listener: DoorListener,
        serve: impl Fn(DoorStream, Option<IpAddr>, Instant) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        let mut log = LogInterval::default();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = self.hub.stopped() => break,
            };
            match accepted {
                Ok((stream, address)) => match self.place_for(self.counted_address(address)) {
                    Some(place) => {
                        let (door, serve) = (Arc::clone(self), serve.clone());
                        let login_by = Instant::now() + self.settings.login_within;
                        let connected = self.counters.connected();
                        connections.spawn(async move {
                            if let Some((stream, address, place)) = door.arrive(stream, address, place).await
                            {
                                if let Some(stream) = door.secure(stream, login_by).await {
                                    serve(stream, address, login_by).await;
                                }
                                drop(place);
                            }
                            drop(connected);
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
        while connections.join_next().await.is_some() {}
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
            tracing::warn!(
                door = self.name,
                of_door,
                in_all,
                "too many connections, new ones are rejected; raise the maximum of this door if they are wanted"
            );
        }
    }

    /// In a group, the address is known when the connection has shown whether it is forwarded.
    fn counted_address(&self, address: Option<IpAddr>) -> Option<IpAddr> {
        if self.settings.group.is_some() { None } else { address }
    }

    /// Finds out whether another member forwards the connection, and for whom. `None` if the connection is refused.
    async fn arrive(
        &self,
        mut stream: DoorStream,
        address: Option<IpAddr>,
        place: ConnectionSlot,
    ) -> Option<(DoorStream, Option<IpAddr>, ConnectionSlot)> {
        let Some(group) = &self.settings.group else { return Some((stream, address, place)) };
        let mut address = address;
        if let DoorStream::Tcp(stream) = &mut stream {
            let within = if self.speaks_first { HEADER_BEFORE_GREETING_WITHIN } else { HEADER_WITHIN };
            match arrive(stream, &group.secret, within).await {
                Ok(Arrival::Direct) => {}
                Ok(Arrival::Forwarded(header)) => {
                    self.counters.count("forwarded");
                    address = header.source();
                }
                Err(error) => {
                    self.counters.count("forward_refused");
                    tracing::debug!(door = self.name, peer = ?address, %error, "a forwarded connection was refused");
                    return None;
                }
            }
        }
        let Some(place) = place.move_to(address, self.settings.connections_per_address_max) else {
            self.reject_connection(&stream, &mut LogInterval::default());
            return None;
        };
        Some((stream, address, place))
    }

    /// Sets up a TCP connection, with the TLS handshake if the door uses TLS. `None` if the handshake fails.
    async fn secure(&self, stream: DoorStream, by: Instant) -> Option<DoorStream> {
        let DoorStream::Tcp(stream) = stream else { return Some(stream) };
        keep_alive(&stream);
        let Some(tls) = &self.settings.tls else { return Some(DoorStream::Tcp(stream)) };
        match timeout_at(by, tls.acceptor().accept(stream)).await {
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
    /// Another listener on the same open socket, so that a door can end and begin again without losing its address.
    /// Connections that arrive in between wait.
    pub fn duplicate(&self) -> io::Result<DoorListener> {
        match self {
            DoorListener::Tcp(listener) => duplicate_tcp(listener).map(DoorListener::Tcp),
            #[cfg(unix)]
            DoorListener::Unix(listener) => {
                let owned = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned()?;
                Ok(DoorListener::Unix(UnixListener::from_std(owned.into())?))
            }
        }
    }

    async fn accept(&self) -> io::Result<(DoorStream, Option<IpAddr>)> {
        let (stream, source) = self.accept_from().await?;
        Ok((stream, source.map(|source| source.ip())))
    }

    pub(crate) async fn accept_from(&self) -> io::Result<(DoorStream, Option<SocketAddr>)> {
        match self {
            DoorListener::Tcp(listener) => {
                let (stream, source) = listener.accept().await?;
                Ok((DoorStream::Tcp(stream), Some(source)))
            }
            #[cfg(unix)]
            DoorListener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((DoorStream::Unix(stream), None))
            }
        }
    }
}

pub(crate) fn keep_alive(stream: &TcpStream) {
    // Replies are small, and peers wait for them.
    let _ = stream.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Another listener on the same open socket.
pub fn duplicate_tcp(listener: &TcpListener) -> io::Result<TcpListener> {
    let owned = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned()?;
    TcpListener::from_std(owned.into())
}

/// Limits the log lines of one loop.
#[derive(Debug, Default)]
pub(crate) struct LogInterval {
    last: Option<Instant>,
}

impl LogInterval {
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}
