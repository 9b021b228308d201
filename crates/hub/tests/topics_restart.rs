//! Topics across stops, kills and power failures: numbers never go back, retained values and subscriptions are there,
//! durable messages come again.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{TIMEOUT, id, numbers, publish, start, subscribe, take, until_saved};
use tenure_hub::store::{MemoryDisk, RealDisk, StoreError, StoreSettings};
use tenure_hub::topics::{
    Delivery, DeliveryKind, Publish, Recovery, Resume, Sequence, Subscribe, TopicFilter, TopicRefusal,
    TopicSettings, fresh_message_id,
};
use tenure_hub::words::{Name, Settings};
use tenure_hub::{Hub, Keys};

fn default() -> Name {
    Name::from("default")
}

fn durable(patterns: &[&str]) -> TopicSettings {
    TopicSettings {
        durable: patterns.iter().map(|text| TopicFilter::parse(text).unwrap()).collect(),
        ..TopicSettings::default()
    }
}

async fn stop(hub: Hub) {
    hub.handle().stop();
    tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it stops").unwrap();
}

#[tokio::test]
async fn after_a_clean_stop_everything_goes_on_exactly_where_it_was() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["a", "b.*"]);
    publish(topics, "a", "1").await.unwrap();
    let mut retained = Publish::new("b.c", fresh_message_id(), "last known");
    retained.retain = true;
    topics.publish(&default(), retained).await.unwrap();
    assert_eq!(numbers(&take(&mut reader).await).len(), 2);
    publish(topics, "a", "2").await.unwrap();
    stop(hub).await;
    drop(reader);

    let hub = start(&disk.reopen(), TopicSettings::default());
    let topics = hub.handle().topics();
    let (mut reader, resumed) =
        topics.resume(&default(), &Resume::new(id("reader"), Recovery::Replay)).unwrap();
    assert_eq!(
        (resumed.created, resumed.missed, resumed.lost),
        (false, Some(1), 1),
        "the buffer is gone, its number is known"
    );
    assert!(matches!(&take(&mut reader).await[0], Delivery::Gap(gap) if gap.first_missed == Sequence(2)));
    assert_eq!(publish(topics, "a", "3").await.unwrap().sequence, Sequence(3));
    let mut newcomer = Subscribe::new(id("newcomer"), vec![TopicFilter::parse("b.*").unwrap()]);
    newcomer.retained = true;
    let mut newcomer = topics.subscribe(&default(), newcomer).unwrap().0;
    match &take(&mut newcomer).await[..] {
        [Delivery::Message { kind: DeliveryKind::Retained, message }] => {
            assert_eq!(message.payload, "last known");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(publish(topics, "new", "1").await.unwrap().sequence, Sequence(1));
}

#[tokio::test]
async fn no_number_is_given_twice_however_often_the_power_fails() {
    let mut disk = MemoryDisk::new();
    let mut highest = std::collections::HashMap::new();
    for round in 0..6_u64 {
        let hub = start(&disk, TopicSettings::default());
        let topics = hub.handle().topics();
        for number in 0..20 {
            // Old topics, and one that is born a moment before the end.
            for topic in ["busy".to_owned(), format!("born.{}", round % 2), format!("late.{number}")] {
                let published =
                    topics.publish(&default(), Publish::new(&topic, fresh_message_id(), "x")).await.unwrap();
                let last = highest.insert(topic.clone(), published.sequence);
                assert!(
                    last.is_none_or(|last| last < published.sequence),
                    "{topic} in round {round}: {last:?}"
                );
            }
        }
        let files = tenure_hub::store::Disk::list(&disk).unwrap();
        let bytes: usize =
            files.iter().filter_map(|name| disk.content(name)).map(|content| content.len()).sum();
        assert!(bytes < 20_000, "{bytes} bytes for two dozen topics");
        if round == 3 {
            until_saved(&disk).await;
        }
        disk = disk.crash(round);
    }
}

#[tokio::test]
async fn retained_values_and_subscriptions_survive_a_kill_a_moment_later() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let topics = hub.handle().topics();
    let reader = subscribe(topics, "reader", &["a"]);
    let gone = subscribe(topics, "gone", &["a"]);
    let mut retained = Publish::new("a", fresh_message_id(), "kept");
    retained.retain = true;
    topics.publish(&default(), retained).await.unwrap();
    until_saved(&disk).await;
    topics.unsubscribe("default", &id("gone")).unwrap();
    until_saved(&disk).await;
    let killed = disk.reopen();
    drop((reader, gone));

    let hub = start(&killed, TopicSettings::default());
    let topics = hub.handle().topics();
    let resume = Resume { retained: true, ..Resume::new(id("reader"), Recovery::Replay) };
    let (mut reader, resumed) = topics.resume(&default(), &resume).unwrap();
    assert_eq!(resumed.missed, None, "after a kill the broker does not pretend to know");
    let taken = take(&mut reader).await;
    assert!(
        taken
            .iter()
            .any(|delivery| matches!(delivery, Delivery::Message { kind: DeliveryKind::Retained, .. })),
        "{taken:?}"
    );
    let unknown = topics.resume(&default(), &Resume::new(id("gone"), Recovery::Replay)).map(drop);
    assert_eq!(unknown, Err(TopicRefusal::UnknownSubscription));
}

