//! Programs that need scripts of their own: the broker refuses them at once, and slows down one that does not stop trying.

use std::time::{Duration, Instant};

use crate::support::broker::Broker;
use crate::support::peer::Client;
use crate::support::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// What a BullMQ worker says when it connects, and then again and again: the script by its hash, and if that is not known, whole.
const OPENING: [&str; 3] = ["INFO", "CLIENT SETNAME bull:cQ==", "HSET bull:q:meta opts.maxLenEvents 10000"];
const TRIES: [&str; 2] = [
    "EVALSHA 7f3c1a2f0a1b4c5d6e7f8091a2b3c4d5e6f70819 3 bull:q:wait bull:q:active bull:q:prioritized",
    "EVAL 'local rcall = redis.call return rcall(\"GET\", KEYS[1])' 1 bull:q:wait",
];

#[test]
fn a_program_that_retries_without_pause_is_refused_at_once_and_then_slowed_down() {
    let mut world = World::new(false);
    for line in OPENING {
        assert!(!world.ask(1, line)[0].starts_with('-'), "{line}");
    }
    let mut tries = 0;
    while world.held_back(1) < MINUTE {
        let refused = world.ask(1, TRIES[tries % 2]);
        assert!(refused[0].starts_with("-ERR unknown script"), "{refused:?}");
        assert!(refused[0].contains("BullMQ"), "the refusal says what is missing: {refused:?}");
        tries += 1;
        assert!(tries > 3 || world.held_back(1).is_zero(), "three are answered at once");
        assert!(tries <= 70, "{tries} tries in {:?}", world.held_back(1));
    }
    assert_eq!(tries, 63, "in a minute");
    world.ask(2, "PING");
    assert!(world.held_back(2).is_zero(), "others are not slowed down");
}

#[tokio::test]
async fn a_refused_script_is_held_back_over_a_socket_too() {
    let broker = Broker::start().await;
    let mut client = Client::connect(broker.address).await;
    for _ in 0..3 {
        client.ask(TRIES[0]).await;
    }
    let since = Instant::now();
    client.ask(TRIES[0]).await;
    assert!(since.elapsed() >= Duration::from_millis(900), "{:?}", since.elapsed());
}
