//! Topics: publishing, subscribing, and coming back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_client::{
    Client, ConnectionState, EndedWhy, Error, MessageKind, NewMessage, Policy, Received, ReconnectionPolicy,
    Recovery, Subscribe, Subscriber,
};

use crate::broker::{Broker, LONG, until};
use crate::proxy::Proxy;

async fn next(subscriber: &mut Subscriber) -> Received {
    let next = tokio::time::timeout(LONG, subscriber.next()).await.expect("something comes");
    next.expect("it goes on").expect("no error")
}

/// Kind, topic, number and payload of the next message.
async fn message(subscriber: &mut Subscriber) -> (MessageKind, String, u64, String) {
    match next(subscriber).await {
        Received::Message { kind, message } => {
            let payload = String::from_utf8_lossy(&message.payload).into_owned();
            (kind, message.topic.to_string(), message.sequence, payload)
        }
        other => panic!("a message was expected: {other:?}"),
    }
}

/// Comes back quickly.
fn quick() -> ReconnectionPolicy {
    ReconnectionPolicy { initial_delay: Duration::from_millis(50), ..ReconnectionPolicy::default() }
}

#[tokio::test]
async fn what_is_published_is_heard_by_those_who_subscribed() {
    let broker = Broker::start();
    let client = broker.client().await;
    client
        .publish_message(NewMessage { retain: true, ..NewMessage::new("sensor.hall", "17") })
        .await
        .unwrap();
    let mut subscriber =
        client.subscribe(Subscribe::to(["sensor.*"]).id("dashboard").retained()).await.unwrap();
    assert_eq!(&**subscriber.id(), "dashboard");
    assert_eq!(message(&mut subscriber).await, (MessageKind::Retained, "sensor.hall".into(), 1, "17".into()));
    let messages = (0..1_000).map(|number| NewMessage::new("sensor.kitchen", number.to_string())).collect();
    let published = client.publish_many(messages).await.unwrap();
    assert!(published.iter().all(|published| published.as_ref().unwrap().receivers == 1));
    for number in 0..1_000 {
        let heard = message(&mut subscriber).await;
        assert_eq!(heard, (MessageKind::Live, "sensor.kitchen".into(), number + 1, number.to_string()));
    }
    let stats = subscriber.stats();
    assert_eq!((stats.messages, stats.gaps, stats.reconnections), (1_001, 0, 0));
    assert_eq!(stats.state, ConnectionState::Connected);
    let topics = client.topics(Some("sensor.>")).await.unwrap();
    assert_eq!(topics.iter().map(|topic| topic.sequence).collect::<Vec<_>>(), [1, 1_000]);
    let subscriptions = client.subscriptions().await.unwrap();
    assert_eq!((&*subscriptions[0].id, subscriptions[0].delivered), ("dashboard", 1_001));
    // A client that comes with the same id has it from then on.
    let mut other = client.subscribe(Subscribe::to(["sensor.*"]).id("dashboard")).await.unwrap();
    assert_eq!(next(&mut subscriber).await, Received::Ended(EndedWhy::TakenOver));
    assert!(subscriber.next().await.is_none());
    client.unsubscribe("dashboard").await.unwrap();
    assert_eq!(next(&mut other).await, Received::Ended(EndedWhy::Unsubscribed));
}

#[tokio::test]
async fn a_bad_subscription_is_refused_at_once_and_not_tried_again() {
    let broker = Broker::start();
    let client = broker.client().await;
    for (topics, code) in [
        (vec![], "subscription-without-topics"),
        (vec!["a..b"], "topic-level-empty"),
        (vec!["a*"], "wildcard-misplaced"),
    ] {
        match client.subscribe(Subscribe::to(topics)).await {
            Err(Error::Refused(refusal)) => assert_eq!(refusal.code.as_str(), code),
            other => panic!("{other:?}"),
        }
    }
    let refused = client.publish("a.*", "x").await.unwrap_err();
    assert_eq!(refused.code().unwrap().as_str(), "topic-name-wildcard");
    let none = client.request("a", "x", LONG).await.unwrap_err();
    assert_eq!(none.code().unwrap().as_str(), "no-responders");
}

