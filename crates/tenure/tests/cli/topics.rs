//! `tenure pub`, `tenure sub` and `tenure topics`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Broker, eventually};

fn lines(broker: &Broker, args: &[&str]) -> (std::process::Child, impl Iterator<Item = Value>) {
    let mut command = broker.command(args);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    (child, out.lines().map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")))
}

fn subscribers(broker: &Broker, count: usize) {
    eventually("the subscribers are there", || {
        let all = broker.tenure(&["topics", "--subscriptions", "-o", "json"]).json();
        all.as_array().unwrap().iter().filter(|one| one["paused_until"].is_null()).count() == count
    });
}

#[test]
fn messages_are_published_heard_and_counted() {
    let broker = Broker::start();
    let (mut child, mut heard) = lines(&broker, &["sub", "sensor.*", "-n", "4", "-o", "jsonl"]);
    subscribers(&broker, 1);
    let published = broker.tenure(&["pub", "sensor.kitchen", "21.5", "-o", "json"]).json();
    assert_eq!((&published["sequence"], &published["receivers"]), (&1.into(), &1.into()));
    assert_eq!(broker.tenure(&["pub", "elsewhere", "x"]).ok(), "number 1, no subscribers\n");
    broker.tenure_fed(&["pub", "sensor.hall", "-", "--content-type", "text/plain"], b"18\n").ok();
    let many = broker.tenure(&["pub", "sensor.kitchen", "x", "--count", "2"]).ok();
    assert_eq!(many, "2 messages published, numbers 2 to 3, 2 deliveries\n");
    let first = heard.next().unwrap();
    assert_eq!((first["topic"].as_str(), first["payload"].as_str()), (Some("sensor.kitchen"), Some("21.5")));
    assert_eq!((first["kind"].as_str(), first["source"].as_str()), (Some("live"), Some("ada")));
    let second = heard.next().unwrap();
    assert_eq!(
        (second["content_type"].as_str(), second["payload"].as_str()),
        (Some("text/plain"), Some("18\n"))
    );
    assert_eq!(heard.map(|message| message["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3]);
    assert!(child.wait().unwrap().success());
    let topics = broker.tenure(&["topics", "sensor.>", "-o", "json"]).json();
    assert_eq!(topics.as_array().unwrap().len(), 2);
    assert_eq!(topics[1]["sequence"], 3);
    let table = broker.tenure(&["topics"]).ok();
    assert!(
        table.contains("sensor.kitchen") && table.contains("SUBSCRIBERS") && table.contains("LATEST"),
        "{table}"
    );
    // A subscriber without an id leaves nothing behind.
    assert_eq!(broker.tenure(&["topics", "--subscriptions", "-o", "json"]).json(), Value::Array(vec![]));
}

#[test]
fn a_subscription_with_an_id_goes_on_where_it_stopped() {
    let broker = Broker::start();
    let sub = ["sub", "log", "--id", "archive", "-n", "1", "--raw"];
    let (mut child, _) = lines(&broker, &sub);
    subscribers(&broker, 1);
    broker.tenure(&["pub", "log", "one"]).ok();
    assert!(child.wait().unwrap().success());
    subscribers(&broker, 0);
    for payload in ["two", "three"] {
        broker.tenure(&["pub", "log", payload]).ok();
    }
    assert_eq!(broker.tenure(&["sub", "log", "--id", "archive", "-n", "2", "--raw"]).ok(), "two\nthree\n");
    assert_eq!(broker.tenure(&["sub", "log", "--replay", "-n", "3", "--raw"]).ok(), "one\ntwo\nthree\n");
    assert_eq!(broker.tenure(&["sub", "log", "--from", "3", "-n", "1", "--raw"]).ok(), "three\n");
    let shown = broker.tenure(&["topics", "--subscriptions"]).ok();
    assert!(shown.contains("archive") && shown.contains("not connected"), "{shown}");
    broker.tenure(&["topics", "--end", "archive"]).ok();
    broker.tenure(&["topics", "--end", "archive"]).fails(76, "no such subscription");
}

#[test]
fn what_came_and_was_not_printed_is_there_the_next_time() {
    let broker = Broker::start();
    let (mut child, heard) = lines(&broker, &["sub", "x", "y", "--id", "a", "-n", "5", "-o", "jsonl"]);
    subscribers(&broker, 1);
    broker.tenure(&["pub", "x", "m", "--count", "100"]).ok();
    broker.tenure(&["pub", "y", "m", "--count", "3"]).ok();
    assert_eq!(heard.filter_map(|line| line["sequence"].as_u64()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(child.wait().unwrap().success());
    let mut rest: Vec<(String, u64)> = broker
        .tenure(&["sub", "x", "y", "--id", "a", "-n", "98", "-o", "jsonl"])
        .lines()
        .iter()
        .filter_map(|line| Some((line["topic"].as_str()?.to_owned(), line["sequence"].as_u64()?)))
        .collect();
    rest.sort();
    let x = (6..=100).map(|number| ("x".to_owned(), number));
    let y = (1..=3).map(|number| ("y".to_owned(), number));
    assert_eq!(rest, x.chain(y).collect::<Vec<_>>());
    // The same if a signal ends it.
    let (mut child, mut heard) = lines(&broker, &["sub", "x", "y", "--id", "a", "-o", "jsonl"]);
    subscribers(&broker, 1);
    broker.tenure(&["pub", "x", "m"]).ok();
    let first = heard.find(|line| line["sequence"].is_u64()).unwrap();
    assert_eq!(first["sequence"], 101);
    let ended = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(ended.success() && child.wait().unwrap().success());
    subscribers(&broker, 0);
    broker.tenure(&["pub", "x", "m"]).ok();
    let next = broker.tenure(&["sub", "x", "y", "--id", "a", "-n", "1", "-o", "jsonl"]).lines();
    assert_eq!(next[0]["sequence"], 102);
}

#[test]
fn everything_that_is_kept_comes_for_a_pattern_too() {
    let broker = Broker::start();
    for topic in ["sensor.attic", "sensor.hall"] {
        broker.tenure(&["pub", topic, topic, "--count", "2"]).ok();
    }
    let all = broker.tenure(&["sub", "sensor.*", "--replay", "-n", "4", "--raw"]).ok();
    assert_eq!(all, "sensor.attic\nsensor.attic\nsensor.hall\nsensor.hall\n");
    let later = broker.tenure(&["sub", "sensor.*", "--from", "2", "-n", "2", "--raw"]).ok();
    assert_eq!(later, "sensor.attic\nsensor.hall\n");
}

#[test]
fn the_last_known_value_comes_first() {
    let broker = Broker::start();
    broker.tenure(&["pub", "state.door", "open", "--retain"]).ok();
    let heard = broker.tenure(&["sub", "state.*", "--retained", "-n", "1", "-o", "jsonl"]).lines();
    assert_eq!((&heard[0]["kind"], &heard[0]["payload"]), (&"retained".into(), &"open".into()));
    let text = broker.tenure(&["sub", "state.*", "--retained", "-n", "1"]).ok();
    assert!(text.contains("state.door  1 (retained)  open"), "{text}");
}

#[test]
fn many_messages_come_from_lines_of_json() {
    let broker = Broker::start();
    let input = b"{\"payload\": {\"a\": 1}}\n\n{\"topic\": \"other\", \"payload\": \"x\", \"retain\": true, \"ttl\": \"1h\"}\n";
    assert_eq!(broker.tenure_fed(&["pub", "log", "--jsonl", "-"], input).ok(), "2 messages published\n");
    assert_eq!(broker.tenure(&["sub", "log", "--replay", "-n", "1", "--raw"]).ok(), "{\"a\":1}\n");
    let bad = broker.tenure_fed(&["pub", "--jsonl", "-"], b"{\"topic\": \"a\"}\n{\"payload\": 1}\n");
    bad.fails(65, "line 2 of -: there is no topic");
    let heard = broker.tenure(&["sub", "a", "--replay", "-n", "1", "-o", "jsonl"]).lines();
    assert_eq!(heard[0]["sequence"], 1, "the good line before the bad one is published");
    let some = b"{\"topic\": \"a\"}\n\n{\"topic\": \"a..b\"}\n{\"topic\": \"a\"}\n";
    let some = broker.tenure_fed(&["pub", "--jsonl", "-"], some);
    assert!(some.out.contains("2 messages published, 1 refused"), "{some:?}");
    some.fails(76, "line 3 of - is refused: a topic name has an empty level");
    broker
        .tenure_fed(&["pub", "a", "--jsonl", "-"], b"{\"retian\": true}\n")
        .fails(65, "`retian` is none of");
}

#[test]
fn a_line_is_published_as_soon_as_it_is_written() {
    const WITHIN: Duration = Duration::from_millis(50);
    let broker = Broker::start();
    let (mut sub, mut heard) = lines(&broker, &["sub", "log", "-o", "jsonl"]);
    subscribers(&broker, 1);
    let mut command = broker.command(&["pub", "log", "--jsonl", "-"]);
    let mut publisher = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let mut stdin = publisher.stdin.take().expect("piped");
    // On a busy machine some lines take longer; a program that gathers lines would delay every one of them.
    let delays = (1..=20).map(|number| {
        let written = Instant::now();
        writeln!(stdin, "{{\"payload\": {number}}}").expect("it reads");
        assert_eq!(heard.next().expect("a message")["sequence"], number);
        written.elapsed()
    });
    let delays: Vec<Duration> = delays.collect();
    assert!(delays.iter().any(|delay| *delay < WITHIN), "{delays:?}");
    drop(stdin);
    assert!(publisher.wait().unwrap().success());
    sub.kill().unwrap();
    sub.wait().unwrap();
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let broker = Broker::start();
    broker.tenure(&["pub", "a.*", "x"]).fails(76, "wildcards");
    broker.tenure(&["pub", "a.*", "x", "--count", "5"]).fails(76, "0 of 5 messages were confirmed");
    broker.tenure(&["pub", "a"]).fails(64, "nothing to publish");
    broker.tenure(&["sub", "a..b"]).fails(76, "empty level");
    broker.tenure(&["sub", "a", "--policy", "drop-all"]).fails(64, "drop-newest");
    broker.tenure(&["pub", "a", "?", "--request"]).fails(76, "no subscribers");
    assert_eq!(broker.tenure(&["topics", "-o", "json"]).json(), Value::Array(vec![]));
}

#[test]
fn a_line_is_published_when_it_is_written_and_a_bad_one_discards_none_before_it() {
    use std::io::Write as _;

    let broker = Broker::start();
    let (mut child, mut heard) = lines(&broker, &["sub", "feed", "-n", "3", "-o", "jsonl"]);
    subscribers(&broker, 1);
    let mut command = broker.command(&["pub", "feed", "--jsonl", "-"]);
    let mut feeding = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = feeding.stdin.take().expect("piped");
    stdin.write_all(b"{\"payload\": \"1\"}\n").unwrap();
    // The writer goes on, and the first line is out.
    assert_eq!(heard.next().unwrap()["payload"], "1");
    stdin
        .write_all(b"{\"payload\": \"2\"}\n\n{\"payload\": \"3\"}\nnonsense\n{\"payload\": \"4\"}\n")
        .unwrap();
    assert_eq!(heard.map(|message| message["payload"].clone()).collect::<Vec<_>>(), ["2", "3"]);
    drop(stdin);
    let ended = feeding.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success());
    assert!(told.contains("line 5 of -") && told.contains("3 messages before it were published"), "{told}");
    assert!(child.wait().unwrap().success());
}
