//! Stories of a broker that stops and comes back.

use std::time::Duration;

use crate::common::{Stage, id, last_seen, subscribe};
use tenure_topics::{
    MessageId, Policy, Publish, Recovery, Resume, Sequence, Settings, ShutdownKind, Snapshot, Subscribe,
    TopicFilter,
};

/// Stops the broker properly and starts it again, an hour later.
fn restart(stage: &Stage) -> Stage {
    let written = serde_json::to_vec(&stage.shard.snapshot(ShutdownKind::Clean, stage.now)).unwrap();
    let read: Snapshot = serde_json::from_slice(&written).unwrap();
    let mut again = Stage::with(stage.shard.settings().clone());
    again.now = stage.now.after(Duration::from_secs(3600));
    again.shard.restore(read, ShutdownKind::Clean, again.now).unwrap();
    again
}

/// Writes down what changed, as a runtime does now and then.
fn save(stage: &mut Stage, disk: &mut Snapshot) {
    loop {
        let changes = stage.shard.changes(2, stage.now);
        assert!(!changes.overflowed);
        disk.topics.retain(|topic| !changes.forgotten.iter().any(|name| **name == *topic.name));
        disk.subscriptions.retain(|one| !changes.ended.contains(&one.id));
        for topic in changes.saved.topics {
            disk.topics.retain(|old| old.name != topic.name);
            disk.topics.push(topic);
        }
        for subscription in changes.saved.subscriptions {
            disk.subscriptions.retain(|old| old.id != subscription.id);
            disk.subscriptions.push(subscription);
        }
        disk.floors.extend(changes.saved.floors);
        if !changes.more {
            return;
        }
    }
}

/// The broker is killed; what was written down is all there is.
fn crash(stage: &Stage, disk: &Snapshot) -> Stage {
    let mut again = Stage::with(stage.shard.settings().clone());
    again.now = stage.now;
    again.shard.restore(disk.clone(), ShutdownKind::Unclean, again.now).unwrap();
    again
}

/// The number that is reserved for a topic with three messages that was saved once.
const RESERVED: u64 = 3 + 64;

#[test]
fn numbers_go_on_where_they_were() {
    let mut stage = Stage::new();
    stage.say_all("a", "1 2 3");
    let mut stage = restart(&stage);
    assert_eq!(stage.say("a", "4").sequence, Sequence(4));
    assert_eq!(stage.say("b", "1").sequence, Sequence(1));
}

#[test]
fn retained_values_are_still_there_unless_they_expired() {
    let mut stage = Stage::new();
    let value = |topic| Publish {
        content_type: Some("text/plain".into()),
        source: Some("me".into()),
        ..Publish::new(topic, MessageId(u128::MAX), "value").retained()
    };
    stage.publish(value("stays")).unwrap();
    stage.publish(value("goes").ttl(Duration::from_secs(60))).unwrap();
    let mut stage = restart(&stage);
    let retained = Subscribe { retained: true, ..subscribe("eve", &[">"]) };
    stage.subscribe(retained).unwrap();
    let taken = stage.take("eve", 10);
    assert_eq!(taken.iter().map(crate::common::spell).collect::<Vec<_>>(), ["retained stays#1 value"]);
    let tenure_topics::Delivery::Message { message, .. } = &taken[0] else { panic!("a message") };
    assert_eq!(
        (message.content_type.as_deref(), message.source.as_deref()),
        (Some("text/plain"), Some("me"))
    );
    assert_eq!(stage.shard.stats().retained_messages, 1);
}

#[test]
fn a_live_subscription_is_paused_after_the_restart_and_knows_what_it_had_not_taken() {
    let mut stage = Stage::new();
    let options = Subscribe {
        client: "client-1".into(),
        queue_limit: Some(5),
        policy: Some(Policy::DropNewest),
        ..subscribe("eve", &["a", "b.*"])
    };
    stage.subscribe(options).unwrap();
    stage.say_all("a", "1 2 3");
    stage.take("eve", 1);
    let mut stage = restart(&stage);
    let info = stage.shard.subscription(stage.key("eve"), stage.now).unwrap();
    assert_eq!(info.paused_until, Some(stage.now.after(Duration::from_secs(300))), "its time begins afresh");
    assert_eq!((&*info.client, info.policy, info.stats.limit), ("client-1", Policy::DropNewest, 5));
    stage.say("a", "4");
    let resumed = stage.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap();
    assert_eq!((resumed.missed, resumed.lost), (Some(3), 2));
    assert_eq!(stage.hear("eve"), ["gap a#2-3 kept 4", "replay a#4 4", "replayed 1 of a up to 4"]);
}

