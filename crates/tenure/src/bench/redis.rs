//! The same load on a temporary Redis server, as a queue is commonly built from its lists.
//!
//! A client pushes a task onto a list. A worker moves it to its own list, so that it is not lost with the worker,
//! and when it is done removes it there and sets its result. The server syncs its log before it replies, as Tenure
//! does.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::load::{self, HELD, PRODUCERS, QUEUE, RESULT, WINDOW, WORKERS};
use super::resp::{Reply, Resp};
use super::tally::BenchTotals;
use crate::exit::Failure;
use crate::spawned::{Process, Usage};

/// How long the server may take to start and load its log.
const START_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Redis {
    process: Process,
    directory: PathBuf,
    port: u16,
}

impl Redis {
    pub(crate) async fn start(directory: &Path) -> Result<Redis, Failure> {
        // Redis takes no port of the system's choice, so a free one is looked for and let go again.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let redis = Redis { process: launch(directory, port)?, directory: directory.to_owned(), port };
        redis.answers().await?;
        Ok(redis)
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// Submits this many; returns when the last is acknowledged.
    pub(crate) async fn submit(&self, count: usize) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let mut producers = JoinSet::new();
        for index in 0..PRODUCERS {
            let share = load::share(count, index, PRODUCERS);
            producers.spawn(produce(self.port, share, (index * count) as u64));
        }
        join(producers).await?;
        Ok(begun.elapsed())
    }

    /// Submits and completes this many at the same time.
    pub(crate) async fn cycle(&self, count: usize) -> Result<Duration, Failure> {
        let tally = Arc::new(BenchTotals::new(count));
        let mut workers = JoinSet::new();
        for index in 0..WORKERS {
            let worker = Worker::connect(self.port, index, HELD).await?;
            workers.spawn(worker.run(Arc::clone(&tally)));
        }
        let begun = Instant::now();
        self.submit(count).await?;
        tally.finished().await;
        let took = begun.elapsed();
        join(workers).await?;
        Ok(took)
    }