#[tokio::test]
async fn what_was_missed_while_the_connection_was_gone_is_replayed() {
    let broker = Broker::start();
    let mut proxy = Proxy::to(broker.address()).await;
    let publisher = broker.client().await;
    let client = Client::connect(&proxy.address.to_string()).await.unwrap();
    let states = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&states);
    let subscribe = Subscribe::to(["log"])
        .recovery(Recovery::Replay)
        .reconnection(quick())
        .on_state(move |state, error| told.lock().unwrap().push((state, error.is_some())));
    let mut subscriber = client.subscribe(subscribe).await.unwrap();
    publisher.publish("log", "1").await.unwrap();
    assert_eq!(message(&mut subscriber).await.2, 1);
    proxy.cut().await;
    until("the broker notices", async || {
        publisher.subscriptions().await.unwrap().iter().all(|one| one.paused_until.is_some())
    })
    .await;
    for number in 2..=4 {
        publisher.publish("log", number.to_string()).await.unwrap();
    }
    proxy.mend().await;
    assert_eq!(next(&mut subscriber).await, Received::Back { missed: Some(3), restarted: false });
    for number in 2..=4 {
        let heard = message(&mut subscriber).await;
        assert_eq!(heard, (MessageKind::Replay, "log".into(), number, number.to_string()));
    }
    assert!(
        matches!(next(&mut subscriber).await, Received::ReplayComplete(complete) if complete.latest == 4)
    );
    publisher.publish("log", "5").await.unwrap();
    assert_eq!(message(&mut subscriber).await, (MessageKind::Live, "log".into(), 5, "5".into()));
    let stats = subscriber.stats();
    assert_eq!((stats.reconnections, stats.gaps, stats.messages), (1, 0, 5));
    use ConnectionState::{Connected, Reconnecting};
    assert_eq!(*states.lock().unwrap(), [(Connected, false), (Reconnecting, true), (Connected, false)]);
}

#[tokio::test]
async fn without_a_replay_the_gap_is_named() {
    let broker = Broker::start();
    let mut proxy = Proxy::to(broker.address()).await;
    let publisher = broker.client().await;
    let client = Client::connect(&proxy.address.to_string()).await.unwrap();
    let gaps = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&gaps);
    let subscribe = Subscribe::to(["log"])
        .reconnection(quick())
        .on_gap(move |gap| told.lock().unwrap().push((gap.first_missed, gap.last_missed)));
    let mut subscriber = client.subscribe(subscribe).await.unwrap();
    publisher.publish("log", "1").await.unwrap();
    message(&mut subscriber).await;
    proxy.cut().await;
    until("the broker notices", async || {
        publisher.subscriptions().await.unwrap().iter().all(|one| one.paused_until.is_some())
    })
    .await;
    for _ in 2..=4 {
        publisher.publish("log", "missed").await.unwrap();
    }
    proxy.mend().await;
    assert_eq!(next(&mut subscriber).await, Received::Back { missed: Some(3), restarted: false });
    publisher.publish("log", "5").await.unwrap();
    assert!(
        matches!(next(&mut subscriber).await, Received::Gap(gap) if (gap.first_missed, gap.last_missed) == (2, 4))
    );
    assert_eq!(message(&mut subscriber).await.2, 5);
    assert_eq!((subscriber.stats().gaps, gaps.lock().unwrap().clone()), (1, vec![(2, 4)]));
}

#[tokio::test]
async fn a_subscriber_goes_on_after_a_restart_of_the_broker() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let subscribe = Subscribe::to(["log"]).recovery(Recovery::Replay).reconnection(quick());
    let mut subscriber = client.subscribe(subscribe).await.unwrap();
    client.publish("log", "before").await.unwrap();
    message(&mut subscriber).await;
    for round in 0..2 {
        if round == 0 {
            broker.stop();
        } else {
            broker.kill();
        }
        broker.start_again();
        // Whatever it learns about missed messages, it is there again.
        while !matches!(next(&mut subscriber).await, Received::Back { .. }) {}
        client.publish("log", format!("after {round}")).await.unwrap();
        loop {
            if let Received::Message { message, .. } = next(&mut subscriber).await
                && message.payload == format!("after {round}")
            {
                break;
            }
        }
    }
    assert_eq!(subscriber.stats().reconnections, 2);
}

