//! Over sockets: many at once, a lot in store, and peers that guess keys.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::broker::Broker;
use support::peer::{Client, command};
use tenure_door_kit::{ByteBudget, DoorSettings};
use tenure_door_resp::Settings;
use tenure_door_resp::testing::Reply;
use tenure_hub::store::StoreSettings;

/// Enough that a walk over all of them takes many turns of the hub.
const BACKLOG: usize = 100_000;
/// Both ends are in this process.
const CROWD: usize = 1_000;

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) => text.to_string(),
        Reply::Error(text) => format!("-{text}"),
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}

fn length(reply: &Reply) -> usize {
    match reply {
        Reply::Array(items) => items.len(),
        other => panic!("no array: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_a_long_queue_blocks_no_other_request() {
    let store = StoreSettings { segment_bytes: 64 << 20, spare_segments: 0, ..StoreSettings::default() };
    let broker = Broker::on(store).await;
    let mut looker = Client::connect(broker.address).await;
    let mut words = vec!["LPUSH", "queue:long"];
    words.extend(std::iter::repeat_n("x", 1000));
    for _ in 0..BACKLOG / 1000 {
        looker.send(&command(&words)).await;
        assert!(matches!(looker.reply().await, Reply::Integer(_)));
    }
    assert_eq!(looker.ask("LLEN queue:long").await, Reply::Integer(BACKLOG as i64));
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let (over, answered, address) = (Arc::clone(&over), Arc::clone(&answered), broker.address);
        async move {
            let mut client = Client::connect(address).await;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(text(&client.ask("PING").await), "PONG");
                assert!(matches!(client.ask("LPUSH queue:other y").await, Reply::Integer(_)));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let among = |what: &str, since: usize| {
        let count = answered.load(Ordering::Relaxed) - since;
        // It is hundreds on a quiet machine, and one at most if all others had to wait.
        assert!(count >= 3, "the other client got {count} answers during {what}");
    };
    let before = answered.load(Ordering::Relaxed);
    assert_eq!(length(&looker.ask("LRANGE queue:long 0 -1").await), BACKLOG);
    among("LRANGE", before);
    let before = answered.load(Ordering::Relaxed);
    assert_eq!(text(&looker.ask("KEYS job:*").await), "-ERR more than 100000 keys match, use SCAN");
    among("KEYS", before);
    let (mut cursor, mut found) = ("0".to_owned(), 0);
    loop {
        let page = looker.ask(&format!("SCAN {cursor} MATCH job:* COUNT 1000")).await;
        let Reply::Array(parts) = &page else { panic!("{page:?}") };
        found += length(&parts[1]);
        cursor = text(&parts[0]);
        if cursor == "0" {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    other.await.expect("the other client");
    assert!(found >= BACKLOG, "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_wait_and_those_that_left_get_no_element() {
    let broker = Broker::start().await;
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        let mut client = Client::connect(broker.address).await;
        client.say(&format!("BRPOP queue:a queue:b{number} 0")).await;
        crowd.push(client);
    }
    let mut pusher = Client::connect(broker.address).await;
    let waiting = async || {
        while length(&Client::connect(broker.address).await.ask("KEYS worker:*:alive").await) < CROWD {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting()).await.expect("all of them wait");
    // Every second one goes away without a word, some of them when their job is on its way already.
    let mut words = vec!["LPUSH".to_owned(), "queue:a".to_owned()];
    words.extend((0..CROWD / 2).map(|number| format!(r#"{{"job_id":"j{number}"}}"#)));
    let mut staying = Vec::new();
    for (number, client) in crowd.into_iter().enumerate() {
        if number % 2 == 0 {
            staying.push(client);
        } else {
            drop(client);
        }
        if number == CROWD / 2 {
            pusher.send(&command(&words)).await;
        }
    }
    assert!(matches!(pusher.reply().await, Reply::Integer(_)));
    let mut jobs = std::collections::BTreeSet::new();
    for client in &mut staying {
        let Reply::Array(pair) = client.reply().await else { panic!("no job") };
        let job: serde_json::Value = serde_json::from_str(&text(&pair[1])).expect("JSON");
        assert!(jobs.insert(job["job_id"].to_string()), "a job went to two");
    }
    assert_eq!(jobs.len(), CROWD / 2, "each of those who stayed has one, and none is lost");
}

#[tokio::test]
async fn the_broker_stops_reading_from_a_peer_that_does_not_read() {
    /// More than two sockets and what is kept between them hold.
    const BYTES_MAX: usize = 64 << 20;
    let broker = Broker::start().await;
    let mut client = Client::connect(broker.address).await;
    let question = command(&["ECHO", &"x".repeat(20_000)]);
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_secs(1), client.send(&question)).await.is_ok() {
        sent += question.len();
        assert!(sent < BYTES_MAX, "it listens on and on");
    }
    assert_eq!(text(&Client::connect(broker.address).await.ask("PING").await), "PONG");
}

#[tokio::test]
async fn unread_replies_wait_where_they_are_counted_and_arrive_when_the_peer_reads() {
    const COUNT: usize = 100;
    let value = "v".repeat(9 << 20);
    // Less than a tenth of all replies.
    let budget = ByteBudget::new(64 << 20);
    let door = DoorSettings { budget: Arc::clone(&budget), ..DoorSettings::default() };
    let broker = Broker::told(Settings { door, ..Settings::default() }).await;
    let mut client = Client::connect(broker.address).await;
    client.send(&command(&["SET", "k", &value])).await;
    assert_eq!(text(&client.reply().await), "OK");
    let mut many = command(&["GET", "k"]).repeat(COUNT);
    many.extend(command(&["LLEN", "queue:absent"]));
    client.send(&many).await;
    let mut other = Client::connect(broker.address).await;
    let since = Instant::now();
    while budget.used() == 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "the replies are counted");
        assert_eq!(text(&other.ask("PING").await), "PONG");
    }
    for number in 0..COUNT {
        assert!(budget.used() < 40 << 20, "{number}: {}", budget.used());
        let Reply::Bulk(read) = client.reply().await else { panic!("{number} is no value") };
        assert!(read == value.as_bytes(), "{number} has {} bytes", read.len());
    }
    assert_eq!(client.reply().await, Reply::Integer(0), "later commands come after them");
}

#[tokio::test]
async fn a_body_that_there_is_no_memory_for_is_not_read_and_its_job_goes_back() {
    // Enough for a command with the body, and not for the reply while it is written.
    let budget = ByteBudget::new(25 << 20);
    let door = DoorSettings { budget: Arc::clone(&budget), ..DoorSettings::default() };
    let broker = Broker::told(Settings { door, ..Settings::default() }).await;
    let mut client = Client::connect(broker.address).await;
    client.send(&command(&["LPUSH", "queue:images", &"b".repeat(9 << 20)])).await;
    assert_eq!(client.reply().await, Reply::Integer(1));
    let Reply::Array(jobs) = client.ask("LRANGE queue:images 0 0").await else { panic!("no jobs") };
    let job = text(&jobs[0]);
    for question in [format!("JOB.GET {job}"), format!("GET job:{job}"), format!("HGETALL job:{job}")] {
        let said = text(&client.ask(&question).await);
        assert!(said.starts_with("-ERR full: "), "{question}: {}", &said[..said.len().min(100)]);
    }
    assert_eq!(text(&client.ask("PING").await), "PONG");
    let mut worker = Client::connect(broker.address).await;
    worker.say("BRPOP queue:images 0").await;
    assert_eq!(worker.next().await, None, "it would hold a job of which it knows nothing");
    let since = Instant::now();
    while client.ask("LLEN queue:images").await != Reply::Integer(1) {
        assert!(since.elapsed() < Duration::from_secs(60), "the job goes back");
    }
    assert_eq!(budget.used(), 0, "everything is given back");
}

#[tokio::test]
async fn a_connection_that_is_to_end_sends_first_what_it_owes() {
    const COUNT: usize = 20;
    let broker = Broker::start().await;
    let mut client = Client::connect(broker.address).await;
    client.send(&command(&["SET", "k", &"v".repeat(1 << 20)])).await;
    assert_eq!(text(&client.reply().await), "OK");
    let mut many = command(&["GET", "k"]).repeat(COUNT);
    many.extend(command(&["QUIT"]));
    client.send(&many).await;
    for _ in 0..COUNT {
        assert!(matches!(client.reply().await, Reply::Bulk(value) if value.len() == 1 << 20));
    }
    assert_eq!(text(&client.reply().await), "OK");
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn wrong_keys_are_answered_slowly_and_right_ones_at_once() {
    let broker = Broker::with_keys().await;
    let wrong = format!("AUTH {}", "0".repeat(64));
    let right = format!("AUTH {}", "1".repeat(64));
    let mut guesser = Client::connect(broker.address).await;
    let since = Instant::now();
    for _ in 0..6 {
        assert_eq!(text(&guesser.ask(&wrong).await), "-ERR Invalid authentication key");
    }
    assert!(since.elapsed() >= Duration::from_millis(250 + 500 + 1000), "three were held back");
    guesser.send(&command(&["AUTH", &"0".repeat(64)])).await;
    // The same address, while the guesser waits two seconds for its answer.
    let mut other = Client::connect(broker.address).await;
    assert_eq!(text(&other.ask(&right).await), "OK");
    assert_eq!(text(&other.ask("PING").await), "PONG");
    assert_eq!(text(&guesser.reply().await), "-ERR Invalid authentication key");
}

#[tokio::test]
async fn a_reader_of_events_that_are_gone_learns_which() {
    let store = StoreSettings {
        events_kept: 100,
        segment_bytes: 1 << 16,
        snapshot_bytes: 1 << 16,
        spare_segments: 0,
        ..StoreSettings::default()
    };
    let broker = Broker::on(store).await;
    let mut client = Client::connect(broker.address).await;
    let body = "x".repeat(1000);
    let words: Vec<&str> = ["LPUSH", "queue:a"].into_iter().chain(std::iter::repeat_n(&*body, 50)).collect();
    let since = Instant::now();
    let (id, fields) = loop {
        client.send(&command(&words)).await;
        assert!(matches!(client.reply().await, Reply::Integer(_)));
        let entries = first_entries(&client.ask("XREAD COUNT 1 STREAMS events 0").await);
        if entries[0].1[1] == "gap" {
            break entries[0].clone();
        }
        assert!(since.elapsed() < Duration::from_secs(30), "old events are dropped");
    };
    assert_eq!((&*fields[2], &*fields[3], &*fields[4]), ("from", "1", "to"));
    let last: u64 = fields[5].parse().expect("a number");
    assert_eq!(id, format!("{last}-0"));
    let Reply::Array(slice) = client.ask("XRANGE events 1 5").await else { panic!("entries") };
    let Reply::Array(gap) = &slice[0] else { panic!("an entry") };
    assert_eq!((slice.len(), &*text(&gap[0])), (1, "5-0"), "nothing beyond what was asked for");
    let next = first_entries(&client.ask(&format!("XREAD COUNT 1 STREAMS events {id}")).await);
    let after: u64 = next[0].0.trim_end_matches("-0").parse().expect("a number");
    assert!(after == last + 1 || next[0].1[1] == "gap", "what follows the gap is the next: {next:?}");
}

/// The entries of the only stream of an answer: ids with their fields.
fn first_entries(reply: &Reply) -> Vec<(String, Vec<String>)> {
    let part = |reply: &Reply, index: usize| match reply {
        Reply::Array(items) => items[index].clone(),
        other => panic!("no array: {other:?}"),
    };
    let Reply::Array(entries) = part(&part(reply, 0), 1) else { panic!("no entries: {reply:?}") };
    let entry = |entry: &Reply| {
        let Reply::Array(fields) = part(entry, 1) else { panic!("no fields") };
        (text(&part(entry, 0)), fields.iter().map(text).collect())
    };
    entries.iter().map(entry).collect()
}

#[tokio::test]
async fn a_publisher_learns_how_many_received_it() {
    let broker = Broker::start().await;
    let mut publisher = Client::connect(broker.address).await;
    assert_eq!(publisher.ask("PUBLISH news.sport goal").await, Reply::Integer(0), "no subscriber listens");
    let mut listener = Client::connect(broker.address).await;
    listener.ask("SUBSCRIBE news.sport").await;
    listener.ask("PSUBSCRIBE news.*").await;
    listener.ask("PSUBSCRIBE n?ws.s*").await;
    let mut other = Client::connect(broker.address).await;
    other.ask("HELLO 3").await;
    other.ask("PSUBSCRIBE *").await;
    assert_eq!(publisher.ask("PUBLISH news.sport goal").await, Reply::Integer(4), "channels and patterns");
    assert_eq!(
        publisher.ask("PUBLISH news.weather rain").await,
        Reply::Integer(2),
        "one pattern does not match"
    );
    let mut heard = Vec::new();
    for _ in 0..4 {
        let Reply::Array(parts) = listener.reply().await else { panic!("no message") };
        heard.push(parts.iter().map(text).collect::<Vec<_>>().join(" "));
    }
    heard.sort();
    let expected = [
        "message news.sport goal",
        "pmessage n?ws.s* news.sport goal",
        "pmessage news.* news.sport goal",
        "pmessage news.* news.weather rain",
    ];
    assert_eq!(heard, expected);
    for expected in ["goal", "rain"] {
        let Reply::Push(parts) = other.reply().await else { panic!("no push") };
        assert_eq!(text(&parts[3]), expected);
    }
    listener.ask("PUNSUBSCRIBE").await;
    let since = Instant::now();
    drop(other);
    // No notice says that the other's connection is gone, so the test asks.
    while publisher.ask("PUBLISH news.sport again").await != Reply::Integer(1) {
        assert!(since.elapsed() < Duration::from_secs(10), "only one is left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (channel, why) in [("job:1", "the broker's own"), ("a..b", "empty"), ("task.1", "")] {
        let refused = text(&publisher.ask(&format!("PUBLISH {channel} x")).await);
        assert!(refused.starts_with("-ERR") && refused.contains(why), "{refused}");
    }
    assert!(text(&publisher.ask("SUBSCRIBE a..b").await).starts_with("-ERR Invalid channel 'a..b'"));
}

#[tokio::test]
async fn what_one_peer_publishes_arrives_in_its_order_and_nothing_is_lost_silently() {
    let broker = Broker::start().await;
    let mut listener = Client::connect(broker.address).await;
    listener.ask("SUBSCRIBE numbers").await;
    let mut publisher = Client::connect(broker.address).await;
    let count = 20_000_usize;
    for first in (0..count).step_by(1000) {
        let many: Vec<u8> =
            (first..first + 1000).flat_map(|n| command(&["PUBLISH", "numbers", &n.to_string()])).collect();
        publisher.send(&many).await;
        for _ in 0..1000 {
            assert!(matches!(publisher.reply().await, Reply::Integer(1)));
        }
    }
    // What was dropped because the listener did not read is said.
    let mut next = 0;
    while next < count {
        let Reply::Array(parts) = listener.reply().await else { panic!("no message") };
        let message = text(&parts[2]);
        match message.parse::<usize>() {
            Ok(number) => {
                assert_eq!(number, next);
                next += 1;
            }
            Err(_) => {
                let gap: serde_json::Value = serde_json::from_str(&message).expect("a gap");
                let missed = gap["to"].as_u64().expect("to") - gap["from"].as_u64().expect("from") + 1;
                next += usize::try_from(missed).expect("a count");
            }
        }
    }
}

#[tokio::test]
async fn one_connection_too_many_gets_an_error() {
    let broker = Broker::told(Settings {
        door: DoorSettings { connections_max: 2, ..DoorSettings::default() },
        ..Settings::default()
    })
    .await;
    let mut first = Client::connect(broker.address).await;
    let mut second = Client::connect(broker.address).await;
    assert_eq!(text(&first.ask("PING").await), "PONG");
    assert_eq!(text(&second.ask("PING").await), "PONG");
    let mut third = Client::connect(broker.address).await;
    assert_eq!(text(&third.reply().await), "-ERR max number of clients reached");
    assert_eq!(third.next().await, None);
    drop(first);
    let since = Instant::now();
    loop {
        let mut next = Client::connect(broker.address).await;
        next.say("PING").await;
        if next.next().await == Some(Reply::Simple("PONG".into())) {
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(10), "the place is free again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_a_job_prints_is_a_stream() {
    use tenure_hub::words::{Command as HubCommand, Held, Notice, WorkerSpec};
    use tenure_hub::{Ask, Delivery, LogPiece, OutputStream, Principal, Request};
    let broker = Broker::start().await;
    let mut client = Client::connect(broker.address).await;
    assert_eq!(client.ask(r#"LPUSH queue:a '{"job_id":"j"}'"#).await, Reply::Integer(1));
    // A worker of another door takes it.
    let worker = broker.hub.open(Principal::trusted("test"), "default".into(), "w".into()).expect("it may");
    let send = async |request: Request| {
        worker.send(vec![Ask { token: 1, request }]).await.expect("the hub takes it");
    };
    send(Request::Command(HubCommand::Register(Box::new(WorkerSpec::new("w", vec!["a".into()], 1))))).await;
    let assigned = async {
        let mut arrived = Vec::new();
        loop {
            worker.mailbox().arrived().await;
            worker.mailbox().take(&mut arrived);
            for delivery in arrived.drain(..) {
                if let Delivery::Notice(Notice::Assign(assignment)) = delivery {
                    return Held { task: assignment.task, attempt: assignment.attempt };
                }
            }
        }
    };
    let held = tokio::time::timeout(Duration::from_secs(60), assigned).await.expect("it gets the job");
    let print = async |stream, offset, text: &'static str| {
        let piece = LogPiece { stream, offset, bytes: text.into() };
        send(Request::AppendLog { held, piece }).await;
    };
    client.say("XREAD BLOCK 60000 STREAMS logs:j $").await;
    let mut other = Client::connect(broker.address).await;
    print(OutputStream::Stdout, 0, "hello").await;
    let since = Instant::now();
    while other.ask("XLEN logs:j").await != Reply::Integer(1) {
        assert!(since.elapsed() < Duration::from_secs(60), "the piece is kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    print(OutputStream::Stderr, 0, "oh").await;
    // A reader that began at the end has the first piece or, if it looked later, the second.
    let entries = first_entries(&client.reply().await);
    let fields = |entry: &(String, Vec<String>)| entry.1.join(" ");
    assert!(fields(&entries[0]).starts_with("stream std"), "{entries:?}");
    while other.ask("XLEN logs:j").await != Reply::Integer(2) {
        assert!(since.elapsed() < Duration::from_secs(60), "the piece is kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let entries = first_entries(&other.ask("XREAD COUNT 5 STREAMS logs:j 0").await);
    assert_eq!(entries.len(), 2);
    assert!(fields(&entries[0]).starts_with("stream stdout attempt 1 at "), "{entries:?}");
    assert!(fields(&entries[0]).ends_with("offset 0 bytes hello"), "{entries:?}");
    let rest = first_entries(&other.ask(&format!("XREAD STREAMS logs:j {}", entries[0].0)).await);
    assert_eq!(rest, entries[1..]);
    let Reply::Array(slice) = other.ask(&format!("XRANGE logs:j - {}", entries[0].0)).await else {
        panic!("entries")
    };
    assert_eq!(slice.len(), 1);
}