#[tokio::test]
async fn durable_messages_are_there_after_a_power_failure_with_the_numbers_they_had() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, durable(&["audit.>"]));
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["audit.login"]);
    let publishes = (0..50).map(|_| publish(topics, "audit.login", "x"));
    let mut published: Vec<u64> = Vec::new();
    for publishing in publishes {
        published.push(publishing.await.unwrap().sequence.0);
    }
    assert_eq!(published, (1..=50).collect::<Vec<_>>());
    assert_eq!(numbers(&take(&mut reader).await), published, "a subscriber hears of it when it is on disk");
    let crashed = disk.crash(1);
    drop(reader);

    let hub = start(&crashed, durable(&["audit.>"]));
    let topics = hub.handle().topics();
    let resume = Resume {
        last_seen: vec![(Arc::from("audit.login"), Sequence(20))],
        ..Resume::new(id("reader"), Recovery::Replay)
    };
    let (mut reader, resumed) = topics.resume(&default(), &resume).unwrap();
    assert_eq!((resumed.missed, resumed.lost), (Some(30), 0));
    assert_eq!(numbers(&take(&mut reader).await), (21..=50).collect::<Vec<_>>());
    assert_eq!(
        publish(topics, "audit.login", "x").await.unwrap().sequence,
        Sequence(51),
        "no number is skipped"
    );
    assert_eq!(numbers(&take(&mut reader).await), [51]);
}

#[tokio::test]
async fn what_was_acknowledged_of_a_durable_topic_survives_every_moment_of_failure() {
    let whole = MemoryDisk::new();
    let changes_of = |disk: MemoryDisk| async move {
        let hub = Hub::start_with_topics(
            Arc::new(disk.clone()),
            StoreSettings::default(),
            Settings::default(),
            durable(&["a"]),
            Keys::default(),
        );
        let Ok(hub) = hub else { return 0 };
        let mut last = 0;
        for _ in 0..4 {
            match publish(hub.handle().topics(), "a", "x").await {
                Ok(published) => last = published.sequence.0,
                Err(_) => break,
            }
        }
        last
    };
    assert_eq!(changes_of(whole.clone()).await, 4);
    for cut in 0..whole.changes() {
        let disk = MemoryDisk::new();
        disk.fail_power_after(cut);
        let acknowledged = changes_of(disk.clone()).await;
        let hub = start(&disk.crash(cut), durable(&["a"]));
        let topics = hub.handle().topics();
        let resume = Resume {
            filters: vec![TopicFilter::parse("a").unwrap()],
            last_seen: vec![(Arc::from("a"), Sequence(0))],
            ..Resume::new(id("reader"), Recovery::Replay)
        };
        let (mut reader, _) = topics.resume(&default(), &resume).unwrap();
        let mut found = Vec::new();
        reader.try_take(100, 100_000, &mut found).unwrap();
        let found = numbers(&found);
        assert!(found.len() as u64 >= acknowledged, "after {cut}: {found:?}, acknowledged {acknowledged}");
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "after {cut}");
        let next = publish(topics, "a", "x").await.unwrap().sequence.0;
        // A topic that is not on disk is new, and new ones begin above the floor after a crash.
        assert!(next == found.len() as u64 + 1 || found.is_empty(), "after {cut}: {next}");
    }
}

