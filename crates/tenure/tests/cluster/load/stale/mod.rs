//! Workers that report too late: each gives up an attempt, and reports its completion when it is over, to the leader of
//! that moment and to those after it. Every such report must be refused by its name.

mod grpc;
mod native;
mod resp;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_client::{Client, Submission, TaskId};

use super::{ExpectedState, connect};

pub(super) use grpc::GrpcWorker;
pub(super) use native::NativeWorker;
pub(super) use resp::RespWorker;

/// A worker of a frozen leader must come back by itself.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// how many stale attempts each worker reports again to every leader that it meets.
const REMEMBERED: usize = 4;
/// The result of a stale attempt, and that of the current one.
const STALE: &str = "stale";
const CURRENT: &str = "current";

/// A task and the number of its attempt.
pub(super) type Attempt = (TaskId, u32);

/// The answer to a report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Stale,
    /// Refused for another reason.
    Refused(String),
}

/// What a worker of a few lines does at the door of its protocol. `None` means that the connection is lost.
pub(super) trait LateWorker: Send + Sized {
    const DOOR: &'static str;

    fn connect(port: u16) -> impl Future<Output = Option<Self>> + Send;

    /// Waits for the next attempt.
    fn take(&mut self) -> impl Future<Output = Option<Attempt>> + Send;

    fn fail(&mut self, attempt: Attempt) -> impl Future<Output = Option<Verdict>> + Send;

    fn complete(&mut self, attempt: Attempt, result: &str) -> impl Future<Output = Option<Verdict>> + Send;
}

fn queue_of(door: &str) -> String {
    format!("late-{door}")
}

/// Works at the doors of all members in turn, until it is aborted.
pub(super) async fn work<W: LateWorker>(ports: Vec<u16>, expected: Arc<Mutex<ExpectedState>>) {
    let (mut over, mut next) = (VecDeque::new(), 0);
    loop {
        let port = ports[next];
        let connected = tokio::time::timeout(ANSWERED_WITHIN, W::connect(port)).await;
        if let Ok(Some(mut worker)) = connected {
            while turn(&mut worker, &mut over, &expected).await.is_some() {}
        }
        next = (next + 1) % ports.len();
        tokio::time::sleep(PAUSE).await;
    }
}

/// One attempt: the first of a task fails; a later one completes after all reports that come too late.
async fn turn<W: LateWorker>(
    worker: &mut W,
    over: &mut VecDeque<Attempt>,
    expected: &Mutex<ExpectedState>,
) -> Option<()> {
    let attempt = worker.take().await?;
    if attempt.1 == 1 {
        if in_time(worker.fail(attempt)).await? == Verdict::Accepted {
            over.push_back(attempt);
            while over.len() > REMEMBERED {
                over.pop_front();
            }
        }
        return Some(());
    }
    for late in over.iter().chain(&[(attempt.0, attempt.1 - 1)]) {
        let verdict = in_time(worker.complete(*late, STALE)).await?;
        assert_eq!(verdict, Verdict::Stale, "{}: the attempt {} of {} is over", W::DOOR, late.1, late.0);
        *expected.lock().expect("no panic").refused_late.entry(W::DOOR).or_default() += 1;
    }
    let verdict = in_time(worker.complete(attempt, CURRENT)).await?;
    assert!(!matches!(verdict, Verdict::Refused(_)), "{}: {verdict:?}", W::DOOR);
    if over.len() == REMEMBERED {
        over.pop_front();
    }
    Some(())
}

async fn in_time<T>(asking: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(ANSWERED_WITHIN, asking).await.ok()?
}

/// Submits a task for each of these workers in turn.
pub(super) async fn submit(addresses: String, expected: Arc<Mutex<ExpectedState>>, is_over: Arc<AtomicBool>) {
    let client = connect(&addresses).await;
    while !is_over.load(Ordering::Acquire) {
        for door in [NativeWorker::DOOR, GrpcWorker::DOOR, RespWorker::DOOR] {
            let submission = Submission::to(queue_of(door)).body("late").retries(1_000).crash_budget(1_000);
            let at_once = Duration::from_millis(1);
            if let Ok(accepted) = client.submit(submission.backoff(at_once, at_once)).await {
                expected.lock().expect("no panic").reported_late.push(accepted.task);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// No task has ended with the result of a stale attempt.
pub(super) async fn compare(client: &Client, expected: &Mutex<ExpectedState>) {
    let tasks = expected.lock().expect("no panic").reported_late.clone();
    for task in tasks {
        let result = client.result(task).await.unwrap_or_else(|error| panic!("{task}: {error}"));
        let result = String::from_utf8_lossy(&result).into_owned();
        assert_eq!(result, CURRENT, "the result of {task}");
    }
}
