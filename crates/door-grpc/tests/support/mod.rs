//! What the tests share: a broker with this door only, and Python as a third-party client.

#![allow(dead_code, reason = "each test uses its part")]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tenure_door_grpc::{Settings, serve};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::{Grant, Hub, HubHandle, Keys, Right, Rights};
use tokio::net::TcpListener;
use tokio::process::Command;

/// How long a client may take.
const TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    pub(crate) hub: HubHandle,
}

impl Broker {
    pub(crate) async fn start() -> Broker {
        Broker::with(Settings::default(), Keys::default()).await
    }

    /// One key that may only look, one that may only work as one worker, and one bound to a namespace.
    pub(crate) async fn with_keys() -> Broker {
        let mut keys = Keys::default();
        let reads = Grant { rights: Rights::of(&[Right::Read]), ..Grant::everything() };
        keys.add(b"looker", Grant { name: "looker".into(), ..reads.clone() });
        let rights = Rights::of(&[Right::Read, Right::Work]);
        let worker = Grant { name: "w7".into(), worker: Some("w7".into()), rights, ..reads };
        keys.add(b"worker", worker);
        let lab = Grant { name: "lab".into(), namespace: Some("lab".into()), ..Grant::everything() };
        keys.add(b"lab-key", lab);
        Broker::with(Settings::default(), keys).await
    }

    pub(crate) async fn with(settings: Settings, keys: Keys) -> Broker {
        let engine = tenure_hub::words::Settings::default();
        let hub = Hub::start(Arc::new(MemoryDisk::new()), StoreSettings::default(), engine, keys)
            .expect("the hub starts");
        let handle = hub.handle().clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, handle.clone(), settings));
        Broker { address, hub: handle }
    }

    pub(crate) async fn channel(&self) -> tonic::transport::Channel {
        let address = format!("http://{}", self.address);
        tonic::transport::Endpoint::from_shared(address).expect("an address").connect().await.expect("a door")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.hub.stop();
    }
}

/// The interpreter with grpcio, or nothing: then the test is skipped.
pub(crate) fn python() -> Option<OsString> {
    let python = std::env::var_os("TENURE_THIRD_PARTY_PYTHON");
    if python.is_none() {
        eprintln!("TENURE_THIRD_PARTY_PYTHON is not set, so grpcio is not asked");
    }
    python
}

/// Runs a script of `tests/third_party` to its end, which has to be a good one.
pub(crate) async fn succeeds(python: OsString, script: &str, arguments: &[&str]) {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg("-B").arg(here.join("tests/third_party").join(script)).args(arguments);
    command.env("PYTHONPATH", here.join("proto")).env("GRPC_VERBOSITY", "ERROR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = output.expect("the client ends in time").expect("it runs");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
}
