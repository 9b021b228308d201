//! Checkpoints: a worker saves a checkpoint, and the next attempt goes on from there.

use std::sync::Arc;
use std::time::Duration;

use tenure_client::{Code, Context, Error, Failure, Interrupt, Outcome, StateName, Submission};
use tokio::sync::mpsc;

use crate::broker::{Broker, LONG, until};

fn last(context: &Context) -> String {
    context.checkpoint().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

#[tokio::test]
async fn the_next_attempt_goes_on_where_the_last_one_was() {
    let broker = Broker::start();
    let client = broker.client().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |context: Context| {
        let tell = tell.clone();
        async move {
            tell.send((context.attempt(), last(&context))).unwrap();
            match context.attempt() {
                1 => {
                    context.save_checkpoint("row 1").await.unwrap();
                    context.save_checkpoint("row 2000").await.unwrap();
                    Outcome::give_back("a break")
                }
                // The handler does not wait for the receipt; it is sent before the end all the same.
                2 => {
                    drop(context.save_checkpoint("row 3000"));
                    Outcome::fail(Failure::new(3, "no luck"))
                }
                _ => Outcome::complete("done"),
            }
        }
    };
    let _worker = broker.worker("w1").handle(handler).start().await.unwrap();
    let retried =
        Submission::to("images").retries(1).backoff(Duration::from_millis(1), Duration::from_millis(1));
    let task = client.submit(retried).await.unwrap().task;
    let ended = tokio::time::timeout(LONG, client.wait(task)).await.unwrap().unwrap();
    assert_eq!(ended.state, StateName::Completed);
    for expected in [(1, ""), (2, "row 2000"), (3, "row 3000")] {
        let told = told.recv().await.unwrap();
        assert_eq!((told.0, told.1.as_str()), expected);
    }
    assert_eq!(client.checkpoint(task).await.unwrap(), "", "a completed task needs none");
}

#[tokio::test]
async fn a_worker_and_a_broker_that_die_leave_it_behind() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let (tell, mut saved) = mpsc::unbounded_channel();
    let first = broker.worker("w1").stop_grace(Duration::ZERO).handle(move |context: Context| {
        let tell = tell.clone();
        async move {
            context.save_checkpoint("half").await.unwrap();
            tell.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    });
    let first = first.start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    saved.recv().await.unwrap();
    let shown = client.show(task).await.unwrap().checkpoint.unwrap();
    assert_eq!((shown.attempt, shown.bytes), (1, 4));
    first.stop();
    tokio::time::timeout(LONG, first.ended()).await.unwrap().unwrap();
    broker.kill();
    broker.start_again();
    assert_eq!(client.checkpoint(task).await.unwrap(), "half");
    let _second = broker.worker("w2").handle(async |context: Context| last(&context)).start().await.unwrap();
    let ended = tokio::time::timeout(LONG, client.wait(task)).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.result.unwrap()), (StateName::Completed, "half".into()));
}

#[tokio::test]
async fn a_checkpoint_saved_while_the_broker_is_away_arrives_when_it_is_back() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let (go, gone) = tokio::sync::watch::channel(false);
    let handler = move |context: Context| {
        let mut gone = gone.clone();
        async move {
            if context.attempt() == 1 {
                gone.wait_for(|gone| *gone).await.unwrap();
                drop(context.save_checkpoint("passed over"));
                context.save_checkpoint("in the dark").await.unwrap();
                return Outcome::give_back("a break");
            }
            Outcome::complete(last(&context))
        }
    };
    let worker = broker.worker("w1").handle(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    until("it runs", async || client.show(task).await.unwrap().state == StateName::Running).await;
    broker.kill();
    until("the worker has noticed", async || !worker.is_connected()).await;
    go.send(true).unwrap();
    broker.start_again();
    let ended = tokio::time::timeout(LONG, client.wait(task)).await.unwrap().unwrap();
    assert_eq!(ended.result.unwrap(), "in the dark");
}

#[tokio::test]
async fn a_worker_that_cannot_save_a_checkpoint_learns_why() {
    let broker = Broker::start();
    let client = broker.client().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let tell = Arc::new(tell);
    let handler = move |context: Context| {
        let tell = Arc::clone(&tell);
        if context.attempt() > 1 {
            return Outcome::complete("");
        }
        tell.send(context.save_checkpoint(vec![0; (16 << 20) + 1]).wait()).unwrap();
        tell.send(context.save_checkpoint("small").wait()).unwrap();
        let over = matches!(context.wait_interrupted(LONG), Some(Interrupt::Stop { .. }));
        assert!(over, "the run limit");
        tell.send(context.save_checkpoint("too late").wait()).unwrap();
        Outcome::complete("")
    };
    let _worker = broker.worker("w1").handle_blocking(handler).start().await.unwrap();
    let limited = Submission::to("images").run_limit(Duration::from_secs(2));
    client.submit(limited).await.unwrap();
    let mut next = async || tokio::time::timeout(LONG, told.recv()).await.unwrap().unwrap();
    let large = next().await.unwrap_err();
    assert!(matches!(large, Error::TooLarge { .. }), "{large}");
    next().await.unwrap();
    let late = next().await.unwrap_err();
    assert!(late.is(&Code::StaleAttempt), "{late}");
}
