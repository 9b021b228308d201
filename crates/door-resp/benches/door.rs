//! Prints how fast the door is over sockets against a hub on a disk in memory: pushes in a pipeline, whole cycles, and
//! what thousands of clients that wait cost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tenure_door_resp::codec::{Reply, read_reply};
use tenure_door_resp::{Settings, serve};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::{Hub, Keys};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const PUSHES: usize = 100_000;
const PIPELINE: usize = 256;
const CYCLES: usize = 20_000;
const WORKERS: usize = 32;
/// Both ends are here, and twenty thousand open files are a common limit.
const BLOCKED: usize = 9_500;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let address = start().await;
    push(address).await;
    cycle(address).await;
    block(address).await;
}

async fn start() -> SocketAddr {
    let disk = Arc::new(MemoryDisk::new());
    let engine = tenure_hub::words::Settings::default();
    let hub = Hub::start(disk, StoreSettings::default(), engine, Keys::default()).expect("the hub starts");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(serve(listener, hub.handle().clone(), Settings::default()));
    address
}

async fn push(address: SocketAddr) {
    let mut peer = Peer::connect(address).await;
    let begun = Instant::now();
    for _ in 0..PUSHES / PIPELINE {
        peer.send(&command(&["LPUSH", "queue:bench", "hello world"]).repeat(PIPELINE)).await;
        for _ in 0..PIPELINE {
            peer.reply().await;
        }
    }
    let rate = (PUSHES / PIPELINE * PIPELINE) as f64 / begun.elapsed().as_secs_f64();
    println!("LPUSH, {PIPELINE} in a pipeline: {rate:.0} per second");
}

async fn cycle(address: SocketAddr) {
    let begun = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(tokio::spawn(async move {
            let mut peer = Peer::connect(address).await;
            for _ in 0..CYCLES / WORKERS {
                peer.send(&command(&["BRPOPLPUSH", "queue:bench", "queue:processing", "5"])).await;
                let Reply::Bulk(id) = peer.reply().await else { panic!("no job") };
                let id = String::from_utf8_lossy(&id).into_owned();
                peer.send(&command(&["LREM", "queue:processing", "1", &id])).await;
                peer.reply().await;
            }
        }));
    }
    for worker in workers {
        worker.await.expect("a worker");
    }
    let rate = (CYCLES / WORKERS * WORKERS) as f64 / begun.elapsed().as_secs_f64();
    println!("claim and finish, {WORKERS} workers: {rate:.0} per second");
}

async fn block(address: SocketAddr) {
    let before = resident();
    let mut peers = Vec::new();
    for _ in 0..BLOCKED {
        let Ok(stream) = TcpStream::connect(address).await else { break };
        let mut peer = Peer { stream, bytes: BytesMut::new() };
        peer.send(&command(&["BRPOP", "queue:idle", "0"])).await;
        peers.push(peer);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = resident().saturating_sub(before) / peers.len().max(1);
    println!("{} clients wait: {each} bytes each, both ends of the socket in this process", peers.len());
    let busy = cpu_time();
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("while they wait: {:.1} % of one core", (cpu_time() - busy) / 2.0 * 100.0);
    let mut pusher = Peer::connect(address).await;
    let begun = Instant::now();
    pusher.send(&command(&["LPUSH", "queue:idle", "x"])).await;
    peers[0].reply().await;
    println!(
        "a push wakes the one who waited longest after {:.2} ms",
        begun.elapsed().as_secs_f64() * 1000.0
    );
}

struct Peer {
    stream: TcpStream,
    bytes: BytesMut,
}

impl Peer {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the door is open");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, bytes: BytesMut::new() }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the connection is open");
    }

    async fn reply(&mut self) -> Reply {
        loop {
            if let Some((reply, length)) = read_reply(&self.bytes).expect("a reply") {
                let _ = self.bytes.split_to(length);
                return reply;
            }
            assert!(self.stream.read_buf(&mut self.bytes).await.expect("the connection is open") > 0);
        }
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Seconds this process has computed.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |index: usize| {
        after_name.split(' ').nth(index).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0)
    };
    (ticks(12) + ticks(13)) / 100.0
}
