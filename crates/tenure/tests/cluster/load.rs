//! Clients and workers that go on through every fault, natively and through the RESP and gRPC doors, and the record of
//! what was acknowledged to them: tasks, cancellations, checkpoints, durable messages and stored keys. A watcher hears
//! every event of it. Some workers report what is over.

mod grpc;
#[path = "../doors/rights/raw_codec.rs"]
pub(crate) mod raw_codec;
mod stale;
mod steps;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_client::{Client, OnLost, Outcome, Received, Recovery, Submission, Subscribe, TaskId, Worker};
use tokio::task::JoinHandle;

use crate::redis::Redis;
use crate::stage::Stage;

/// How long the last tasks may take once the faults are over.
const SETTLES_WITHIN: Duration = Duration::from_secs(90);

#[derive(Default)]
struct ExpectedState {
    /// Acknowledged submissions.
    accepted: Vec<(TaskId, bool)>,
    /// How often the handler of each task has begun, and the attempts in which.
    begun: BTreeMap<TaskId, u32>,
    attempts: BTreeSet<(TaskId, u32)>,
    /// The bodies of all attempts that have begun.
    bodies: BTreeSet<Vec<u8>>,
    /// Bodies whose LPUSH was acknowledged.
    pushed: Vec<String>,
    /// Durable messages that were acknowledged, by their number.
    published: BTreeMap<u64, String>,
    /// What INCR has answered, in order.
    counted: Vec<u64>,
    /// Tasks that the gRPC door has accepted.
    accepted_by_grpc: Vec<TaskId>,
    /// Tasks with checkpoints, the last checkpoint of each that was acknowledged, and those that an attempt lacked.
    stepped: Vec<TaskId>,
    saved: BTreeMap<TaskId, u32>,
    forgotten: Vec<(TaskId, u32, u32)>,
    /// Tasks whose cancellation was acknowledged.
    cancelled: Vec<TaskId>,
    /// Tasks of workers that report too late, and how many such reports each door has refused.
    reported_late: Vec<TaskId>,
    refused_late: BTreeMap<&'static str, usize>,
    /// What a watcher has heard.
    events: BTreeMap<u64, watching::Said>,
    /// The moments of acknowledgements.
    last_accepted: Option<Instant>,
    longest_silence: Duration,
}

pub(crate) struct Load {
    expected: Arc<Mutex<ExpectedState>>,
    is_over: Arc<AtomicBool>,
    runtime: tokio::runtime::Runtime,
    workers: Vec<JoinHandle<()>>,
    tasks: Vec<JoinHandle<()>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    addresses: String,
    resp_ports: Vec<u16>,
}

/// What was expected and found at the end.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) accepted: usize,
    pub(crate) pushed: usize,
    pub(crate) published: usize,
    pub(crate) counted: usize,
    pub(crate) accepted_by_grpc: usize,
    pub(crate) checkpoints: usize,
    pub(crate) cancelled: usize,
    pub(crate) reported_late: usize,
    /// Reports of attempts that were over, by the door that has refused them.
    pub(crate) refused_late: BTreeMap<&'static str, usize>,
    pub(crate) events: usize,
    pub(crate) longest_silence: Duration,
}

