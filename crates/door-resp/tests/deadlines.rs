//! Over sockets: what has to come in time, and what does not.

mod support;

use std::time::{Duration, Instant};

use support::broker::Broker;
use support::peer::Client;
use tenure_door_kit::DoorSettings;
use tenure_door_resp::Settings;
use tenure_door_resp::testing::Reply;

/// How long a command may stay unfinished.
const FRAME_WITHIN: Duration = Duration::from_secs(3);

async fn broker() -> Broker {
    let door = DoorSettings { frame_within: FRAME_WITHIN, ..DoorSettings::default() };
    Broker::told(Settings { door, ..Settings::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_command_behind_one_that_blocks_is_not_late() {
    let broker = broker().await;
    let mut client = Client::connect(broker.address).await;
    client.send(b"BRPOP queue:empty 4\r\nECHO he").await;
    assert_eq!(client.reply().await, Reply::NullArray);
    client.send(b"llo\r\n").await;
    assert_eq!(client.reply().await, Reply::bulk("hello"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_command_that_nothing_keeps_waiting_ends_the_connection() {
    let broker = broker().await;
    let mut client = Client::connect(broker.address).await;
    let began = Instant::now();
    client.send(b"ECHO he").await;
    assert_eq!(client.next().await, None);
    assert!(began.elapsed() >= FRAME_WITHIN, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_only_pulls_is_let_go_when_the_broker_stops() {
    let broker = broker().await;
    let mut client = Client::connect(broker.address).await;
    client.say("LPUSH queue:images cat.png").await;
    assert_eq!(client.reply().await, Reply::Integer(1));
    let mut worker = Client::connect(broker.address).await;
    worker.ask("BRPOP queue:images 0").await;
    worker.say("BRPOP queue:images 0").await;
    broker.hub.stop();
    // The pull may have come too late for an answer, but not for the end.
    while let Some(reply) = worker.next().await {
        assert_eq!(reply, Reply::NullArray);
    }
}
