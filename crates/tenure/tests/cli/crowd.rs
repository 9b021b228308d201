//! A crowd: thousands of idle workers that only say that they are alive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tenure_client::wire::hello::Hello;
use tenure_client::wire::request::{Heartbeat, Start};
use tenure_client::wire::task::Held;
use tenure_client::wire::worker::WorkerSpec;
use tenure_client::wire::{
    FromBroker, Notice, Reply, Request, VERSION, decode_from_broker, encode_request, limits, split_frames,
};
use tenure_client::{Client, Submission};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};

use crate::support::{Broker, TIMEOUT};

const WORKERS: usize = 5_000;
/// File descriptors for everything else.
const SPARE: usize = 200;
/// As often as workers beat unless told otherwise.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What a worker may cost the broker. Measured: about 10 KB, and a heartbeat a fifth of a millisecond in a debug build.
const BYTES_EACH: u64 = 20 << 10;
const CPU_EACH_BEAT: Duration = Duration::from_millis(1);

#[test]
fn five_thousand_idle_workers_cost_little_and_each_can_have_work_at_once() {
    let count = WORKERS.min(descriptors().saturating_sub(SPARE));
    if count < WORKERS {
        eprintln!("only {count} workers: the limit of file descriptors cannot be raised");
    }
    let broker = Broker::start_with(&["--log", "error"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client =
            Client::builder().address(&broker.address).connect_timeout(TIMEOUT).connect().await.unwrap();
        let before = Usage::of(broker.child.id());
        let (heard, mut hearing) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(64));
        let mut joining = tokio::task::JoinSet::new();
        for index in 0..count {
            let (address, heard, places) = (broker.address.clone(), heard.clone(), Arc::clone(&places));
            joining.spawn(async move {
                let _place = places.acquire().await.unwrap();
                (index, join(index, &address, heard).await)
            });
        }
        let mut joined = joining.join_all().await;
        joined.sort_by_key(|(index, _)| *index);
        let mut workers: Vec<OwnedWriteHalf> = joined.into_iter().map(|(_, worker)| worker).collect();
        let counts = client.counts().await.unwrap();
        assert_eq!(counts.live_workers, count as u64);
        assert_eq!(client.workers().await.unwrap().len(), count);

        let mut beat = BytesMut::new();
        encode_request(&mut beat, 0, &Request::Heartbeat(Heartbeat { held: Some(Vec::new()), stats: None }));
        let idle = Usage::of(broker.child.id());
        let begun = Instant::now();
        let mut beats = 0;
        // As many heartbeats in each tenth of a second as these workers send in it.
        let tenth = Duration::from_millis(100);
        let share = count * tenth.as_millis() as usize / HEARTBEAT.as_millis() as usize;
        while begun.elapsed() < HEARTBEAT / 2 {
            for _ in 0..share {
                workers[beats % count].write_all(&beat).await.unwrap();
                beats += 1;
            }
            tokio::time::sleep(tenth).await;
        }
        let after = Usage::of(broker.child.id());
        let each = (after.resident_bytes - before.resident_bytes) / count as u64;
        let cpu = after.cpu - idle.cpu;
        eprintln!(
            "{count} workers: {each} bytes each; {beats} heartbeats in {:?} took {cpu:?}",
            begun.elapsed()
        );
        assert!(each < BYTES_EACH, "{each} bytes");
        assert!(cpu < CPU_EACH_BEAT * beats as u32, "{cpu:?} for {beats} heartbeats");

        // Work reaches one of them at once, and its word reaches the client.
        assert!(hearing.try_recv().is_err(), "no watcher has heard anything yet");
        let submitted = Instant::now();
        let task = client.submit(Submission::to("crowd").body("x")).await.unwrap().task;
        let (index, held) = tokio::time::timeout(TIMEOUT, hearing.recv()).await.unwrap().unwrap();
        let took = submitted.elapsed();
        assert_eq!(held.task, task);
        assert!(took < Duration::from_secs(1), "{took:?}");
        let mut start = BytesMut::new();
        encode_request(&mut start, 0, &Request::Start(Start { held: vec![held] }));
        workers[index].write_all(&start).await.unwrap();
        while client.show(task).await.unwrap().state.as_str() != "running" {
            assert!(submitted.elapsed() < TIMEOUT);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(client.counts().await.unwrap().live_workers, count as u64, "all are still there");
    });
}

/// Registers one worker. Later assignments go to `heard`.
async fn join(index: usize, address: &str, heard: mpsc::UnboundedSender<(usize, Held)>) -> OwnedWriteHalf {
    let (mut read, mut write) = TcpStream::connect(address).await.expect("the broker listens").into_split();
    let spec = WorkerSpec {
        heartbeat_ms: HEARTBEAT.as_millis() as u64,
        lost_after_ms: TIMEOUT.as_millis() as u64,
        lease_ms: TIMEOUT.as_millis() as u64,
        ..WorkerSpec::new(format!("w{index}"), vec!["crowd".into()], 1)
    };
    let mut out = BytesMut::new();
    encode_request(&mut out, 1, &Request::Hello(Box::new(Hello { version: VERSION, ..Hello::default() })));
    encode_request(&mut out, 2, &Request::Register(Box::new(spec)));
    write.write_all(&out).await.expect("it is taken");
    let mut arrived = BytesMut::new();
    'registering: loop {
        for frame in frames(&mut read, &mut arrived).await.expect("the broker answers") {
            match decode_from_broker(&frame).expect("a message") {
                FromBroker::Reply { reply: Reply::Registered(_), .. } => break 'registering,
                FromBroker::Reply { reply: Reply::Welcome(_), .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    tokio::spawn(async move {
        while let Some(frames) = frames(&mut read, &mut arrived).await {
            for frame in frames {
                if let Ok(FromBroker::Notice(Notice::Assign(assign))) = decode_from_broker(&frame) {
                    let task = &assign.tasks[0];
                    let _ = heard.send((index, Held { task: task.task, attempt: task.attempt }));
                }
            }
        }
    });
    write
}

async fn frames(read: &mut OwnedReadHalf, arrived: &mut BytesMut) -> Option<Vec<Bytes>> {
    arrived.reserve(512);
    let count = read.read_buf(arrived).await.ok()?;
    let frames = split_frames(arrived, limits::FRAME_BYTES_MAX).expect("frames");
    (count > 0).then(|| frames.collect())
}

/// As many file descriptors as this process, and those it starts, may have.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (WORKERS + SPARE) as u64;
    let enough = |most: Option<u64>| most.is_none_or(|most| most >= wanted);
    if !enough(limit.current) {
        let raised = Rlimit { current: Some(limit.maximum.map_or(wanted, |most| most.min(wanted))), ..limit };
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize)
}

struct Usage {
    cpu: Duration,
    resident_bytes: u64,
}

impl Usage {
    fn of(pid: u32) -> Usage {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it runs");
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        Usage { cpu: Duration::from_millis(ticks * 10), resident_bytes: kilobytes * 1024 }
    }
}
