//! The first requests: health, submitting, listing, showing, and what is refused at the entrance.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{Broker, Client, some_keys};
use tenure_door_http::Settings;
use tenure_door_kit::DoorSettings;
use tenure_hub::Keys;
use tenure_hub::store::MemoryDisk;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_submitted_listed_and_shown() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let body =
        json!({ "queue": "images", "name": "scan-7", "body": { "command": ["date"] }, "tags": ["gpu"] });
    let answer = client.post("/v1/tasks", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let task = answer.json()["task"].as_str().expect("an id").to_owned();
    assert_eq!(answer.field("location"), Some(&*format!("/v1/tasks/{task}")));
    assert_eq!(answer.json()["unserved"]["code"], "no-worker-ever");

    let again = client.post("/v1/tasks", &body).await;
    assert_eq!((again.status, &again.json()["known"]), (200, &json!(true)));
    let other = json!({ "queue": "images", "body": "other" });
    let fields = [("content-type", "application/json"), ("idempotency-key", "scan-7")];
    let other = client.ask("POST", "/v1/tasks", &fields, other.to_string().as_bytes()).await;
    assert_eq!((other.status, &*other.code()), (409, "name-taken"));

    let shown = client.get("/v1/tasks/name:scan-7").await.json();
    assert_eq!(
        (&shown["id"], &shown["state"], &shown["body_bytes"]),
        (&json!(task), &json!("ready"), &json!(20))
    );
    assert_eq!(client.get(&format!("/v1/tasks/{task}")).await.json(), shown);
    let listed = client.get("/v1/tasks?state=ready,created&tag=gpu").await.json();
    assert_eq!(listed, json!({ "tasks": [shown], "next": null }));
    assert_eq!(client.get("/v1/tasks?queue=other").await.json()["tasks"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_has_pages() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for _ in 0..5 {
        assert_eq!(client.post("/v1/tasks", &json!({})).await.status, 201);
    }
    let (mut path, mut ids) = ("/v1/tasks?limit=2".to_owned(), Vec::new());
    loop {
        let page = client.get(&path).await.json();
        ids.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["id"].to_string()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/tasks?limit=2&cursor={next}");
    }
    assert_eq!(ids.len(), 5);
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_said() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for (path, status, code) in [
        ("/v1/nothing", 404, "not-found"),
        ("/v1/tasks/0190b5a2-77f0-7cc3-98b4-dc0c0c07398f", 404, "unknown-task"),
        ("/v1/tasks/name:absent", 404, "unknown-name"),
        ("/v1/tasks/7", 400, "bad-value"),
        ("/v1/tasks?stat=ready", 400, "bad-value"),
        ("/v1/tasks?state=redy", 400, "bad-value"),
        ("/v1/tasks?queue=a&queue=b", 400, "bad-value"),
        ("/v1/tasks?cursor=x", 400, "bad-value"),
        ("/v1/tasks?limit=many", 400, "bad-value"),
    ] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{path}");
        let problem = answer.json();
        assert_eq!(problem["type"], format!("urn:tenure:problem:{code}"));
        assert!(
            !problem["detail"].as_str().unwrap().is_empty()
                && !problem["action"].as_str().unwrap().is_empty()
        );
    }
    let answer = client.act("DELETE", "/v1/tasks").await;
    assert_eq!(
        (answer.status, &*answer.code(), answer.field("allow")),
        (405, "method-not-allowed", Some("GET, POST"))
    );
    let plain = client.ask("POST", "/v1/tasks", &[("content-type", "text/plain")], b"{}").await;
    assert_eq!((plain.status, &*plain.code()), (415, "not-json"));
    for list in [json!([]), json!([null, "x"]), json!("x")] {
        let answer = client.post("/v1/tasks", &list).await;
        assert_eq!((answer.status, &*answer.code()), (400, "bad-value"), "{list}");
        let answer = client.post("/v1/tasks/batch", &json!({ "tasks": [list] })).await;
        assert_eq!((answer.status, &*answer.code()), (400, "bad-value"), "{list}");
    }
    assert_eq!(client.get("/v1/tasks").await.json()["tasks"], json!([]));
    let typo = client.post("/v1/tasks", &json!({ "queu": "x" })).await;
    assert_eq!((typo.status, &*typo.code()), (400, "bad-value"));
    assert!(typo.json()["detail"].as_str().unwrap().contains("queu"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_page_of_this_broker_gets_anything_from_it() {
    let broker = Broker::start().await;
    let mut rebound = broker.client().await.with("host", "evil.example");
    let answer = rebound.get("/v1/tasks").await;
    assert_eq!((answer.status, &*answer.code()), (421, "bad-host"));
    let mut page = broker.client().await.with("sec-fetch-site", "cross-site");
    let answer = page.post("/v1/tasks", &json!({})).await;
    assert_eq!((answer.status, &*answer.code()), (403, "cross-site"));
    let settings = Settings { hosts: vec!["broker.example".to_owned()], ..Settings::default() };
    let named = Broker::with(settings, Keys::default()).await;
    assert_eq!(named.client().await.with("host", "broker.example:80").get("/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_its_namespace_and_nothing_without_one() {
    let broker = Broker::with_keys().await;
    let mut none = broker.client().await;
    let answer = none.get("/v1/tasks").await;
    assert_eq!((answer.status, &*answer.code()), (401, "not-allowed"));
    assert!(answer.field("www-authenticate").is_some());
    assert_eq!(none.get("/healthz").await.status, 200);
    assert_eq!(none.get("/readyz").await.json(), json!({ "ready": true, "reasons": [] }));
    let mut wrong = broker.client().await.with("authorization", "Bearer nonsense");
    assert_eq!(wrong.get("/v1/tasks").await.status, 401);

    let mut looker = broker.client().await.with("authorization", "Bearer looker");
    assert_eq!(looker.get("/v1/tasks").await.status, 200);
    let answer = looker.post("/v1/tasks", &json!({})).await;
    assert_eq!((answer.status, &*answer.code()), (403, "not-allowed"));

    let mut lab = broker.client().await.with("authorization", "Bearer lab-key");
    assert_eq!(lab.post("/v1/tasks", &json!({})).await.status, 201);
    assert_eq!(lab.get("/v1/tasks").await.json()["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(looker.get("/v1/tasks").await.json()["tasks"], json!([]));
    let mut stray =
        broker.client().await.with("authorization", "Bearer lab-key").with("tenure-namespace", "default");
    assert_eq!(stray.get("/v1/tasks").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_broker_finishes_its_requests_and_closes() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    let address = broker.address;
    broker.stop().await;
    assert!(client.is_closed().await);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_leaves_its_connection_usable() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for _ in 0..3 {
        let head =
            format!("POST /v1/nothing HTTP/1.1\r\nhost: {}\r\ncontent-length: 4\r\n\r\n", broker.address);
        client.raw(head.as_bytes()).await;
        client.raw(b"body").await;
        assert_eq!(client.answer("POST").await.status, 404);
    }
}

/// After this long the broker closes the connections of HTTP/2 peers that answer no ping, whatever else they do.
const UNANSWERED_PING: Duration = Duration::from_secs(40);
/// The beginning of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_an_admitted_request_is_closed_in_time() {
    let within = Duration::from_secs(3);
    let door = DoorSettings { login_within: within, ..DoorSettings::default() };
    let broker = Broker::with(Settings { door, ..Settings::default() }, some_keys()).await;
    let mut known = broker.client().await.with("authorization", "Bearer all-key");
    assert_eq!(known.get("/v1/tasks").await.status, 200);
    let begun = Instant::now();
    let mut strangers = Vec::new();
    for bytes in [&b""[..], b"G", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", PREFACE] {
        let mut stranger = broker.client().await;
        stranger.raw(bytes).await;
        strangers.push(stranger);
    }
    for mut stranger in strangers {
        stranger.hears_the_end().await;
    }
    assert!(begun.elapsed() >= within && begun.elapsed() < UNANSWERED_PING, "{:?}", begun.elapsed());
    // One with a right key, which came before them, stays.
    assert_eq!(known.get("/v1/tasks").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_wants_nothing_more_is_closed_and_one_that_waits_is_not() {
    let idle = Duration::from_secs(2);
    let broker = Broker::with(Settings { idle, ..Settings::default() }, Keys::default()).await;
    let mut waits = broker.client().await;
    let queues = json!({ "queues": ["images"] }).to_string();
    let json = [("content-type", "application/json")];
    assert_eq!(waits.ask("PUT", "/v1/work/w", &json, queues.as_bytes()).await.status, 200);
    waits.send("POST", "/v1/work/w/fetch?wait=60", &[], b"").await;
    let mut silent = broker.client().await;
    // One request, which is answered, over HTTP/2.
    let mut http2 = broker.client().await;
    let mut head = vec![0x82, 0x86, 0x04, 8];
    head.extend(b"/healthz");
    head.extend([0x01, 9]);
    head.extend(b"localhost");
    let length = u8::try_from(head.len()).unwrap();
    http2.raw(&[PREFACE, &[0, 0, length, 1, 5, 0, 0, 0, 1], &head].concat()).await;
    let begun = Instant::now();
    silent.hears_the_end().await;
    http2.hears_the_end().await;
    assert!(begun.elapsed() < UNANSWERED_PING, "{:?}", begun.elapsed());
    // The fetch has waited for longer than a connection without a request may.
    assert_eq!(broker.client().await.post("/v1/tasks", &json!({ "queue": "images" })).await.status, 201);
    assert_eq!(waits.answer("POST").await.status, 200);
    waits.hears_the_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_wrong_keys_loses_its_connections() {
    let broker = Broker::with_keys().await;
    let mut known = broker.client().await.with("authorization", "Bearer all-key");
    assert_eq!(known.get("/v1/tasks").await.status, 200);
    let mut storm = Vec::new();
    for _ in 0..60 {
        let mut client = broker.client().await.with("authorization", "Bearer nonsense");
        client.send("GET", "/v1/tasks", &[], b"").await;
        storm.push(client);
    }
    // When enough are held back, the others are refused at once, and their connections with them.
    let refused = storm.pop().expect("the last one");
    for (is_admitted, mut client) in [(false, refused), (true, known)] {
        client.fields = vec![("authorization".to_owned(), "Bearer nonsense".to_owned())];
        if is_admitted {
            client.send("GET", "/v1/tasks", &[], b"").await;
        }
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.field("connection")), (401, Some("close")));
        assert!(client.is_closed().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_long_is_refused_before_it_is_sent() {
    let broker =
        Broker::with(Settings { request_bytes_max: 1000, ..Settings::default() }, Keys::default()).await;
    let mut client = broker.client().await;
    let head = format!(
        "POST /v1/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 1001\r\n\r\n",
        broker.address
    );
    client.raw(head.as_bytes()).await;
    let answer = client.answer("POST").await;
    assert_eq!((answer.status, &*answer.code()), (413, "too-many"));
    // Without a length, it is counted as it comes.
    let mut chunked = Client::connect(broker.address).await;
    let head = format!(
        "POST /v1/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        broker.address
    );
    chunked.raw(head.as_bytes()).await;
    chunked.raw(format!("3e9\r\n{}\r\n", "x".repeat(1001)).as_bytes()).await;
    assert_eq!(chunked.answer("POST").await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_logs_in_with_a_key_and_out_again() {
    let broker = Broker::with_keys().await;
    let mut browser = broker.client().await;
    assert_eq!(browser.post("/v1/login", &json!({ "key": "nonsense" })).await.status, 401);
    let other = browser.post("/v1/login", &json!({ "key": "lab-key", "namespace": "default" })).await;
    assert_eq!((other.status, &*other.code()), (403, "not-allowed"));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let answer = browser.ask("POST", "/v1/login", &form, b"key=looker").await;
    assert_eq!((answer.status, answer.field("location")), (303, Some("/")));
    let cookie = answer.field("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict") && !cookie.contains("looker"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let mut browser = broker.client().await.with("cookie", &cookie);
    assert_eq!(browser.get("/v1/tasks?namespace=elsewhere").await.status, 200);
    assert_eq!(browser.post("/v1/tasks", &json!({})).await.code(), "not-allowed", "it may only look");
    // A page of another site does not even send the cookie; if it could, it would be refused all the same.
    let mut page = broker.client().await.with("cookie", &cookie).with("origin", "http://evil.example");
    assert_eq!(page.act("POST", "/v1/queues/q/pause").await.code(), "cross-site");
    assert_eq!(browser.act("POST", "/v1/logout").await.status, 204);
    assert_eq!(browser.get("/v1/tasks").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_ends_with_its_key() {
    let broker = Broker::with_keys().await;
    let answer = broker.client().await.post("/v1/login", &json!({ "key": "looker" })).await;
    assert_eq!(answer.status, 204);
    let cookie = answer.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let mut browser = broker.client().await.with("cookie", &cookie);
    assert_eq!(browser.get("/v1/tasks").await.status, 200);
    let mut keys = Keys::default();
    keys.add(b"other", tenure_hub::Grant { name: "other".into(), ..tenure_hub::Grant::everything() });
    broker.hub.set_keys(keys);
    assert_eq!(browser.get("/v1/tasks").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_at_least_one_entry() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for path in ["/v1/tasks", "/v1/events", "/v1/arrays", "/v1/topics", "/v1/subscriptions"] {
        let refused = client.get(&format!("{path}?limit=0")).await;
        assert_eq!((refused.status, &*refused.code()), (400, "bad-value"), "{path}");
        assert_eq!(client.get(&format!("{path}?limit=1000000")).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_accepted_in_place_of_no_object() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for (path, body) in [
        ("/v1/tasks", json!([])),
        ("/v1/tasks", json!({ "after": [["name:first"]] })),
        ("/v1/tasks/batch", json!({ "tasks": [[]] })),
        ("/v1/tasks/batch", json!({ "tasks": [{ "after": [["name:first"]] }] })),
        ("/v1/bulk/cancel", json!({ "where": [["ready"]] })),
        ("/v1/arrays", json!({ "task": [], "size": 1 })),
        ("/v1/reconcile", json!({ "prefix": "p", "declared": [["name"]] })),
        ("/v1/reconcile", json!({ "prefix": "p", "declared": [{ "name": "n", "task": [] }] })),
    ] {
        let refused = client.post(path, &body).await;
        assert_eq!((refused.status, &*refused.code()), (400, "bad-value"), "{path} {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_an_answer_is_described() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let task = client.post("/v1/tasks", &json!({ "queue": "images" })).await.json()["task"].clone();
    let fields = [("content-type", "application/json")];
    let put = [
        ("/v1/work/w1", json!({ "queues": ["images"] })),
        ("/v1/schedules/nightly", json!({ "when": "0 2 * * *", "task": { "queue": "images" } })),
    ];
    for (path, body) in put {
        let answer = client.ask("PUT", path, &fields, body.to_string().as_bytes()).await;
        assert!(answer.status < 300, "{answer:?}");
    }
    let array = client.post("/v1/arrays", &json!({ "task": { "queue": "other" }, "size": 2 })).await.json();
    let description = client.get("/openapi.json").await.json();
    let show = format!("/v1/tasks/{}", task.as_str().expect("an id"));
    let show_array = format!("/v1/arrays/{}", array["array"].as_str().expect("an id"));
    for (schema, path) in [
        ("Task", &*show),
        ("Worker", "/v1/workers/w1"),
        ("Queue", "/v1/queues/images"),
        ("Schedule", "/v1/schedules/nightly"),
        ("Array", &*show_array),
        ("Counts", "/v1/counts"),
        ("Scaling", "/v1/queues/images/scaling"),
    ] {
        let answer = client.get(path).await.json();
        let described = &description["components"]["schemas"][schema]["properties"];
        let described: Vec<_> = described.as_object().expect("properties").keys().collect();
        let mut sent: Vec<_> = answer.as_object().expect("an object").keys().collect();
        sent.retain(|field| !described.contains(field));
        assert_eq!(sent, Vec::<&String>::new(), "fields of {path} that are not described");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_whose_disk_is_full_is_not_ready_and_says_why() {
    let disk = MemoryDisk::new();
    let broker =
        Broker::on(Arc::new(disk.clone()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let mut client = broker.client().await;
    assert_eq!(client.post("/v1/tasks", &json!({})).await.status, 201);
    disk.limit_capacity(Some(0));
    // The broker notices it when it writes, and the answer about the readiness may be a second old.
    for _ in 0..600 {
        client.post("/v1/tasks", &json!({ "body": "x".repeat(10_000) })).await;
        let ready = client.get("/readyz").await;
        if ready.status == 503 {
            assert_eq!(ready.json(), json!({ "ready": false, "reasons": ["disk-full"] }));
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.post("/v1/tasks", &json!({})).await.code(), "disk-full");
    assert_eq!(client.get("/healthz").await.status, 200, "the process lives");
}
