//! Server-sent events: they come live, and a client that connects again misses nothing, or receives a gap.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Broker, Client};
use tenure_door_http::Settings;
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::words::{Command, Held, Notice, TaskId, WorkerSpec};
use tenure_hub::{Ask, Delivery, Keys, LogPiece, OutputStream, Principal, Request, Session};

#[derive(Debug, PartialEq)]
struct Sent {
    name: String,
    id: Option<String>,
    data: Value,
}

/// A stream of server-sent events.
struct Listener {
    client: Client,
    text: String,
}

impl Listener {
    async fn open(broker: &Broker, path: &str, last: Option<&str>) -> Listener {
        let mut client = broker.client().await;
        let mut fields = vec![("accept", "text/event-stream")];
        fields.extend(last.map(|last| ("last-event-id", last)));
        client.send("GET", path, &fields, b"").await;
        let (status, fields) = client.head().await;
        assert_eq!(status, 200, "{fields:?}");
        assert!(fields.contains(&("content-type".to_owned(), "text/event-stream".to_owned())));
        Listener { client, text: String::new() }
    }

    /// The next event; comments and retry times are passed over. `None` at the end of the stream.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (mut name, mut id, mut data) = ("message".to_owned(), None, None);
                for line in block.lines() {
                    match line.split_once(": ") {
                        Some(("event", value)) => name = value.to_owned(),
                        Some(("id", value)) => id = Some(value.to_owned()),
                        Some(("data", value)) => data = Some(serde_json::from_str(value).expect("JSON")),
                        _ => {}
                    }
                }
                self.text = rest.to_owned();
                if let Some(data) = data {
                    return Some(Sent { name, id, data });
                }
            }
            let part = self.client.chunk().await?;
            self.text += &String::from_utf8(part).expect("text");
        }
    }

    async fn message(&mut self) -> Sent {
        let sent = self.next().await.expect("the stream goes on");
        assert_eq!(sent.name, "message", "{sent:?}");
        sent
    }
}

