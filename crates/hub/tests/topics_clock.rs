//! Times to live, and the life of a paused subscription, when the time of day is set.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::id;
use tenure_hub::topics::{
    Publish, SteppedTopics, Subscribe, TopicFilter, TopicSettings, TopicTime, Ttl, fresh_message_id,
};
use tenure_hub::words::{Name, Settings, Timestamp};
use tenure_store::{MemoryDisk, Opened, Parts, Store, StoreSettings};

const NOON: u64 = 1_700_000_000_000;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

fn open(disk: &MemoryDisk, now: u64) -> SteppedTopics {
    let settings =
        TopicSettings { durable: vec![TopicFilter::parse("log.>").unwrap()], ..Default::default() };
    let Opened { store, .. } =
        Store::open(Arc::new(disk.clone()), StoreSettings::default(), Settings::default(), Timestamp(now))
            .unwrap();
    let Parts { reader, .. } = store.split();
    SteppedTopics::open(&reader, settings, TopicTime(now)).unwrap()
}

fn publish(broker: &SteppedTopics, topic: &str) {
    let mut message = Publish::new(topic, fresh_message_id(), "x");
    message.ttl = Ttl::After(Duration::from_secs(60));
    message.retain = true;
    drop(broker.topics().publish_now(&default(), message));
}

fn default() -> Name {
    Name::from("default")
}

/// The topics that have a value.
fn retained(broker: &SteppedTopics) -> Vec<String> {
    broker.tick();
    let listed = broker.topics().topics("default", 0, 100, None).items;
    let named = listed.into_iter().filter(|topic| topic.retained).map(|topic| topic.name.to_string());
    let mut names: Vec<String> = named.collect();
    names.sort();
    names
}

fn is_paused(broker: &SteppedTopics) -> bool {
    broker.tick();
    broker.topics().subscription("default", &id("s")).is_some()
}

#[test]
fn a_clock_that_is_set_forward_ends_nothing_early_and_one_that_is_set_back_nothing_late() {
    for ahead in [HOUR.cast_signed(), -HOUR.cast_signed()] {
        let disk = MemoryDisk::new();
        let mut broker = open(&disk, NOON);
        let filters = vec![TopicFilter::parse("news").unwrap()];
        let reader = broker.topics().subscribe(&default(), Subscribe::new(id("s"), filters)).unwrap().0;
        publish(&broker, "news");
        broker.save().unwrap();
        drop(reader);
        assert!(is_paused(&broker));
        broker.set_wall_ahead(ahead);
        publish(&broker, "later");
        broker.set_time(TopicTime(NOON + 59 * SECOND));
        assert_eq!(retained(&broker), ["later", "news"], "{ahead}: a minute has not passed");
        broker.set_time(TopicTime(NOON + 61 * SECOND));
        assert!(retained(&broker).is_empty(), "{ahead}: a minute has passed");
        broker.set_time(TopicTime(NOON + 299 * SECOND));
        assert!(is_paused(&broker), "{ahead}: five minutes have not passed");
        let shown = broker.topics().subscription("default", &id("s")).unwrap().paused_until.unwrap();
        assert_eq!(
            shown,
            TopicTime((NOON + 300 * SECOND).saturating_add_signed(ahead)),
            "people read the time of day"
        );
        broker.set_time(TopicTime(NOON + 301 * SECOND));
        assert!(!is_paused(&broker), "{ahead}: five minutes have passed");
    }
}

#[test]
fn what_is_saved_is_the_time_of_day_so_that_another_process_can_read_it() {
    for topic in ["news", "log.news"] {
        for ahead in [HOUR.cast_signed(), -HOUR.cast_signed()] {
            let disk = MemoryDisk::new();
            let mut broker = open(&disk, NOON);
            broker.set_wall_ahead(ahead);
            publish(&broker, topic);
            broker.save().unwrap();
            broker.stop().unwrap();
            // The clocks of the next process begin with the time of day.
            let now = (NOON + 59 * SECOND).saturating_add_signed(ahead);
            let broker = open(&disk.reopen(), now);
            assert_eq!(retained(&broker), [topic], "{ahead}: a minute has not passed");
            broker.set_time(TopicTime(now + 2 * SECOND));
            assert!(retained(&broker).is_empty(), "{ahead}: a minute has passed");
        }
    }
}
