//! Stories of publishers and subscribers who are all there and keep up.

use std::collections::BTreeMap;

use crate::common::{Stage, id, subscribe};
use tenure_topics::{MessageId, Publish, Sequence, Settings, TopicRefusal};

#[test]
fn numbers_begin_at_one_and_rise_by_one_in_each_topic() {
    let mut stage = Stage::new();
    assert_eq!(stage.say("a", "x").sequence, Sequence(1));
    assert_eq!(stage.say("b", "x").sequence, Sequence(1));
    assert_eq!(stage.say("a", "x").sequence, Sequence(2));
}

#[test]
fn a_subscriber_hears_what_is_published_after_it_came() {
    let mut stage = Stage::new();
    stage.say("a", "before");
    stage.join("eve", &["a"]);
    let published = stage.say("a", "after");
    assert_eq!((published.receivers, published.dropped), (1, 0));
    assert_eq!(stage.hear("eve"), ["live a#2 after"]);
    assert_eq!(stage.hear("eve"), [""; 0]);
}

#[test]
fn wildcards_hear_their_topics_and_each_message_once() {
    let mut stage = Stage::new();
    stage.join("star", &["sensor.*.temp"]);
    stage.join("rest", &["sensor.>"]);
    stage.join("both", &["sensor.>", "sensor.*.temp", "sensor.kitchen.temp"]);
    assert_eq!(stage.say("sensor.kitchen.temp", "21").receivers, 3);
    assert_eq!(stage.say("sensor.kitchen.light", "on").receivers, 2);
    assert_eq!(stage.say("sensor", "?").receivers, 0);
    assert_eq!(stage.hear("star"), ["live sensor.kitchen.temp#1 21"]);
    let all = ["live sensor.kitchen.temp#1 21", "live sensor.kitchen.light#1 on"];
    assert_eq!(stage.hear("rest"), all);
    assert_eq!(stage.hear("both"), all);
}

#[test]
fn a_slash_is_part_of_a_level() {
    let mut stage = Stage::new();
    stage.join("eve", &["*"]);
    stage.say("sensor/temp", "21");
    assert_eq!(stage.hear("eve"), ["live sensor/temp#1 21"]);
}

#[test]
fn a_subscriber_is_woken_once_until_it_has_taken_everything() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.say("a", "1");
    assert_eq!(stage.woken(), [""; 0], "a new subscriber looks by itself");
    stage.hear("eve");
    stage.say("a", "2");
    stage.say("a", "3");
    assert_eq!(stage.woken(), ["eve"]);
    assert_eq!(stage.take("eve", 1).len(), 1);
    stage.say("a", "4");
    assert_eq!(stage.woken(), [""; 0], "there is still something to take");
    stage.hear("eve");
    stage.say("a", "5");
    assert_eq!(stage.woken(), ["eve"]);
}

#[test]
fn after_it_leaves_a_subscriber_is_not_counted_and_its_key_is_no_good() {
    let mut stage = Stage::new();
    let key = stage.join("eve", &["a", "b.>"]);
    stage.leave("eve");
    assert_eq!(stage.say("a", "x").receivers, 0);
    assert_eq!(stage.say("b.c", "x").receivers, 0);
    let again = stage.join("eve", &["a"]);
    assert_ne!(key, again, "the place is the same, the key is not");
    assert_eq!(stage.shard.take(key, 1, stage.now, &mut Vec::new()), Err(TopicRefusal::UnknownSubscription));
    assert_eq!(stage.shard.stats().filters, 1);
}

#[test]
fn a_topic_that_only_had_subscribers_leaves_nothing_behind() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    assert_eq!(stage.topics(), BTreeMap::from([("a".to_owned(), (0, 0)), ("b".to_owned(), (0, 0))]));
    stage.say("b", "x");
    stage.leave("eve");
    assert_eq!(stage.topics(), BTreeMap::from([("b".to_owned(), (1, 1))]));
}

#[test]
fn a_refused_publish_changes_nothing() {
    let settings = Settings { payload_bytes: 4, retained_bytes: 0, ..Settings::default() };
    let mut stage = Stage::with(settings);
    stage.join("eve", &[">"]);
    let publish = |topic, payload: &'static str| Publish::new(topic, MessageId(1), payload);
    let long_text = Publish { source: Some("x".repeat(2000).into()), ..publish("a", "x") };
    let zero = publish("a", "x").ttl(std::time::Duration::ZERO);
    let cases = [
        (publish("a.*", "x"), "topic-name-wildcard"),
        (publish("a", "12345"), "payload-too-long"),
        (publish("a", "x").retained(), "retained-full"),
        (publish("_reply.1", "x"), "topic-name-reserved"),
        (long_text, "text-too-long"),
        (zero, "ttl-zero"),
    ];
    for (publish, code) in cases {
        assert_eq!(stage.publish(publish).unwrap_err().code(), code);
    }
    assert_eq!(stage.hear("eve"), [""; 0]);
    assert_eq!(stage.topics(), BTreeMap::new());
    assert_eq!(stage.shard.stats().published, 0);
}

#[test]
fn a_refused_subscription_changes_nothing() {
    let limits =
        Settings { topics: 2, filters: 3, subscriptions: 2, filters_in_all: 4, ..Settings::default() };
    let mut stage = Stage::with(limits);
    stage.join("eve", &["a"]);
    let cases = [
        (subscribe("eve", &["b"]), "subscription-exists"),
        (subscribe("adam", &[]), "subscription-without-topics"),
        (subscribe("adam", &["a", "b", "c", "d"]), "subscription-too-many-topics"),
        (subscribe("adam", &["x.>", "b", "c"]), "too-many-topics"),
    ];
    for (subscribe, code) in cases {
        assert_eq!(stage.subscribe(subscribe).unwrap_err().code(), code);
    }
    let stats = stage.shard.stats();
    assert_eq!((stats.subscriptions, stats.filters, stats.topics), (1, 1, 1));
    stage.join("adam", &["x.>", "y.>", "z.>"]);
    assert_eq!(stage.subscribe(subscribe("abel", &["a"])).unwrap_err().code(), "too-many-subscriptions");
    assert_eq!(stage.shard.find(&id("abel")), None);
}

#[test]
fn listings_come_in_pages_and_hold_everything_once() {
    let mut stage = Stage::new();
    stage.join("eve", &["a.*"]);
    for number in 0..25 {
        stage.say(&format!("a.{number}"), "x");
        stage.join(&format!("s{number}"), &[&format!("a.{number}")]);
    }
    let (mut names, mut from) = (Vec::new(), Some(0));
    while let Some(start) = from {
        let page = stage.shard.topics(start, 10, None, stage.now);
        assert!(page.items.iter().all(|topic| topic.subscribers == 2 && topic.kept == 1));
        names.extend(page.items.iter().map(|topic| topic.name.to_string()));
        from = page.next;
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 25);
    let page = stage.shard.subscriptions(20, 10, stage.now);
    assert_eq!((page.items.len(), page.next), (6, None));
}
