//! A broker with this door only, on a port of its own and a disk in memory.

use std::net::SocketAddr;
use std::sync::Arc;

use tenure_door_resp::{Settings, serve};
use tenure_hub::store::StoreSettings;
use tenure_hub::{Grant, Hub, HubHandle, Keys};
use tokio::net::TcpListener;

pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    pub(crate) hub: HubHandle,
}

impl Broker {
    pub(crate) async fn start() -> Broker {
        Broker::with(Keys::default(), super::world::small_store(), Settings::default()).await
    }

    pub(crate) async fn on(store: StoreSettings) -> Broker {
        Broker::with(Keys::default(), store, Settings::default()).await
    }

    pub(crate) async fn told(settings: Settings) -> Broker {
        Broker::with(Keys::default(), super::world::small_store(), settings).await
    }

    /// The keys of the page: 64 ones for worker-001, 64 twos for worker-002.
    pub(crate) async fn with_keys() -> Broker {
        let mut keys = Keys::default();
        for (digit, worker) in [("1", "worker-001"), ("2", "worker-002")] {
            let grant = Grant { name: worker.into(), worker: Some(worker.into()), ..Grant::everything() };
            keys.add(digit.repeat(64).as_bytes(), grant);
        }
        Broker::with(keys, super::world::small_store(), Settings::default()).await
    }

    async fn with(keys: Keys, store: StoreSettings, settings: Settings) -> Broker {
        let disk = Arc::new(tenure_hub::store::MemoryDisk::new());
        let engine = tenure_hub::words::Settings::default();
        let hub = Hub::start(disk, store, engine, keys).expect("the hub starts");
        let handle = hub.handle().clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, handle.clone(), settings));
        Broker { address, hub: handle }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.hub.stop();
    }
}
