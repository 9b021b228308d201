//! The native door from end to end: socket, session, hub, journal with fsync, and back. A client submits, a worker
//! starts and completes, in frames of many and of one. Prints tasks per second and processor time per task.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tenure_door_msgpack::{Settings, serve};
use tenure_hub::store::{RealDisk, StoreSettings};
use tenure_hub::{Hub, Keys};
use tenure_wire::hello::Hello;
use tenure_wire::request::{Complete, Start, Submit};
use tenure_wire::task::{Completion, Held, NewTask, Terms};
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{
    FromBroker, Notice, Reply, Request, TaskId, VERSION, decode_from_broker, encode_request, split_frames,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const BODY_BYTES: usize = 256;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(RealDisk::new(folder.path()).unwrap());
        let hub = Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, hub.handle().clone(), Settings::default()));
        let connect = async || Peer::connect(TcpStream::connect(address).await.unwrap()).await;

        println!("{:<52} {:>12} {:>14}", "", "tasks/s", "CPU µs/task");
        // `cargo bench -- cycle` leaves the backlog out.
        let backlog = !std::env::args().any(|argument| argument == "cycle");
        if backlog {
            for (count, many, window) in [(100_000, 100, 20), (50_000, 1, 1_000), (1_000, 1, 1)] {
                let mut client = connect().await;
                let what = format!("submit, {many} in a frame, {window} frames under way");
                report(&what, count, submit(&mut client, count, many, window)).await;
            }
            let left = 151_000;
            let mut worker = connect().await;
            report("start and complete, 1000 slots", left, work(&mut worker, "w1", 1_000, left)).await;
        }
        for (count, many) in [(100_000, 100), (20_000, 1)] {
            let mut client = connect().await;
            let mut worker = connect().await;
            let name = format!("w-{many}");
            let what = format!("the whole cycle, {many} in a frame");
            let both = async {
                let submitted = submit(&mut client, count, many, 1_000 / many);
                let worked = work(&mut worker, &name, 1_000, count);
                tokio::join!(submitted, worked);
            };
            report(&what, count, both).await;
        }
        hub.handle().stop();
        hub.ended().await.unwrap();
    });
}

async fn report(what: &str, count: usize, run: impl Future<Output = ()>) {
    let (begun, cpu) = (Instant::now(), cpu_time());
    run.await;
    let (took, cpu) = (begun.elapsed(), cpu_time() - cpu);
    let per_second = count as f64 / took.as_secs_f64();
    let cpu_each = cpu.as_secs_f64() * 1e6 / count as f64;
    println!("{what:<52} {per_second:>12.0} {cpu_each:>14.2}");
}

async fn submit(client: &mut Peer, count: usize, many: usize, window: usize) {
    let terms = Terms::new("images");
    let body = Bytes::from(vec![7; BODY_BYTES]);
    let mut sent = 0;
    let mut under_way = 0;
    let mut answered = 0;
    while answered < count {
        while sent < count && under_way < window.max(1) {
            let mut submit = Submit::default();
            for _ in 0..many {
                let task = NewTask { id: Some(TaskId::new()), body: body.clone(), ..NewTask::default() };
                submit.push(&terms, task);
            }
            client.say(&Request::Submit(submit));
            sent += many;
            under_way += 1;
        }
        for message in client.hear().await {
            if let FromBroker::Reply { reply: Reply::Submitted(submitted), .. } = message {
                assert!(submitted.tasks.iter().all(|verdict| verdict.0.is_ok()));
                answered += submitted.tasks.len();
                under_way -= 1;
            }
        }
    }
}

async fn work(worker: &mut Peer, name: &str, slots: u32, count: usize) {
    worker.say(&Request::Register(Box::new(WorkerSpec::new(name, vec!["images".into()], slots))));
    let mut done = 0;
    let mut held = Vec::new();
    while done < count {
        for message in worker.hear().await {
            match message {
                FromBroker::Notice(Notice::Assign(assign)) => {
                    held.extend(assign.tasks.iter().map(|task| {
                        assert_eq!(task.body.len(), BODY_BYTES);
                        Held { task: task.task, attempt: task.attempt }
                    }));
                }
                FromBroker::Reply { reply: Reply::Held(reply), .. } => assert!(reply.refused.is_empty()),
                _ => {}
            }
        }
        if !held.is_empty() {
            worker.say(&Request::Start(Start { held: held.clone() }));
            done += held.len();
            let completed =
                |held: Held| Completion { task: held.task, attempt: held.attempt, result: Bytes::new() };
            worker.say(&Request::Complete(Complete { done: held.drain(..).map(completed).collect() }));
        }
    }
    worker.say(&Request::Leave);
    worker.hear().await;
}

struct Peer {
    stream: TcpStream,
    arrived: BytesMut,
    out: BytesMut,
    number: u64,
}

impl Peer {
    async fn connect(stream: TcpStream) -> Peer {
        stream.set_nodelay(true).unwrap();
        let mut peer = Peer { stream, arrived: BytesMut::new(), out: BytesMut::new(), number: 0 };
        peer.say(&Request::Hello(Box::new(Hello { version: VERSION, ..Hello::default() })));
        peer.hear().await;
        peer
    }

    fn say(&mut self, request: &Request) {
        self.number += 1;
        encode_request(&mut self.out, self.number, request);
    }

    async fn hear(&mut self) -> Vec<FromBroker> {
        self.stream.write_all(&self.out).await.unwrap();
        self.out.clear();
        loop {
            self.arrived.reserve(256 << 10);
            assert!(self.stream.read_buf(&mut self.arrived).await.unwrap() > 0, "the broker is there");
            let frames = split_frames(&mut self.arrived, usize::MAX).unwrap();
            let messages: Vec<FromBroker> = frames.map(|frame| decode_from_broker(&frame).unwrap()).collect();
            if !messages.is_empty() {
                return messages;
            }
        }
    }
}

/// Processor time of this process: broker and peers together.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