    /// One after the other: from the push to the acknowledgement of the result, in seconds.
    pub(crate) async fn latency(&self, rounds: usize) -> Result<Vec<f64>, Failure> {
        let mut worker = Worker::connect(self.port, 0, 1).await?;
        let mut producer = Resp::connect(self.port).await?;
        let mut replies = Vec::new();
        let mut times = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let body = load::body(round as u64);
            worker.fetch().await?;
            let begun = Instant::now();
            producer.ask(&[b"LPUSH", QUEUE.as_bytes(), &body]);
            producer.flush().await?;
            worker.take().await?;
            while worker.acknowledged().await? == 0 {}
            times.push(begun.elapsed().as_secs_f64());
            replies.clear();
            producer.receive(&mut replies).await?;
        }
        Ok(times)
    }

    /// `kill -9`, start, and the time until the first task is handed out.
    pub(crate) async fn first_task_after_kill(&mut self) -> Result<Duration, Failure> {
        self.process.kill();
        let since = Instant::now();
        self.process = launch(&self.directory, self.port)?;
        loop {
            if let Ok(mut resp) = Resp::connect(self.port).await
                && let Ok(Reply::Bulk(_)) =
                    resp.once(&[b"LMOVE", QUEUE.as_bytes(), b"first", b"RIGHT", b"LEFT"]).await
            {
                return Ok(since.elapsed());
            }
            if since.elapsed() > START_TIMEOUT {
                return Err(self.silent());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn answers(&self) -> Result<(), Failure> {
        let since = Instant::now();
        while since.elapsed() < START_TIMEOUT {
            if let Ok(mut resp) = Resp::connect(self.port).await
                && resp.once(&[b"PING"]).await.is_ok_and(|reply| reply == Reply::Line("PONG".into()))
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(self.silent())
    }

    fn silent(&self) -> Failure {
        let said = std::fs::read_to_string(self.directory.join("redis.log")).unwrap_or_default();
        Failure::system(format!("redis-server does not answer. Its output:\n{}", said.trim_end()))
    }
}

fn launch(directory: &Path, port: u16) -> Result<Process, Failure> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(directory);
    // The log is never rewritten and no snapshot is taken while the load is on: Redis at its best.
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--loglevel", "warning"]);
    command.args(["--auto-aof-rewrite-percentage", "0"]).stdout(Stdio::null());
    Process::start(&mut command, &directory.join("redis.log"))
}

async fn produce(port: u16, count: usize, first: u64) -> Result<(), Failure> {
    let mut resp = Resp::connect(port).await?;
    let (mut sent, mut answered) = (0, 0);
    let mut replies = Vec::new();
    while answered < count {
        while sent < count && sent - answered < WINDOW {
            resp.ask(&[b"LPUSH", QUEUE.as_bytes(), &load::body(first + sent as u64)]);
            sent += 1;
        }
        resp.flush().await?;
        resp.receive(&mut replies).await?;
        for reply in replies.drain(..) {
            match reply {
                Reply::Number(_) => answered += 1,
                other => return Err(unexpected_reply(&other)),
            }
        }
    }
    Ok(())
}

/// A worker has two connections: a blocked fetch would hold up the reports behind it.
struct Worker {
    fetching: Resp,
    reporting: Resp,
    list: String,
    slots: usize,
    /// Asked for and not arrived.
    wanted: usize,
    /// Arrived and not acknowledged as done: replies that are still to come, two for each.
    unanswered: VecDeque<bool>,
    replies: Vec<Reply>,
}

impl Worker {
    async fn connect(port: u16, index: usize, slots: usize) -> Result<Worker, Failure> {
        Ok(Worker {
            fetching: Resp::connect(port).await?,
            reporting: Resp::connect(port).await?,
            list: format!("processing:{index}"),
            slots,
            wanted: 0,
            unanswered: VecDeque::new(),
            replies: Vec::new(),
        })
    }

    async fn run(mut self, tally: Arc<BenchTotals>) -> Result<(), Failure> {
        let mut fetched = Vec::new();
        let mut reported = Vec::new();
        loop {
            self.fetch().await?;
            tokio::select! {
                biased;
                done = self.reporting.receive(&mut reported) => {
                    done?;
                    tally.add(count_done(&mut self.unanswered, &mut reported)?);
                }
                got = self.fetching.receive(&mut fetched) => {
                    got?;
                    self.replies.append(&mut fetched);
                    self.report().await?;
                }
                () = tally.finished() => return Ok(()),
            }
        }
    }

    /// Asks for as many as there are free hands.
    async fn fetch(&mut self) -> Result<(), Failure> {
        while self.wanted + self.unanswered.len() / 2 < self.slots {
            self.fetching.ask(&[b"BLMOVE", QUEUE.as_bytes(), self.list.as_bytes(), b"RIGHT", b"LEFT", b"0"]);
            self.wanted += 1;
        }
        self.fetching.flush().await
    }

    /// Waits for work and reports it done.
    async fn take(&mut self) -> Result<(), Failure> {
        self.fetching.receive(&mut self.replies).await?;
        self.report().await
    }

    async fn report(&mut self) -> Result<(), Failure> {
        for reply in self.replies.drain(..) {
            let Reply::Bulk(body) = reply else { return Err(unexpected_reply(&reply)) };
            self.wanted -= 1;
            let key = [b"result:", &body[..20]].concat();
            self.reporting.ask(&[b"LREM", self.list.as_bytes(), b"-1", &body]);
            self.reporting.ask(&[b"SET", &key, RESULT]);
            self.unanswered.extend([false, true]);
        }
        self.reporting.flush().await
    }

    /// Waits for acknowledgements; returns how many tasks are done with them.
    async fn acknowledged(&mut self) -> Result<usize, Failure> {
        let mut replies = Vec::new();
        self.reporting.receive(&mut replies).await?;
        count_done(&mut self.unanswered, &mut replies)
    }
}

/// Every second reply is the one to `SET`, and with it a task is done.
fn count_done(unanswered: &mut VecDeque<bool>, replies: &mut Vec<Reply>) -> Result<usize, Failure> {
    let mut done = 0;
    for reply in replies.drain(..) {
        match reply {
            Reply::Number(1) | Reply::Line(_) => done += usize::from(unanswered.pop_front() == Some(true)),
            other => return Err(unexpected_reply(&other)),
        }
    }
    Ok(done)
}

async fn join(mut tasks: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::internal(error.to_string()))??;
    }
    Ok(())
}

fn unexpected_reply(reply: &Reply) -> Failure {
    Failure::internal(format!("unexpected reply from the Redis server: {reply:?}"))
}
