//! Stories of subscribers who share the work, and of questions and answers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Stage, id, subscribe};
use tenure_topics::{
    Delivery, DeliveryKind, MessageId, Publish, Recovery, RequestId, Requests, Resume, Sequence, Settings,
    Subscribe, TopicFilter, TopicRefusal,
};

fn member(name: &str, group: &str, topics: &[&str]) -> Subscribe {
    Subscribe { group: Some(Arc::from(group)), ..subscribe(name, topics) }
}

#[test]
fn one_member_of_a_group_gets_each_message_in_turn() {
    let mut stage = Stage::new();
    for name in ["ann", "bob", "cid"] {
        stage.subscribe(member(name, "workers", &["a"])).unwrap();
    }
    stage.join("boss", &["a"]);
    for number in 1..=6 {
        assert_eq!(stage.say("a", &number.to_string()).receivers, 2, "one member, and the boss");
    }
    assert_eq!(stage.hear("ann"), ["live a#1 1", "live a#4 4"]);
    assert_eq!(stage.hear("bob"), ["live a#2 2", "live a#5 5"]);
    assert_eq!(stage.hear("cid"), ["live a#3 3", "live a#6 6"]);
    assert_eq!(stage.hear("boss").len(), 6);
}

#[test]
fn the_member_with_the_shortest_queue_comes_first() {
    let mut stage = Stage::new();
    for name in ["ann", "bob"] {
        stage.subscribe(member(name, "workers", &["a"])).unwrap();
    }
    stage.say_all("a", "1 2 3 4");
    stage.hear("bob");
    stage.say_all("a", "5 6");
    assert_eq!(stage.hear("bob"), ["live a#5 5", "live a#6 6"]);
}

#[test]
fn a_group_is_one_group_whatever_its_members_match_by() {
    let mut stage = Stage::new();
    stage.subscribe(member("ann", "workers", &["a.b"])).unwrap();
    stage.subscribe(member("bob", "workers", &["a.*", "a.>"])).unwrap();
    stage.subscribe(member("cid", "others", &["a.>"])).unwrap();
    assert_eq!(stage.say("a.b", "1").receivers, 2);
    assert_eq!(stage.say("a.c", "2").receivers, 2, "only one of the workers wants it");
    assert_eq!(stage.hear("bob"), ["live a.c#1 2"]);
    assert_eq!(stage.hear("cid").len(), 2);
}

#[test]
fn what_a_member_had_waiting_goes_to_the_others_when_it_goes() {
    let mut stage = Stage::new();
    for name in ["ann", "bob", "cid"] {
        stage.subscribe(member(name, "workers", &["a"])).unwrap();
        stage.hear(name);
    }
    stage.say_all("a", "1 2 3");
    stage.woken();
    let unsent = stage.take("ann", 1);
    let key = stage.key("ann");
    stage.shard.pause(key, &unsent, stage.now, &mut stage.wake).unwrap();
    assert_eq!(stage.hear("bob"), ["live a#2 2", "live a#1 1"]);
    assert_eq!(stage.woken(), [""; 0], "bob had something to take already");
    stage.leave("cid");
    assert_eq!(stage.woken(), ["bob"]);
    assert_eq!(stage.hear("bob"), ["live a#3 3"]);
    stage.say("a", "4");
    assert_eq!(stage.hear("bob"), ["live a#4 4"], "nothing goes to a member who is away");
}

#[test]
fn what_a_member_has_not_acknowledged_goes_to_the_others_when_it_goes() {
    let mut stage = Stage::new();
    for name in ["ann", "bob"] {
        stage.subscribe(member(name, "workers", &["a"])).unwrap();
    }
    let (ann, bob) = (stage.key("ann"), stage.key("bob"));
    stage.shard.acknowledge(ann, &[]).unwrap();
    stage.say_all("a", "1 2 3 4 5 6");
    for (name, key) in [("ann", ann), ("bob", bob)] {
        let sent = stage.take(name, 9);
        assert_eq!(sent.len(), 3);
        stage.shard.sent(key, &sent).unwrap();
    }
    stage.shard.acknowledge(ann, &[(Arc::from("a"), Sequence(1))]).unwrap();
    stage.say("a", "7");
    stage.pause("ann");
    assert_eq!(stage.hear("bob"), ["live a#3 3", "live a#5 5", "live a#7 7"]);
    stage.leave("bob");
    stage.resume(&Resume::new(id("ann"), Recovery::Replay)).unwrap();
    assert_eq!(stage.hear("ann"), [""; 0], "bob never acknowledged, and what it was sent counts as read");
}

#[test]
fn what_a_member_that_ends_has_not_acknowledged_goes_to_the_others() {
    let mut stage = Stage::new();
    for name in ["ann", "bob"] {
        stage.subscribe(member(name, "workers", &["a"])).unwrap();
    }
    let ann = stage.key("ann");
    stage.shard.acknowledge(ann, &[]).unwrap();
    stage.say_all("a", "1 2 3");
    let sent = stage.take("ann", 1);
    stage.shard.sent(ann, &sent).unwrap();
    stage.leave("ann");
    assert_eq!(stage.hear("bob"), ["live a#2 2", "live a#1 1", "live a#3 3"]);
}

