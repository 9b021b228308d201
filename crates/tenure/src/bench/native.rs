//! The load on Tenure over its native protocol: frames of many tasks, a few connections, no async task per request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_client::wire::hello::Hello;
use tenure_client::wire::notice::Notice;
use tenure_client::wire::request::{Complete, Submit};
use tenure_client::wire::task::{Assignment, Completion, NewTask};
use tenure_client::wire::worker::WorkerSpec;
use tenure_client::wire::{FromBroker, Reply, Request};
use tenure_client::{Address, Connection, Name, Terms};
use tokio::task::JoinSet;

use super::load::{self, FRAME_TASKS, HELD, PRODUCERS, RESULT, WINDOW, WORKERS};
use super::tally::BenchTotals;
use crate::exit::Failure;

/// A lease so long that nothing but the load itself moves tasks.
const LEASE: Duration = Duration::from_secs(600);

/// Submits this many tasks from all producers; returns when the last is acknowledged.
pub(crate) async fn submit(address: &Address, queue: &str, count: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let mut producers = JoinSet::new();
    for index in 0..PRODUCERS {
        let share = load::share(count, index, PRODUCERS);
        let first = (index * count) as u64;
        producers.spawn(produce(address.clone(), queue.into(), share, first));
    }
    join(producers).await?;
    Ok(begun.elapsed())
}

/// Submits and completes this many tasks at the same time; returns when the last completion is acknowledged.
pub(crate) async fn cycle(address: &Address, queue: &str, count: usize) -> Result<Duration, Failure> {
    let tally = Arc::new(BenchTotals::new(count));
    let mut workers = JoinSet::new();
    for index in 0..WORKERS {
        let worker = Worker::register(address, queue, &format!("{queue}-{index}"), HELD as u32).await?;
        workers.spawn(worker.run(Arc::clone(&tally)));
    }
    let begun = Instant::now();
    submit(address, queue, count).await?;
    tally.finished().await;
    let took = begun.elapsed();
    join(workers).await?;
    if tally.done() != count {
        return Err(Failure::internal(format!("{} tasks were completed, {count} submitted", tally.done())));
    }
    Ok(took)
}

/// Runs waiting tasks until this many are completed.
pub(crate) async fn consume(address: &Address, queue: &str, count: usize) -> Result<(), Failure> {
    let tally = Arc::new(BenchTotals::new(count));
    let worker = Worker::register(address, queue, &format!("{queue}-cleaner"), 256).await?;
    worker.run(tally).await
}

/// One task after the other: from its submission to the acknowledgement of its completion, in seconds.
pub(crate) async fn latency(address: &Address, queue: &str, rounds: usize) -> Result<Vec<f64>, Failure> {
    let mut worker = Worker::register(address, queue, &format!("{queue}-one"), 1).await?;
    let mut producer = Connection::open(address, hello("bench-one")).await?;
    let terms = Terms::new(queue);
    let mut arrived = Vec::new();
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let mut submit = Submit::default();
        submit.push(&terms, NewTask { body: load::body(round as u64).into(), ..NewTask::default() });
        let request = Request::Submit(submit);
        let begun = Instant::now();
        producer.ask(&request);
        producer.flush().await?;
        while worker.turn().await? == 0 {}
        times.push(begun.elapsed().as_secs_f64());
        arrived.clear();
        producer.turn(&mut arrived).await?;
    }
    Ok(times)
}

