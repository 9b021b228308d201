//! Stories of last known values, and of messages whose time is over.

use std::time::Duration;

use crate::common::{Stage, filters, id, subscribe};
use tenure_topics::{
    MESSAGE_OVERHEAD_BYTES, MessageId, Publish, Recovery, Resume, Settings, Subscribe, Timestamp, Ttl,
};

fn retained<'a>(topic: &'a str, payload: &'static str) -> Publish<'a> {
    Publish::new(topic, MessageId(0), payload).retained()
}

fn short_lived<'a>(topic: &'a str, payload: &'static str, millis: u64) -> Publish<'a> {
    Publish::new(topic, MessageId(0), payload).ttl(Duration::from_millis(millis))
}

fn wants_retained(name: &str, topics: &[&str]) -> Subscribe {
    Subscribe { retained: true, ..subscribe(name, topics) }
}

#[test]
fn a_new_subscriber_begins_with_the_last_known_values_if_it_asks() {
    let mut stage = Stage::new();
    stage.publish(retained("a", "old")).unwrap();
    stage.publish(retained("a", "new")).unwrap();
    stage.say("a", "passing");
    stage.subscribe(wants_retained("eve", &["a"])).unwrap();
    stage.join("adam", &["a"]);
    stage.say("a", "live");
    assert_eq!(stage.hear("eve"), ["retained a#2 new", "live a#4 live"]);
    assert_eq!(stage.hear("adam"), ["live a#4 live"]);
}

