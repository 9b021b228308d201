//! Full cycles at a fixed rate beside listeners that follow everything and run in a process of their own: what a cycle
//! costs the hub, and how long after its time an event arrives.

use std::io::Read as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_hub::words::{Command, Held, NewTask, Notice, WorkerSpec};
use tenure_hub::{Ask, Delivery, Done, Request, Submission, fresh_id};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::{Broker, CycleCost, HttpPeer, SPAN, ask, one_thread, thread_time};

/// Cycles per second, and how many listeners. Both loads are about as many bytes, less than the pace of a feed.
const LOADS: [(u32, usize); 2] = [(50, 1_000), (500, 100)];
/// How many of the listeners read what they get; the others only take it.
const READERS: usize = 10;
/// How long the last events may take.
const REST: Duration = Duration::from_secs(1);

pub(super) async fn fixed_load() {
    for (rate, listeners) in LOADS {
        let (alone, _) = measure(rate, 0).await;
        let (cost, heard) = measure(rate, listeners).await;
        println!(
            "{rate} cycles/s, no listener: CPU per cycle: hub {:.1} µs, door {:.1} µs",
            alone.hub, alone.door
        );
        println!(
            "{:.0} cycles/s, {listeners} listeners of everything: CPU per cycle: hub {:.1} µs ({:+.1} %), door {:.1} µs; {heard}",
            cost.per_second,
            cost.hub,
            (cost.hub / alone.hub - 1.0) * 100.0,
            cost.door,
        );
    }
}

/// The cost of a cycle, and what the listeners say.
async fn measure(rate: u32, listeners: usize) -> (CycleCost, String) {
    let (hub_runtime, hub_thread) = one_thread("bench-hub").await;
    let (door_runtime, door_thread) = one_thread("bench-door").await;
    let broker = Broker::start_on(&hub_runtime, &door_runtime).await;
    let audience = AudienceProcess::start(broker.address, listeners).await;
    tokio::time::sleep(REST).await;
    let before = (thread_time(&hub_thread), thread_time(&door_thread));
    let done = paced_cycles(&broker, rate).await;
    tokio::time::sleep(REST).await;
    let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / f64::from(done.max(1));
    let cost = CycleCost {
        per_second: f64::from(done) / SPAN.as_secs_f64(),
        hub: micros(thread_time(&hub_thread).saturating_sub(before.0)),
        door: micros(thread_time(&door_thread).saturating_sub(before.1)),
    };
    let heard = audience.end().await;
    broker.hub.stop();
    tokio::time::sleep(REST).await;
    hub_runtime.shutdown_background();
    door_runtime.shutdown_background();
    (cost, heard)
}

/// Submits tasks one by one at a rate, and completes each as soon as it is assigned. Returns how many were.
async fn paced_cycles(broker: &Broker, rate: u32) -> u32 {
    let (client, worker) = (broker.session("client"), broker.session("worker"));
    let spec = WorkerSpec::new("w", vec!["cycles".into()], 64);
    ask(&worker, Request::Command(Command::Register(Box::new(spec)))).await;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
    let (begun, mut done, mut taken) = (Instant::now(), 0, Vec::new());
    while begun.elapsed() < SPAN {
        tokio::select! {
            _ = tick.tick() => {
                let one = Submission::new(NewTask::new(fresh_id(), "cycles"), Bytes::from_static(b"body"));
                let submit = Ask { token: 0, request: Request::Submit(vec![one]) };
                client.send(vec![submit]).await.expect("the hub runs");
                client.mailbox().take(&mut Vec::new());
            }
            () = worker.mailbox().arrived() => {
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
                let complete = held.iter().map(|held| Done { held: *held, result: Bytes::new() }).collect();
                let reports = [Request::Command(Command::Start(held)), Request::Complete(complete)];
                worker.send(reports.map(|request| Ask { token: 0, request }).into()).await.expect("the hub runs");
            }
        }
    }
    done
}

/// The process of the listeners.
struct AudienceProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl AudienceProcess {
    async fn start(address: SocketAddr, listeners: usize) -> AudienceProcess {
        let program = std::env::current_exe().expect("this program");
        let mut command = tokio::process::Command::new(program);
        command.args(["listen", &address.to_string(), &listeners.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut process = AudienceProcess { child, input, output };
        assert_eq!(process.line().await, "connected");
        process
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).await.expect("it answers");
        line.trim_end().to_owned()
    }

    /// Ends the process. Returns what it has measured.
    async fn end(self) -> String {
        let AudienceProcess { mut child, input, mut output } = self;
        drop(input);
        let mut said = String::new();
        output.read_to_string(&mut said).await.expect("it answers");
        child.wait().await.expect("it ends");
        said.trim_end().to_owned()
    }
}

/// What the process of the listeners does until its input ends.
pub(super) async fn listen(address: SocketAddr, count: usize) {
    let delays = Arc::new(Mutex::new(Vec::new()));
    for number in 0..count {
        let mut peer = HttpPeer::connect(address).await;
        peer.send("/v1/events", "text/event-stream").await;
        let delays = Arc::clone(&delays);
        // The readers are spread over all listeners.
        let is_reader = number % count.div_ceil(READERS) == 0;
        tokio::spawn(async move { if is_reader { read(peer, &delays).await } else { peer.drain().await } });
    }
    println!("connected");
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    let _ = end.await.expect("it reads");
    let mut delays = std::mem::take(&mut *delays.lock().expect("no listener has failed"));
    delays.sort_unstable();
    if delays.is_empty() {
        println!("no event");
        return;
    }
    let at = |part: usize| delays[(delays.len() * part / 100).min(delays.len() - 1)];
    println!(
        "events arrive after {} ms (median), {} ms (99 %), {} ms at most; {} events for each reader",
        at(50),
        at(99),
        at(100),
        delays.len() / count.min(READERS)
    );
}

/// Reads events, and notes how many milliseconds each took.
async fn read(mut peer: HttpPeer, delays: &Mutex<Vec<i64>>) {
    let mut text = Vec::new();
    let mut piece = vec![0; 64 << 10];
    while let Ok(count @ 1..) = peer.stream.read(&mut piece).await {
        let now = jiff::Timestamp::now();
        text.extend_from_slice(&piece[..count]);
        let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines = String::from_utf8_lossy(&text[..end]).into_owned();
        text.drain(..=end);
        let times = lines.lines().filter_map(|line| line.split_once("\"at\":\"")?.1.split_once('"'));
        let times = times.filter_map(|(at, _)| at.parse::<jiff::Timestamp>().ok());
        let new = times.map(|at| now.as_millisecond() - at.as_millisecond());
        delays.lock().expect("no listener has failed").extend(new);
    }
}
