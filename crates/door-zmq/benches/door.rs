//! Prints what a message costs in the codec, how many requests go from a client's socket to a worker's and back through
//! the whole door, and what an idle connection weighs.
//!
//! The yardstick for requests is libzmq's own ROUTER–DEALER proxy, which keeps nothing and answers for nothing. It and
//! the broker take turns in one run, so that the price of a broker (in memory) and of durability (on disk) can be
//! read from the ratios whatever else the machine does. The proxy needs `TENURE_THIRD_PARTY_PYTHON`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use support::broker::Broker;
use support::wire::Wire;
use support::{Conversation, message};
use tenure_door_zmq::codec::ZmtpLimits;
use tenure_door_zmq::mdp;
use tenure_hub::store::{Disk, MemoryDisk, RealDisk};

const TIMEOUT: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = 3;
/// How many requests a client keeps under way.
const UNDER_WAY: usize = 64;

fn main() {
    codec();
    let python = std::env::var_os("TENURE_THIRD_PARTY_PYTHON");
    if python.is_none() {
        println!("TENURE_THIRD_PARTY_PYTHON is not set, so there is no proxy to compare with");
    }
    for workers in [1, 8] {
        round_trips(workers, python.as_ref());
    }
    idle(2_000);
}

fn codec() {
    const MESSAGES: usize = 100_000;
    let stream = message(&["", "MDPC01", "echo", "a body of some thirty characters"]).repeat(64);
    let mut talk = Conversation::joined(ZmtpLimits::default());
    let mut heard = 0;
    let start = Instant::now();
    while heard < MESSAGES {
        for event in talk.hears(&stream).expect("good bytes") {
            if let tenure_door_zmq::codec::ZmtpEvent::Message(frames) = event {
                black_box(mdp::parse(frames).expect("Majordomo"));
                heard += 1;
            }
        }
    }
    println!("decode and parse a request: {:.0} ns", start.elapsed().as_nanos() as f64 / heard as f64);

    let path = mdp::ReturnPath { dialect: mdp::MdpDialect::V1, route: Vec::new() };
    let body = [Bytes::from_static(b"a body of some thirty characters")];
    let mut out = BytesMut::new();
    let start = Instant::now();
    for _ in 0..MESSAGES {
        out.clear();
        talk.peer.send(&path.reply("echo", black_box(&body)), &mut out);
    }
    println!("build and encode a reply:   {:.0} ns", start.elapsed().as_nanos() as f64 / MESSAGES as f64);
}

/// The broker between client and workers.
enum Middle {
    Proxy(Proxy),
    Broker { name: &'static str, broker: Box<Broker>, _folder: Option<tempfile::TempDir> },
}

/// One client that keeps requests in flight, and workers that answer at once, one request at a time.
fn round_trips(workers: usize, python: Option<&OsString>) {
    let folder = tempfile::tempdir().expect("a directory");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(folder.path()).expect("a disk"));
    let mut middles: Vec<Middle> =
        python.map(|python| Middle::Proxy(Proxy::start(python))).into_iter().collect();
    let memory = Broker::on(Arc::new(MemoryDisk::new()));
    middles.push(Middle::Broker { name: "broker, disk in memory", broker: Box::new(memory), _folder: None });
    middles.push(Middle::Broker {
        name: "broker, fdatasync",
        broker: Box::new(Broker::on(disk)),
        _folder: Some(folder),
    });
    let mut rates = vec![Vec::new(); middles.len()];
    for _ in 0..TURNS {
        for (middle, rates) in middles.iter().zip(&mut rates) {
            rates.push(middle.turn(workers));
        }
    }
    let median = |rates: &mut Vec<(f64, f64)>| {
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        rates[rates.len() / 2]
    };
    let mut first = None;
    for (middle, rates) in middles.iter().zip(&mut rates) {
        let (rate, cpu) = median(rates);
        let ratio = rate / *first.get_or_insert(rate);
        println!(
            "{workers} workers, {:<26} {rate:>7.0} requests/s ({ratio:.2}), {:.0} µs of CPU each, peers included",
            middle.name(),
            cpu * 1e6
        );
    }
}

