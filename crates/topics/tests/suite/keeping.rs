//! Stories of what is kept, how much of it, and what goes first.

use std::collections::BTreeMap;

use crate::common::{Stage, id, last_seen};
use tenure_topics::{MESSAGE_OVERHEAD_BYTES, Recovery, Resume, Settings, TopicRefusal};

#[test]
fn a_ring_keeps_the_latest_messages_of_its_topic() {
    let mut stage = Stage::with(Settings { ring_messages: 3, ..Settings::default() });
    stage.say_all("a", "1 2 3 4 5");
    stage.say("b", "1");
    let expected = [("a".to_owned(), (5, 3)), ("b".to_owned(), (1, 1))];
    assert_eq!(stage.topics(), BTreeMap::from(expected));
    let info = stage.shard.topic("a", stage.now).unwrap();
    assert_eq!(info.oldest_kept.unwrap().0, 3);
}

#[test]
fn over_the_total_the_oldest_messages_anywhere_go_first() {
    let room_for_four = 4 * (MESSAGE_OVERHEAD_BYTES + 1);
    let mut stage = Stage::with(Settings { ring_bytes: room_for_four, ..Settings::default() });
    stage.say("quiet", "1");
    stage.say_all("busy", "1 2 3");
    assert_eq!(stage.topics()["quiet"], (1, 1));
    stage.say("busy", "4");
    assert_eq!(stage.topics()["quiet"], (1, 0), "its message was the oldest");
    stage.say("new", "1");
    assert_eq!(stage.topics()["busy"], (4, 3));
    let stats = stage.shard.stats();
    assert_eq!((stats.kept_messages, stats.kept_bytes), (4, room_for_four));
    assert_eq!(stage.say("quiet", "2").sequence.0, 2, "counters survive their buffers");
}

#[test]
fn a_message_that_is_larger_than_the_total_is_delivered_but_not_kept() {
    let mut stage = Stage::with(Settings { ring_bytes: 100, ..Settings::default() });
    stage.join("eve", &["a"]);
    stage.say("a", "1");
    assert_eq!(stage.hear("eve"), ["live a#1 1"]);
    assert_eq!(stage.shard.stats().kept_bytes, 0);
}

#[test]
fn a_busy_topic_does_not_pile_up_memory_for_what_it_no_longer_keeps() {
    let mut stage = Stage::with(Settings { ring_messages: 2, ..Settings::default() });
    stage.say("quiet", "1");
    for _ in 0..10_000 {
        stage.say("busy", "x");
    }
    assert_eq!(stage.shard.stats().kept_messages, 3);
    let mut small = Stage::with(Settings { ring_messages: 2, ring_bytes: 1000, ..Settings::default() });
    small.say("quiet", "1");
    for _ in 0..10_000 {
        small.say("busy", "x");
    }
    assert!(small.shard.stats().kept_bytes <= 1000);
}

#[test]
fn over_the_limit_of_topics_an_idle_one_is_forgotten_but_never_its_number() {
    let mut stage = Stage::with(Settings { topics: 3, ring_messages: 0, ..Settings::default() });
    stage.join("eve", &["used"]);
    stage.say_all("old", "1 2 3");
    stage.pass(5000);
    stage.say("young", "1");
    stage.say("new", "1");
    assert_eq!(stage.topics().into_keys().collect::<Vec<_>>(), ["new", "used", "young"]);
    stage.pass(5000);
    stage.say("young", "2");
    assert_eq!(stage.say("old", "4").sequence.0, 4);
    let mut resume = Resume::new(id("adam"), Recovery::Replay);
    resume.filters = crate::common::filters(&["old"]);
    resume.last_seen = vec![last_seen("old", 1)];
    stage.pass(5000);
    stage.say("young", "3");
    assert_eq!(stage.resume(&resume).unwrap().missed, None, "the floor it came back to may be too high");
    assert_eq!(stage.hear("adam"), ["gap old#2-4 kept 5", "replayed 0 of old up to 4"]);
}

#[test]
fn topics_that_were_used_once_make_room_and_subscribers_that_missed_them_learn_it() {
    let mut stage = Stage::with(Settings { topics: 3, ..Settings::default() });
    stage.join("eve", &["t.*"]);
    stage.pause("eve");
    for number in 0..10 {
        stage.say(&format!("t.{number}"), "once");
        stage.pass(1000);
    }
    assert_eq!(stage.topics().into_keys().collect::<Vec<_>>(), ["t.7", "t.8", "t.9"]);
    assert_eq!(stage.shard.stats().kept_messages, 3);
    assert_eq!(stage.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap().missed, None);
    let heard = stage.hear("eve");
    for number in 0..7 {
        assert!(heard.contains(&format!("gap t.{number}#1-1 kept 2")), "{heard:?}");
    }
    for number in 7..10 {
        assert!(heard.contains(&format!("replay t.{number}#1 once")), "{heard:?}");
    }
}

#[test]
fn when_every_topic_is_in_use_a_new_one_is_refused() {
    let by_choice = (tenure_topics::TopicFilter::parse("kept").unwrap(), 10);
    let settings = Settings { topics: 3, ring_rules: vec![by_choice], ..Settings::default() };
    let mut stage = Stage::with(settings);
    stage.join("eve", &["heard"]);
    stage.publish(tenure_topics::Publish::new("known", tenure_topics::MessageId(0), "1").retained()).unwrap();
    stage.say("kept", "1");
    let new = || tenure_topics::Publish::new("new", tenure_topics::MessageId(0), "1");
    assert_eq!(stage.publish(new()).unwrap_err(), TopicRefusal::TooManyTopics { limit: 3 });
    assert_eq!(stage.say("heard", "1").sequence.0, 1);
    stage.leave("eve");
    assert_eq!(stage.publish(new()).unwrap().sequence.0, 1);
}

#[test]
fn a_topic_that_never_comes_back_can_be_forgotten_altogether() {
    let mut stage = Stage::new();
    stage.join("eve", &["task.1"]);
    let value = tenure_topics::Publish::new("task.1", tenure_topics::MessageId(0), "done").retained();
    stage.publish(value.ttl(std::time::Duration::from_secs(9))).unwrap();
    assert_eq!(stage.shard.forget("task.1"), Err(TopicRefusal::TopicInUse));
    stage.leave("eve");
    assert_eq!(stage.shard.forget("task.1"), Ok(()));
    assert_eq!(stage.shard.forget("task.1"), Err(TopicRefusal::UnknownTopic));
    let stats = stage.shard.stats();
    assert_eq!((stats.topics, stats.kept_messages, stats.kept_bytes), (0, 0, 0));
    assert_eq!((stats.retained_messages, stats.retained_bytes), (0, 0));
    assert_eq!(stage.shard.next_deadline(), None);
    assert_eq!(stage.say("task.1", "again").sequence.0, 1);
}
