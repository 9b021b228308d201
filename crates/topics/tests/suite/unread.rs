//! Stories of subscribers whose connection held messages that they never read.

use std::collections::BTreeMap;

use crate::common::{Stage, id, last_seen, spell};
use proptest::prelude::*;
use tenure_topics::{
    Delivery, DeliveryKind, Recovery, Resume, Resumed, Sequence, Settings, ShutdownKind,
    UNCONFIRMED_RANGES_MAX, UNREAD_BYTES_MAX,
};

/// Everything goes into the connection, and nothing is known about what is read from there.
fn send(stage: &mut Stage, name: &str) -> Vec<Delivery> {
    let key = stage.key(name);
    let mut sent = Vec::new();
    while stage.shard.take(key, 100, stage.now, &mut sent).unwrap().more {}
    stage.shard.sent(key, &sent).unwrap();
    sent
}

fn resume(name: &str, last: Option<u64>) -> Resume {
    Resume { last_seen_single: last.map(Sequence), ..Resume::new(id(name), Recovery::Replay) }
}

fn come_back(stage: &mut Stage, last: Option<u64>) -> (Resumed, Vec<String>) {
    stage.pause("eve");
    let resumed = stage.resume(&resume("eve", last)).unwrap();
    let heard = send(stage, "eve").iter().map(spell).collect();
    (resumed, heard)
}

/// a1 b1 a2 b2 a3 b3 are in the connection of eve.
fn three_of_each(topics: &[&str]) -> Stage {
    let mut stage = Stage::new();
    stage.join("eve", topics);
    for number in 1..=3 {
        for topic in ["x.a", "x.b"] {
            stage.say(topic, &number.to_string());
        }
    }
    send(&mut stage, "eve");
    stage
}

#[test]
fn one_number_for_several_topics_is_found_in_what_was_sent() {
    for topics in [&["x.a", "x.b"][..], &["x.*"], &[">", "x.a"]] {
        let mut stage = three_of_each(topics);
        let (resumed, heard) = come_back(&mut stage, Some(2));
        assert_eq!((resumed.missed, resumed.has_losses()), (None, false), "it may have read b2, or not");
        let expected = [
            "replay x.a#3 3",
            "replayed 1 of x.a up to 3",
            "replay x.b#2 2",
            "replay x.b#3 3",
            "replayed 2 of x.b up to 3",
        ];
        assert_eq!(heard, expected, "{topics:?}");
    }
}

#[test]
fn a_number_that_was_sent_once_is_the_exact_place() {
    let mut stage = three_of_each(&["x.*"]);
    stage.say("x.a", "4");
    stage.say("x.b", "4");
    stage.say("x.a", "5");
    send(&mut stage, "eve");
    stage.pause("eve");
    stage.say("x.a", "6");
    let resumed = stage.resume(&resume("eve", Some(5))).unwrap();
    assert_eq!((resumed.missed, resumed.lost, resumed.is_unsure), (Some(1), 0, false));
    assert_eq!(send(&mut stage, "eve").iter().map(spell).collect::<Vec<_>>()[0], "replay x.a#6 6");
}

#[test]
fn a_subscriber_that_reads_nothing_after_resuming_sends_the_same_number_again() {
    let mut stage = three_of_each(&["x.*"]);
    let first = come_back(&mut stage, Some(2)).1;
    assert_eq!(come_back(&mut stage, Some(2)).1, first);
}

#[test]
fn a_subscriber_without_a_number_gets_everything_that_it_may_not_have_read() {
    for topics in [&["x.a", "x.b"][..], &["x.*"]] {
        let mut stage = three_of_each(topics);
        let (resumed, heard) = come_back(&mut stage, None);
        assert_eq!((resumed.missed, resumed.is_unsure), (None, false), "all of it is kept");
        assert_eq!(heard.iter().filter(|line| line.starts_with("replay ")).count(), 6);
    }
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.say_all("a", "1 2 3");
    send(&mut stage, "eve");
    assert_eq!(come_back(&mut stage, None).1.len(), 4, "one name is no exception");
    let (resumed, heard) = come_back(&mut stage, Some(3));
    assert_eq!((resumed.missed, heard.len()), (Some(0), 1), "but its number is enough");
}

