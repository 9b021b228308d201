//! What the SDK carries, with a real broker in the same process that syncs before it answers.
//! `cargo bench -p tenure-client`; a number after `--` is the count of tasks in each run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_client::wire::hello::Hello;
use tenure_client::wire::request::{Complete, Start, Submit};
use tenure_client::wire::task::{Completion, Held, NewTask, Terms};
use tenure_client::wire::worker::WorkerSpec;
use tenure_client::wire::{FromBroker, Notice, Reply, Request};
use tenure_client::{Address, Client, Connection, Context, Submission, Worker};
use tenure_hub::store::{RealDisk, StoreSettings};
use tenure_hub::{Hub, Keys, words};

const PRODUCERS: usize = 4;
const WINDOW: usize = 128;
const WORKERS: usize = 8;
const SLOTS: u32 = 32;
const BODY: &[u8] = &[7; 256];

#[tokio::main]
async fn main() {
    let tasks = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(20_000);
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::new(directory.path().join("data")).unwrap());
    let hub =
        Hub::start(disk, StoreSettings::default(), words::Settings::default(), Keys::default()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let door = tenure_door_msgpack::Settings::default();
    tokio::spawn(tenure_door_msgpack::serve(listener, hub.handle().clone(), door));

    let begun = Begun::now();
    produce(&address, "frames", tasks, submit_frames).await;
    told("submit, one frame per task, by connection", tasks, begun);

    let begun = Begun::now();
    produce(&address, "requests", tasks, submit_requests).await;
    told("submit, one request per task, by client", tasks, begun);

    let client = Client::connect(&address).await.unwrap();
    let begun = Begun::now();
    let many = (0..tasks).map(|_| Submission::to("many").body(BODY));
    assert!(client.submit_many(many).await.unwrap().iter().all(Result::is_ok));
    told("submit, many tasks per frame, by client", tasks, begun);

    let begun = Begun::now();
    let working: Vec<_> = (0..WORKERS)
        .map(|number| tokio::spawn(work_by_frames(address.clone(), format!("raw-{number}"), tasks)))
        .collect();
    finished(&client, "frames", tasks).await;
    told("run what was submitted, by connection", tasks, begun);
    working.iter().for_each(tokio::task::JoinHandle::abort);

    let begun = Begun::now();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let worker = Worker::builder(&address).id(format!("w{number}")).queues(["requests"]).slots(SLOTS);
        workers
            .push(worker.handle(async |context: Context| context.body().slice(..8)).start().await.unwrap());
    }
    finished(&client, "requests", tasks).await;
    told("run what was submitted, by worker", tasks, begun);
    for worker in workers {
        worker.drain();
        worker.ended().await.unwrap();
    }
}

/// When a run began, by the clock and by the processor's time that this process has used.
#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    ticks: u64,
}

impl Begun {
    fn now() -> Begun {
        Begun { at: Instant::now(), ticks: ticks() }
    }
}

/// Processor time of this process, broker and peers together, in hundredths of a second.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn told(what: &str, tasks: usize, begun: Begun) {
    let took = begun.at.elapsed();
    let micros = (ticks() - begun.ticks) as f64 * 10_000.0 / tasks as f64;
    let rate = tasks as f64 / took.as_secs_f64();
    println!("{what:45} {rate:>9.0} tasks/s  {micros:>6.1} µs of CPU each, the broker's included");
}

/// Divides the tasks among the producers.
async fn produce<F: Future<Output = ()> + Send + 'static>(
    address: &str,
    queue: &'static str,
    tasks: usize,
    producer: fn(String, &'static str, usize) -> F,
) {
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| tokio::spawn(producer(address.to_owned(), queue, tasks / PRODUCERS)))
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
}

async fn submit_frames(address: String, queue: &'static str, tasks: usize) {
    let address: Address = address.parse().unwrap();
    let mut connection = Connection::open(&address, Hello::default()).await.unwrap();
    let mut submit = Submit::default();
    submit.push(&Terms::new(queue), NewTask { body: BODY.into(), ..NewTask::default() });
    let request = Request::Submit(submit);
    let (mut asked, mut answered) = (0, 0);
    let mut arrived = Vec::new();
    while answered < tasks {
        while asked < tasks && asked - answered < WINDOW {
            connection.ask(&request);
            asked += 1;
        }
        connection.turn(&mut arrived).await.unwrap();
        for message in arrived.drain(..) {
            assert!(matches!(message, FromBroker::Reply { reply: Reply::Submitted(_), .. }), "{message:?}");
            answered += 1;
        }
    }
}

async fn submit_requests(address: String, queue: &'static str, tasks: usize) {
    let client = Client::connect(&address).await.unwrap();
    let mut under_way = VecDeque::new();
    for _ in 0..tasks {
        if under_way.len() == WINDOW {
            let submitted: tokio::task::JoinHandle<_> = under_way.pop_front().unwrap();
            submitted.await.unwrap();
        }
        let client = client.clone();
        under_way.push_back(tokio::spawn(async move {
            client.submit(Submission::to(queue).body(BODY)).await.unwrap();
        }));
    }
    for submitted in under_way {
        submitted.await.unwrap();
    }
}

/// A worker without a handler: what arrives is done.
async fn work_by_frames(address: String, id: String, tasks: usize) {
    let address: Address = address.parse().unwrap();
    let mut connection = Connection::open(&address, Hello::default()).await.unwrap();
    connection.ask(&Request::Register(Box::new(WorkerSpec::new(id, vec!["frames".into()], SLOTS))));
    let mut arrived = Vec::new();
    let mut done = 0;
    while done < tasks {
        connection.turn(&mut arrived).await.unwrap();
        let (mut start, mut complete) = (Start::default(), Complete::default());
        for message in arrived.drain(..) {
            if let FromBroker::Notice(Notice::Assign(assign)) = message {
                for assignment in assign.tasks {
                    let (task, attempt) = (assignment.task, assignment.attempt);
                    start.held.push(Held { task, attempt });
                    complete.done.push(Completion { task, attempt, result: assignment.body.slice(..8) });
                }
            }
        }
        if !complete.done.is_empty() {
            done += complete.done.len();
            connection.ask(&Request::Start(start));
            connection.ask(&Request::Complete(complete));
        }
    }
}

async fn finished(client: &Client, queue: &str, tasks: usize) {
    loop {
        let queues = client.queues().await.unwrap();
        let queue = queues.iter().find(|found| &*found.queue == queue);
        if queue.is_some_and(|queue| queue.counts.completed as usize >= tasks) {
            return;
        }
        let waiting =
            queue.map_or(0, |queue| queue.counts.ready + queue.counts.assigned + queue.counts.running);
        if waiting == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
