//! The sockets: accepts connections, and lets each request be answered by its handler.

mod connection;
mod request_activity;
mod stream;

use std::io;
use std::sync::Arc;

use tenure_door_kit::{Door, DoorListener, DoorSettings};
use tenure_hub::{Counters, HubHandle};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::dashboard::SampleTable;
use crate::login::LoginTable;
use crate::routes::{Readiness, Router};
use crate::session::{FeedTable, WorkerTable};
use crate::settings::Settings;

pub(crate) use connection::HttpConnection;

/// How many long bodies are read at once. Each thread that allocates them keeps address space for later.
const LONG_READS_AT_ONCE: usize = 2;

/// What all connections of the door share.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    pub(crate) door: Arc<Door>,
    pub(crate) hub: HubHandle,
    pub(crate) settings: Settings,
    pub(crate) router: Router,
    pub(crate) readiness: Readiness,
    /// Browsers that have logged in.
    pub(crate) logins: LoginTable,
    /// Workers that fetch their tasks here.
    pub(crate) workers: WorkerTable,
    pub(crate) samples: SampleTable,
    /// Turns to read long bytes.
    pub(crate) long_reads: Semaphore,
    /// What several streams of events follow alike.
    pub(crate) feeds: Arc<FeedTable>,
}

/// Serves HTTP until the hub stops, then waits for the requests that are under way.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let counters = Arc::new(Counters::new("http"));
    hub.show(Arc::clone(&counters)).await;
    let tls = settings.door.tls.as_ref().map(|tls| tls.with_protocols(&[b"h2", b"http/1.1"]));
    let for_door = DoorSettings { tls, ..settings.door.clone() };
    let door = Arc::new(Door::new("http", hub.clone(), for_door, counters));
    let http = Arc::new(HttpDoor {
        door: Arc::clone(&door),
        hub,
        settings,
        router: Router::new(),
        readiness: Readiness::default(),
        logins: LoginTable::default(),
        workers: WorkerTable::default(),
        samples: SampleTable::default(),
        long_reads: Semaphore::new(LONG_READS_AT_ONCE),
        feeds: Arc::default(),
    });
    let serve = {
        let http = Arc::clone(&http);
        move |stream, address, login_by| connection::run(Arc::clone(&http), stream, address, login_by)
    };
    tokio::select! {
        () = door.accept(DoorListener::Tcp(listener), serve) => Ok(()),
        () = http.workers.keep_swept() => Ok(()),
    }
}
