//! The sockets, and nothing else: what arrives goes to the session, what the session says goes out.
//!
//! One task per connection (`conversation.rs`), and one per worker actor (in the kit). Here connections are accepted.

mod channels;
mod conversation;

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_door_kit as kit;
use tenure_door_kit::worker_actor::Directory;
use tenure_door_kit::{Listener, LoginError};
use tenure_hub::words::{Refusal, Timestamp};
use tenure_hub::{Counters, Grant, HubHandle};
use tokio::net::TcpListener;

use crate::session::{Admission, Gate};
use crate::settings::Settings;
use crate::upkeep::Upkeep;
use crate::worker::Resp;
use channels::Patterns;
use conversation::Conversation;

/// Serves RESP over TCP until the hub stops, then waits for the conversations to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let counters = Arc::new(Counters::new("resp"));
    hub.show(Arc::clone(&counters)).await;
    let shared = kit::Door::new("resp", hub.clone(), settings.door.clone(), counters);
    let shared = Arc::new(kit::Door { full: b"-ERR max number of clients reached\r\n", ..shared });
    let door = Arc::new(Door {
        workers: Directory::new(hub.clone(), settings.heartbeats()),
        hub,
        settings,
        kit: Arc::clone(&shared),
        upkeep: Arc::default(),
        patterns: Arc::default(),
        next_connection: AtomicU64::new(1),
    });
    let serve = move |stream, address: Option<IpAddr>| {
        let door = Arc::clone(&door);
        async move {
            let id = door.next_connection.fetch_add(1, Ordering::Relaxed);
            let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let ended = Conversation::new(door, id, address).run(stream).await;
            if let Err(error) = ended {
                tracing::debug!(%error, connection = id, "a connection broke");
            }
        }
    };
    shared.accept(Listener::Tcp(listener), serve).await;
    Ok(())
}

struct Door {
    hub: HubHandle,
    settings: Settings,
    kit: Arc<kit::Door>,
    workers: Arc<Directory<Resp>>,
    upkeep: Arc<Upkeep>,
    patterns: Arc<Patterns>,
    next_connection: AtomicU64,
}

/// Who may come in from one address.
struct HubGate {
    door: Arc<kit::Door>,
    address: IpAddr,
    /// How long the answer to a wrong key is to be held back.
    hold: Cell<Duration>,
}

impl Gate for HubGate {
    fn wants_keys(&self) -> bool {
        self.door.authenticator.wants_keys()
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal> {
        self.door.hub.may_work_as(grant, worker)
    }

    fn admit(&self, now: Timestamp, key: &[u8]) -> Admission {
        match self.door.authenticator.login(now, Some(self.address), Some(key)) {
            Ok(principal) => Admission::Granted(principal.grant),
            Err(LoginError::NoKey) => Admission::Wrong,
            Err(LoginError::WrongKey { wait }) => {
                self.hold.set(wait);
                Admission::Wrong
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two statements, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