#[test]
fn a_paused_subscription_still_remembers_and_so_does_a_member_of_a_group() {
    let mut stage = Stage::new();
    stage.join("eve", &["a.*"]);
    stage.subscribe(Subscribe { group: Some("g".into()), ..subscribe("ann", &["a.*"]) }).unwrap();
    stage.pause("eve");
    stage.say("a.x", "1");
    let mut stage = restart(&stage);
    let resumed = stage.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap();
    assert_eq!(resumed.missed, Some(1));
    assert_eq!(stage.hear("eve"), ["gap a.x#1-1 kept 2", "replayed 0 of a.x up to 1"]);
    stage.resume(&Resume::new(id("ann"), Recovery::None)).unwrap();
    stage.subscribe(Subscribe { group: Some("g".into()), ..subscribe("bob", &["a.*"]) }).unwrap();
    assert_eq!(stage.say("a.y", "1").receivers, 2, "eve, and one of the group");
}

#[test]
fn forgotten_topics_keep_their_floor_across_a_restart() {
    let mut stage = Stage::with(Settings { topics: 1, ring_messages: 0, ..Settings::default() });
    stage.say_all("a", "1 2 3");
    stage.say("b", "1");
    let mut stage = restart(&stage);
    assert_eq!(stage.say("a", "4").sequence, Sequence(4));
}

#[test]
fn no_number_is_given_twice_even_if_the_broker_is_killed() {
    // How many messages a runtime publishes at most before what changed is written.
    const ALLOWANCE: u64 = 1_000;
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    let mut highest = 0;
    for round in 1..50 {
        for _ in 0..ALLOWANCE / 3 {
            let number = stage.say("a", "x").sequence.0;
            assert!(number > highest, "{number} after {highest}");
            highest = number;
        }
        save(&mut stage, &mut disk);
        if round % 7 == 0 {
            for _ in 0..round {
                highest = stage.say("a", "unsaved").sequence.0;
            }
            let mut known = disk.clone();
            for topic in &mut known.topics {
                topic.sequence.0 += ALLOWANCE;
            }
            stage = crash(&stage, &known);
        }
    }
}

#[test]
fn reservations_grow_with_the_rate_and_shrink_when_a_topic_is_quiet() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let reserved = |stage: &mut Stage, messages: u64| {
        let mut rows = 0;
        for _ in 0..messages {
            let number = stage.say("a", "x").sequence.0;
            for topic in stage.shard.changes(9, stage.now).saved.topics {
                rows += 1;
                assert!(topic.sequence.0 > number);
            }
        }
        rows
    };
    let rows = reserved(&mut stage, 1_000_000);
    assert!(rows < 40, "a busy topic is not written for every message: {rows} rows");
    let disk_at = stage.shard.snapshot(ShutdownKind::Unclean, stage.now).topics[0].sequence.0;
    assert!(disk_at - 1_000_000 > 100_000);
    for _ in 0..8 {
        stage.pass(120_000);
        stage.publish(Publish::new("a", MessageId(1), "x").retained()).unwrap();
        stage.shard.changes(9, stage.now);
    }
    let disk_at = stage.shard.snapshot(ShutdownKind::Unclean, stage.now).topics[0].sequence.0;
    assert_eq!(disk_at - stage.shard.sequence_of("a").unwrap().0, 64);
    assert_eq!(
        stage.shard.snapshot(ShutdownKind::Clean, stage.now).topics[0].sequence.0,
        1_000_008,
        "exactly"
    );
}

