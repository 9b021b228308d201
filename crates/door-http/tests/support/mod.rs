//! What the tests share: a broker with this door only, and a client of a few lines on a plain socket.

#![allow(dead_code, reason = "each test uses its part")]

mod client;
mod pattern;

use std::net::SocketAddr;
use std::sync::Arc;

use tenure_door_http::{Settings, serve};
use tenure_hub::store::{Disk, MemoryDisk, StoreSettings};
use tenure_hub::{Grant, Hub, HubHandle, Keys, Right, Rights};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[allow(unused_imports, reason = "each test uses its part")]
pub(crate) use client::{Answer, Client};
#[allow(unused_imports, reason = "each test uses its part")]
pub(crate) use pattern::{Bindings, Pattern};

/// One key that may only look, one bound to a namespace, and one for everything.
pub(crate) fn some_keys() -> Keys {
    let mut keys = Keys::default();
    let rights = Rights::of(&[Right::Read]);
    keys.add(b"looker", Grant { name: "looker".into(), rights, ..Grant::everything() });
    let lab = Grant { name: "lab".into(), namespace: Some("lab".into()), ..Grant::everything() };
    keys.add(b"lab-key", lab);
    keys.add(b"all-key", Grant { name: "all".into(), ..Grant::everything() });
    keys
}

pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    pub(crate) hub: HubHandle,
    serving: JoinHandle<std::io::Result<()>>,
    ended: JoinHandle<()>,
}

impl Broker {
    pub(crate) async fn start() -> Broker {
        Broker::with(Settings::default(), Keys::default()).await
    }

    /// A broker with [`some_keys`].
    pub(crate) async fn with_keys() -> Broker {
        Broker::with(Settings::default(), some_keys()).await
    }

    pub(crate) async fn with(settings: Settings, keys: Keys) -> Broker {
        Broker::on(Arc::new(MemoryDisk::new()), "127.0.0.1:0", settings, keys).await
    }

    /// A broker on this disk, which an earlier broker may have used.
    pub(crate) async fn on(disk: Arc<dyn Disk>, address: &str, settings: Settings, keys: Keys) -> Broker {
        Broker::storing(disk, StoreSettings::default(), address, settings, keys).await
    }

    /// A broker whose store has these settings.
    pub(crate) async fn storing(
        disk: Arc<dyn Disk>,
        store: StoreSettings,
        address: &str,
        settings: Settings,
        keys: Keys,
    ) -> Broker {
        let engine = tenure_hub::words::Settings::default();
        let hub = Hub::start(disk, store, engine, keys).expect("the hub starts");
        let handle = hub.handle().clone();
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(serve(listener, handle.clone(), settings));
        let ended = tokio::spawn(async move {
            let _ = hub.ended().await;
        });
        Broker { address, hub: handle, serving, ended }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Stops the broker and waits until it has ended.
    pub(crate) async fn stop(mut self) {
        self.hub.stop();
        (&mut self.serving).await.expect("the door does not panic").expect("the door ends well");
        (&mut self.ended).await.expect("the hub ends");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.hub.stop();
    }
}