#[tokio::test]
async fn a_broker_that_does_not_come_back_is_given_up_as_the_policy_says() {
    let broker = Broker::start();
    let mut proxy = Proxy::to(broker.address()).await;
    let client = Client::connect(&proxy.address.to_string()).await.unwrap();
    let policy = ReconnectionPolicy { max_retries: 2, ..quick() };
    let mut subscriber = client.subscribe(Subscribe::to(["log"]).reconnection(policy)).await.unwrap();
    proxy.cut().await;
    let given_up = tokio::time::timeout(LONG, subscriber.next()).await.unwrap();
    assert!(matches!(given_up, Some(Err(Error::Unreachable { .. }))), "{given_up:?}");
    assert_eq!(subscriber.stats().state, ConnectionState::Disconnected);
    assert!(subscriber.next().await.is_none());
}

#[tokio::test]
async fn a_slow_subscriber_learns_what_its_queue_dropped() {
    let broker = Broker::start();
    let client = broker.client().await;
    let subscribe = Subscribe::to(["log"]).queue(10, Policy::DropOldest);
    let mut subscriber = client.subscribe(subscribe).await.unwrap();
    // Far more than fits between the two.
    let payload = "x".repeat(10_000);
    for _ in 0..30 {
        let messages = (0..200).map(|_| NewMessage::new("log", payload.clone())).collect();
        client.publish_many(messages).await.unwrap();
    }
    let (mut last, mut heard, mut missed, mut warned) = (0, 0, 0, false);
    while last < 6_000 {
        match next(&mut subscriber).await {
            Received::Message { message, .. } => {
                assert_eq!(message.sequence, last + 1, "every number is heard or named");
                last = message.sequence;
                heard += 1;
            }
            Received::Gap(gap) => {
                assert_eq!(gap.first_missed, last + 1);
                last = gap.last_missed;
                missed += gap.last_missed + 1 - gap.first_missed;
            }
            Received::Warning(_) => warned = true,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard + missed, 6_000);
    assert!(missed > 0 && warned, "{missed} missed");
}

#[tokio::test]
async fn what_sat_in_the_socket_of_a_group_member_goes_to_another_one() {
    let broker = Broker::start();
    let mut proxy = Proxy::to(broker.address()).await;
    let client = broker.client().await;
    let far = Client::connect(&proxy.address.to_string()).await.unwrap();
    let mut ann = far.subscribe(Subscribe::to(["order"]).id("ann").group("shop")).await.unwrap();
    let mut bob = client.subscribe(Subscribe::to(["order"]).id("bob").group("shop")).await.unwrap();
    for number in 0..100 {
        client.publish("order", number.to_string()).await.unwrap();
    }
    let mut handled = std::collections::BTreeSet::new();
    for _ in 0..5 {
        handled.insert(message(&mut ann).await.2);
    }
    // Everything has been written to both, and one of them goes with what it has not read.
    until("all is sent", async || {
        let subscriptions = client.subscriptions().await.unwrap();
        subscriptions.iter().all(|one| one.depth == 0)
    })
    .await;
    proxy.cut().await;
    drop(ann);
    while handled.len() < 100 {
        handled.insert(message(&mut bob).await.2);
    }
}

#[tokio::test]
async fn what_came_together_is_handed_out_together_up_to_a_limit() {
    let broker = Broker::start();
    let client = broker.client().await;
    let mut subscriber = client.subscribe(Subscribe::to(["sensor"])).await.unwrap();
    let messages = (1..=100).map(|number| NewMessage::new("sensor", number.to_string())).collect();
    client.publish_many(messages).await.unwrap();
    let mut numbers = Vec::new();
    while numbers.len() < 100 {
        let batch = tokio::time::timeout(LONG, subscriber.next_batch(7)).await.unwrap().unwrap().unwrap();
        assert!((1..=7).contains(&batch.len()));
        for received in batch {
            let Received::Message { message, .. } = received else { panic!("a message was expected") };
            numbers.push(message.sequence);
        }
    }
    assert_eq!(numbers, (1..=100).collect::<Vec<u64>>());
}
