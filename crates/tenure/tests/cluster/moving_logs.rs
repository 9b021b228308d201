//! A namespace moves to another group with its topics, subscriptions and stored keys.

use std::process::Stdio;
use std::time::Instant;

use crate::groups::{B1, TwoGroups};

/// What a client sees of the namespace `default`, whichever group serves it.
struct Seen<'a>(&'a TwoGroups);

impl Seen<'_> {
    fn run(&self, args: &[&str]) -> String {
        self.0.at(B1, "default", args).ok()
    }

    /// Publishes, and returns the number of the message.
    fn publish(&self, topic: &str, payload: &str) -> u64 {
        let said = self.0.at(B1, "default", &["pub", topic, payload, "-o", "json"]).json();
        said["sequence"].as_u64().expect("a number")
    }

    /// The payloads of the next messages of the subscription `archive`, which names all durable topics.
    fn archived(&self, count: usize) -> Vec<String> {
        let said =
            self.run(&["sub", "audit.>", "--id", "archive", "--replay", "-n", &count.to_string(), "--raw"]);
        said.lines().map(str::to_owned).collect()
    }

    /// The first messages of a topic, as far as the broker has them.
    fn replayed(&self, topic: &str, count: u64) -> Vec<u64> {
        let count = count.to_string();
        let said = self.0.at(B1, "default", &["sub", topic, "--replay", "-n", &count, "-o", "jsonl"]);
        said.lines().iter().filter_map(|line| line["sequence"].as_u64()).collect()
    }

    fn retained(&self, topic: &str) -> String {
        self.run(&["sub", topic, "--retained", "-n", "1", "--raw"]).trim().to_owned()
    }
}

fn group_of_default(groups: &TwoGroups) -> &'static str {
    let listed = groups.stage.cluster(&["namespaces", "-o", "json"]).json();
    let rows = listed["namespaces"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["namespace"] == "default").expect("it is placed");
    if row["group"] == "g1" { "g1" } else { "g2" }
}

#[test]
fn topics_subscriptions_and_stored_keys_move_with_their_namespace() {
    let Some(mut groups) = TwoGroups::start() else { return };
    let seen = Seen(&groups);
    assert_eq!([1, 2, 3].map(|number| seen.publish("audit.a", &format!("a{number}"))), [1, 2, 3]);
    assert_eq!(seen.publish("audit.b", "b1"), 1);
    assert_eq!(seen.archived(2), ["a1", "a2"]);
    seen.run(&["pub", "news", "extra", "--retain"]);
    seen.run(&["pub", "audit.door", "open", "--retain"]);
    seen.run(&["pub", "plain", "x", "--count", "5"]);
    for (command, reply) in
        [("SET key value", "+OK"), ("SET fleeting value PX 600000", "+OK"), ("HSET hash field value", ":1")]
    {
        assert_eq!(groups.stage.redis(B1, command), reply);
    }
    groups.at(B1, "default", &["submit", "--queue", "q", "one"]).ok();

    let said = groups.place("default", "g2").json();
    let counts = ["tasks", "topics", "subscriptions", "messages", "keys"].map(|name| said[name].as_u64());
    assert_eq!(counts, [Some(1), Some(5), Some(1), Some(5), Some(3)], "{said}");
    groups.stage.leader();
    let leader = groups.leader_of_g2();
    assert!(groups.stage.redis(B1, "GET key").starts_with("-ELSEWHERE"), "one group serves it");
    assert_eq!(groups.stage.redis(leader, "GET key"), "value");
    assert_eq!(groups.stage.redis(leader, "HGET hash field"), "value");
    let left: i64 =
        groups.stage.redis(leader, "PTTL fleeting").trim_start_matches(':').parse().expect("millis");
    assert!((1..=600_000).contains(&left), "{left}");
    assert_eq!(groups.stage.redis(leader, "SET key changed"), "+OK");
    assert_eq!(groups.stage.redis(leader, "DEL hash"), ":1");
    let seen = Seen(&groups);
    assert_eq!(seen.archived(3), ["a3", "b1", "open"], "the subscriber continues where it stopped");
    assert_eq!((seen.retained("news"), seen.retained("audit.door")), ("extra".to_owned(), "open".to_owned()));
    assert_eq!(seen.publish("audit.a", "a4"), 4, "numbers continue");
    assert!(seen.publish("plain", "x") > 5, "no number is given out twice");
    let plain = seen.publish("plain", "x");

    // And back, where the first group still has the files with the old messages: each message is there once.
    groups.place("default", "g1").json();
    groups.stage.leader();
    groups.leader_of_g2();
    for restart in [false, true] {
        if restart {
            groups.stage.kill(B1);
            groups.start_member(B1);
            groups.stage.leader();
        }
        let seen = Seen(&groups);
        let next = seen.publish("audit.a", "next");
        assert_eq!(seen.replayed("audit.a", next), (1..=next).collect::<Vec<_>>());
        assert_eq!(next, if restart { 6 } else { 5 });
        assert_eq!(seen.retained("news"), "extra");
        assert!(seen.publish("plain", "x") > plain);
        assert_eq!(groups.stage.redis(B1, "GET key"), "changed");
        assert_eq!(groups.stage.redis(B1, "EXISTS hash"), ":0", "what was deleted meanwhile stays deleted");
        assert_eq!(groups.stage.redis(B1, "DBSIZE"), ":2");
    }
    assert_eq!(Seen(&groups).archived(3), ["a4", "next", "next"]);
}