impl Middle {
    fn name(&self) -> &'static str {
        match self {
            Middle::Proxy(_) => "libzmq proxy",
            Middle::Broker { name, .. } => name,
        }
    }

    /// Requests per second, and seconds of CPU for each.
    fn turn(&self, workers: usize) -> (f64, f64) {
        let (clients_at, workers_at) = match self {
            Middle::Proxy(proxy) => (proxy.clients, proxy.workers),
            Middle::Broker { broker, .. } => (broker.mdp, broker.mdp),
        };
        let cpu =
            || cpu_seconds("self") + if let Middle::Proxy(proxy) = self { proxy.cpu_seconds() } else { 0.0 };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| match self {
                    Middle::Proxy(_) => echo(workers_at, &is_over),
                    Middle::Broker { .. } => serve(workers_at, &is_over),
                });
            }
            std::thread::sleep(Duration::from_millis(200));
            let mut client = Wire::dealer(clients_at);
            let ask = |client: &mut Wire| client.send(&["", "MDPC01", "echo", "a body"]);
            let (began, cpu_before) = (Instant::now(), cpu());
            (0..UNDER_WAY).for_each(|_| ask(&mut client));
            let mut replies = 0;
            while began.elapsed() < TURN {
                client.receive(TIMEOUT).expect("a reply");
                ask(&mut client);
                replies += 1;
            }
            let (took, cpu) = (began.elapsed(), cpu() - cpu_before);
            (0..UNDER_WAY).for_each(|_| drop(client.receive(TIMEOUT)));
            is_over.store(true, Ordering::Relaxed);
            (f64::from(replies) / took.as_secs_f64(), cpu / f64::from(replies))
        })
    }
}

/// A Majordomo worker.
fn serve(address: SocketAddr, is_over: &AtomicBool) {
    let mut worker = Wire::dealer(address);
    worker.send(&["", "MDPW01", "\x01", "echo"]);
    while !is_over.load(Ordering::Relaxed) {
        let Some(frames) = worker.receive(Duration::from_millis(100)) else { continue };
        if let [_, _, command, address, _, body] = &frames[..]
            && command == &[2]
        {
            worker.send(&[&b""[..], b"MDPW01", &[3], address, b"", body]);
        }
    }
    worker.send(&["", "MDPW01", "\x05"]);
    // What was sent is to arrive before the connection is closed.
    let _ = worker.receive(Duration::from_millis(50));
}

/// A worker behind the proxy: sends back what it gets, with the client's identity in front.
fn echo(address: SocketAddr, is_over: &AtomicBool) {
    let mut worker = Wire::dealer(address);
    while !is_over.load(Ordering::Relaxed) {
        if let Some(frames) = worker.receive(Duration::from_millis(100)) {
            worker.send(&frames);
        }
    }
}

/// libzmq's `zmq_proxy` between a ROUTER and a DEALER, in a process of its own.
struct Proxy {
    child: Child,
    clients: SocketAddr,
    workers: SocketAddr,
}

impl Proxy {
    fn start(python: &OsString) -> Proxy {
        const PROXY: &str = "import zmq
context = zmq.Context()
front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
print(*(socket.bind_to_random_port('tcp://127.0.0.1') for socket in (front, back)), flush=True)
zmq.proxy(front, back)";
        let mut child =
            Command::new(python).args(["-c", PROXY]).stdout(Stdio::piped()).spawn().expect("Python starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("its ports");
        let mut ports = line.split_whitespace().map(|port| port.parse::<u16>().expect("a port"));
        let mut address = || SocketAddr::from(([127, 0, 0, 1], ports.next().expect("two ports")));
        Proxy { clients: address(), workers: address(), child }
    }

    fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used so far, in the kernel's hundredths of a second.
fn cpu_seconds(process: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux");
    let after_name = text.rsplit_once(')').expect("a name").1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// What connections weigh that say nothing, and workers that wait. Our own ends of them are in it.
fn idle(connections: usize) {
    let broker = Broker::start();
    for (what, ready) in [("silent connection", false), ("idle worker", true)] {
        let before = resident_bytes();
        let open: Vec<Wire> = (0..connections)
            .map(|_| {
                let mut wire = Wire::dealer(broker.mdp);
                if ready {
                    wire.send(&["", "MDPW01", "\x01", "echo"]);
                }
                wire
            })
            .collect();
        std::thread::sleep(Duration::from_secs(1));
        let each = (resident_bytes() - before) as f64 / connections as f64 / 1024.0;
        println!("{connections} times a {what}: {each:.1} KB each");
        std::mem::forget(open);
    }
}

fn resident_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text.split_whitespace().nth(1).expect("a field").parse::<i64>().expect("a number");
    pages * 4096
}