async fn submit(broker: &Broker, count: usize) {
    let tasks: Vec<Value> = (0..count).map(|_| json!({ "queue": "images" })).collect();
    let answer = broker.client().await.post("/v1/tasks/batch", &json!({ "tasks": tasks })).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_live_and_only_those_that_are_wanted() {
    let broker = Broker::start().await;
    let mut all = Listener::open(&broker, "/v1/events", None).await;
    let live = all.next().await.unwrap();
    assert_eq!((&*live.name, live.id.as_deref(), live.data), ("live", Some("0"), json!({ "next": 1 })));
    let mut paused = Listener::open(&broker, "/v1/events?kind=queue-paused&queue=images", None).await;
    paused.next().await;
    submit(&broker, 2).await;
    broker.client().await.act("POST", "/v1/queues/images/pause").await;
    let kinds = [all.message().await, all.message().await].map(|sent| sent.data["kind"].clone());
    assert_eq!(kinds, [json!("submitted"), json!("submitted")]);
    let event = paused.message().await;
    assert_eq!((&event.data["kind"], &event.data["queue"]), (&json!("queue-paused"), &json!("images")));
    let problem = broker.client().await.get("/v1/events?kind=nonsense").await;
    assert_eq!(problem.code(), "bad-value");
    let waiting_parents =
        broker.client().await.get("/v1/events?kind=suspended,continued&from=1&limit=1").await;
    assert_eq!(waiting_parents.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_listeners_that_follow_the_same_get_every_event_once_and_in_order() {
    let broker = Broker::start().await;
    let mut listeners = Vec::new();
    for _ in 0..20 {
        let mut listener = Listener::open(&broker, "/v1/events?kind=submitted", None).await;
        assert_eq!(listener.next().await.unwrap().name, "live");
        listeners.push(listener);
    }
    let mut expected: u64 = 0;
    for count in [1, 1, 300, 1, 40] {
        submit(&broker, count).await;
        for listener in &mut listeners {
            for number in 1..=count as u64 {
                assert_eq!(listener.message().await.id, Some((expected + number).to_string()));
            }
        }
        expected += count as u64;
    }
    // One that comes later reads the log first, and then what the others get.
    let mut late = Listener::open(&broker, "/v1/events?kind=submitted&from=300", None).await;
    for number in 300..=expected {
        assert_eq!(late.message().await.id, Some(number.to_string()));
    }
    assert_eq!(late.next().await.unwrap().name, "live");
    submit(&broker, 2).await;
    listeners.push(late);
    for listener in &mut listeners {
        for number in [expected + 1, expected + 2] {
            assert_eq!(listener.message().await.id, Some(number.to_string()));
        }
    }
    broker.stop().await;
    for listener in &mut listeners {
        assert_eq!(listener.next().await.unwrap().name, "end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_falls_behind_the_others_misses_nothing() {
    const EVENTS: usize = 30_000;
    let broker = Broker::start().await;
    let path = "/v1/events?kind=submitted";
    let mut listeners = Vec::new();
    for _ in 0..6 {
        let mut listener = Listener::open(&broker, path, None).await;
        assert_eq!(listener.next().await.unwrap().name, "live");
        listeners.push(listener);
    }
    submit(&broker, 1).await;
    for listener in &mut listeners {
        listener.message().await;
    }
    let mut slow = listeners.pop().expect("the last one");
    let reading = listeners.into_iter().map(|mut listener| {
        tokio::spawn(async move {
            let mut next = 2;
            while next <= EVENTS as u64 {
                let sent = listener.next().await.expect("the stream goes on");
                if sent.name == "message" {
                    assert_eq!(sent.id, Some(next.to_string()));
                    next += 1;
                }
            }
        })
    });
    let reading: Vec<_> = reading.collect();
    // More bytes than the feed and the buffers of a socket hold.
    let identity = "i".repeat(250);
    let queue = "q".repeat(250);
    let tasks: Vec<Value> = (0..1_000).map(|_| json!({ "queue": queue })).collect();
    let fields = [("content-type", "application/json"), ("tenure-identity", &*identity)];
    let body = json!({ "tasks": tasks }).to_string();
    for _ in 0..EVENTS / 1_000 {
        let answer = broker.client().await.ask("POST", "/v1/tasks/batch", &fields, body.as_bytes()).await;
        assert_eq!(answer.status, 200);
    }
    for one in reading {
        one.await.expect("it has read all");
    }
    let mut next = 2;
    while next <= EVENTS as u64 {
        let sent = slow.next().await.expect("the stream goes on");
        if sent.name == "message" {
            assert_eq!(sent.id, Some(next.to_string()));
            next += 1;
        } else {
            assert_eq!(sent.name, "live", "{sent:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_that_share_end_with_their_keys() {
    let broker = Broker::with_keys().await;
    let mut listeners = Vec::new();
    for key in ["looker", "looker", "looker", "looker", "looker", "lab-key", "lab-key"] {
        let mut client = broker.client().await;
        let bearer = format!("Bearer {key}");
        let fields = [("accept", "text/event-stream"), ("authorization", &*bearer)];
        client.send("GET", "/v1/events", &fields, b"").await;
        assert_eq!(client.head().await.0, 200);
        let mut listener = Listener { client, text: String::new() };
        assert_eq!(listener.next().await.unwrap().name, "live");
        listeners.push(listener);
    }
    let client = broker.hub.open(Principal::trusted("test"), "default".into(), "c".into()).unwrap();
    let submit = || {
        let task = tenure_hub::words::NewTask::new(tenure_hub::fresh_id(), "images");
        Ask { token: 1, request: Request::Submit(vec![tenure_hub::Submission::new(task, "".into())]) }
    };
    for _ in 0..3 {
        client.send(vec![submit()]).await.unwrap();
        for listener in &mut listeners[..5] {
            listener.message().await;
        }
    }
    let mut keys = Keys::default();
    keys.add(b"other", tenure_hub::Grant::everything());
    broker.hub.set_keys(keys);
    for listener in &mut listeners {
        let end = listener.next().await.expect("an end");
        assert_eq!(end.name, "end", "those of the other namespace have seen nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_connects_again_misses_nothing_across_a_restart_of_the_broker() {
    let disk = MemoryDisk::new();
    let broker =
        Broker::on(Arc::new(disk.clone()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let mut listener = Listener::open(&broker, "/v1/events?kind=submitted", None).await;
    assert_eq!(listener.next().await.unwrap().name, "live");
    submit(&broker, 5).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(listener.message().await.id.unwrap());
    }
    let mut watching = Listener::open(&broker, "/v1/events", None).await;
    watching.next().await;
    broker.stop().await;
    let end = watching.next().await.unwrap();
    assert_eq!((&*end.name, &end.data["code"]), ("end", &json!("draining")));
    assert_eq!(watching.next().await, None);

    let broker =
        Broker::on(Arc::new(disk.reopen()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    submit(&broker, 2).await;
    let last = seen.last().unwrap().clone();
    let mut listener = Listener::open(&broker, "/v1/events?kind=submitted", Some(&last)).await;
    while seen.len() < 7 {
        let sent = listener.next().await.unwrap();
        if sent.name == "message" {
            seen.push(sent.id.unwrap());
        } else {
            assert_eq!(sent.name, "live");
        }
    }
    assert_eq!(seen, ["1", "2", "3", "4", "5", "6", "7"], "no gap, and nothing twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_queues_and_workers_go_on_after_a_restart_of_the_broker() {
    let disk = MemoryDisk::new();
    let start = async |disk: MemoryDisk| {
        Broker::on(Arc::new(disk), "127.0.0.1:0", Settings::default(), Keys::default()).await
    };
    let register = async |broker: &Broker, worker: &str| {
        let fields = [("content-type", "application/json")];
        let path = format!("/v1/work/{worker}");
        let answer = broker.client().await.ask("PUT", &path, &fields, br#"{"queues": ["images"]}"#).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let broker = start(disk.clone()).await;
    let paths =
        ["/v1/events?queue=images&kind=queue-paused,queue-resumed", "/v1/events?kind=worker-registered"];
    let mut last = Vec::new();
    let mut listeners = Vec::new();
    for path in paths {
        let mut listener = Listener::open(&broker, path, None).await;
        assert_eq!(listener.next().await.unwrap().name, "live");
        listeners.push(listener);
    }
    broker.client().await.act("POST", "/v1/queues/images/pause").await;
    register(&broker, "w1").await;
    for listener in &mut listeners {
        last.push(listener.message().await.id.unwrap());
    }
    // No client listens when these happen.
    drop(listeners);
    broker.client().await.act("POST", "/v1/queues/images/resume").await;
    register(&broker, "w2").await;
    broker.stop().await;

    let broker = start(disk.reopen()).await;
    let mut queue = Listener::open(&broker, paths[0], Some(&last[0])).await;
    assert_eq!(queue.message().await.data["kind"], json!("queue-resumed"));
    let mut worker = Listener::open(&broker, paths[1], Some(&last[1])).await;
    assert_eq!(worker.message().await.data["worker"], json!("w2"));
}

/// A worker that has started one task, through the hub.
async fn working(broker: &Broker) -> (Session, Held) {
    let session = broker.hub.open(Principal::trusted("test"), "default".into(), "w".into()).unwrap();
    let spec = WorkerSpec::new("w", vec!["images".into()], 1);
    let request = Request::Command(Command::Register(Box::new(spec)));
    session.send(vec![Ask { token: 0, request }]).await.unwrap();
    submit(broker, 1).await;
    let mut taken = Vec::new();
    loop {
        session.mailbox().arrived().await;
        session.mailbox().take(&mut taken);
        for delivery in taken.drain(..) {
            if let Delivery::Notice(Notice::Assign(one)) = delivery {
                let held = Held { task: one.task, attempt: one.attempt };
                let start = Request::Command(Command::Start(vec![held]));
                session.send(vec![Ask { token: 0, request: start }]).await.unwrap();
                return (session, held);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_output_that_is_cut_off_in_the_middle_misses_nothing_across_a_restart() {
    let disk = MemoryDisk::new();
    let broker =
        Broker::on(Arc::new(disk.clone()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let (worker, held) = working(&broker).await;
    let mut offset = 0;
    for text in ["one\n", "two\n", "three\n"] {
        let piece = LogPiece { stream: OutputStream::Stdout, offset, bytes: text.into() };
        offset += text.len() as u64;
        worker.send(vec![Ask { token: 0, request: Request::AppendLog { held, piece } }]).await.unwrap();
    }
    let path = logs_path(held.task);
    while broker.client().await.get(&path).await.json()["pieces"].as_array().unwrap().len() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // All three are in one page; the client has read only the first when its connection is cut.
    let mut listener = Listener::open(&broker, &path, None).await;
    let first = listener.message().await;
    assert_eq!(first.data["text"], json!("one\n"));
    drop((listener, worker));
    broker.stop().await;

    let broker =
        Broker::on(Arc::new(disk.reopen()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let mut listener = Listener::open(&broker, &path, first.id.as_deref()).await;
    let rest = [listener.message().await, listener.message().await].map(|sent| sent.data["text"].clone());
    assert_eq!(rest, [json!("two\n"), json!("three\n")]);
}

fn logs_path(task: TaskId) -> String {
    format!("/v1/tasks/{task}/logs")
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_resume_after_a_restart_of_the_broker_or_report_a_gap() {
    let disk = MemoryDisk::new();
    let broker =
        Broker::on(Arc::new(disk.clone()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let path = "/v1/messages?topic=lab.door&subscription=me";
    let mut listener = Listener::open(&broker, path, None).await;
    assert_eq!(listener.next().await.unwrap().name, "subscribed");
    let publish = async |broker: &Broker, text: &str| {
        let answer = broker.client().await.ask("POST", "/v1/topics/lab.door", &[], text.as_bytes()).await;
        assert_eq!(answer.status, 200);
    };
    publish(&broker, "open").await;
    let seen = listener.message().await;
    drop(listener);
    publish(&broker, "closed").await;
    broker.stop().await;

    let broker =
        Broker::on(Arc::new(disk.reopen()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let mut listener = Listener::open(&broker, path, seen.id.as_deref()).await;
    publish(&broker, "locked").await;
    // The message that came while it was away is replayed, or reported as a gap: never skipped silently.
    let mut is_reported = false;
    loop {
        let sent = listener.next().await.expect("the stream goes on");
        match &*sent.name {
            "gap" => is_reported = true,
            "message" if sent.data["payload"] == json!("closed") => is_reported = true,
            "message" => {
                assert_eq!(sent.data["payload"], json!("locked"));
                break;
            }
            _ => {}
        }
    }
    assert!(is_reported, "a message was passed over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_events_says_where_the_next_one_begins() {
    let broker = Broker::start().await;
    submit(&broker, 3).await;
    let mut client = broker.client().await;
    let page = client.get("/v1/events?limit=2").await.json();
    assert_eq!(
        (page["events"].as_array().unwrap().len(), &page["next"], &page["gap"]),
        (2, &json!(3), &Value::Null)
    );
    let page = client.get("/v1/events?from=3").await.json();
    assert_eq!((page["events"].as_array().unwrap().len(), &page["next"]), (1, &json!(4)));
    assert_eq!(client.get("/v1/events?from=4").await.json()["events"], json!([]));
    client.send("GET", "/v1/events?from=4&wait=30", &[], b"").await;
    submit(&broker, 1).await;
    assert_eq!(client.answer("GET").await.json()["events"][0]["seq"], json!(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_resume_where_their_stream_was_cut() {
    let broker = Broker::start().await;
    let mut publisher = broker.client().await;
    let mut publish = async |topic: &str, text: &str| {
        let answer = publisher.ask("POST", &format!("/v1/topics/{topic}"), &[], text.as_bytes()).await;
        assert_eq!(answer.status, 200);
    };
    let path = "/v1/messages?topic=lab.*&subscription=me";
    let mut listener = Listener::open(&broker, path, None).await;
    let first = listener.next().await.unwrap();
    assert_eq!((&*first.name, first.id.as_deref()), ("subscribed", Some("me")));
    publish("lab.door", "open").await;
    publish("lab.lamp", "on").await;
    let door = listener.message().await;
    assert_eq!(
        (&door.data["topic"], &door.data["payload"], &door.data["kind"]),
        (&json!("lab.door"), &json!("open"), &json!("live"))
    );
    // The client has seen the first message only, and its connection is cut.
    drop(listener);
    publish("lab.door", "closed").await;
    let mut listener = Listener::open(&broker, path, door.id.as_deref()).await;
    assert_eq!(listener.next().await.unwrap().name, "resumed");
    let mut got = Vec::new();
    while got.len() < 2 {
        let sent = listener.next().await.unwrap();
        if sent.name == "message" {
            got.push(format!("{} {}", sent.data["topic"], sent.data["payload"]));
        }
    }
    got.sort();
    assert_eq!(got, ["\"lab.door\" \"closed\"", "\"lab.lamp\" \"on\""]);
    let ended = broker.client().await.act("DELETE", "/v1/subscriptions/me").await;
    assert_eq!(ended.status, 204);
    loop {
        match listener.next().await {
            Some(sent) if sent.name == "end" => assert_eq!(sent.data["code"], json!("unsubscribed")),
            Some(_) => {}
            None => break,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_from_events_that_are_gone_begins_with_a_gap() {
    let store = StoreSettings {
        segment_bytes: 64 << 10,
        snapshot_bytes: 64 << 10,
        events_kept: 10,
        ..StoreSettings::default()
    };
    let disk = Arc::new(MemoryDisk::new());
    let broker = Broker::storing(disk, store, "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let mut client = broker.client().await;
    let gone = async {
        loop {
            submit(&broker, 500).await;
            let gap = client.get("/v1/events?from=1&limit=1").await.json()["gap"].clone();
            if !gap.is_null() {
                break gap;
            }
        }
    };
    let gap = tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.expect("old events go");
    assert_eq!(gap["from"], json!(1));
    let mut listener = Listener::open(&broker, "/v1/events?from=1", None).await;
    let first = listener.next().await.expect("an event");
    assert_eq!((&*first.name, &first.data["from"]), ("gap", &json!(1)));
    let oldest = first.data["oldest"].as_u64().expect("a number");
    assert!(oldest >= gap["oldest"].as_u64().expect("a number"), "{first:?} after {gap}");
    let next = listener.next().await.expect("an event");
    assert_eq!((&*next.name, &next.data["seq"]), ("message", &json!(oldest)), "what is kept follows at once");
    // A client that was cut off after the gap continues there.
    assert_eq!(first.id, Some((oldest - 1).to_string()));
    let mut listener = Listener::open(&broker, "/v1/events", first.id.as_deref()).await;
    let again = listener.next().await.expect("an event");
    assert!(again.name == "gap" || again.data["seq"] == json!(oldest), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_from_beyond_the_end_of_the_log_hears_that_the_log_begins_again() {
    let broker = Broker::start().await;
    submit(&broker, 3).await;
    let page = broker.client().await.get("/v1/events?from=99999").await.json();
    assert_eq!(page["gap"], json!({ "from": 99_999, "to": 3, "oldest": 4 }));
    assert_eq!((page["events"].as_array().map(Vec::len), &page["next"]), (Some(0), &json!(4)));
    let mut listener = Listener::open(&broker, "/v1/events", Some("99999")).await;
    let gap = listener.next().await.expect("an event");
    assert_eq!((&*gap.name, &gap.data), ("gap", &json!({ "from": 100_000, "to": 3, "oldest": 4 })));
    assert_eq!(gap.id.as_deref(), Some("3"), "a client that is cut off now continues there");
    assert_eq!(&*listener.next().await.expect("an event").name, "live");
    submit(&broker, 1).await;
    let next = listener.next().await.expect("an event");
    assert_eq!((&*next.name, &next.data["seq"]), ("message", &json!(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_bound_key_gets_figures_of_its_namespace_only() {
    let broker = Broker::with_keys().await;
    let mut lab = broker.client().await.with("authorization", "Bearer lab-key");
    for _ in 0..3 {
        assert_eq!(lab.post("/v1/tasks", &json!({ "queue": "images" })).await.status, 201);
    }
    let mut whole = broker.client().await.with("authorization", "Bearer all-key");
    for _ in 0..4 {
        assert_eq!(whole.post("/v1/tasks", &json!({ "queue": "others" })).await.status, 201);
    }
    for (key, submitted) in [("lab-key", 3), ("all-key", 7)] {
        let mut client = broker.client().await.with("authorization", &format!("Bearer {key}"));
        client.send("GET", "/live", &[("accept", "text/event-stream")], b"").await;
        assert_eq!(client.head().await.0, 200);
        let mut listener = Listener { client, text: String::new() };
        let sample = loop {
            let sent = listener.next().await.expect("an event");
            if sent.name == "samples" && sent.data["samples"].as_array().is_some_and(|all| !all.is_empty()) {
                break sent.data["samples"][0].clone();
            }
        };
        assert_eq!((&sample["submitted"], &sample["ready"]), (&json!(submitted), &json!(submitted)), "{key}");
    }
}