#[test]
fn a_move_of_topics_and_keys_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let Some(groups) = TwoGroups::start() else { return };
    let seen = Seen(&groups);
    let mut sent = 0;
    for _ in 0..20 {
        sent = seen.publish("audit.a", "x");
    }
    assert_eq!(seen.archived(1), ["x"]);
    let mut archived = 1;
    seen.run(&["pub", "news", "extra", "--retain"]);
    let mut plain = seen.publish("plain", "x");
    for key in 0..50 {
        assert_eq!(groups.stage.redis(B1, &format!("SET key{key} value{key}")), "+OK");
    }
    let begun = Instant::now();
    groups.place("default", "g2").json();
    let took = begun.elapsed();
    // Most of the time goes to the copies; what matters happens in its second half.
    for (kill, percent) in [45, 55, 62, 68, 80].into_iter().enumerate() {
        groups.stage.leader();
        groups.leader_of_g2();
        let from = group_of_default(&groups);
        let to = if from == "g1" { "g2" } else { "g1" };
        let mut moving = groups.stage.cluster_command("g1", &["place", "default", to]);
        let mut moving = moving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(took * percent / 100);
        let _ = moving.kill();
        let _ = moving.wait();
        let (leader_of_g1, leader_of_g2) = (groups.stage.leader(), groups.leader_of_g2());
        let group = group_of_default(&groups);
        println!("kill {kill} after {percent} %: from {from} to {to}, the namespace is in {group}");
        let leader = if group == "g1" { leader_of_g1 } else { leader_of_g2 };
        assert_eq!(groups.stage.redis(leader, "DBSIZE"), ":50", "kill {kill}");
        for key in [0, 49] {
            assert_eq!(groups.stage.redis(leader, &format!("GET key{key}")), format!("value{key}"));
        }
        let seen = Seen(&groups);
        sent += 1;
        assert_eq!(seen.publish("audit.a", "x"), sent, "numbers continue, kill {kill}");
        assert_eq!(seen.replayed("audit.a", sent), (1..=sent).collect::<Vec<_>>(), "kill {kill}");
        assert_eq!(seen.archived(1).len(), 1);
        archived += 1;
        assert_eq!(seen.retained("news"), "extra");
        let next = seen.publish("plain", "x");
        assert!(next > plain, "{next} after {plain}");
        plain = next;
    }
    let rest = usize::try_from(sent - archived).expect("few");
    assert_eq!(Seen(&groups).archived(rest).len(), rest, "the subscriber has missed nothing");
}