#[test]
fn what_is_acknowledged_does_not_come_again() {
    let mut stage = three_of_each(&["x.*"]);
    let key = stage.key("eve");
    stage.shard.acknowledge(key, &[last_seen("x.a", 3), last_seen("x.b", 2)]).unwrap();
    let (resumed, heard) = come_back(&mut stage, None);
    assert_eq!(heard, ["replay x.b#3 3", "replayed 1 of x.b up to 3"]);
    assert_eq!(resumed.missed, None, "it may have read the last one");
    stage.shard.acknowledge(key, &[last_seen("x.b", 3)]).unwrap();
    assert_eq!(stage.shard.unconfirmed(key), Ok(0));
    let (resumed, heard) = come_back(&mut stage, None);
    assert_eq!((resumed.missed, heard), (Some(0), Vec::new()));
}

#[test]
fn what_may_not_have_been_read_and_is_not_kept_may_be_lost() {
    let two_kept = || {
        let mut stage = Stage::with(Settings { ring_messages: 2, ..Settings::default() });
        stage.join("eve", &["a", "b"]);
        stage.say_all("a", "1 2 3");
        send(&mut stage, "eve");
        stage
    };
    let (resumed, heard) = come_back(&mut two_kept(), None);
    assert_eq!((resumed.missed, resumed.lost, resumed.is_unsure), (None, 0, true));
    assert_eq!(heard[..2], ["replay a#2 2", "replay a#3 3"]);
    let (resumed, _) = come_back(&mut two_kept(), Some(3));
    assert_eq!((resumed.missed, resumed.is_unsure), (Some(0), false), "it says that it has read everything");
}

#[test]
fn a_number_of_a_last_known_value_is_a_place_too() {
    let mut stage = Stage::new();
    let retained = tenure_topics::Publish::new("x.a", tenure_topics::MessageId(1), "value").retained();
    stage.say_all("x.a", "1 2 3 4 5 6");
    stage.publish(retained).unwrap();
    stage
        .subscribe(tenure_topics::Subscribe { retained: true, ..crate::common::subscribe("eve", &["x.*"]) })
        .unwrap();
    send(&mut stage, "eve");
    stage.say("x.b", "1");
    send(&mut stage, "eve");
    let (resumed, heard) = come_back(&mut stage, Some(7));
    assert_eq!(resumed.missed, Some(1));
    assert_eq!(heard, ["replay x.b#1 1", "replayed 1 of x.b up to 1"]);
}

#[test]
fn the_memory_of_what_was_sent_is_bounded_and_its_end_is_reported() {
    let mut stage = Stage::with(Settings { ring_messages: 1_000_000, ..Settings::default() });
    stage.join("eve", &[">"]);
    let key = stage.key("eve");
    for number in 0..2 * UNCONFIRMED_RANGES_MAX {
        stage.say(&format!("topic.{number}"), "x");
        if number % 1000 == 0 {
            send(&mut stage, "eve");
        }
    }
    send(&mut stage, "eve");
    let ranges = stage.shard.unconfirmed(key).unwrap();
    assert!((UNCONFIRMED_RANGES_MAX / 2..=UNCONFIRMED_RANGES_MAX).contains(&ranges), "{ranges}");
    let (resumed, _) = come_back(&mut stage, Some(1));
    assert!(resumed.is_unsure, "number 1 was sent long ago, too");
}

#[test]
fn what_is_followed_by_more_than_a_connection_holds_was_read() {
    let mut stage = Stage::new();
    stage.join("eve", &["a", "b"]);
    let payload = "x".repeat(1 << 20);
    for number in 1..=100 {
        stage.say("a", &number.to_string());
        stage.say("b", &payload);
        send(&mut stage, "eve");
    }
    let ranges = stage.shard.unconfirmed(stage.key("eve")).unwrap();
    assert!(ranges as u64 <= 2 * (UNREAD_BYTES_MAX >> 20) + 600, "{ranges}");
    let (resumed, heard) = come_back(&mut stage, None);
    assert!(!resumed.is_unsure);
    assert!(heard.iter().any(|line| line.starts_with("replay a#")));
    assert!(!heard.contains(&"replay a#1 1".to_owned()));
}

