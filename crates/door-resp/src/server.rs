//! The sockets, and nothing else: what arrives goes to the session, what the session says goes out.
//!
//! One task per connection (`conversation.rs`), and one per worker's desk (`desks.rs`). Here connections are accepted,
//! counted and shown in.

mod channels;
mod conversation;
mod desks;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_hub::words::{Refusal, Timestamp};
use tenure_hub::{Grant, HubHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::session::{Admission, Gate};
use crate::settings::Settings;
use crate::throttle::Throttle;
use crate::upkeep::Upkeep;
use channels::Patterns;
use conversation::Conversation;
use desks::Desks;

/// How long to wait after a connection could not be accepted: usually there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A peer whose machine is gone is noticed after this much silence on the wire.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves RESP over TCP until the hub stops, then waits for the conversations to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let door = Arc::new(Door {
        desks: Desks::new(hub.clone(), settings.clone()),
        hub,
        settings,
        throttle: Arc::default(),
        upkeep: Arc::default(),
        patterns: Arc::default(),
        addresses: Mutex::default(),
        next_connection: AtomicU64::new(1),
        conversations: TaskTracker::new(),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = door.hub.stopped() => break,
        };
        match accepted {
            Ok((stream, address)) => door.welcome(stream, address.ip()),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    door.conversations.close();
    door.conversations.wait().await;
    Ok(())
}

struct Door {
    hub: HubHandle,
    settings: Settings,
    desks: Arc<Desks>,
    throttle: Arc<Mutex<Throttle>>,
    upkeep: Arc<Upkeep>,
    patterns: Arc<Patterns>,
    addresses: Mutex<Addresses>,
    next_connection: AtomicU64,
    conversations: TaskTracker,
}

/// How many connections there are, of all and of each address.
#[derive(Default)]
struct Addresses {
    all: usize,
    each: HashMap<IpAddr, usize>,
}

impl Door {
    fn welcome(self: &Arc<Self>, stream: TcpStream, address: IpAddr) {
        if !self.has_room(address) {
            tracing::warn!(%address, "too many connections, one turned away");
            // A new socket has room for one line; if not, it is just closed.
            let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
            return;
        }
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let door = Arc::clone(self);
        self.conversations.spawn(async move {
            let id = door.next_connection.fetch_add(1, Ordering::Relaxed);
            let ended = Conversation::new(Arc::clone(&door), id, address).run(stream).await;
            if let Err(error) = ended {
                tracing::debug!(%error, connection = id, "a connection broke");
            }
            door.leave(address);
        });
    }

    fn has_room(&self, address: IpAddr) -> bool {
        let mut addresses = locked(&self.addresses);
        let Addresses { all, each } = &mut *addresses;
        let own = each.get(&address).copied().unwrap_or(0);
        if *all >= self.settings.connections_max || own >= self.settings.connections_per_address_max {
            return false;
        }
        *all += 1;
        each.insert(address, own + 1);
        true
    }

    fn leave(&self, address: IpAddr) {
        let mut addresses = locked(&self.addresses);
        addresses.all -= 1;
        if let Some(own) = addresses.each.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                addresses.each.remove(&address);
            }
        }
    }
}

/// Who may come in from one address.
struct HubGate {
    hub: HubHandle,
    throttle: Arc<Mutex<Throttle>>,
    address: IpAddr,
}

impl Gate for HubGate {
    fn wants_keys(&self) -> bool {
        self.hub.wants_keys()
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal> {
        self.hub.may_work_as(grant, worker)
    }

    fn admit(&self, now: Timestamp, key: &[u8]) -> Admission {
        let mut throttle = locked(&self.throttle);
        if let Some(wait) = throttle.must_wait(now, self.address) {
            return Admission::Wait(wait);
        }
        match self.hub.admit(Some(key)) {
            Some(grant) => {
                throttle.right(self.address);
                Admission::Granted(grant)
            }
            None => {
                throttle.wrong(now, self.address);
                tracing::warn!(address = %self.address, "a wrong key was shown");
                Admission::Wrong
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two statements, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
