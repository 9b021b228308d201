//! The examples, run as they are.

use crate::broker::{Broker, LONG};

#[path = "../../examples/submit_and_wait.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod submit_and_wait;
#[path = "../../examples/subscribe.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod subscribe;
#[path = "../../examples/watch.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod watch;
#[path = "../../examples/worker.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod worker;

#[tokio::test]
async fn the_example_of_topics_hears_what_it_publishes() {
    let broker = Broker::start();
    let mut lines = Vec::new();
    let address = broker.address();
    let running = subscribe::run(&address, |line| lines.push(line));
    tokio::time::timeout(LONG, running).await.unwrap().unwrap();
    assert_eq!(lines, ["sensor.kitchen 1: 21.5", "sensor.hall 1: 18.0", "the clock says: noon"]);
}

#[tokio::test]
async fn the_examples_work_together() {
    let broker = Broker::start();
    let address = broker.address();
    let worker = worker::worker(&address).start().await.unwrap();
    let ended = tokio::time::timeout(LONG, submit_and_wait::run(&address)).await.unwrap().unwrap();
    assert_eq!(ended.result.unwrap(), "HELLO");
    let mut lines = Vec::new();
    let watching = watch::run(&address, |line| {
        lines.push(line);
        !lines.last().unwrap().contains(" completed ")
    });
    tokio::time::timeout(LONG, watching).await.unwrap().unwrap();
    assert!(lines.iter().any(|line| line.contains(" started ")), "{lines:?}");
    worker.drain();
    assert_eq!(worker.ended().await.unwrap().completed, 1);
}