#[tokio::test]
async fn many_publishers_of_a_durable_topic_share_a_sync() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, durable(&["a"]));
    let topics = hub.handle().topics();
    publish(topics, "a", "x").await.unwrap();
    let before = disk.changes();
    let messages = (0..1_000).map(|_| Publish::new("a", fresh_message_id(), "x")).collect();
    for receipt in topics.publish_many(&default(), messages) {
        receipt.unwrap().settled().await.unwrap();
    }
    assert!(
        disk.changes() - before < 200,
        "{} changes of the disk for 1000 messages",
        disk.changes() - before
    );
}

#[tokio::test]
async fn a_full_disk_refuses_durable_messages_and_nothing_else() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, durable(&["audit"]));
    let topics = hub.handle().topics();
    publish(topics, "audit", "1").await.unwrap();
    disk.limit_capacity(Some(0));
    assert_eq!(publish(topics, "audit", "2").await, Err(TopicRefusal::NotWritten));
    assert_eq!(publish(topics, "other", "1").await.unwrap().sequence, Sequence(1));
    disk.limit_capacity(None);
    assert_eq!(publish(topics, "audit", "2").await.unwrap().sequence, Sequence(2));
}

#[tokio::test]
async fn publishing_stops_before_numbers_run_ahead_of_the_disk_and_goes_on_with_it() {
    let disk = MemoryDisk::new();
    let mut settings = TopicSettings::default();
    settings.topics.sequence_block = 5_000;
    let hub = start(&disk, settings.clone());
    let topics = hub.handle().topics();
    disk.limit_capacity(Some(0));
    let mut published = 0;
    'full: loop {
        let messages = (0..1_000).map(|_| Publish::new("a", fresh_message_id(), "x")).collect();
        for receipt in topics.publish_many(&default(), messages) {
            match receipt {
                Ok(_) => published += 1,
                Err(refusal) => {
                    assert_eq!(refusal, TopicRefusal::NotWritten);
                    break 'full;
                }
            }
        }
        assert!(published < 20_000, "nothing stops it");
    }
    assert!(published > 4_000, "a block of numbers can be used: {published}");
    disk.limit_capacity(None);
    assert_eq!(publish(topics, "a", "x").await.unwrap().sequence, Sequence(published + 1));
    let hub = start(&disk.crash(1), settings);
    let after = publish(hub.handle().topics(), "a", "x").await.unwrap().sequence;
    assert!(after > Sequence(published + 1), "{after:?} after {published}");
}

#[tokio::test]
async fn a_damaged_log_of_topics_is_reported_by_name() {
    let disk = MemoryDisk::new();
    stop(start(&disk, TopicSettings::default())).await;
    let names = tenure_hub::store::Disk::list(&disk).unwrap();
    let name = names.iter().find(|name| name.starts_with("topics-")).expect("there is a log");
    let damaged = disk.reopen();
    damaged.flip(name, 60, 1);
    let started =
        Hub::start(Arc::new(damaged), StoreSettings::default(), Settings::default(), Keys::default());
    let error = started.expect_err("it does not start").to_string();
    assert!(error.contains(name.as_str()), "{error}");
}

#[tokio::test]
async fn real_files_bring_topics_back() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let hub = loop {
            let disk = Arc::new(RealDisk::new(dir.path()).unwrap());
            let (store, engine) = (StoreSettings::default(), Settings::default());
            match Hub::start_with_topics(disk, store, engine, durable(&["audit"]), Keys::default()) {
                // The threads of the one before give the directory back when they end.
                Err(StoreError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                started => break started.unwrap(),
            }
        };
        for topic in ["audit", "plain"] {
            assert_eq!(publish(hub.handle().topics(), topic, "x").await.unwrap().sequence, Sequence(round));
        }
        assert_eq!(hub.handle().topics().topic("default", "audit").unwrap().kept, round as usize);
        stop(hub).await;
    }
}
