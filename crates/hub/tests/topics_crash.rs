//! What subscriptions and retained values are after the broker was killed: whatever is on disk is heard, and what is
//! known to be gone is named.

mod support;

use support::test_client::TestClient;
use support::{id, numbers, publish, start, subscribe, take, until_saved};
use tenure_hub::store::MemoryDisk;
use tenure_hub::topics::{
    Delivery, DeliveryKind, Publish, Recovery, Resume, Resumed, Sequence, Subscribe, SubscriptionHandle,
    TopicFilter, TopicSettings, Topics, fresh_message_id,
};
use tenure_hub::words::Name;

fn default() -> Name {
    Name::from("default")
}

fn durable() -> TopicSettings {
    TopicSettings { durable: vec![TopicFilter::parse("audit.>").unwrap()], ..TopicSettings::default() }
}

fn come_back(topics: &Topics, name: &str) -> (SubscriptionHandle, Resumed) {
    topics.resume(&default(), &Resume::new(id(name), Recovery::Replay)).expect("it is known")
}

/// Everything up to the end of the replay of a topic.
async fn replay_of(subscription: &mut SubscriptionHandle, topic: &str) -> Vec<Delivery> {
    let mut heard = Vec::new();
    loop {
        heard.extend(take(subscription).await);
        let is_end =
            |delivery: &Delivery| matches!(delivery, Delivery::ReplayComplete(end) if &*end.topic == topic);
        if heard.iter().any(is_end) {
            return heard;
        }
    }
}

#[tokio::test]
async fn a_subscription_that_was_away_hears_all_of_a_durable_topic_after_a_kill() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, durable());
    let topics = hub.handle().topics();
    for (name, filter) in [("exact", "audit.log"), ("pattern", "audit.*")] {
        let mut reader = subscribe(topics, name, &[filter]);
        publish(topics, "audit.log", "heard").await.unwrap();
        take(&mut reader).await;
    }
    for _ in 0..3 {
        publish(topics, "audit.log", "missed").await.unwrap();
    }
    // Nothing is waited for: what is confirmed is on disk, and so is what came before it.
    let hub = start(&disk.crash(1), durable());
    let topics = hub.handle().topics();
    publish(topics, "audit.log", "later").await.unwrap();
    for (name, missed) in [("exact", vec![2, 3, 4, 5, 6]), ("pattern", vec![3, 4, 5, 6])] {
        let (mut reader, _) = come_back(topics, name);
        assert_eq!(numbers(&replay_of(&mut reader, "audit.log").await), missed, "{name}");
    }
}

#[tokio::test]
async fn a_subscription_that_was_there_hears_what_it_had_not_taken_of_a_durable_topic_after_a_kill() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, durable());
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["audit.log"]);
    for _ in 0..400 {
        publish(topics, "audit.log", "heard").await.unwrap();
        take(&mut reader).await;
    }
    publish(topics, "audit.log", "not taken").await.unwrap();
    publish(topics, "audit.log", "not taken").await.unwrap();
    let hub = start(&disk.crash(1), durable());
    let (mut again, resumed) = come_back(hub.handle().topics(), "reader");
    assert_eq!(resumed.missed, None, "it is not known what it took last");
    let heard = numbers(&replay_of(&mut again, "audit.log").await);
    assert_eq!(heard.last(), Some(&402));
    assert!(heard[0] <= 401, "{heard:?}");
    assert!(heard[0] > 100, "where it stands is written down now and then: {}", heard[0]);
    assert_eq!(heard.len() as u64, 403 - heard[0], "without a hole");
    drop(reader);
}

#[tokio::test]
async fn what_a_subscription_missed_of_another_topic_is_a_gap_after_a_kill() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["plain", "quiet"]);
    publish(topics, "plain", "heard").await.unwrap();
    take(&mut reader).await;
    drop(reader);
    until_saved(&disk).await;
    publish(topics, "plain", "missed").await.unwrap();
    publish(topics, "plain", "missed").await.unwrap();
    until_saved(&disk).await;

    let hub = start(&disk.reopen(), TopicSettings::default());
    let (mut reader, resumed) = come_back(hub.handle().topics(), "reader");
    assert_eq!(resumed.missed, None);
    let heard = replay_of(&mut reader, "quiet").await;
    let gaps: Vec<_> = heard
        .iter()
        .filter_map(|delivery| match delivery {
            Delivery::Gap(gap) => Some((&*gap.topic, gap.first_missed)),
            _ => None,
        })
        .collect();
    // Messages that were published to `quiet` just before the kill would be lost without a trace.
    assert_eq!(gaps, [("plain", Sequence(2)), ("quiet", Sequence(1))]);
}

#[tokio::test]
async fn the_retained_value_of_a_durable_topic_is_the_last_one_that_was_confirmed() {
    async fn retain(topics: &Topics, payload: &'static str) {
        let publish = Publish::new("audit.state", fresh_message_id(), payload).retained();
        topics.publish(&default(), publish).await.unwrap();
    }
    async fn retained(topics: &Topics, name: &str) -> Option<String> {
        let subscribe = Subscribe {
            retained: true,
            ..Subscribe::new(id(name), vec![TopicFilter::parse("audit.state").unwrap()])
        };
        let (mut reader, _) = topics.subscribe(&default(), subscribe).unwrap();
        publish(topics, "audit.state", "an end").await.unwrap();
        match take(&mut reader).await.swap_remove(0) {
            Delivery::Message { kind: DeliveryKind::Retained, message } => {
                Some(String::from_utf8(message.payload.to_vec()).unwrap())
            }
            _ => None,
        }
    }
    let mut disk = MemoryDisk::new();
    let hub = start(&disk, durable());
    retain(hub.handle().topics(), "old").await;
    until_saved(&disk).await;
    retain(hub.handle().topics(), "new").await;
    disk = disk.crash(1);
    let hub = start(&disk, durable());
    assert_eq!(retained(hub.handle().topics(), "one").await.as_deref(), Some("new"));
    retain(hub.handle().topics(), "").await;
    disk = disk.crash(2);
    let hub = start(&disk, durable());
    assert_eq!(retained(hub.handle().topics(), "two").await, None);
}

#[tokio::test]
async fn a_subscription_to_events_that_was_there_goes_on_after_a_kill() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let mut reader = subscribe(hub.handle().topics(), "reader", &["queue.q"]);
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(1).await;
    let heard = numbers(&take(&mut reader).await);
    until_saved(&disk).await;

    let hub = start(&disk.reopen(), TopicSettings::default());
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(2).await;
    let (mut again, resumed) = come_back(hub.handle().topics(), "reader");
    assert!(resumed.replay_started);
    let replayed = numbers(&replay_of(&mut again, "queue.q").await);
    let new: Vec<u64> = replayed.into_iter().filter(|number| number > heard.last().unwrap()).collect();
    assert_eq!(new.len(), 2, "{new:?} after {heard:?}");
    drop(reader);
}

#[tokio::test]
async fn a_replay_of_events_without_a_position_reports_its_end() {
    let hub = start(&MemoryDisk::new(), TopicSettings::default());
    let resume = Resume {
        filters: vec![TopicFilter::parse("queue.q").unwrap(), TopicFilter::parse("task.*").unwrap()],
        ..Resume::new(id("new"), Recovery::Replay)
    };
    let (mut reader, resumed) = hub.handle().topics().resume(&default(), &resume).unwrap();
    assert!(resumed.created && resumed.replay_started);
    let heard = replay_of(&mut reader, "queue.q").await;
    assert_eq!(heard.len(), 1, "{heard:?}");
}