#[test]
fn changes_follow_retained_values_and_subscriptions() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    for topic in ["a", "b", "c"] {
        stage.publish(Publish::new(topic, MessageId(1), "old").retained()).unwrap();
        stage.join(topic, &[topic]);
    }
    save(&mut stage, &mut disk);
    assert!(stage.shard.changes(9, stage.now).is_empty());
    stage.publish(Publish::new("a", MessageId(1), "new").retained()).unwrap();
    stage.publish(Publish::new("b", MessageId(1), "").retained()).unwrap();
    stage.leave("b");
    stage.leave("c");
    stage.shard.forget("c").unwrap();
    save(&mut stage, &mut disk);
    let mut stage = crash(&stage, &disk);
    stage.subscribe(Subscribe { retained: true, ..subscribe("eve", &["*"]) }).unwrap();
    assert_eq!(stage.hear("eve"), ["retained a#2 new"]);
    assert_eq!(stage.shard.find(&id("b")), None);
    assert!(stage.shard.find(&id("a")).is_some());
    assert_eq!(stage.topics().into_keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn after_a_crash_a_client_learns_that_the_count_is_unknown() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    stage.join("eve", &["a"]);
    stage.say_all("a", "1 2 3");
    save(&mut stage, &mut disk);
    let mut stage = crash(&stage, &disk);
    let resume = Resume { last_seen: vec![last_seen("a", 2)], ..Resume::new(id("eve"), Recovery::Replay) };
    let resumed = stage.resume(&resume).unwrap();
    assert_eq!(resumed.missed, None);
    let reserved = RESERVED;
    let expected =
        [format!("gap a#3-{reserved} kept {}", reserved + 1), format!("replayed 0 of a up to {reserved}")];
    assert_eq!(stage.hear("eve"), expected);
}

#[test]
fn after_a_crash_a_live_subscriber_without_a_number_hears_of_the_restart_and_of_the_gap() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    stage.say_all("a", "1 2");
    stage.join("eve", &["a"]);
    stage.join("ann", &["*"]);
    save(&mut stage, &mut disk);
    stage.say("a", "3");
    let mut killed = crash(&stage, &disk);
    let reserved = stage.shard.snapshot(ShutdownKind::Unclean, stage.now).topics[0].sequence.0;
    let resumed = killed.resume(&Resume::new(id("ann"), Recovery::Replay)).unwrap();
    assert_eq!((resumed.missed, resumed.is_unsure, resumed.restarted), (None, true, true), "a pattern");
    // The subscription is still paused, and the broker stops twice more.
    let again = killed.shard.snapshot(ShutdownKind::Unclean, killed.now);
    let mut killed = restart(&crash(&killed, &again));
    let resumed = killed.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap();
    assert_eq!((resumed.missed, resumed.is_unsure, resumed.restarted), (None, true, true));
    let expected =
        [format!("gap a#3-{reserved} kept {}", reserved + 1), format!("replayed 0 of a up to {reserved}")];
    assert_eq!(killed.hear("eve"), expected);
}

#[test]
fn without_a_crash_a_restart_alone_is_no_loss_for_a_subscriber_without_a_number() {
    let mut stage = Stage::new();
    stage.join("eve", &["a"]);
    stage.say("a", "1");
    stage.take("eve", 9);
    let mut stage = restart(&stage);
    let resumed = stage.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap();
    assert_eq!((resumed.missed, resumed.has_losses(), resumed.restarted), (Some(0), false, false));
    assert_eq!(stage.hear("eve"), ["replayed 0 of a up to 1"]);
}

#[test]
fn the_count_stays_unknown_for_numbers_that_a_crash_skipped_however_often_the_broker_stops_properly() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    stage.say_all("a", "1 2 3");
    save(&mut stage, &mut disk);
    let mut stage = restart(&restart(&crash(&stage, &disk)));
    let after = RESERVED;
    assert_eq!(stage.say("a", "4").sequence, Sequence(after + 1));
    let resume = |name, last| Resume {
        filters: crate::common::filters(&["a"]),
        last_seen: vec![last_seen("a", last)],
        ..Resume::new(id(name), Recovery::Replay)
    };
    assert_eq!(stage.resume(&resume("eve", 2)).unwrap().missed, None);
    assert_eq!(stage.resume(&resume("adam", after)).unwrap().missed, Some(1), "this number was given");
}

