//! Which numbers the messages of durable topics get after the broker was killed.

mod support;

use support::{id, numbers, publish, start, take, until_saved};
use tenure_hub::store::MemoryDisk;
use tenure_hub::topics::{Delivery, Recovery, Resume, Sequence, TopicFilter, TopicSettings, Topics};
use tenure_hub::words::Name;

fn durable() -> TopicSettings {
    TopicSettings { durable: vec![TopicFilter::parse("audit.>").unwrap()], ..TopicSettings::default() }
}

async fn number_of_next(topics: &Topics, topic: &str) -> u64 {
    publish(topics, topic, "x").await.unwrap().sequence.0
}

#[tokio::test]
async fn a_durable_topic_begins_at_1_however_often_the_broker_was_killed_before() {
    let mut disk = MemoryDisk::new();
    for seed in 1..4 {
        let hub = start(&disk, durable());
        let topics = hub.handle().topics();
        assert_eq!(number_of_next(topics, &format!("audit.{seed}")).await, 1);
        assert_eq!(number_of_next(topics, "audit.log").await, seed);
        disk = disk.crash(seed);
    }
}

#[tokio::test]
async fn one_number_for_several_topics_brings_no_gap_of_a_durable_one() {
    let disk = MemoryDisk::new();
    drop(start(&disk, durable()));
    let hub = start(&disk.crash(1), durable());
    let topics = hub.handle().topics();
    for _ in 0..3 {
        publish(topics, "audit.log", "x").await.unwrap();
    }
    publish(topics, "plain", "x").await.unwrap();
    let mut resume = Resume::new(id("reader"), Recovery::Replay);
    resume.filters = [">", "plain"].map(|text| TopicFilter::parse(text).unwrap()).to_vec();
    resume.last_seen_single = Some(Sequence(1));
    let (mut reader, resumed) = topics.resume(&Name::from("default"), &resume).unwrap();
    assert!(resumed.is_unsure, "messages of plain topics may be lost");
    let mut heard = Vec::new();
    while !heard.iter().any(|one| matches!(one, Delivery::ReplayComplete(end) if &*end.topic == "plain")) {
        heard.extend(take(&mut reader).await);
    }
    let gaps = heard.iter().filter_map(|delivery| match delivery {
        Delivery::Gap(gap) => Some(&*gap.topic),
        _ => None,
    });
    assert_eq!(gaps.collect::<Vec<_>>(), ["plain"]);
    assert_eq!(numbers(&heard)[..2], [2, 3]);
}

#[tokio::test]
async fn a_topic_that_has_become_durable_since_a_crash_gives_no_number_twice() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let topics = hub.handle().topics();
    for _ in 0..3 {
        publish(topics, "audit.saved", "x").await.unwrap();
    }
    until_saved(&disk).await;
    let saved = disk.reopen();
    // More than was reserved, and a topic of which the disk knows nothing.
    let mut last = 0;
    for _ in 0..1_000 {
        last = number_of_next(topics, "audit.saved").await;
        publish(topics, "audit.unsaved", "x").await.unwrap();
    }
    let hub = start(&saved, durable());
    let topics = hub.handle().topics();
    let first = number_of_next(topics, "audit.saved").await;
    assert!(first > last, "{first} after {last}");
    // It stays so if the broker is killed before the topic has a message that is on disk.
    let again = saved.crash(1);
    let hub = start(&again, durable());
    let topics = hub.handle().topics();
    assert_eq!(number_of_next(topics, "audit.saved").await, first + 1);
    let number = number_of_next(topics, "audit.unsaved").await;
    assert!(number > 1_000, "{number}");
}
