//! A client that behaves well, its worker, and how long they take.

use std::time::{Duration, Instant};

use tenure_client::{Client, Outcome, Submission, Worker, WorkerHandle};
use tokio::runtime::Runtime;

use crate::support::TIMEOUT;

/// How long one measurement takes, and how many rounds it has at least.
const MEASURED: Duration = Duration::from_secs(3);
const ROUNDS_MIN: usize = 200;

pub(crate) struct Meter {
    client: Client,
    worker: WorkerHandle,
    runtime: Option<Runtime>,
}

impl Meter {
    pub(crate) fn start(address: &str, key: &str) -> Meter {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let client =
            Client::builder().address(address).key(key).connect_timeout(Duration::from_secs(10)).connect();
        let client = runtime.block_on(client).expect("the broker answers");
        let worker = Worker::builder(address).key(key).id("meter").queues(["meter"]).slots(1);
        let worker = worker.handle(|_| async { Outcome::complete("done") }).start();
        let worker = runtime.block_on(worker).expect("the worker registers");
        Meter { client, worker, runtime: Some(runtime) }
    }

    /// Something to list and to watch for those that ask for it: tasks that no worker runs.
    pub(crate) fn fill(&self) {
        let tasks = (0..2_000).map(|number| {
            let submission = Submission::to("absent").body(format!("body {number}"));
            submission.tags([format!("tag-{}", number % 100), "a-tag-of-some-length".to_owned()])
        });
        let submitting = self.client.submit_many(tasks);
        self.runtime.as_ref().expect("it runs").block_on(submitting).expect("accepted");
    }

    /// Submits a task, waits for its end, and so on: how long 99 of 100 rounds take at most.
    pub(crate) fn p99(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        let mut rounds = Vec::new();
        while begun.elapsed() < MEASURED || rounds.len() < ROUNDS_MIN {
            let round = Instant::now();
            let ended = self.runtime.as_ref().expect("it runs").block_on(async {
                let accepted = self.client.submit(Submission::to("meter").body("x")).await?;
                self.client.wait_timeout(accepted.task, TIMEOUT).await
            });
            match ended {
                Ok(Some(_)) => {}
                Ok(None) => return Err("a task does not end".to_owned()),
                Err(error) => return Err(format!("the broker does not answer: {error}")),
            }
            rounds.push(round.elapsed());
        }
        rounds.sort_unstable();
        Ok(rounds[rounds.len() * 99 / 100])
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.worker.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
