//! Messages that a connection took and its client never read: they come again, or the subscriber hears of the loss.

mod support;

use std::time::Duration;

use support::{id, numbers, publish, send, start, subscribe, take, until_saved};
use tenure_hub::store::MemoryDisk;
use tenure_hub::topics::{
    Delivery, GapReason, Recovery, Resume, Resumed, Sequence, SubscriptionHandle, TopicFilter, TopicSettings,
    Topics,
};
use tenure_hub::words::Name;

fn durable() -> TopicSettings {
    TopicSettings { durable: vec![TopicFilter::parse("audit.>").unwrap()], ..TopicSettings::default() }
}

fn come_back(topics: &Topics, name: &str, last: Option<u64>) -> (SubscriptionHandle, Resumed) {
    let resume = Resume { last_seen_single: last.map(Sequence), ..Resume::new(id(name), Recovery::Replay) };
    topics.resume(&Name::from("default"), &resume).expect("it is known")
}

/// Everything up to the ends of the replays of these topics.
async fn replays_of(subscription: &mut SubscriptionHandle, topics: usize) -> Vec<Delivery> {
    let mut heard = Vec::new();
    let is_end = |delivery: &&Delivery| matches!(delivery, Delivery::ReplayComplete(_));
    while heard.iter().filter(is_end).count() < topics {
        heard.extend(send(subscription).await);
    }
    heard
}

#[tokio::test]
async fn what_a_connection_held_comes_again_of_durable_topics_even_after_a_kill() {
    for (kills, last) in [(false, Some(3)), (false, None), (true, Some(3)), (true, None)] {
        let disk = MemoryDisk::new();
        let hub = start(&disk, durable());
        let topics = hub.handle().topics();
        let mut reader = subscribe(topics, "reader", &["audit.a", "audit.b"]);
        for _ in 0..300 {
            publish(topics, "audit.a", "x").await.unwrap();
            publish(topics, "audit.b", "x").await.unwrap();
            send(&mut reader).await;
        }
        let again = kills.then(|| start(&disk.crash(7), durable()));
        let hub = again.as_ref().unwrap_or(&hub);
        let (mut back, resumed) = come_back(hub.handle().topics(), "reader", last);
        assert_ne!(resumed.missed, Some(0));
        assert!(!resumed.has_losses(), "all of it is kept");
        let heard = replays_of(&mut back, 2).await;
        let of = |topic: &str| {
            let mine = heard
                .iter()
                .filter(|item| matches!(item, Delivery::Message { message, .. } if &*message.topic == topic));
            numbers(&mine.cloned().collect::<Vec<_>>())
        };
        let first = if kills || last.is_none() { 1 } else { 4 };
        assert_eq!(of("audit.a"), (first..=300).collect::<Vec<_>>(), "killed {kills}, said {last:?}");
        assert_eq!(of("audit.b")[0], if kills || last.is_none() { 1 } else { 3 });
        assert_eq!(of("audit.b").last(), Some(&300));
        drop(reader);
    }
}

#[tokio::test]
async fn where_a_stream_stands_in_a_durable_topic_is_written_within_a_second() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, durable());
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["audit.log"]);
    for _ in 0..5 {
        publish(topics, "audit.log", "x").await.unwrap();
        take(&mut reader).await;
    }
    // Far fewer than are written by their number, so that it takes the time.
    let before = disk.changes();
    let begun = std::time::Instant::now();
    while disk.changes() == before {
        assert!(begun.elapsed() < support::TIMEOUT, "it is never written");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until_saved(&disk).await;
    let hub = start(&disk.crash(1), durable());
    publish(hub.handle().topics(), "audit.log", "later").await.unwrap();
    let (mut back, _) = come_back(hub.handle().topics(), "reader", None);
    assert_eq!(numbers(&replays_of(&mut back, 1).await), [6]);
    drop(reader);
}

#[tokio::test]
async fn after_a_kill_a_live_subscriber_without_a_number_hears_of_the_restart_and_of_the_gap() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let topics = hub.handle().topics();
    publish(topics, "plain", "x").await.unwrap();
    let mut reader = subscribe(topics, "reader", &["plain"]);
    until_saved(&disk).await;
    publish(topics, "plain", "x").await.unwrap();
    send(&mut reader).await;
    let hub = start(&disk.crash(1), TopicSettings::default());
    let topics = hub.handle().topics();
    let next = publish(topics, "plain", "after").await.unwrap().sequence.0;
    let (mut back, resumed) = come_back(topics, "reader", None);
    assert_eq!((resumed.missed, resumed.restarted, resumed.is_unsure), (None, true, true));
    let heard = replays_of(&mut back, 1).await;
    let Delivery::Gap(gap) = &heard[0] else { panic!("{heard:?}") };
    let told = (gap.first_missed, gap.last_missed, gap.reason);
    assert_eq!(told, (Sequence(2), Sequence(next - 1), GapReason::Crashed));
    assert_eq!(numbers(&heard), [next]);
    drop(reader);
}

#[tokio::test]
async fn after_a_kill_a_plain_topic_skips_few_numbers_and_says_that_the_broker_restarted() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["plain"]);
    for _ in 0..5 {
        publish(topics, "plain", "x").await.unwrap();
    }
    take(&mut reader).await;
    until_saved(&disk).await;
    let hub = start(&disk.crash(1), TopicSettings::default());
    let topics = hub.handle().topics();
    let next = publish(topics, "plain", "after").await.unwrap().sequence.0;
    assert!((6..100_000).contains(&next), "{next}");
    let (mut back, resumed) = come_back(topics, "reader", Some(5));
    assert_eq!((resumed.missed, resumed.lost, resumed.restarted, resumed.is_unsure), (None, 0, true, true));
    let heard = replays_of(&mut back, 1).await;
    let Delivery::Gap(gap) = &heard[0] else { panic!("{heard:?}") };
    assert_eq!(
        (gap.first_missed, gap.last_missed, gap.reason),
        (Sequence(6), Sequence(next - 1), GapReason::Crashed)
    );
    assert_eq!(numbers(&heard), [next]);
    drop(reader);
}
