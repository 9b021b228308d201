//! Stories of subscribers who do not keep up.

use std::time::Duration;

use crate::common::{Stage, spell, subscribe};
use tenure_topics::{Delivery, Dropped, GAPS_MAX, Policy, Settings, Ticket};

fn stage(policy: Policy, limit: u32) -> Stage {
    let mut stage = Stage::with(Settings { policy, queue_messages: limit, ..Settings::default() });
    stage.join("slow", &["a", "b"]);
    stage.join("fast", &["a", "b"]);
    stage
}

#[test]
fn drop_oldest_keeps_the_latest_and_names_what_is_gone() {
    let mut stage = stage(Policy::DropOldest, 2);
    stage.say("a", "1");
    stage.say("b", "1");
    stage.hear("fast");
    let published = stage.say("a", "2");
    assert_eq!((published.receivers, published.dropped), (2, 1));
    stage.hear("fast");
    stage.say("a", "3");
    let expected = [
        "warning burst dropped 2 expired 0",
        "gap a#1-1 kept 2",
        "gap b#1-1 kept 2",
        "live a#2 2",
        "live a#3 3",
    ];
    assert_eq!(stage.hear("slow"), expected);
    assert_eq!(stage.hear("fast"), ["live a#3 3"], "a slow subscriber troubles no other");
    assert_eq!(stage.stats("slow").dropped, Dropped { oldest: 2, ..Dropped::default() });
}

#[test]
fn drop_newest_keeps_the_history_and_tells_of_the_hole_in_its_place() {
    let mut stage = stage(Policy::DropNewest, 2);
    stage.say_all("a", "1 2");
    stage.hear("fast");
    let published = stage.say("a", "3");
    assert_eq!((published.receivers, published.dropped), (1, 1));
    stage.say("a", "4");
    let first: Vec<String> = stage.take("slow", 2).iter().map(spell).collect();
    assert_eq!(first, ["warning burst dropped 2 expired 0", "live a#1 1"]);
    stage.hear("fast");
    stage.say("a", "5");
    assert_eq!(stage.hear("slow"), ["live a#2 2", "gap a#3-4 kept 5", "live a#5 5"]);
    assert_eq!(stage.stats("slow").dropped, Dropped { newest: 2, ..Dropped::default() });
}

#[test]
fn drop_newest_tells_of_a_hole_at_the_end_too() {
    let mut stage = stage(Policy::DropNewest, 1);
    stage.say_all("a", "1 2");
    stage.pass(2000);
    assert_eq!(stage.hear("slow"), ["warning slow dropped 1 expired 0", "live a#1 1", "gap a#2-2 kept 3"]);
}

#[test]
fn block_makes_the_publisher_wait_until_there_is_room() {
    let mut stage = stage(Policy::Block, 2);
    stage.say_all("a", "1 2");
    stage.hear("fast");
    let published = stage.say("a", "3");
    assert_eq!(published.receivers, 1, "the fast one has it");
    assert_eq!(published.blocked, [stage.key("slow")]);
    let ticket = published.ticket.unwrap();
    stage.pass(300);
    assert_eq!(stage.shard.released(), []);
    assert_eq!(stage.take("slow", 1).len(), 1);
    assert_eq!(stage.shard.released(), [ticket]);
    assert_eq!(stage.hear("slow"), ["live a#2 2", "live a#3 3"]);
    assert_eq!(stage.stats("slow").blocked, Duration::from_millis(300));
    assert_eq!(stage.stats("slow").dropped, Dropped::default());
}

#[test]
fn a_blocked_message_is_not_overtaken() {
    let mut stage = stage(Policy::Block, 1);
    stage.say("a", "1");
    stage.hear("fast");
    let second = stage.say("a", "2").ticket.unwrap();
    stage.hear("fast");
    let third = stage.say("a", "3").ticket.unwrap();
    let mut released: Vec<Ticket> = Vec::new();
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.extend(stage.take("slow", 1).iter().map(spell));
        released.extend(stage.shard.released());
    }
    assert_eq!(heard, ["live a#1 1", "live a#2 2", "live a#3 3"]);
    assert_eq!(released, [second, third]);
}

