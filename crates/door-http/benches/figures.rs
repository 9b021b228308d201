//! Figures of the HTTP door, on loopback and a real disk: a page of tasks out of many, `/metrics` with many queues, the
//! hub's cycle rate with many listeners, and durable submissions beside a bare server that answers 204.
//!
//! `cargo bench -p tenure-door-http` runs all of them. The words `page`, `listeners`, `load` and `submissions` select; a
//! number is the count of tasks for the page. Rates depend on what else the machine does, so each figure also has the CPU
//! time of this process, which is the broker and the clients together. `TMPDIR` says which disk is used.

#[path = "figures/load.rs"]
mod load;

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

/// As in the broker's own program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TASKS: usize = 1_000_000;
const QUEUES: usize = 1_000;
const LISTENERS: usize = 1_000;
const CONNECTIONS: usize = 64;
const SPAN: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if let [mode, address, count] = &*arguments
        && mode == "listen"
    {
        let (address, count) = (address.parse().expect("an address"), count.parse().expect("a number"));
        return runtime.block_on(load::listen(address, count));
    }
    let tasks = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(TASKS);
    let figures = ["page", "listeners", "load", "submissions"];
    let selects_all = !figures.iter().any(|figure| arguments.iter().any(|argument| argument == figure));
    let is_wanted = |figure: &str| selects_all || arguments.iter().any(|argument| argument == figure);
    runtime.block_on(async {
        if is_wanted("page") {
            page_and_metrics(tasks).await;
        }
        if is_wanted("listeners") {
            listeners().await;
        }
        if is_wanted("load") {
            load::fixed_load().await;
        }
        if is_wanted("submissions") {
            submissions().await;
        }
    });
    // Listeners and connections are still there.
    std::process::exit(0);
}

/// The CPU time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in brackets and may have spaces; user and system time are the 14th and 15th field.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A rate, and the CPU time that one thing took.
#[derive(Clone, Copy)]
struct Pace {
    per_second: f64,
    cpu_micros: f64,
}

impl Pace {
    fn of(count: u32, begun: Instant, cpu_before: Duration) -> Pace {
        let cpu = cpu_time().saturating_sub(cpu_before);
        Pace {
            per_second: f64::from(count) / begun.elapsed().as_secs_f64(),
            cpu_micros: cpu.as_secs_f64() * 1e6 / f64::from(count.max(1)),
        }
    }
}

impl std::fmt::Display for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0}/s ({:.1} µs CPU each)", self.per_second, self.cpu_micros)
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

struct Broker {
    hub: HubHandle,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Broker {
    async fn start() -> Broker {
        let runtime = tokio::runtime::Handle::current();
        Broker::start_in(&runtime, &runtime).await
    }

    async fn start_on(hub: &tokio::runtime::Runtime, door: &tokio::runtime::Runtime) -> Broker {
        Broker::start_in(hub.handle(), door.handle()).await
    }

    async fn start_in(hub_runtime: &tokio::runtime::Handle, door_runtime: &tokio::runtime::Handle) -> Broker {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = Arc::new(RealDisk::new(directory.path()).expect("a disk"));
        let engine = tenure_hub::words::Settings::default();
        let starting = hub_runtime.spawn(async move {
            let hub = Hub::start(disk, StoreSettings::default(), engine, Keys::default());
            let hub = hub.expect("the hub starts");
            let handle = hub.handle().clone();
            tokio::spawn(hub.ended());
            handle
        });
        let handle = starting.await.expect("it runs");
        let of_door = handle.clone();
        let opening = door_runtime.spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tokio::spawn(serve(listener, of_door, Settings::default()));
            address
        });
        let address = opening.await.expect("it runs");
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
    let id = fresh_id();
    let named =
        Submission::new(NewTask { name: Some("scan-7".into()), ..NewTask::new(id, "queue-0") }, Bytes::new());
    ask(&session, Request::Submit(vec![named])).await;
    let of_task = format!("/tasks/{id}");
    for path in [
        "/v1/tasks?limit=100",
        "/v1/tasks?state=ready&limit=100",
        "/",
        "/tasks",
        "/tasks?state=all",
        "/tasks?search=scan-7",
        &of_task,
        "/queues",
        "/v1/queues",
        "/metrics",
    ] {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..20 {
            let begun = Instant::now();
            bytes = peer.get(path).await;
            times.push(begun.elapsed());
        }
        let slowest = times.iter().max().copied().unwrap_or_default();
        println!("GET {path:<34} {bytes:>9} bytes, median {:.1?}, slowest {slowest:.1?}", median(times));
    }
}

/// Submits, runs and completes tasks, 64 at a time, for a while.
async fn cycles(broker: &Broker) -> (Pace, u32) {
    let (client, worker) = (broker.session("client"), broker.session("worker"));
    let spec = WorkerSpec::new("w", vec!["cycles".into()], 64);
    ask(&worker, Request::Command(Command::Register(Box::new(spec)))).await;
    let submit = |count: usize| {
        let one = |_| Submission::new(NewTask::new(fresh_id(), "cycles"), Bytes::from_static(b"body"));
        Ask { token: 0, request: Request::Submit((0..count).map(one).collect()) }
    };
    client.send(vec![submit(256)]).await.expect("the hub runs");
    let (begun, cpu, mut done, mut taken) = (Instant::now(), cpu_time(), 0_u32, Vec::new());
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
    (Pace::of(done, begun, cpu), done)
}

