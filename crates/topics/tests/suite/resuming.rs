//! Stories of subscribers who were away.

use crate::common::{Stage, filters, id, last_seen, spell};
use tenure_topics::{Recovery, Resume, Sequence, Settings, TopicFilter, TopicRefusal};

fn replay(name: &str) -> Resume {
    Resume::new(id(name), Recovery::Replay)
}

#[test]
fn what_was_missed_is_replayed_in_order_and_then_it_is_live_again() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    stage.say("a", "1");
    assert_eq!(stage.hear("eve"), ["live a#1 1"]);
    stage.pause("eve");
    stage.say_all("a", "2 3");
    let resumed = stage.resume(&replay("eve")).unwrap();
    assert_eq!((resumed.missed, resumed.lost, resumed.replay_started), (Some(2), 0, true));
    assert!(!resumed.has_losses() && !resumed.created && !resumed.took_over);
    assert_eq!(stage.shard.next_deadline(), None, "no subscriber is waited for any more");
    stage.say("a", "4");
    let expected =
        ["replay a#2 2", "replay a#3 3", "replayed 2 of a up to 3", "replayed 0 of b up to 0", "live a#4 4"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn what_waited_in_the_queue_when_the_stream_broke_is_replayed_too() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.say_all("a", "1 2 3");
    let unsent = stage.take("eve", 2);
    let key = stage.key("eve");
    // The first one reached the subscriber, the second one did not.
    stage.shard.pause(key, &unsent[1..], stage.now, &mut stage.wake).unwrap();
    stage.resume(&replay("eve")).unwrap();
    assert_eq!(stage.hear("eve"), ["replay a#2 2", "replay a#3 3", "replayed 2 of a up to 3"]);
    assert_eq!(stage.stats("eve").dropped.disconnect, 2);
}