#[test]
fn a_small_message_does_not_slip_past_a_large_one_that_waits() {
    let mut stage = Stage::with(Settings { policy: Policy::Block, queue_bytes: 2000, ..Settings::default() });
    stage.join("slow", &["a"]);
    stage.say("a", "small");
    assert!(stage.say("a", &"large".repeat(1000)).ticket.is_some());
    assert!(stage.say("a", "small").ticket.is_some());
    let order: Vec<u64> = (0..3)
        .flat_map(|_| stage.take("slow", 1))
        .filter_map(|delivery| match delivery {
            Delivery::Message { message, .. } => Some(message.sequence.0),
            _ => None,
        })
        .collect();
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn a_timeout_drops_the_oldest() {
    let mut stage = stage(Policy::Block, 1);
    stage.say("a", "1");
    stage.hear("fast");
    let second = stage.say("a", "2").ticket.unwrap();
    stage.hear("fast");
    let third = stage.say("a", "3").ticket.unwrap();
    stage.pass(5000);
    assert_eq!(stage.shard.give_up(third, stage.now), 2);
    assert_eq!(stage.shard.released(), [second, third], "a publisher that waited before it goes first");
    assert_eq!(stage.shard.give_up(second, stage.now), 0);
    let expected = ["warning slow dropped 2 expired 0", "gap a#1-2 kept 3", "live a#3 3"];
    assert_eq!(stage.hear("slow"), expected);
    assert_eq!(stage.stats("slow").blocked, Duration::from_secs(5));
}

#[test]
fn those_who_wait_are_limited_in_number() {
    let settings =
        Settings { policy: Policy::Block, queue_messages: 1, waiting_messages: 2, ..Settings::default() };
    let mut stage = Stage::with(settings);
    stage.join("slow", &["a"]);
    stage.say("a", "1");
    let tickets: Vec<Ticket> = (2..5).map(|n| stage.say("a", &n.to_string()).ticket.unwrap()).collect();
    assert_eq!(stage.shard.released(), tickets[..1], "the first one goes in by force");
    assert_eq!(stage.stats("slow").dropped.oldest, 1);
}

#[test]
fn a_publisher_does_not_wait_for_a_subscriber_that_left() {
    let mut stage = stage(Policy::Block, 1);
    stage.say("a", "1");
    let ticket = stage.say("a", "2").ticket.unwrap();
    stage.leave("slow");
    assert_eq!(stage.shard.released(), [], "the fast one was not fast this time");
    stage.pause("fast");
    assert_eq!(stage.shard.released(), [ticket]);
}

#[test]
fn a_subscriber_may_ask_for_a_shorter_queue_but_not_for_a_longer_one() {
    let mut stage = Stage::with(Settings { queue_messages: 5, ..Settings::default() });
    for (name, asked, limit) in
        [("zero", Some(0), 5), ("none", None, 5), ("less", Some(3), 3), ("more", Some(9), 5)]
    {
        let mut request = subscribe(name, &["a"]);
        request.queue_limit = asked;
        stage.subscribe(request).unwrap();
        assert_eq!(stage.stats(name).limit, limit, "{name}");
    }
}

#[test]
fn a_queue_is_limited_in_bytes_but_one_message_always_fits() {
    let mut stage = Stage::with(Settings { queue_bytes: 1000, ..Settings::default() });
    stage.join("eve", &["a"]);
    let large = "x".repeat(5000);
    stage.say("a", &large);
    stage.say("a", &large);
    stage.pass(2000);
    assert_eq!(stage.stats("eve").depth, 1);
    let heard = stage.hear("eve");
    assert_eq!(heard[..2], ["warning slow dropped 1 expired 0", "gap a#1-1 kept 2"]);
}

#[test]
fn warnings_come_at_most_once_a_second_and_count_from_the_last_one() {
    let mut stage = stage(Policy::DropOldest, 1);
    stage.say_all("a", "1 2 3");
    assert_eq!(stage.hear("slow")[0], "warning burst dropped 2 expired 0");
    stage.pass(999);
    stage.say_all("a", "4 5");
    assert_eq!(stage.hear("slow")[0], "gap a#4-4 kept 5", "too soon");
    stage.pass(1);
    assert_eq!(stage.hear("slow"), ["warning burst dropped 1 expired 0"]);
    stage.pass(5000);
    assert_eq!(stage.hear("slow"), [""; 0], "nothing was dropped since");
}

#[test]
fn statistics_tell_the_whole_story_of_a_queue() {
    let mut stage = stage(Policy::DropOldest, 3);
    stage.say_all("a", "1 2 3 4 5");
    assert_eq!(stage.take("slow", 3).len(), 3, "a warning, a gap and a message");
    let stats = stage.stats("slow");
    assert_eq!((stats.depth, stats.high_watermark, stats.limit), (2, 3, 3));
    assert_eq!((stats.enqueued, stats.delivered, stats.dropped.total()), (5, 1, 2));
    stage.pause("slow");
    assert_eq!(stage.stats("slow").dropped, Dropped { oldest: 2, disconnect: 2, ..Dropped::default() });
    let all = stage.shard.stats();
    assert_eq!((all.enqueued, all.delivered), (10, 1));
    stage.leave("slow");
    assert_eq!(stage.shard.stats().enqueued, 10, "those who left still count");
}

#[test]
fn drops_in_very_many_topics_are_counted_even_where_they_are_not_named() {
    let mut stage = Stage::with(Settings { queue_messages: 1, ..Settings::default() });
    stage.join("slow", &[">"]);
    for number in 0..=GAPS_MAX + 10 {
        stage.say(&format!("t.{number}"), "x");
    }
    let heard = stage.hear("slow");
    assert_eq!(heard[0], format!("warning burst dropped {} expired 0", GAPS_MAX + 10));
    assert_eq!(heard.iter().filter(|line| line.starts_with("gap")).count(), GAPS_MAX);
    assert!(heard.last().unwrap().starts_with("live"));
}