/// How long until a fresh worker is given its first task, while the broker may not even be there yet.
pub(crate) async fn first_task(address: &Address, queue: &str, since: Instant) -> Result<Duration, Failure> {
    const TIMEOUT: Duration = Duration::from_secs(120);
    let mut worker = loop {
        match Worker::register(address, queue, &format!("{queue}-first"), 1).await {
            Ok(worker) => break worker,
            Err(failure) if since.elapsed() > TIMEOUT => return Err(failure),
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    while !worker.has_work {
        worker.turn().await?;
    }
    Ok(since.elapsed())
}

/// How many tasks wait or are held.
pub(crate) async fn alive(address: &Address) -> Result<u64, Failure> {
    let mut connection = Connection::open(address, hello("bench-count")).await?;
    connection.ask(&Request::Counts);
    let mut arrived = Vec::new();
    connection.turn(&mut arrived).await?;
    match arrived.pop() {
        Some(FromBroker::Reply { reply: Reply::Counts(counts), .. }) => {
            let states = &counts.by_state;
            Ok(states.ready + states.assigned + states.running)
        }
        other => Err(unexpected_reply(other.as_ref())),
    }
}

async fn produce(address: Address, queue: Name, count: usize, first: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(&address, hello(&format!("bench-{first}"))).await?;
    let terms = Terms::new(queue);
    let (mut sent, mut answered) = (0, 0);
    let mut arrived = Vec::new();
    while answered < count {
        // Whole frames while the window lasts, and whatever is left at the end.
        while sent < count && (sent - answered) + FRAME_TASKS.min(count - sent) <= WINDOW {
            let mut submit = Submit::default();
            for _ in 0..FRAME_TASKS.min(count - sent) {
                let body = load::body(first + sent as u64).into();
                submit.push(&terms, NewTask { body, ..NewTask::default() });
                sent += 1;
            }
            connection.ask(&Request::Submit(submit));
        }
        connection.turn(&mut arrived).await?;
        for message in arrived.drain(..) {
            match message {
                FromBroker::Reply { reply: Reply::Submitted(submitted), .. } => {
                    if let Some(refusal) = submitted.tasks.iter().find_map(|verdict| verdict.0.as_ref().err())
                    {
                        return Err(Failure::from(refusal));
                    }
                    answered += submitted.tasks.len();
                }
                other => return Err(unexpected_reply(Some(&other))),
            }
        }
    }
    Ok(())
}

struct Worker {
    connection: Connection,
    arrived: Vec<FromBroker>,
    /// How many completions each unanswered request carries, oldest first.
    reported: std::collections::VecDeque<usize>,
    has_work: bool,
}

impl Worker {
    async fn register(address: &Address, queue: &str, name: &str, slots: u32) -> Result<Worker, Failure> {
        let mut connection = Connection::open(address, hello(name)).await?;
        let mut spec = WorkerSpec::new(name, vec![queue.into()], slots);
        spec.instance = u64::from(std::process::id());
        spec.lost_after_ms = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        spec.lease_ms = spec.lost_after_ms;
        connection.ask(&Request::Register(Box::new(spec)));
        let mut worker = Worker {
            connection,
            arrived: Vec::new(),
            reported: std::collections::VecDeque::new(),
            has_work: false,
        };
        worker.turn().await?;
        Ok(worker)
    }

    async fn run(mut self, tally: Arc<BenchTotals>) -> Result<(), Failure> {
        loop {
            tokio::select! {
                biased;
                done = self.turn() => tally.add(done?),
                () = tally.finished() => return Ok(()),
            }
        }
    }

    /// Completes whatever has arrived; returns how many completions were acknowledged.
    async fn turn(&mut self) -> Result<usize, Failure> {
        self.connection.turn(&mut self.arrived).await?;
        let mut acknowledged = 0;
        let mut done = Vec::new();
        for message in self.arrived.drain(..) {
            match message {
                FromBroker::Notice(Notice::Assign(assign)) => {
                    done.extend(assign.tasks.iter().map(completion));
                }
                FromBroker::Reply { reply: Reply::Held(held), .. } => {
                    if let Some(entry) = held.refused.first() {
                        return Err(Failure::from(&entry.refusal));
                    }
                    acknowledged += self.reported.pop_front().unwrap_or_default();
                }
                FromBroker::Reply { reply: Reply::Registered(_), .. } => {}
                FromBroker::Reply { reply: Reply::Refused(refusal), .. }
                | FromBroker::Notice(Notice::Bye(refusal)) => return Err(Failure::from(&*refusal)),
                other => return Err(unexpected_reply(Some(&other))),
            }
        }
        if !done.is_empty() {
            self.has_work = true;
            self.reported.push_back(done.len());
            self.connection.ask(&Request::Complete(Complete { done }));
            self.connection.flush().await?;
        }
        Ok(acknowledged)
    }
}

fn completion(assignment: &Assignment) -> Completion {
    Completion { task: assignment.task, attempt: assignment.attempt, result: Bytes::from_static(RESULT) }
}

fn hello(identity: &str) -> Hello {
    Hello { identity: Some(identity.into()), software: Some("tenure bench".into()), ..Hello::default() }
}

/// Waits for all; the first that fails ends the rest.
async fn join(mut tasks: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::internal(error.to_string()))??;
    }
    Ok(())
}

fn unexpected_reply(message: Option<&FromBroker>) -> Failure {
    Failure::internal(format!("unexpected reply from the broker: {message:?}"))
}
