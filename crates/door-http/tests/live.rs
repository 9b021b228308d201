//! Server-sent events: they come live, and a client that connects again misses nothing, or is told what is gone.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Broker, Client};
use tenure_door_http::Settings;
use tenure_hub::Keys;
use tenure_hub::store::MemoryDisk;

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
