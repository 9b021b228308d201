//! The sockets: passes received bytes to the session, and writes what it produces.
//!
//! One task per connection (the loop of the kit around `connection.rs`), and one per worker actor (in the kit).

mod channels;
mod connection;
mod stored;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_door_kit as kit;
use tenure_door_kit::worker_actor::Directory;
use tenure_door_kit::{DoorListener, DoorStream};
use tenure_hub::{Counters, HubHandle};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::namespace_timer::NamespaceTimer;
use crate::settings::Settings;
use crate::worker::Resp;
use channels::ChannelPatterns;
use connection::Connection;

/// How many long bodies are read and written as replies at once. Each needs several times its bytes meanwhile.
const LONG_READS_AT_ONCE: usize = 2;

/// Serves RESP over TCP until the hub stops, then waits for the connections to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let counters = Arc::new(Counters::new("resp"));
    hub.show(Arc::clone(&counters)).await;
    let shared = kit::Door::new("resp", hub.clone(), settings.door.clone(), counters);
    let shared = Arc::new(kit::Door { full: b"-ERR max number of clients reached\r\n", ..shared });
    let door = Arc::new(Door {
        workers: Directory::new(hub, settings.heartbeats()),
        settings: Arc::new(settings),
        kit: Arc::clone(&shared),
        namespace_timer: Arc::default(),
        patterns: Arc::default(),
        long_reads: Semaphore::new(LONG_READS_AT_ONCE),
        next_connection: AtomicU64::new(1),
    });
    let serve = move |stream: DoorStream, address: Option<IpAddr>, login_by| {
        let door = Arc::clone(&door);
        async move {
            let id = door.next_connection.fetch_add(1, Ordering::Relaxed);
            let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let kit = Arc::clone(&door.kit);
            let connection = kit::Connection::new(Connection::new(door, id, address), kit, Some(address));
            let connection = connection.with_login_by(login_by);
            let (read, write) = stream.into_split();
            if let Err(error) = connection.run(read, write).await {
                tracing::debug!(%error, connection = id, "a connection broke");
            }
        }
    };
    shared.accept(DoorListener::Tcp(listener), serve).await;
    Ok(())
}

struct Door {
    settings: Arc<Settings>,
    kit: Arc<kit::Door>,
    workers: Arc<Directory<Resp>>,
    namespace_timer: Arc<NamespaceTimer>,
    patterns: Arc<ChannelPatterns>,
    /// Turns to read long bodies.
    long_reads: Semaphore,
    next_connection: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No statement leaves the guarded data inconsistent, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