#[test]
fn the_order_survives_a_proper_stop_and_the_beginning_survives_a_kill() {
    for (stop, missed) in [(ShutdownKind::Clean, Some(1)), (ShutdownKind::Unclean, None)] {
        let mut stage = stopped(stop);
        let resumed = stage.resume(&resume("eve", Some(4))).unwrap();
        assert_eq!(resumed.missed, missed, "{stop:?}");
        assert_eq!((resumed.restarted, resumed.has_losses()), (true, true), "{stop:?}");
    }
}

/// The broker is started again; x.a#4 was the last one that was sent, and x.b#4 was not.
fn stopped(stop: ShutdownKind) -> Stage {
    let mut before = three_of_each(&["x.*"]);
    before.say("x.a", "4");
    send(&mut before, "eve");
    before.say("x.b", "4");
    let snapshot = before.shard.snapshot(stop, before.now);
    let mut again = Stage::new();
    again.now = before.now;
    again.shard.restore(snapshot, stop, again.now).unwrap();
    again
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever a subscriber does not read of its connection, it gets or learns about when it comes back with the last
    /// number it read, with none, or after an acknowledgement.
    #[test]
    fn nothing_is_lost_without_a_word(
        steps in prop::collection::vec((0..3_usize, 1..400_usize, 0..=10_u8, 0..3_u8), 1..12),
        kept in prop_oneof![Just(5_usize), Just(100_000)],
    ) {
        let topics = ["x.a", "x.b", "x.c"];
        let mut stage = Stage::with(Settings { ring_messages: kept, ..Settings::default() });
        stage.join("eve", &["x.*"]);
        let mut heard: BTreeMap<String, u64> = BTreeMap::new();
        let mut last = None;
        let mut sent = Vec::new();
        for (favourite, messages, read, says) in steps {
            for number in 0..messages {
                let topic = if number % 3 == 0 { topics[number % 2] } else { topics[favourite] };
                stage.say(topic, "x");
            }
            sent.extend(send(&mut stage, "eve"));
            let unread = sent.split_off(sent.len() * usize::from(read) / 10);
            for delivery in &sent {
                hear(&mut heard, &mut last, delivery)?;
            }
            if says == 2 && last.is_some() {
                let key = stage.key("eve");
                let read: Vec<_> = heard.iter().map(|(topic, last)| last_seen(topic, *last)).collect();
                stage.shard.acknowledge(key, &read).unwrap();
            }
            stage.pause("eve");
            let said = if says == 0 { last } else { None };
            let resumed = stage.resume(&resume("eve", said)).unwrap();
            if resumed.is_unsure {
                // The broker reports that messages may be missing, so they may.
                heard.clear();
            }
            // What was in the old connection is gone with it.
            drop(unread);
            sent = Vec::new();
        }
        sent.extend(send(&mut stage, "eve"));
        for delivery in &sent {
            hear(&mut heard, &mut last, delivery)?;
        }
        for (topic, last) in heard {
            prop_assert_eq!(stage.shard.sequence_of(&topic), Some(Sequence(last)));
        }
    }
}

/// Checks that there is no hole before this, and remembers the number as a client does that keeps one.
fn hear(
    heard: &mut BTreeMap<String, u64>,
    last: &mut Option<u64>,
    delivery: &Delivery,
) -> Result<(), TestCaseError> {
    match delivery {
        Delivery::Message { kind: DeliveryKind::Live | DeliveryKind::Replay, message } => {
            let number = message.sequence.0;
            if let Some(before) = heard.get(&*message.topic) {
                prop_assert!(number <= before + 1, "{} {number} after {before}", message.topic);
            }
            let known = heard.entry(message.topic.to_string()).or_insert(number);
            *known = number.max(*known);
            *last = Some(number);
        }
        Delivery::Gap(gap) => {
            if let Some(before) = heard.get_mut(&*gap.topic) {
                prop_assert!(gap.first_missed.0 <= *before + 1, "a gap after a hole: {gap:?}");
                *before = gap.last_missed.0.max(*before);
            }
        }
        Delivery::Message { .. } | Delivery::ReplayComplete(_) | Delivery::Warning(_) => {}
    }
    Ok(())
}
