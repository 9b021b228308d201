//! Figures of the HTTP door, on loopback and a real disk: a page of tasks out of many, `/metrics` with many queues, the
//! hub's cycle rate with many listeners, and durable submissions beside a bare server that answers 204.
//!
//! `cargo bench -p tenure-door-http` runs all of them; a number is the count of tasks of the first one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tenure_door_http::{Settings, serve};
use tenure_hub::store::{RealDisk, StoreSettings};
use tenure_hub::words::{Command, Held, NewTask, Notice, WorkerSpec};
use tenure_hub::{
    Ask, Delivery, Done, Hub, HubHandle, Keys, Principal, Request, Session, Submission, fresh_id,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const TASKS: usize = 1_000_000;
const QUEUES: usize = 1_000;
const LISTENERS: usize = 1_000;
const CONNECTIONS: usize = 64;
const SPAN: Duration = Duration::from_secs(5);

fn main() {
    let tasks = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(TASKS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        page_and_metrics(tasks).await;
        listeners().await;
        submissions().await;
    });
    // Listeners and connections are still there.
    std::process::exit(0);
}

struct Broker {
    hub: HubHandle,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Broker {
    async fn start() -> Broker {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = Arc::new(RealDisk::new(directory.path()).expect("a disk"));
        let engine = tenure_hub::words::Settings::default();
        let hub =
            Hub::start(disk, StoreSettings::default(), engine, Keys::default()).expect("the hub starts");
        let handle = hub.handle().clone();
        tokio::spawn(hub.ended());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, handle.clone(), Settings::default()));
        Broker { hub: handle, address, _directory: directory }
    }

    fn session(&self, name: &str) -> Session {
        self.hub.open(Principal::trusted("bench"), "default".into(), name.into()).expect("a session")
    }
}

/// Sends a request and waits for its reply.
async fn ask(session: &Session, request: Request) {
    session.send(vec![Ask { token: 1, request }]).await.expect("the hub runs");
    let mut taken = Vec::new();
    loop {
        session.mailbox().arrived().await;
        session.mailbox().take(&mut taken);
        if taken.drain(..).any(|delivery| matches!(delivery, Delivery::Reply { .. })) {
            return;
        }
    }
}

async fn page_and_metrics(tasks: usize) {
    let broker = Broker::start().await;
    let session = broker.session("client");
    let begun = Instant::now();
    for first in (0..tasks).step_by(10_000) {
        let one = |number: usize| {
            let task = NewTask::new(fresh_id(), format!("queue-{}", number % QUEUES));
            Submission::new(task, Bytes::from_static(b"a body of some bytes"))
        };
        ask(&session, Request::Submit((first..tasks.min(first + 10_000)).map(one).collect())).await;
    }
    println!("{tasks} tasks in {QUEUES} queues were submitted in {:.1} s", begun.elapsed().as_secs_f64());
    let mut peer = HttpPeer::connect(broker.address).await;
    for path in ["/v1/tasks?limit=100", "/v1/tasks?state=ready&limit=100", "/tasks", "/v1/queues", "/metrics"]
    {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..20 {
            let begun = Instant::now();
            bytes = peer.get(path).await;
            times.push(begun.elapsed());
        }
        times.sort();
        println!("GET {path:<34} {bytes:>9} bytes, median {:.1?}, slowest {:.1?}", times[10], times[19]);
    }
}

/// Submits, runs and completes tasks, 64 at a time, for a while. Returns how many per second.
async fn cycles(broker: &Broker) -> f64 {
    let (client, worker) = (broker.session("client"), broker.session("worker"));
    let spec = WorkerSpec::new("w", vec!["cycles".into()], 64);
    ask(&worker, Request::Command(Command::Register(Box::new(spec)))).await;
    let submit = |count: usize| {
        let one = |_| Submission::new(NewTask::new(fresh_id(), "cycles"), Bytes::from_static(b"body"));
        Ask { token: 0, request: Request::Submit((0..count).map(one).collect()) }
    };
    client.send(vec![submit(256)]).await.expect("the hub runs");
    let (begun, mut done, mut taken) = (Instant::now(), 0_u32, Vec::new());
    while begun.elapsed() < SPAN {
        worker.mailbox().arrived().await;
        worker.mailbox().take(&mut taken);
        let assigned = taken.drain(..).filter_map(|delivery| match delivery {
            Delivery::Notice(Notice::Assign(one)) => Some(Held { task: one.task, attempt: one.attempt }),
            _ => None,
        });
        let held: Vec<Held> = assigned.collect();
        if held.is_empty() {
            continue;
        }
        done += held.len() as u32;
        let count = held.len();
        let complete = held.iter().map(|held| Done { held: *held, result: Bytes::new() }).collect();
        let reports = [Request::Command(Command::Start(held)), Request::Complete(complete)];
        worker.send(reports.map(|request| Ask { token: 0, request }).into()).await.expect("the hub runs");
        client.send(vec![submit(count)]).await.expect("the hub runs");
        let mut replies = Vec::new();
        client.mailbox().take(&mut replies);
    }
    f64::from(done) / begun.elapsed().as_secs_f64()
}