impl Load {
    /// Submits one task after the other from each of these clients; every third one must not run twice.
    pub(crate) fn start(stage: &Stage, clients: usize) -> Load {
        let (addresses, resp_ports) = (&stage.addresses(), stage.resp_ports());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads");
        let (expected, is_over) =
            (Arc::new(Mutex::new(ExpectedState::default())), Arc::new(AtomicBool::new(false)));
        let begun = Arc::clone(&expected);
        let worker = Worker::builder(addresses).id("w1").queues(["load"]).slots(8).handle(move |context| {
            let mut begun = begun.lock().expect("no panic");
            *begun.begun.entry(context.task()).or_default() += 1;
            let attempt = (context.task(), context.attempt());
            assert!(begun.attempts.insert(attempt), "the attempt {attempt:?} has begun twice");
            begun.bodies.insert(context.body().to_vec());
            async { Outcome::complete("done") }
        });
        let worker = runtime.spawn(async move {
            let handle = worker.start().await.expect("the worker registers");
            std::future::pending::<()>().await;
            drop(handle);
        });
        let stepping = runtime.spawn(steps::work(addresses.to_owned(), Arc::clone(&expected)));
        let known = || Arc::clone(&expected);
        let workers = vec![
            worker,
            stepping,
            runtime.spawn(stale::work::<stale::NativeWorker>(stage.native_ports(), known())),
            runtime.spawn(stale::work::<stale::GrpcWorker>(stage.grpc_ports(), known())),
            runtime.spawn(stale::work::<stale::RespWorker>(stage.resp_ports(), known())),
        ];
        let shared = || (addresses.to_owned(), Arc::clone(&expected), Arc::clone(&is_over));
        let mut tasks = Vec::new();
        let (to, known, over) = shared();
        tasks.push(runtime.spawn(steps::steer(to, known, over)));
        let (to, known, over) = shared();
        tasks.push(runtime.spawn(stale::submit(to, known, over)));
        let (to, known, over) = shared();
        tasks.push(runtime.spawn(watching::watch(to, known, over)));
        let (_, known, over) = shared();
        tasks.push(runtime.spawn(grpc::submit(stage.grpc_ports(), known, over)));
        for client in 0..clients {
            let (expected, is_over, addresses) =
                (Arc::clone(&expected), Arc::clone(&is_over), addresses.to_owned());
            tasks.push(runtime.spawn(submit(client, addresses, expected, is_over)));
        }
        let of_publisher = (addresses.to_owned(), Arc::clone(&expected), Arc::clone(&is_over));
        tasks.push(runtime.spawn(publish(of_publisher.0, of_publisher.1, of_publisher.2)));
        let of_thread = (resp_ports.clone(), Arc::clone(&expected), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || push_and_count(&of_thread.0, &of_thread.1, &of_thread.2));
        Load {
            expected,
            is_over,
            runtime,
            workers,
            tasks,
            threads: vec![thread],
            addresses: addresses.to_owned(),
            resp_ports,
        }
    }

    /// The longest time between two acknowledgements since it was forgotten.
    pub(crate) fn longest_silence(&self) -> Duration {
        self.expected.lock().expect("no panic").longest_silence
    }

    pub(crate) fn forget_silence(&self) {
        self.expected.lock().expect("no panic").longest_silence = Duration::ZERO;
    }

    /// The tasks that were acknowledged so far.
    pub(crate) fn accepted_tasks(&self) -> Vec<TaskId> {
        self.expected.lock().expect("no panic").accepted.iter().map(|(task, _)| *task).collect()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.expected.lock().expect("no panic").accepted.len()
    }

    /// Whether a part of the load has ended: each goes on until the load is settled, unless it panics.
    fn has_failed(&self) -> bool {
        self.workers.iter().any(JoinHandle::is_finished)
            || self.tasks.iter().any(JoinHandle::is_finished)
            || self.threads.iter().any(std::thread::JoinHandle::is_finished)
    }

