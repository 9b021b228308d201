//! Tasks whose handler saves checkpoints and fails once, and tasks that are cancelled while they wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_client::{Context, Failure, Outcome, Submission, Worker};

use super::{ExpectedState, connect};

const QUEUE: &str = "steps";
/// The queue that no worker serves.
const HELD: &str = "held";
const STEPS: u32 = 4;
/// The first attempt of each task fails after this step.
const FAILS_AFTER: u32 = 2;

/// A worker for the tasks with checkpoints.
pub(super) async fn work(addresses: String, expected: Arc<Mutex<ExpectedState>>) {
    let worker = Worker::builder(&addresses).id("w2").queues([QUEUE]).slots(4);
    let worker = worker.handle(move |context| {
        let expected = Arc::clone(&expected);
        async move { step(&context, &expected).await }
    });
    let handle = worker.start().await.expect("the worker registers");
    std::future::pending::<()>().await;
    drop(handle);
}

async fn step(context: &Context, expected: &Mutex<ExpectedState>) -> Outcome {
    let has = context.checkpoint().and_then(|bytes| bytes[..].try_into().ok()).map_or(0, u32::from_be_bytes);
    {
        let mut expected = expected.lock().expect("no panic");
        let saved = expected.saved.get(&context.task()).copied().unwrap_or(0);
        if has < saved {
            expected.forgotten.push((context.task(), saved, has));
        }
    }
    for step in has + 1..=STEPS {
        if context.save_checkpoint(step.to_be_bytes().to_vec()).await.is_ok() {
            let mut expected = expected.lock().expect("no panic");
            let saved = expected.saved.entry(context.task()).or_default();
            *saved = (*saved).max(step);
        }
        if step == FAILS_AFTER && context.attempt() == 1 {
            return Outcome::fail(Failure::new(1, "once"));
        }
    }
    Outcome::complete("done")
}

/// Submits both kinds in turns, and cancels the second.
pub(super) async fn steer(addresses: String, expected: Arc<Mutex<ExpectedState>>, is_over: Arc<AtomicBool>) {
    let client = connect(&addresses).await;
    while !is_over.load(Ordering::Acquire) {
        if let Ok(accepted) = client.submit(Submission::to(QUEUE).body("steps").retries(1_000)).await {
            expected.lock().expect("no panic").stepped.push(accepted.task);
        }
        if let Ok(accepted) = client.submit(Submission::to(HELD).body("cancelled")).await
            && client.cancel(accepted.task, None).await.is_ok()
        {
            expected.lock().expect("no panic").cancelled.push(accepted.task);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