#[test]
fn when_the_ring_does_not_reach_back_the_gap_is_named_exactly() {
    let mut stage = Stage::with(Settings { ring_messages: 2, ..Settings::default() });
    stage.join("eve", &["a"]);
    stage.say("a", "1");
    stage.hear("eve");
    stage.pause("eve");
    stage.say_all("a", "2 3 4 5");
    let resumed = stage.resume(&replay("eve")).unwrap();
    assert_eq!((resumed.missed, resumed.lost), (Some(4), 2));
    let expected = ["gap a#2-3 kept 4", "replay a#4 4", "replay a#5 5", "replayed 2 of a up to 5"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn a_ring_that_moves_on_during_the_replay_leaves_a_gap_that_is_named() {
    let mut stage = Stage::with(Settings { ring_messages: 3, ..Settings::default() });
    stage.join("eve", &["a"]);
    stage.pause("eve");
    stage.say_all("a", "1 2 3");
    stage.resume(&replay("eve")).unwrap();
    assert_eq!(spell(&stage.take("eve", 1)[0]), "replay a#1 1");
    stage.say_all("a", "4 5");
    let expected =
        ["gap a#2-2 kept 3", "replay a#3 3", "replayed 2 of a up to 3", "live a#4 4", "live a#5 5"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn when_nothing_is_kept_the_whole_range_is_a_gap() {
    let mut stage = Stage::with(Settings { ring_messages: 0, ..Settings::default() });
    stage.join("eve", &["a"]);
    stage.pause("eve");
    stage.say_all("a", "1 2");
    stage.resume(&replay("eve")).unwrap();
    assert_eq!(stage.hear("eve"), ["gap a#1-2 kept 3", "replayed 0 of a up to 2"]);
}

#[test]
fn without_recovery_it_goes_on_live_and_learns_how_much_it_missed() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.pause("eve");
    stage.say_all("a", "1 2");
    let resumed = stage.resume(&Resume::new(id("eve"), Recovery::None)).unwrap();
    assert_eq!((resumed.missed, resumed.replay_started), (Some(2), false));
    stage.say("a", "3");
    assert_eq!(stage.hear("eve"), ["live a#3 3"]);
}

#[test]
fn retained_only_brings_the_last_known_value() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b.*"]);
    stage.pause("eve");
    for (topic, payload) in [("a", "1"), ("a", "2"), ("b.c", "3")] {
        let publish = tenure_topics::Publish::new(topic, tenure_topics::MessageId(0), payload).retained();
        stage.publish(publish).unwrap();
    }
    stage.say("a", "not retained");
    stage.resume(&Resume::new(id("eve"), Recovery::RetainedOnly)).unwrap();
    assert_eq!(stage.hear("eve"), ["retained a#2 2", "retained b.c#1 3"]);
}

#[test]
fn a_retained_value_that_is_replayed_does_not_come_twice() {
    let mut stage = Stage::with(Settings { ring_messages: 2, ..Settings::default() });
    stage.join("eve", &["a", "b", "c.*"]);
    stage.pause("eve");
    for topic in ["a", "b", "c.d"] {
        let publish = tenure_topics::Publish::new(topic, tenure_topics::MessageId(0), "r").retained();
        stage.publish(publish).unwrap();
    }
    stage.say_all("a", "2 3");
    let resume = Resume { retained: true, ..replay("eve") };
    stage.resume(&resume).unwrap();
    let expected = [
        "retained a#1 r",
        "gap a#1-1 kept 2",
        "replay a#2 2",
        "replay a#3 3",
        "replayed 2 of a up to 3",
        "replay b#1 r",
        "replayed 1 of b up to 1",
        "replay c.d#1 r",
        "replayed 1 of c.d up to 1",
    ];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn the_position_the_client_names_counts_more_than_what_the_broker_remembers() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    stage.say_all("a", "1 2 3");
    stage.say("b", "1");
    stage.hear("eve");
    stage.pause("eve");
    stage.say("b", "2");
    let resume = Resume { last_seen: vec![last_seen("a", 1), last_seen("other", 1)], ..replay("eve") };
    let resumed = stage.resume(&resume).unwrap();
    assert_eq!(resumed.missed, Some(3));
    let expected = [
        "replay a#2 2",
        "replay a#3 3",
        "replayed 2 of a up to 3",
        "replay b#2 2",
        "replayed 1 of b up to 2",
    ];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn one_single_number_is_enough_for_one_single_topic() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.say_all("a", "1 2 3");
    stage.hear("eve");
    stage.pause("eve");
    let resume = Resume { last_seen_single: Some(Sequence(2)), ..replay("eve") };
    assert_eq!(stage.resume(&resume).unwrap().missed, Some(1));
    assert_eq!(stage.hear("eve"), ["replay a#3 3", "replayed 1 of a up to 3"]);
}

#[test]
fn one_single_number_for_several_topics_is_not_believed_while_the_broker_remembers() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    stage.say_all("a", "1 2 3");
    stage.hear("eve");
    stage.pause("eve");
    stage.say("b", "1");
    let resume = Resume { last_seen_single: Some(Sequence(3)), ..replay("eve") };
    assert_eq!(stage.resume(&resume).unwrap().missed, Some(1));
    assert_eq!(stage.hear("eve"), ["replayed 0 of a up to 3", "replay b#1 1", "replayed 1 of b up to 1"]);
}

#[test]
fn patterns_remember_what_was_missed_in_each_topic() {
    let mut stage = Stage::new();
    stage.join("eve", &["a.*"]);
    stage.say("a.x", "1");
    stage.say("a.quiet", "1");
    stage.hear("eve");
    stage.pause("eve");
    stage.say("a.x", "2");
    stage.say("a.new", "1");
    stage.say("b", "1");
    let resumed = stage.resume(&replay("eve")).unwrap();
    assert_eq!(resumed.missed, Some(2));
    let expected =
        ["replay a.new#1 1", "replayed 1 of a.new up to 1", "replay a.x#2 2", "replayed 1 of a.x up to 2"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn one_single_number_counts_for_every_topic_that_matches_a_pattern() {
    let mut stage = Stage::with(Settings { ring_messages: 2, ..Settings::default() });
    stage.say_all("a.x", "1 2");
    stage.say_all("a.y", "1 2 3");
    stage.say("b", "1");
    let everything =
        Resume { filters: filters(&["a.*", "c"]), last_seen_single: Some(Sequence(0)), ..replay("eve") };
    let resumed = stage.resume(&everything).unwrap();
    assert_eq!((resumed.missed, resumed.lost, resumed.replay_started), (Some(5), 1, true));
    let expected = [
        "replay a.x#1 1",
        "replay a.x#2 2",
        "replayed 2 of a.x up to 2",
        "gap a.y#1-1 kept 2",
        "replay a.y#2 2",
        "replay a.y#3 3",
        "replayed 2 of a.y up to 3",
        "replayed 0 of c up to 0",
    ];
    assert_eq!(stage.hear("eve"), expected);
    let later = Resume { filters: filters(&["a.*"]), last_seen_single: Some(Sequence(2)), ..replay("adam") };
    assert_eq!(stage.resume(&later).unwrap().missed, Some(1));
    assert_eq!(stage.hear("adam"), ["replay a.y#3 3", "replayed 1 of a.y up to 3"]);
    stage.pause("eve");
    stage.say("a.x", "3");
    stage.resume(&everything).unwrap();
    let expected = ["replay a.x#3 3", "replayed 1 of a.x up to 3", "replayed 0 of c up to 0"];
    assert_eq!(stage.hear("eve"), expected, "what the broker remembers is better than one number");
}

#[test]
fn more_missed_topics_than_fit_make_the_count_unknown() {
    let mut stage = Stage::with(Settings { missed_topics: 2, ..Settings::default() });
    stage.join("eve", &[">"]);
    stage.pause("eve");
    for topic in ["a", "b", "c"] {
        stage.say(topic, "1");
    }
    let resumed = stage.resume(&replay("eve")).unwrap();
    assert_eq!(resumed.missed, None);
    assert!(resumed.has_losses());
}

#[test]
fn an_unknown_subscription_is_created_if_it_says_what_it_wants() {
    let mut stage = Stage::new();
    stage.say_all("a", "1 2 3");
    assert_eq!(stage.resume(&replay("eve")), Err(TopicRefusal::UnknownSubscription));
    let resume = Resume { filters: filters(&["a"]), last_seen: vec![last_seen("a", 1)], ..replay("eve") };
    let resumed = stage.resume(&resume).unwrap();
    assert!(resumed.created);
    assert_eq!(resumed.missed, Some(2));
    assert_eq!(stage.hear("eve"), ["replay a#2 2", "replay a#3 3", "replayed 2 of a up to 3"]);
}

#[test]
fn a_subscription_that_is_not_known_may_have_missed_what_was_published() {
    let mut stage = Stage::new();
    let resume = Resume { filters: filters(&["a", "b.>"]), ..replay("eve") };
    assert_eq!(stage.resume(&resume).unwrap().missed, Some(0), "nothing was ever published");
    stage.say("a", "1");
    for topics in [&["a"][..], &["*"], &["b.>", "a"]] {
        let resume = Resume { filters: filters(topics), ..replay(&topics.concat()) };
        assert_eq!(stage.resume(&resume).unwrap().missed, None, "{topics:?}");
    }
    let resume = Resume { filters: filters(&["c", "b.>"]), ..replay("cain") };
    assert_eq!(stage.resume(&resume).unwrap().missed, Some(0), "nothing that it wants");
    let resume =
        Resume { filters: filters(&["a", "b.>"]), last_seen: vec![last_seen("a", 1)], ..replay("adam") };
    assert_eq!(stage.resume(&resume).unwrap().missed, None, "it was here, and nothing is known about b");
}

#[test]
fn a_client_that_is_ahead_of_the_broker_learns_that_the_gap_is_unknown() {
    let mut stage = Stage::new();
    stage.say("a", "1");
    let resume = Resume { filters: filters(&["a"]), last_seen: vec![last_seen("a", 9)], ..replay("eve") };
    assert_eq!(stage.resume(&resume).unwrap().missed, None);
    stage.say("a", "2");
    assert_eq!(stage.hear("eve"), ["replayed 0 of a up to 1", "live a#2 2"]);
    let resume =
        Resume { filters: filters(&["a"]), last_seen: vec![last_seen("a", u64::MAX)], ..replay("adam") };
    assert_eq!(stage.resume(&resume).unwrap().lost, 0);
}

#[test]
fn a_second_stream_takes_the_subscription_over() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.say_all("a", "1 2");
    assert_eq!(stage.take("eve", 1).len(), 1);
    let resumed = stage.resume(&replay("eve")).unwrap();
    assert!(resumed.took_over);
    assert_eq!(stage.hear("eve"), ["replay a#2 2", "replayed 1 of a up to 2"]);
}

#[test]
fn a_stream_that_breaks_during_its_replay_goes_on_where_it_was() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.pause("eve");
    stage.say_all("a", "1 2 3");
    stage.resume(&replay("eve")).unwrap();
    assert_eq!(stage.take("eve", 1).len(), 1);
    stage.say("a", "4");
    stage.pause("eve");
    stage.resume(&replay("eve")).unwrap();
    let expected = ["replay a#2 2", "replay a#3 3", "replay a#4 4", "replayed 3 of a up to 4"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn other_topics_may_be_named_when_coming_back() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    stage.pause("eve");
    for topic in ["a", "b", "c"] {
        stage.say(topic, "1");
    }
    let resume = Resume { filters: filters(&["b", "c"]), ..replay("eve") };
    let resumed = stage.resume(&resume).unwrap();
    assert_eq!(resumed.filters.iter().map(TopicFilter::as_str).collect::<Vec<_>>(), ["b", "c"]);
    stage.say("a", "2");
    stage.say("c", "2");
    let expected = ["replay b#1 1", "replayed 1 of b up to 1", "replayed 0 of c up to 1", "live c#2 2"];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn a_paused_subscription_is_kept_for_its_time_and_not_longer() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    let until = stage.pause("eve");
    assert_eq!(until.since(stage.now).as_secs(), 300);
    assert_eq!(stage.shard.next_deadline(), Some(until));
    stage.pass(299_999);
    assert_eq!(stage.reap().ended, []);
    assert_eq!(stage.pause("eve"), until, "pausing again does not make it longer");
    stage.pass(1);
    assert_eq!(stage.reap().ended, [id("eve")]);
    assert_eq!(stage.resume(&replay("eve")), Err(TopicRefusal::UnknownSubscription));
    assert_eq!(stage.shard.next_deadline(), None);
}

#[test]
fn a_paused_subscription_cannot_be_taken_from() {
    let mut stage = Stage::new();
    let key = stage.join("eve", &["a"]);
    stage.pause("eve");
    assert_eq!(stage.shard.take(key, 1, stage.now, &mut Vec::new()), Err(TopicRefusal::SubscriptionPaused));
    assert_eq!(stage.say("a", "1").receivers, 0);
}

#[test]
fn subscribing_with_the_id_of_a_paused_subscription_begins_again() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    stage.pause("eve");
    stage.say("a", "missed");
    let mut again = crate::common::subscribe("eve", &["a", "c.*"]);
    again.queue_limit = Some(3);
    again.group = Some("g".into());
    stage.subscribe(again).unwrap();
    stage.say("a", "2");
    stage.say("b", "no longer");
    stage.say("c.x", "1");
    assert_eq!(stage.hear("eve"), ["live a#2 2", "live c.x#1 1"]);
    assert_eq!((stage.stats("eve").limit, stage.shard.stats().paused), (3, 0));
    assert_eq!(stage.shard.stats().filters, 2);
    assert_eq!(stage.shard.next_deadline(), None);
    let taken = stage.subscribe(crate::common::subscribe("eve", &["a"])).unwrap_err();
    assert_eq!(taken, TopicRefusal::SubscriptionExists, "a stream has it");
    stage.pause("eve");
    let refused = stage.subscribe(crate::common::subscribe("eve", &[])).unwrap_err();
    assert_eq!(refused, TopicRefusal::NoFilters);
    stage.say("c.x", "2");
    stage.resume(&replay("eve")).unwrap();
    assert_eq!(
        stage.hear("eve"),
        Vec::<String>::new(),
        "a refusal changes nothing: it is a member of a group"
    );
}