#[test]
fn patterns_find_retained_values_in_order_of_their_names_and_each_once() {
    let mut stage = Stage::new();
    for topic in ["b.2", "a", "b.1", "b.1.x", "c.1"] {
        stage.publish(retained(topic, "r")).unwrap();
    }
    stage.subscribe(wants_retained("eve", &["b.*", "b.1", "b.>", "*.1"])).unwrap();
    let expected = ["retained b.1#1 r", "retained b.2#1 r", "retained b.1.x#1 r", "retained c.1#1 r"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn a_value_retained_while_the_pattern_is_looked_up_comes_once() {
    let mut stage = Stage::new();
    for number in 0..20 {
        stage.publish(retained(&format!("t.{number:02}"), "r")).unwrap();
    }
    stage.subscribe(wants_retained("eve", &["t.*"])).unwrap();
    assert_eq!(stage.take("eve", 3).len(), 3);
    stage.publish(retained("t.10", "newer")).unwrap();
    let heard = stage.hear("eve");
    assert_eq!(heard.iter().filter(|line| line.contains("t.10")).collect::<Vec<_>>(), ["live t.10#2 newer"]);
    assert_eq!(heard.len(), 17);
}

#[test]
fn very_many_retained_values_are_looked_up_a_slice_at_a_time() {
    let mut stage = Stage::new();
    for number in 0..12_000 {
        stage.publish(retained(&format!("t.{number}.x"), "r")).unwrap();
    }
    stage.publish(retained("t.z.y", "needle")).unwrap();
    let key = stage.subscribe(wants_retained("eve", &["t.*.y"])).unwrap();
    let mut out = Vec::new();
    let taken = stage.shard.take(key, 10, stage.now, &mut out).unwrap();
    assert_eq!((taken.count, taken.more), (0, true), "one take does not look at all of them");
    assert_eq!(stage.hear("eve"), ["retained t.z.y#1 needle"]);
}

#[test]
fn an_empty_payload_clears_the_retained_value_and_is_delivered() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.publish(retained("a", "value")).unwrap();
    stage.publish(retained("a", "")).unwrap();
    assert_eq!(stage.hear("eve"), ["live a#1 value", "live a#2 "]);
    stage.subscribe(wants_retained("adam", &["a"])).unwrap();
    assert_eq!(stage.hear("adam"), [""; 0]);
    let stats = stage.shard.stats();
    assert_eq!((stats.retained_messages, stats.retained_bytes), (0, 0));
}

#[test]
fn retained_values_have_a_limit_but_a_value_may_be_replaced() {
    let settings = Settings { retained_bytes: MESSAGE_OVERHEAD_BYTES + 4, ..Settings::default() };
    let mut stage = Stage::with(settings);
    stage.publish(retained("a", "1234")).unwrap();
    assert_eq!(stage.publish(retained("b", "1")).unwrap_err().code(), "retained-full");
    stage.publish(retained("a", "4321")).unwrap();
    assert_eq!(stage.shard.stats().retained_messages, 1);
}

#[test]
fn an_expired_message_is_neither_delivered_nor_replayed_nor_retained() {
    let mut stage = Stage::new();
    stage.join("live", &["a"]);
    stage.join("away", &["a"]);
    stage.pause("away");
    stage.publish(short_lived("a", "gone", 100).retained()).unwrap();
    stage.say("a", "stays");
    stage.pass(100);
    assert_eq!(stage.hear("live"), ["live a#2 stays"]);
    assert_eq!(stage.stats("live").dropped.ttl, 1);
    stage.subscribe(wants_retained("new", &["a"])).unwrap();
    assert_eq!(stage.hear("new"), [""; 0]);
    stage.resume(&Resume::new(id("away"), Recovery::Replay)).unwrap();
    assert_eq!(stage.hear("away"), ["replay a#2 stays", "replayed 1 of a up to 2"], "an expiry is no loss");
    let later = stage.hear("live");
    assert_eq!(later, ["warning expired dropped 0 expired 1"]);
}

#[test]
fn the_reaper_frees_what_expired_everywhere() {
    let mut stage = Stage::new();
    stage.join("slow", &["a"]);
    stage.publish(short_lived("a", "1", 100).retained()).unwrap();
    stage.say("a", "2");
    stage.publish(short_lived("a", "3", 5000)).unwrap();
    stage.pass(2000);
    assert!(stage.shard.next_deadline().unwrap() <= stage.now);
    assert_eq!(stage.reap().expired, 3, "in the ring, retained, and in the queue");
    let stats = stage.shard.stats();
    assert_eq!((stats.kept_messages, stats.retained_messages), (2, 0));
    assert_eq!(stage.stats("slow").depth, 2);
    assert_eq!(stage.shard.next_deadline(), Some(Timestamp(1_005_000)));
    stage.pass(3000);
    assert_eq!(stage.reap().expired, 2);
    assert_eq!(stage.shard.next_deadline(), None);
    assert_eq!(stage.hear("slow"), ["warning expired dropped 0 expired 2", "live a#2 2"]);
}

#[test]
fn the_reaper_is_not_due_more_often_than_its_interval() {
    let mut stage = Stage::new();
    stage.reap();
    stage.publish(short_lived("a", "1", 10)).unwrap();
    assert_eq!(stage.shard.next_deadline(), Some(stage.now.after(Duration::from_secs(1))));
}

#[test]
fn an_expired_topic_is_idle_again_and_remembers_only_its_number() {
    let mut stage = Stage::new();
    stage.publish(short_lived("a", "1", 10)).unwrap();
    stage.pass(1000);
    stage.reap();
    let stats = stage.shard.stats();
    assert_eq!((stats.topics, stats.kept_messages, stats.kept_bytes), (1, 0, 0));
    assert_eq!(stage.say("a", "2").sequence.0, 2);
}

#[test]
fn the_reaper_works_in_pieces() {
    let mut stage = Stage::new();
    for number in 0..25_000 {
        stage.publish(short_lived(&format!("t.{number}"), "x", 10)).unwrap();
    }
    stage.pass(10);
    let mut reaped = stage.reap();
    assert!(reaped.more && reaped.expired < 25_000);
    let mut expired = reaped.expired;
    while reaped.more {
        assert!(stage.shard.next_deadline().unwrap() <= stage.now, "it is due at once");
        reaped = stage.reap();
        expired += reaped.expired;
    }
    assert_eq!((expired, stage.shard.next_deadline()), (25_000, None));
}

#[test]
fn the_message_then_the_rule_then_the_default_say_how_long_it_lives() {
    let rule = (filters(&["fast.>"]).remove(0), Duration::from_millis(10));
    let default_ttl = Some(Duration::from_millis(100));
    let settings = Settings { default_ttl, ttl_rules: vec![rule], ..Settings::default() };
    let heard_after = |wait| {
        let mut stage = Stage::with(settings.clone());
        stage.join("eve", &[">"]);
        stage.publish(short_lived("fast.own", "x", 1000)).unwrap();
        stage.say("fast.rule", "x");
        stage.say("slow.default", "x");
        stage.publish(Publish { ttl: Ttl::Never, ..Publish::new("fast.never", MessageId(0), "x") }).unwrap();
        stage.pass(wait);
        stage.hear("eve")
    };
    let (own, default, never) = ("live fast.own#1 x", "live slow.default#1 x", "live fast.never#1 x");
    assert_eq!(heard_after(9).len(), 4);
    assert_eq!(heard_after(10), [own, default, never]);
    assert_eq!(heard_after(100), [own, never]);
    assert_eq!(heard_after(1000), [never]);
}

#[test]
fn a_blocked_publisher_need_not_wait_for_a_message_that_expired() {
    let mut stage = Stage::with(Settings {
        policy: tenure_topics::Policy::Block,
        queue_messages: 1,
        ..Settings::default()
    });
    stage.join("slow", &["a"]);
    stage.say("a", "1");
    let ticket = stage.publish(short_lived("a", "2", 100)).unwrap().ticket.unwrap();
    stage.pass(100);
    stage.reap();
    assert_eq!(stage.shard.released(), [ticket]);
    assert_eq!(stage.hear("slow"), ["warning expired dropped 0 expired 1", "live a#1 1"]);
}

#[test]
fn room_that_expiry_makes_goes_to_those_who_wait() {
    let mut stage = Stage::with(Settings {
        policy: tenure_topics::Policy::Block,
        queue_messages: 1,
        ..Settings::default()
    });
    stage.join("slow", &["a"]);
    stage.publish(short_lived("a", "1", 100)).unwrap();
    let ticket = stage.say("a", "2").ticket.unwrap();
    stage.pass(1000);
    stage.reap();
    assert_eq!(stage.shard.released(), [ticket]);
    assert_eq!(stage.stats("slow").depth, 1);
    assert_eq!(stage.stats("slow").blocked, Duration::from_secs(1));
}

#[test]
fn a_retained_value_that_expires_before_it_is_taken_does_not_come() {
    let mut stage = Stage::new();
    stage.publish(short_lived("a", "1", 100).retained()).unwrap();
    stage.subscribe(wants_retained("eve", &["a"])).unwrap();
    stage.pass(100);
    assert_eq!(stage.hear("eve"), [""; 0]);
}

#[test]
fn what_expired_during_a_replay_and_is_evicted_afterwards_is_no_loss() {
    let mut stage = Stage::with(Settings { ring_messages: 2, ..Settings::default() });
    stage.join("eve", &["a"]);
    stage.pause("eve");
    stage.say("a", "1");
    stage.publish(short_lived("a", "2", 100)).unwrap();
    stage.pass(100);
    stage.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap();
    assert_eq!(stage.take("eve", 1).len(), 1);
    stage.say_all("a", "3 4");
    assert_eq!(stage.hear("eve"), ["replayed 1 of a up to 2", "live a#3 3", "live a#4 4"]);
}