async fn listeners() {
    let mut rates = Vec::new();
    for round in 0..3 {
        for listeners in [0, LISTENERS] {
            let broker = Broker::start().await;
            let mut open = Vec::new();
            for number in 0..listeners {
                // What a dashboard follows, and what an operator's script does.
                let path = if number % 2 == 0 { "/live" } else { "/v1/events?kind=crashed,worker-lost" };
                let mut peer = HttpPeer::connect(broker.address).await;
                peer.send(path, "text/event-stream").await;
                open.push(tokio::spawn(async move { peer.drain().await }));
            }
            let rate = cycles(&broker).await;
            println!("round {round}: {rate:.0} cycles/s with {listeners} listeners");
            rates.push(rate);
            open.iter().for_each(tokio::task::JoinHandle::abort);
            broker.hub.stop();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    let (without, with): (Vec<_>, Vec<_>) = rates.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    let best = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    println!(
        "best of three: {:.0} without, {:.0} with: {:+.1} %",
        best(&without),
        best(&with),
        (best(&with) / best(&without) - 1.0) * 100.0
    );
}

async fn submissions() {
    let bare = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let bare_address = bare.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = bare.accept().await {
            tokio::spawn(async move {
                let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| async move {
                    let _ = http_body_util::BodyExt::collect(request.into_body()).await;
                    let mut answer = hyper::Response::new(Empty::<Bytes>::new());
                    *answer.status_mut() = hyper::StatusCode::NO_CONTENT;
                    Ok::<_, Infallible>(answer)
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
    let broker = Broker::start().await;
    for round in 0..3 {
        let bare = posts(bare_address).await;
        let durable = posts(broker.address).await;
        println!(
            "round {round}: bare server {bare:.0}/s, durable submissions {durable:.0}/s ({:.0} %), {CONNECTIONS} connections",
            durable / bare * 100.0
        );
    }
}

/// Posts tasks over connections that are kept, one request at a time on each. Returns how many per second.
async fn posts(address: SocketAddr) -> f64 {
    let begun = Instant::now();
    let mut running = Vec::new();
    for _ in 0..CONNECTIONS {
        running.push(tokio::spawn(async move {
            let mut peer = HttpPeer::connect(address).await;
            let mut count = 0_u32;
            while begun.elapsed() < SPAN {
                peer.post("/v1/tasks", br#"{"queue":"http","body":"a body of some bytes"}"#).await;
                count += 1;
            }
            count
        }));
    }
    let mut total = 0;
    for one in running {
        total += one.await.expect("it ends");
    }
    f64::from(total) / begun.elapsed().as_secs_f64()
}

/// A client of a few lines, so that the client costs little.
struct HttpPeer {
    stream: TcpStream,
    read: Vec<u8>,
}

impl HttpPeer {
    async fn connect(address: SocketAddr) -> HttpPeer {
        let stream = TcpStream::connect(address).await.expect("it accepts");
        stream.set_nodelay(true).expect("a socket");
        HttpPeer { stream, read: Vec::with_capacity(64 << 10) }
    }

    async fn send(&mut self, path: &str, accept: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await.expect("it is sent");
    }

    async fn get(&mut self, path: &str) -> usize {
        self.send(path, "*/*").await;
        self.answer().await
    }

    async fn post(&mut self, path: &str, body: &[u8]) {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request).await.expect("it is sent");
        self.answer().await;
    }

    /// Reads one answer with a known length. Returns the bytes of its body.
    async fn answer(&mut self) -> usize {
        self.read.clear();
        loop {
            let mut piece = [0; 16 << 10];
            let count = self.stream.read(&mut piece).await.expect("it answers");
            assert!(count > 0, "the connection is closed");
            self.read.extend_from_slice(&piece[..count]);
            let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.read[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 2"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.trim().parse().expect("a number"));
            if self.read.len() >= end + 4 + length {
                return length;
            }
        }
    }

    /// Reads until the end.
    async fn drain(&mut self) {
        let mut piece = vec![0; 16 << 10];
        while let Ok(1..) = self.stream.read(&mut piece).await {}
    }
}
