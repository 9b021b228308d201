//! A broker that a story can stop and start again on the same data and the same port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tenure_client::{Client, WorkerBuilder};
use tenure_hub::store::{RealDisk, StoreSettings};
use tenure_hub::words::Settings;
use tenure_hub::{Hub, HubHandle, Keys};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Nothing on this machine takes longer unless something is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Broker {
    directory: TempDir,
    keys: Keys,
    address: SocketAddr,
    running: Option<Running>,
}

struct Running {
    runtime: Runtime,
    hub: HubHandle,
    ended: tokio::task::JoinHandle<()>,
}

impl Broker {
    pub(crate) fn start() -> Broker {
        Broker::with_keys(Keys::default())
    }

    pub(crate) fn with_keys(keys: Keys) -> Broker {
        let directory = tempfile::tempdir().unwrap();
        let mut broker = Broker { directory, keys, address: ([127, 0, 0, 1], 0).into(), running: None };
        broker.start_again();
        broker
    }

    pub(crate) fn start_again(&mut self) {
        outside(|| self.start_here());
    }

    fn start_here(&mut self) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (path, keys, address) = (self.directory.path().join("data"), self.keys.clone(), self.address);
        let backups = self.directory.path().join("backups");
        let (hub, ended, bound) = runtime.block_on(async move {
            let disk = Arc::new(RealDisk::new(&path).unwrap());
            // What is freshly stopped may hold the directory and the port for a moment.
            let hub = loop {
                match Hub::start(
                    Arc::clone(&disk) as _,
                    StoreSettings { segment_bytes: 1 << 20, ..StoreSettings::default() },
                    Settings::default(),
                    keys.clone(),
                ) {
                    Ok(hub) => break hub,
                    Err(error) => {
                        eprintln!("not yet: {error}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            };
            let listener = TcpListener::bind(address).await.unwrap();
            let bound = listener.local_addr().unwrap();
            let handle = hub.handle().clone();
            handle.set_backup_dir(backups);
            let door = tenure_door_msgpack::serve(
                listener,
                handle.clone(),
                tenure_door_msgpack::Settings::default(),
            );
            tokio::spawn(door);
            let ended = tokio::spawn(async move {
                hub.ended().await.unwrap();
            });
            (handle, ended, bound)
        });
        self.address = bound;
        self.running = Some(Running { runtime, hub, ended });
    }

    /// A clean end: every peer receives goodbye.
    pub(crate) fn stop(&mut self) {
        let Running { runtime, hub, ended } = self.running.take().unwrap();
        hub.stop();
        drop(hub);
        outside(move || {
            runtime.block_on(async { tokio::time::timeout(LONG, ended).await.unwrap().unwrap() });
            runtime.shutdown_timeout(Duration::from_secs(2));
        });
    }

    /// A sudden end: connections break in the middle of whatever they carry.
    pub(crate) fn kill(&mut self) {
        let Running { runtime, hub, ended } = self.running.take().unwrap();
        drop((hub, ended));
        outside(move || runtime.shutdown_timeout(Duration::from_secs(2)));
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Opens an entrance behind TLS, and returns its address for clients.
    pub(crate) async fn listen_with_tls(&self) -> String {
        let running = self.running.as_ref().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let ca = self.directory.path().join("ca.pem");
        std::fs::write(&ca, made.cert.pem()).unwrap();
        let key = made.signing_key.serialize_pem();
        let tls = tenure_door_kit::Tls::new(made.cert.pem().as_bytes(), key.as_bytes(), None).unwrap();
        let door = tenure_door_kit::DoorSettings { tls: Some(tls), ..Default::default() };
        let settings = tenure_door_msgpack::Settings { door, ..Default::default() };
        let _inside = running.runtime.enter();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener = TcpListener::from_std(listener).unwrap();
        running.runtime.spawn(tenure_door_msgpack::serve(listener, running.hub.clone(), settings));
        format!("tls://localhost:{port}?ca={}", ca.display())
    }

    /// Opens a second entrance, and returns its path.
    pub(crate) fn listen_at_unix_socket(&self) -> std::path::PathBuf {
        let running = self.running.as_ref().unwrap();
        let path = self.directory.path().join("door.sock");
        let _inside = running.runtime.enter();
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let door = tenure_door_msgpack::Settings::default();
        running.runtime.spawn(tenure_door_msgpack::serve_unix(listener, running.hub.clone(), door));
        path
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::builder().address(&self.address()).identity("ada").connect().await.unwrap()
    }

    /// A worker for `images` that is quick to notice things.
    pub(crate) fn worker(&self, id: &str) -> WorkerBuilder {
        tenure_client::Worker::builder(&self.address())
            .id(id)
            .queues(["images"])
            .heartbeat(Duration::from_millis(100))
            .lost_after(Duration::from_secs(5))
            .lease(Duration::from_secs(30))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }
}

/// The broker has a runtime of its own, and a runtime cannot be entered from within another.
fn outside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(LONG, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not in time: {what}"));
}
