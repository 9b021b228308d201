//! Servers under load: this door alone with a hub on real files, or Redis. Each is a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tenure_door_resp::{Settings, serve as serve_door};
use tenure_hub::store::{RealDisk, StoreSettings};
use tenure_hub::{Hub, Keys};
use tokio::net::TcpListener;

use super::peer::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tenure,
    Redis,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    process: Child,
    directory: PathBuf,
}

impl Server {
    pub(crate) async fn start(kind: Kind) -> Server {
        Server::try_start(kind).await.expect("the server starts")
    }

    /// None if there is no such program on this machine.
    pub(crate) async fn try_start(kind: Kind) -> Option<Server> {
        // Neither takes a port of the system's choice and tells it, so a free one is looked for and let go again.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let directory = std::env::temp_dir().join(format!("tenure-bench-resp-{}", address.port()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let mut command = match kind {
            Kind::Tenure => {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.env("BENCH_PORT", address.port().to_string()).arg("serve").arg(&directory);
                command
            }
            Kind::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
                // The log is never rewritten while the load is on: Redis at its best.
                command.args(["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"]);
                command.args(["--auto-aof-rewrite-percentage", "0", "--dir"]).arg(&directory);
                command
            }
        };
        let process = command.stdout(Stdio::null()).spawn().ok()?;
        let server = Server { kind, address, process, directory };
        for _ in 0..1000 {
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    pub(crate) async fn peer(&self) -> Peer {
        Peer::connect(self.address).await
    }

    /// Seconds the server has computed.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = self.proc("stat");
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = |index: usize| {
            after_name.split(' ').nth(index).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0)
        };
        (ticks(12) + ticks(13)) / 100.0
    }

    /// Bytes of the server in memory.
    pub(crate) fn resident(&self) -> usize {
        let pages = self.proc("statm");
        pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The server's side of `Kind::Tenure`.
pub(crate) async fn serve(directory: &Path) {
    let port = std::env::var("BENCH_PORT").expect("a port");
    let disk = Arc::new(RealDisk::new(directory).expect("a directory"));
    let engine = tenure_hub::words::Settings::default();
    let hub = Hub::start(disk, StoreSettings::default(), engine, Keys::default()).expect("the hub starts");
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the port");
    serve_door(listener, hub.handle().clone(), Settings::default()).await.expect("the door stands");
}