    /// Waits until this many more submissions are acknowledged.
    #[track_caller]
    pub(crate) fn goes_on(&self, more: usize, within: Duration) -> Duration {
        let (since, wanted) = (Instant::now(), self.accepted() + more);
        while self.accepted() < wanted {
            assert!(!self.has_failed(), "the load has panicked; see above");
            assert!(
                since.elapsed() < within,
                "{} of {wanted} acknowledged after {within:?}",
                self.accepted()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        since.elapsed()
    }

    /// Ends the load and compares: every acknowledged task is there and ends, and none that must not run twice did.
    #[track_caller]
    pub(crate) fn settle(self) -> Settled {
        assert!(!self.has_failed(), "the load has panicked; see above");
        let Load { expected, is_over, runtime, workers, tasks, threads, addresses, resp_ports } = self;
        is_over.store(true, Ordering::Release);
        for task in tasks {
            let ended = runtime.block_on(async { tokio::time::timeout(SETTLES_WITHIN, task).await });
            ended.expect("its last request is answered").expect("the load has not panicked");
        }
        for thread in threads {
            thread.join().expect("the RESP client has not panicked");
        }
        let (accepted, longest_silence) = {
            let expected = expected.lock().expect("no panic");
            let others =
                expected.accepted_by_grpc.iter().chain(&expected.stepped).chain(&expected.reported_late);
            let others = others.map(|task| (*task, false));
            let all: Vec<(TaskId, bool)> = expected.accepted.iter().copied().chain(others).collect();
            (all, expected.longest_silence)
        };
        let (cancelled, events) = {
            let expected = expected.lock().expect("no panic");
            (expected.cancelled.clone(), expected.events.clone())
        };
        runtime.block_on(async {
            let client = connect(&addresses).await;
            let since = Instant::now();
            for (task, is_careful) in &accepted {
                loop {
                    // A careful task whose start was confirmed and whose worker was cut off waits for a person.
                    match client.show(*task).await {
                        Ok(info) if matches!(info.state.as_str(), "completed" | "failed" | "cancelled") => {
                            break;
                        }
                        Ok(info) if *is_careful && info.state.as_str() == "paused" => break,
                        Ok(_) => {}
                        Err(error) => assert!(
                            !error.to_string().contains("unknown") && since.elapsed() < SETTLES_WITHIN,
                            "the acknowledged task {task} is lost: {error}"
                        ),
                    }
                    assert!(since.elapsed() < SETTLES_WITHIN, "the task {task} does not end");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
        runtime.block_on(async {
            let client = connect(&addresses).await;
            for task in &cancelled {
                let info = client.show(*task).await.unwrap_or_else(|error| panic!("{task}: {error}"));
                assert_eq!(info.state.as_str(), "cancelled", "the cancellation of {task} was acknowledged");
            }
        });
        runtime.block_on(async { stale::compare(&connect(&addresses).await, &expected).await });
        runtime.block_on(watching::compare(&addresses, &events, &accepted, &expected));
        runtime.block_on(compare_messages(&addresses, &expected));
        compare_keys(&resp_ports, &expected);
        await_pushed(&expected);
        for worker in workers {
            assert!(!worker.is_finished(), "the worker has panicked; see above");
            worker.abort();
        }
        runtime.shutdown_background();
        let expected = expected.lock().expect("no panic");
        for (task, _) in accepted.iter().filter(|(_, is_careful)| *is_careful) {
            let begun = expected.begun.get(task).copied().unwrap_or(0);
            assert!(begun <= 1, "the task {task} must not run twice, and has begun {begun} times");
        }
        assert!(expected.forgotten.is_empty(), "acknowledged checkpoints are lost: {:?}", expected.forgotten);
        Settled {
            accepted: expected.accepted.len(),
            accepted_by_grpc: expected.accepted_by_grpc.len(),
            checkpoints: expected.saved.len(),
            cancelled: cancelled.len(),
            reported_late: expected.reported_late.len(),
            refused_late: expected.refused_late.clone(),
            events: events.len(),
            pushed: expected.pushed.len(),
            published: expected.published.len(),
            counted: expected.counted.len(),
            longest_silence,
        }
    }
}

/// Every acknowledged message has its number, and no number has two messages.
async fn compare_messages(addresses: &str, expected: &Mutex<ExpectedState>) {
    let published = expected.lock().expect("no panic").published.clone();
    let Some(last) = published.keys().next_back().copied() else { return };
    let client = connect(addresses).await;
    let subscribe = Subscribe::to([TOPIC]).recovery(Recovery::Replay).from(1);
    let mut subscriber = client.subscribe(subscribe).await.expect("the topic is readable");
    let mut found = BTreeMap::new();
    while found.keys().next_back().is_none_or(|newest| *newest < last) {
        let received = tokio::time::timeout(SETTLES_WITHIN, subscriber.next()).await;
        match received.expect("messages arrive").expect("the subscription goes on").expect("it is read") {
            Received::Message { message, .. } => {
                let payload = String::from_utf8_lossy(&message.payload).into_owned();
                assert_eq!(found.insert(message.sequence, payload), None, "one message per number");
            }
            other => println!("while messages are replayed: {other:?}"),
        }
    }
    for (sequence, payload) in &published {
        assert_eq!(found.get(sequence), Some(payload), "the acknowledged message {sequence}");
    }
}

/// A counter that one client increments never falls back.
fn compare_keys(resp_ports: &[u16], expected: &Mutex<ExpectedState>) {
    let counted = expected.lock().expect("no panic").counted.clone();
    assert!(counted.is_sorted_by(|before, after| before < after), "an increment was lost: {counted:?}");
    let Some(last) = counted.last() else { return };
    let since = Instant::now();
    let value = loop {
        let asked = resp_ports.iter().find_map(|port| Redis::connect(*port).ok()?.ask("GET counter").ok());
        if let Some(value) = asked.and_then(|reply| reply.parse::<u64>().ok()) {
            break value;
        }
        assert!(since.elapsed() < SETTLES_WITHIN, "no member answers GET");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(value >= *last, "the counter is {value}, and {last} was acknowledged");
}

/// Every acknowledged LPUSH reaches the worker.
fn await_pushed(expected: &Mutex<ExpectedState>) {
    let since = Instant::now();
    loop {
        let missing = {
            let expected = expected.lock().expect("no panic");
            let is_missing = |body: &&String| !expected.bodies.contains(body.as_bytes());
            expected.pushed.iter().find(is_missing).cloned()
        };
        let Some(missing) = missing else { return };
        assert!(since.elapsed() < SETTLES_WITHIN, "the acknowledged {missing} has not begun");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const TOPIC: &str = "audit.load";

async fn publish(addresses: String, expected: Arc<Mutex<ExpectedState>>, is_over: Arc<AtomicBool>) {
    let connected = connect(&addresses).await;
    let mut number = 0_u64;
    while !is_over.load(Ordering::Acquire) {
        number += 1;
        match connected.publish(TOPIC, number.to_string()).await {
            Ok(published) => {
                let known = expected
                    .lock()
                    .expect("no panic")
                    .published
                    .insert(published.sequence, number.to_string());
                assert_eq!(known, None, "the number {} is used twice", published.sequence);
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Pushes a task and increments a counter, in turns, at the door of any member that answers.
fn push_and_count(resp_ports: &[u16], expected: &Mutex<ExpectedState>, is_over: &AtomicBool) {
    let (mut connected, mut port, mut number) = (None, 0, 0_u64);
    while !is_over.load(Ordering::Acquire) {
        number += 1;
        let body = format!("resp/{number}");
        let done: io::Result<()> = (|| {
            let redis: &mut Redis = match &mut connected {
                Some(redis) => redis,
                none => none.insert(Redis::connect(resp_ports[port])?),
            };
            if redis.ask(&format!("LPUSH queue:load {body}"))?.starts_with(':') {
                expected.lock().expect("no panic").pushed.push(body);
            }
            let counted = redis.ask("INCR counter")?;
            if let Some(value) = counted.strip_prefix(':').and_then(|value| value.parse().ok()) {
                expected.lock().expect("no panic").counted.push(value);
            }
            Ok(())
        })();
        if done.is_err() {
            (connected, port) = (None, (port + 1) % resp_ports.len());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn connect(addresses: &str) -> Client {
    let since = Instant::now();
    loop {
        match Client::connect(addresses).await {
            Ok(client) => return client,
            Err(error) => assert!(since.elapsed() < SETTLES_WITHIN, "no broker answers: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn submit(
    client: usize,
    addresses: String,
    expected: Arc<Mutex<ExpectedState>>,
    is_over: Arc<AtomicBool>,
) {
    let connected = connect(&addresses).await;
    let mut number = 0_u64;
    while !is_over.load(Ordering::Acquire) {
        number += 1;
        let is_careful = number.is_multiple_of(3);
        let on_lost = if is_careful { OnLost::Pause } else { OnLost::Requeue };
        let submission = Submission::to("load").body(format!("{client}/{number}")).on_lost(on_lost);
        match connected.submit(submission).await {
            Ok(accepted) => {
                let mut expected = expected.lock().expect("no panic");
                expected.accepted.push((accepted.task, is_careful));
                let now = Instant::now();
                if let Some(last) = expected.last_accepted.replace(now) {
                    expected.longest_silence = expected.longest_silence.max(now - last);
                }
            }
            // It may or may not be done; nothing was promised.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
