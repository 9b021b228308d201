//! The broker goes away and comes back: nothing runs twice, nothing is lost, and no caller has to act.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_client::wire::hello::Hello;
use tenure_client::{Client, Connection, Context, Error, OnLost, StateName, Submission, TaskId};
use tokio::sync::watch;

use crate::broker::{Broker, LONG, until};
use crate::proxy::Proxy;

/// Counts how often each task's handler has begun.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<HashMap<TaskId, u32>>>);

impl Runs {
    fn begin(&self, context: &Context) {
        *self.0.lock().unwrap().entry(context.task()).or_default() += 1;
    }

    fn each_once(&self, tasks: usize) {
        let runs = self.0.lock().unwrap();
        assert_eq!(runs.len(), tasks);
        assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    }
}

#[tokio::test]
async fn a_worker_keeps_its_tasks_through_restarts_of_the_broker() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let runs = Runs::default();
    let (open, gate) = watch::channel(false);
    let handler = {
        let runs = runs.clone();
        move |context: Context| {
            let (runs, mut gate) = (runs.clone(), gate.clone());
            async move {
                runs.begin(&context);
                gate.wait_for(|open| *open).await.unwrap();
                context.body().clone()
            }
        }
    };
    let worker = broker.worker("w1").slots(20).handle(handler).start().await.unwrap();
    let policies = [OnLost::Requeue, OnLost::Pause, OnLost::Fail];
    let many = (0..20).map(|number: u8| {
        Submission::to("images").body(vec![number]).on_lost(policies[usize::from(number) % 3].clone())
    });
    let submitted = client.submit_many(many).await.unwrap();
    let tasks: Vec<TaskId> = submitted.into_iter().map(|verdict| verdict.unwrap().task).collect();
    until("all run", async || runs.0.lock().unwrap().len() == 20).await;

    for sudden in [true, false] {
        if sudden {
            broker.kill();
        } else {
            broker.stop();
        }
        until("the worker has noticed", async || !worker.is_connected()).await;
        broker.start_again();
        until("the worker is back", async || worker.is_connected()).await;
    }
    for task in &tasks {
        let shown = client.show(*task).await.unwrap();
        assert_eq!((shown.state, shown.attempt, shown.crashes), (StateName::Running, 1, 0));
    }
    open.send(true).unwrap();
    let waited = client.wait_all(&tasks, Some(LONG)).await.unwrap();
    assert!(
        waited.pending.is_empty() && waited.ended.iter().all(|ended| ended.state == StateName::Completed)
    );
    runs.each_once(20);
    assert_eq!(worker.stats().reconnects, 2);
}

#[tokio::test]
async fn what_is_finished_while_the_broker_is_away_is_reported_when_it_is_back() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let runs = Runs::default();
    let (open, gate) = watch::channel(false);
    let handler = {
        let runs = runs.clone();
        move |context: Context| {
            let (runs, mut gate) = (runs.clone(), gate.clone());
            async move {
                runs.begin(&context);
                gate.wait_for(|open| *open).await.unwrap();
                "finished in the dark"
            }
        }
    };
    let worker = broker.worker("w1").slots(8).handle(handler).start().await.unwrap();
    let submitted = client.submit_many((0..8).map(|_| Submission::to("images"))).await.unwrap();
    let tasks: Vec<TaskId> = submitted.into_iter().map(|verdict| verdict.unwrap().task).collect();
    until("all run", async || runs.0.lock().unwrap().len() == 8).await;
    broker.kill();
    open.send(true).unwrap();
    until("the worker has noticed", async || !worker.is_connected()).await;
    broker.start_again();
    for task in tasks {
        let ended = tokio::time::timeout(LONG, client.wait(task)).await.unwrap().unwrap();
        assert_eq!(
            (ended.state, ended.result.unwrap()),
            (StateName::Completed, "finished in the dark".into())
        );
    }
    runs.each_once(8);
    until("the reports are answered", async || worker.stats().completed == 8).await;
}

#[tokio::test]
async fn work_goes_on_while_the_broker_is_killed_again_and_again() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let runs = Runs::default();
    let handler = {
        let runs = runs.clone();
        move |context: Context| {
            let runs = runs.clone();
            async move {
                runs.begin(&context);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    let _worker = broker.worker("w1").slots(10).handle(handler).start().await.unwrap();
    let named =
        (0..500).map(|number| Submission::to("images").name(format!("n{number}")).on_lost(OnLost::Pause));
    let submitted = client.submit_many(named).await.unwrap();
    let tasks: Vec<TaskId> = submitted.into_iter().map(|verdict| verdict.unwrap().task).collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        broker.kill();
        broker.start_again();
    }
    let waited = client.wait_all(&tasks, Some(LONG)).await.unwrap();
    let completed = waited.ended.iter().filter(|ended| ended.state == StateName::Completed).count();
    assert_eq!((completed, waited.pending), (500, Vec::new()));
    runs.each_once(500);
}

#[tokio::test]
async fn requests_wait_for_the_broker_to_come_back() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let task = client.submit(Submission::to("images").body("kept")).await.unwrap().task;
    broker.stop();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.body(task).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    broker.start_again();
    assert_eq!(waiting.await.unwrap().unwrap(), "kept");
    assert_eq!(&*client.identity(), "ada");
}

#[tokio::test]
async fn a_connect_timeout_says_what_failed() {
    let mut broker = Broker::start();
    let address = broker.address();
    let client = Client::builder()
        .address(&address)
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    broker.stop();
    let begun = Instant::now();
    let gone = client.counts().await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable { .. }) && gone.to_string().contains(&address), "{gone}");
    assert!(begun.elapsed() < LONG);
    let none =
        Client::builder().address(&address).connect_timeout(Duration::from_millis(300)).connect().await;
    assert!(matches!(none.unwrap_err(), Error::Unreachable { .. }));
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_first_is_dead() {
    let broker = Broker::start();
    let client = Client::builder().addresses(["127.0.0.1:1", &broker.address()]).connect().await.unwrap();
    client.ping().await.unwrap();
}

#[tokio::test]
async fn a_connection_is_direct_unless_something_lies_between() {
    let broker = Broker::start();
    let proxy = Proxy::to(broker.address()).await;
    let port = broker.address().rsplit(':').next().unwrap().to_owned();
    for (address, expected) in [
        (broker.address(), true),
        (format!("localhost:{port}"), true),
        (broker.listen_with_tls().await, true),
        (format!("unix:{}", broker.listen_at_unix_socket().display()), true),
        (proxy.address.to_string(), false),
    ] {
        let connection =
            Connection::open(&address.parse().unwrap(), Hello::default()).await.expect("the broker answers");
        assert_eq!(connection.is_direct(), expected, "{address}");
    }
}