#[test]
fn a_member_that_comes_back_replays_nothing_and_shares_again() {
    let mut stage = Stage::new();
    for name in ["ann", "bob"] {
        stage.subscribe(member(name, "workers", &["a"])).unwrap();
    }
    stage.pause("ann");
    stage.say_all("a", "1 2");
    let resumed = stage.resume(&Resume::new(id("ann"), Recovery::Replay)).unwrap();
    assert_eq!((resumed.missed, resumed.replay_started), (Some(0), false));
    assert_eq!(stage.hear("bob").len(), 2);
    stage.say_all("a", "3 4");
    assert_eq!((stage.hear("ann").len(), stage.hear("bob").len()), (1, 1));
}

#[test]
fn a_full_member_is_passed_over() {
    let mut stage = Stage::new();
    let small = Subscribe { queue_limit: Some(1), ..member("ann", "workers", &["a"]) };
    stage.subscribe(small).unwrap();
    stage.subscribe(member("bob", "workers", &["a"])).unwrap();
    stage.say_all("a", "1 2 3 4");
    assert_eq!((stage.stats("ann").depth, stage.stats("bob").depth), (1, 3));
    assert_eq!(stage.stats("ann").dropped.total(), 0);
}

#[test]
fn a_group_without_members_is_gone_and_may_come_again() {
    let mut stage = Stage::new();
    stage.subscribe(member("ann", "workers", &["a"])).unwrap();
    stage.leave("ann");
    assert_eq!(stage.say("a", "1").receivers, 0);
    stage.subscribe(member("bob", "drivers", &["a"])).unwrap();
    stage.subscribe(member("cid", "workers", &["a"])).unwrap();
    assert_eq!(stage.say("a", "2").receivers, 2);
}

#[test]
fn a_request_reaches_a_responder_and_its_answer_finds_the_way_back() {
    let mut stage = Stage::new();
    let mut requests = Requests::default();
    stage.join("responder", &["time"]);
    let timeout = Duration::from_secs(2);
    let reply_to = requests.open(RequestId(7), timeout, stage.now).unwrap();
    let question = Publish::new("time", MessageId(1), "what time is it?");
    stage.shard.request(question, reply_to, timeout, stage.now, &mut stage.wake).unwrap();
    let Delivery::Message { kind: DeliveryKind::Live, message } = stage.take("responder", 1).remove(0) else {
        panic!("the question");
    };
    let reply_to = message.reply_to.clone().unwrap();
    assert_eq!(requests.answer(&reply_to, stage.now), Ok(RequestId(7)));
}

#[test]
fn a_request_without_responders_is_refused_at_once_and_leaves_no_trace() {
    let mut stage = Stage::new();
    stage.join("away", &["time"]);
    stage.pause("away");
    let question = || Publish::new("time", MessageId(1), "?");
    let ask = |stage: &mut Stage| {
        let reply_to = Arc::from("_reply.7");
        stage.shard.request(question(), reply_to, Duration::from_secs(1), stage.now, &mut stage.wake)
    };
    assert_eq!(ask(&mut stage), Err(TopicRefusal::NoResponders));
    assert_eq!(stage.shard.stats().published, 0);
    stage.join("wild", &["*"]);
    assert!(ask(&mut stage).is_ok());
}

#[test]
fn a_request_is_not_delivered_after_its_timeout() {
    let mut stage = Stage::with(Settings::default());
    stage.join("responder", &["time"]);
    let question = Publish::new("time", MessageId(1), "?");
    let timeout = Duration::from_millis(500);
    stage.shard.request(question, Arc::from("_reply.7"), timeout, stage.now, &mut stage.wake).unwrap();
    stage.pass(500);
    assert_eq!(stage.hear("responder"), [""; 0]);
}

#[test]
fn a_request_to_a_name_that_cannot_be_is_refused_by_name() {
    let mut stage = Stage::new();
    stage.join("wild", &[">"]);
    let deep = vec!["a"; 1 + tenure_topics::NAME_LEVELS_MAX].join(".");
    for (name, code) in [(deep.as_str(), "topic-name-too-many-levels"), ("a.*", "topic-name-wildcard")] {
        let question = Publish::new(name, MessageId(1), "?");
        let second = Duration::from_secs(1);
        let asked = stage.shard.request(question, Arc::from("_reply.7"), second, stage.now, &mut stage.wake);
        assert_eq!(asked.unwrap_err().code(), code);
    }
}

#[test]
fn answers_cannot_be_subscribed_to() {
    assert_eq!(TopicFilter::parse("_reply.>"), Err(TopicRefusal::NameReserved));
}