/// Who listens while tasks are cycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Empty,
    /// One listener that follows everything: what the first watch costs.
    One,
    /// Open pages, and scripts that follow rare things.
    Rare,
    /// Listeners that all follow everything.
    Everything,
}

/// What one cycle took.
#[derive(Clone, Copy)]
struct CycleCost {
    per_second: f64,
    /// CPU time of the thread that runs the hub and nothing else, and of the door's thread, in microseconds.
    hub: f64,
    door: f64,
}

/// The hub, the door and the clients have a thread each, so that the CPU time of each can be read.
async fn listeners() {
    let audiences = [Audience::Empty, Audience::One, Audience::Rare, Audience::Everything];
    let mut costs: Vec<Vec<CycleCost>> = vec![Vec::new(); audiences.len()];
    for round in 0..3 {
        for (audience, costs) in audiences.into_iter().zip(&mut costs) {
            let cost = with_audience(audience).await;
            println!(
                "round {round}, {audience:?}: {:.0} cycles/s, CPU per cycle: hub {:.2} µs, door {:.2} µs",
                cost.per_second, cost.hub, cost.door
            );
            costs.push(cost);
        }
    }
    let median = |costs: &[CycleCost], of: fn(&CycleCost) -> f64| {
        let mut all: Vec<f64> = costs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let base = costs[0].clone();
    for (audience, costs) in audiences.into_iter().zip(&costs).skip(1) {
        let change = |of| (median(costs, of) / median(&base, of) - 1.0) * 100.0;
        println!(
            "{audience:?}, medians against no listener: rate {:+.1} %, hub CPU per cycle {:+.1} %, door {:.2} µs per cycle",
            change(|cost| cost.per_second),
            change(|cost| cost.hub),
            median(costs, |cost| cost.door),
        );
    }
}

async fn with_audience(audience: Audience) -> CycleCost {
    let (hub_runtime, hub_thread) = one_thread("bench-hub").await;
    let (door_runtime, door_thread) = one_thread("bench-door").await;
    let broker = Broker::start_on(&hub_runtime, &door_runtime).await;
    let count = match audience {
        Audience::Empty => 0,
        Audience::One => 1,
        Audience::Rare | Audience::Everything => LISTENERS,
    };
    let mut open = Vec::new();
    for number in 0..count {
        let path = match audience {
            Audience::Rare => listener(number),
            _ => "/v1/events".to_owned(),
        };
        let mut peer = HttpPeer::connect(broker.address).await;
        peer.send(&path, "text/event-stream").await;
        open.push(tokio::spawn(async move { peer.drain().await }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = (thread_time(&hub_thread), thread_time(&door_thread));
    let (pace, done) = cycles(&broker).await;
    let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / f64::from(done.max(1));
    let cost = CycleCost {
        per_second: pace.per_second,
        hub: micros(thread_time(&hub_thread).saturating_sub(before.0)),
        door: micros(thread_time(&door_thread).saturating_sub(before.1)),
    };
    open.iter().for_each(tokio::task::JoinHandle::abort);
    broker.hub.stop();
    tokio::time::sleep(Duration::from_millis(500)).await;
    hub_runtime.shutdown_background();
    door_runtime.shutdown_background();
    cost
}

/// A runtime with one thread, and where the kernel counts the CPU time of that thread.
async fn one_thread(name: &str) -> (tokio::runtime::Runtime, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .enable_all()
        .build()
        .expect("a runtime");
    let thread = runtime.spawn(async { std::fs::read_link("/proc/thread-self") }).await;
    let thread = thread.expect("it runs").expect("Linux shows threads");
    (runtime, format!("/proc/{}/schedstat", thread.display()))
}

fn thread_time(schedstat: &str) -> Duration {
    let text = std::fs::read_to_string(schedstat).unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// What a listener follows: half of them are open pages of the dashboard, the others what scripts follow.
fn listener(number: usize) -> String {
    match number % 8 {
        0..4 => "/live".to_owned(),
        4 => "/v1/events?kind=crashed,worker-lost".to_owned(),
        5 => format!("/v1/events?queue=queue-{number}"),
        6 => format!("/v1/events?submitter=client-{number}"),
        _ => format!("/v1/messages?topic=news-{number}"),
    }
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
    let sync = sync_time();
    println!(
        "a sync of this disk takes {sync:.2?}: {CONNECTIONS} connections cannot be faster than {:.0}/s",
        CONNECTIONS as f64 / sync.as_secs_f64()
    );
    let broker = Broker::start().await;
    for round in 0..3 {
        let bare = posts(bare_address).await;
        let durable = posts(broker.address).await;
        println!(
            "round {round}: bare server {bare}, durable submissions {durable}, rate {:.0} %, CPU {:.1}x",
            durable.per_second / bare.per_second * 100.0,
            durable.cpu_micros / bare.cpu_micros
        );
    }
}

/// How long the disk takes to sync as much as a batch of submissions.
fn sync_time() -> Duration {
    use std::io::Write as _;
    let mut file = tempfile::tempfile().expect("a file");
    let mut times = Vec::new();
    for _ in 0..50 {
        file.write_all(&[b'x'; 8 << 10]).expect("it is written");
        let begun = Instant::now();
        file.sync_data().expect("it is synced");
        times.push(begun.elapsed());
    }
    median(times)
}

/// Posts tasks over connections that are kept, one request at a time on each.
async fn posts(address: SocketAddr) -> Pace {
    let (begun, cpu) = (Instant::now(), cpu_time());
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
    Pace::of(total, begun, cpu)
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