#[test]
fn a_subscription_that_is_away_has_what_it_missed_written_down() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    stage.join("eve", &["a", "b"]);
    stage.pause("eve");
    save(&mut stage, &mut disk);
    stage.say_all("a", "1 2 3");
    assert!(stage.shard.has_changes());
    save(&mut stage, &mut disk);
    stage.say("a", "4");
    assert!(!stage.shard.has_changes(), "the first one says it all");
    let mut stage = crash(&stage, &disk);
    stage.resume(&Resume::new(id("eve"), Recovery::Replay)).unwrap();
    let reserved = RESERVED;
    assert_eq!(stage.hear("eve")[0], format!("gap a#1-{reserved} kept {}", reserved + 1));
}

#[test]
fn one_that_missed_much_is_written_down_with_the_rounds_of_the_reaper() {
    let mut stage = Stage::with(Settings { track_changes: true, ..Settings::default() });
    let mut disk = Snapshot::default();
    stage.join("eve", &[">"]);
    stage.pause("eve");
    for number in 0..100 {
        stage.say(&format!("topic.{number}"), "x");
    }
    save(&mut stage, &mut disk);
    stage.say("another", "x");
    save(&mut stage, &mut disk);
    assert_eq!(disk.subscriptions[0].missed.len(), 100, "all that there was when it was saved");
    stage.reap();
    assert!(stage.shard.has_changes());
    save(&mut stage, &mut disk);
    assert_eq!(disk.subscriptions[0].missed.len(), 101);
}

#[test]
fn floors_can_be_raised_for_topics_that_were_not_saved_in_time() {
    let mut stage = Stage::new();
    stage.shard.raise_restart_floor(Sequence(500), &[]);
    assert_eq!(stage.say("unsaved", "x").sequence, Sequence(501));
}

#[test]
fn a_topic_whose_numbers_are_all_known_begins_at_1_after_a_crash_without_a_gap() {
    let mut stage = Stage::new();
    stage.shard.raise_restart_floor(Sequence(500), &[TopicFilter::parse("exact.>").unwrap()]);
    stage.join("s", &["exact.a", "b"]);
    stage.say_all("exact.a", "1 2");
    stage.say("b", "501");
    let mut resume = Resume::new(id("t"), Recovery::Replay);
    resume.filters = vec![TopicFilter::parse("exact.a").unwrap(), TopicFilter::parse("b").unwrap()];
    resume.last_seen_single = Some(Sequence(1));
    let resumed = stage.resume(&resume).unwrap();
    assert!(resumed.has_losses(), "of topic b: {resumed:?}");
    assert_eq!(
        stage.hear("t"),
        [
            "gap b#2-500 kept 501",
            "replay b#501 501",
            "replayed 1 of b up to 501",
            "replay exact.a#2 2",
            "replayed 1 of exact.a up to 2",
        ]
    );
}

#[test]
fn a_forgotten_topic_leaves_its_floor_whether_its_numbers_are_all_known_or_not() {
    let exact = [TopicFilter::parse("exact.>").unwrap()];
    let mut stage = Stage::with(Settings { topics: 1, ..Settings::default() });
    stage.say_all("exact.a", "1 2 3");
    stage.say("other", "x");
    let written = stage.shard.snapshot(ShutdownKind::Unclean, stage.now);
    assert_eq!(written.floors.len(), 1);
    let mut stage = Stage::new();
    stage.shard.restore(written, ShutdownKind::Unclean, stage.now).unwrap();
    stage.shard.raise_restart_floor(Sequence(500), &exact);
    assert_eq!(stage.say("exact.a", "x").sequence, Sequence(4));
    assert_eq!(stage.shard.snapshot(ShutdownKind::Unclean, stage.now).floors.len(), 1);
}

#[test]
fn saved_state_that_makes_no_sense_is_refused_by_name() {
    let topic = tenure_topics::SavedTopic {
        name: "a..b".into(),
        sequence: Sequence(1),
        retained: None,
        skipped_to: Sequence(0),
    };
    let snapshot = Snapshot { topics: vec![topic], ..Snapshot::default() };
    let mut stage = Stage::new();
    assert_eq!(
        stage.shard.restore(snapshot, ShutdownKind::Clean, stage.now).unwrap_err().code(),
        "topic-level-empty"
    );
}
