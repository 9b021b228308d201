//! A broker in this process: a real hub on a disk in memory, with the ZeroMQ doors open on free ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_door_zmq::{PingPongSettings, Settings, Transport};
use tenure_hub::store::{Disk, MemoryDisk, StoreError, StoreSettings};
use tenure_hub::words::{Settings as EngineSettings, StateName, WorkerInfo};
use tenure_hub::{Counters, Hub, HubHandle, Keys};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::native::Native;

pub(crate) struct Broker {
    runtime: Option<Runtime>,
    hub: Option<Hub>,
    pub(crate) mdp: SocketAddr,
    pub(crate) clients: SocketAddr,
    pub(crate) workers: SocketAddr,
    pub(crate) counters: Arc<Counters>,
    disk: Arc<dyn Disk>,
    settings: Settings,
}

/// Settings under which the broker says nothing by itself, so that a slow machine changes no story.
pub(crate) fn calm() -> Settings {
    let minute = Duration::from_secs(60);
    let transport = Transport { ping: minute, ping_timeout: 3 * minute, ..Transport::default() };
    Settings { heartbeat: minute, transport, ..Settings::default() }
}

impl Broker {
    pub(crate) fn start() -> Broker {
        Broker::with(
            calm(),
            PingPongSettings { worker_expire: Duration::from_secs(60), ..PingPongSettings::default() },
        )
    }

    pub(crate) fn with(settings: Settings, ping_pong: PingPongSettings) -> Broker {
        Broker::open(Arc::new(MemoryDisk::new()), settings, ping_pong, &Keys::default(), 0)
    }

    /// With the settings of [`Broker::start`], on this disk.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> Broker {
        Broker::open(disk, calm(), PingPongSettings::default(), &Keys::default(), 0)
    }

    pub(crate) fn with_keys(keys: &Keys) -> Broker {
        let disk = Arc::new(MemoryDisk::new());
        Broker::open(disk, calm(), PingPongSettings::default(), keys, 0)
    }

    fn open(
        disk: Arc<dyn Disk>,
        settings: Settings,
        ping_pong: PingPongSettings,
        keys: &Keys,
        port: u16,
    ) -> Broker {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let guard = runtime.enter();
        let hub = start_hub(&disk, keys);
        drop(guard);
        let bind = |port| runtime.block_on(bind(port));
        let (mdp, clients, workers) = (bind(port), bind(0), bind(0));
        let addresses = [&mdp, &clients, &workers].map(|door| door.local_addr().expect("an address"));
        let counters = Arc::clone(&settings.counters);
        runtime.spawn(tenure_door_zmq::serve(mdp, hub.handle().clone(), settings.clone()));
        runtime.spawn(tenure_door_zmq::serve_ping_pong(clients, workers, hub.handle().clone(), ping_pong));
        let [mdp, clients, workers] = addresses;
        Broker { runtime: Some(runtime), hub: Some(hub), mdp, clients, workers, counters, disk, settings }
    }

    pub(crate) fn hub(&self) -> &HubHandle {
        self.hub.as_ref().expect("it runs").handle()
    }

    /// Stops the broker and starts it again on the same disk and the same Majordomo port.
    pub(crate) fn restart(mut self) -> Broker {
        self.stop();
        let (disk, settings, port) = (Arc::clone(&self.disk), self.settings.clone(), self.mdp.port());
        Broker::open(disk, settings, PingPongSettings::default(), &Keys::default(), port)
    }

    /// Waits until something was counted.
    pub(crate) fn counts(&self, reason: &str) -> bool {
        self.counts_to(reason, 1)
    }

    /// Waits until something was counted so often.
    pub(crate) fn counts_to(&self, reason: &str, count: u64) -> bool {
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if self.counters.get(reason) >= count {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Waits until it knows this many workers.
    pub(crate) fn until_workers(&self, count: usize) {
        self.until("workers", count, |native| native.workers().len());
    }

    /// Waits until this many workers have told how they are.
    pub(crate) fn until_figures(&self, count: usize) {
        let told = |native: &mut Native| native.workers().iter().filter(|worker| has_figures(worker)).count();
        self.until("workers with figures", count, told);
    }

    /// Waits until this many tasks run as far as it knows. A worker that is lost earlier was handed nothing.
    pub(crate) fn until_running(&self, count: usize) {
        let runs = |native: &mut Native| {
            native.tasks().iter().filter(|task| task.state.name() == StateName::Running).count()
        };
        self.until("running tasks", count, runs);
    }

    fn until(&self, what: &str, wanted: usize, mut count: impl FnMut(&mut Native) -> usize) {
        let mut native = Native::open(self.hub(), "waiting");
        let deadline = Instant::now() + Duration::from_secs(20);
        while count(&mut native) != wanted {
            assert!(Instant::now() < deadline, "{wanted} {what} were expected, not {}", count(&mut native));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(&mut self) {
        let (Some(hub), Some(runtime)) = (self.hub.take(), self.runtime.take()) else { return };
        hub.handle().stop();
        let _ = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(5), hub.ended()).await });
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// More than how many of its threads are free.
fn has_figures(worker: &WorkerInfo) -> bool {
    worker.stats.as_ref().is_some_and(|stats| stats.memory_total.is_some())
}

/// The threads of a hub that has just ended may hold its lock for a moment.
fn start_hub(disk: &Arc<dyn Disk>, keys: &Keys) -> Hub {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let engine = EngineSettings::default();
        match Hub::start(Arc::clone(disk), StoreSettings::default(), engine, keys.clone()) {
            Ok(hub) => return hub,
            Err(StoreError::Locked { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A port that was just closed may take a moment.
async fn bind(port: u16) -> TcpListener {
    for _ in 0..100 {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    panic!("port {port} does not become free");
}
