//! Workers with nothing but requests: they register, fetch, report, and come back.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Broker, Client};
use tenure_door_http::Settings;
use tenure_hub::Keys;
use tenure_hub::store::MemoryDisk;

async fn register(client: &mut Client, worker: &str, more: Value) -> Value {
    let mut body = json!({ "queues": ["images"] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let fields = [("content-type", "application/json")];
    let path = format!("/v1/work/{worker}");
    let answer = client.ask("PUT", &path, &fields, body.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

async fn submit(client: &mut Client, more: Value) -> String {
    let mut body = json!({ "queue": "images", "body": "scan 7" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = client.post("/v1/tasks", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["task"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_fetched_worked_on_and_completed() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    let terms = register(&mut worker, "w1", json!({ "host": "here" })).await;
    assert_eq!(
        (&terms["returned"], &terms["lost_after_ms"], &terms["held"]),
        (&json!(false), &json!(60_000), &json!([]))
    );
    let task = submit(&mut client, json!({})).await;
    let fetched = worker.act("POST", "/v1/work/w1/fetch").await.json();
    assert_eq!(
        (&fetched["task"], &fetched["attempt"], &fetched["body"]),
        (&json!(task), &json!(1), &json!("scan 7"))
    );
    let path = |verb: &str| format!("/v1/work/w1/tasks/{task}/1/{verb}");
    assert_eq!(
        worker.act("POST", &path("start")).await.json(),
        json!({ "wanted": null, "in_place": false, "reason": null })
    );
    let answer = worker.post(&path("progress"), &json!({ "percent": 40, "note": "almost" })).await;
    assert_eq!(answer.status, 200);
    assert_eq!(worker.ask("POST", &path("checkpoint"), &[], b"\xff\x00half").await.status, 200);
    let shown = client.get(&format!("/v1/tasks/{task}")).await.json();
    assert_eq!((&shown["state"], &shown["holding"]["progress"]["percent"]), (&json!("running"), &json!(40)));
    assert_eq!(client.get(&format!("/v1/tasks/{task}/checkpoint")).await.body, b"\xff\x00half");
    assert_eq!(worker.ask("POST", &path("complete"), &[], b"done").await.status, 204);
    let result = client.get(&format!("/v1/tasks/{task}/result?wait=10")).await;
    assert_eq!(
        (&*result.text(), result.field("tenure-state"), result.field("tenure-exit-code")),
        ("done", Some("completed"), Some("0"))
    );
    let late = worker.act("POST", &path("start")).await;
    assert_eq!((late.status, &*late.code()), (409, "stale-attempt"));
    let workers = client.get("/v1/workers").await.json();
    assert_eq!(
        (&workers["workers"][0]["door"], &workers["workers"][0]["host"]),
        (&json!("http"), &json!("here"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_names_at_least_one_queue() {
    let broker = Broker::start().await;
    let mut worker = broker.client().await;
    let fields = [("content-type", "application/json")];
    for body in ["{}", r#"{"queues":[]}"#] {
        let answer = worker.ask("PUT", "/v1/work/w9", &fields, body.as_bytes()).await;
        assert_eq!((answer.status, &*answer.code()), (400, "bad-value"), "{body}");
        assert!(answer.text().contains("queues"), "{}", answer.text());
    }
    assert_eq!(worker.get("/v1/workers").await.json()["workers"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_waits_for_a_task_and_gives_up_in_time() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    assert_eq!(worker.act("POST", "/v1/work/w1/fetch?wait=0").await.status, 204);
    worker.send("POST", "/v1/work/w1/fetch?wait=30", &[], b"").await;
    let task = submit(&mut client, json!({})).await;
    assert_eq!(worker.answer("POST").await.json()["task"], json!(task));
    // The worker has one slot, and it is taken.
    submit(&mut client, json!({})).await;
    assert_eq!(worker.act("POST", "/v1/work/w1/fetch?wait=0.05").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_came_for_a_gone_client_waits_for_the_next_fetch() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    let mut gone = broker.client().await;
    gone.send("POST", "/v1/work/w1/fetch?wait=30", &[], b"").await;
    // The broker has begun to wait when the worker is seen asking.
    let first = submit(&mut client, json!({ "queue": "other" })).await;
    drop(gone);
    let task = submit(&mut client, json!({})).await;
    let fetched = loop {
        // Whether the abandoned fetch or this one got it, it is this one that hands it out, unless it was sent to the
        // closed connection: then the broker takes it back.
        let answer = worker.act("POST", "/v1/work/w1/fetch?wait=30").await;
        if answer.status == 200 {
            break answer.json();
        }
    };
    assert_eq!(fetched["task"], json!(task));
    assert_ne!(first, task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_learns_what_clients_want_and_confirms() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    let task = submit(&mut client, json!({})).await;
    worker.act("POST", "/v1/work/w1/fetch").await;
    worker.act("POST", &format!("/v1/work/w1/tasks/{task}/1/start")).await;
    client.post(&format!("/v1/tasks/{task}/cancel"), &json!({ "reason": "wrong scan" })).await;
    let wanted = json!([{ "task": task, "attempt": 1, "wanted": "cancel", "in_place": false, "reason": "wrong scan" }]);
    let news = worker.act("POST", "/v1/work/w1/heartbeat").await.json();
    assert_eq!((&news["wanted"], &news["drain"]), (&wanted, &json!(false)));
    let progress = worker.post(&format!("/v1/work/w1/tasks/{task}/1/progress"), &json!({})).await.json();
    assert_eq!(progress, json!({ "wanted": "cancel", "in_place": false, "reason": "wrong scan" }));
    let confirmed =
        worker.post(&format!("/v1/work/w1/tasks/{task}/1/confirm"), &json!({ "wanted": "cancel" })).await;
    assert_eq!(confirmed.status, 204);
    assert_eq!(client.get(&format!("/v1/tasks/{task}/wait")).await.json()["state"], json!("cancelled"));
    assert_eq!(worker.act("POST", "/v1/work/w1/heartbeat").await.json()["wanted"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_fails_gives_back_drains_and_leaves() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({ "slots": 2 })).await;
    let failed = submit(&mut client, json!({})).await;
    worker.act("POST", "/v1/work/w1/fetch").await;
    let body = json!({ "exit_code": 3, "message": "no such file", "final": true, "result": { "why": "x" } });
    assert_eq!(worker.post(&format!("/v1/work/w1/tasks/{failed}/1/fail"), &body).await.status, 204);
    let shown = client.get(&format!("/v1/tasks/{failed}")).await.json();
    assert_eq!(
        (&shown["state"], &shown["end"]["exit_code"], &shown["end"]["message"]),
        (&json!("failed"), &json!(3), &json!("no such file"))
    );
    let back = submit(&mut client, json!({})).await;
    worker.act("POST", "/v1/work/w1/fetch").await;
    let given = worker
        .post(&format!("/v1/work/w1/tasks/{back}/1/give-back"), &json!({ "reason": "no licence" }))
        .await;
    assert_eq!(given.status, 204);
    let again = worker.act("POST", "/v1/work/w1/fetch").await.json();
    assert_eq!((&again["task"], &again["attempt"]), (&json!(back), &json!(2)));
    assert_eq!(worker.act("POST", "/v1/work/w1/drain").await.status, 204);
    assert_eq!(worker.act("DELETE", "/v1/work/w1").await.status, 204);
    let gone = worker.act("POST", "/v1/work/w1/heartbeat").await;
    assert_eq!((gone.status, &*gone.code()), (409, "not-a-worker"));
    assert_eq!(client.get(&format!("/v1/tasks/{back}")).await.json()["state"], json!("ready"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_restart_interrupts_no_work() {
    let disk = MemoryDisk::new();
    let broker =
        Broker::on(Arc::new(disk.clone()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    let task = submit(&mut client, json!({})).await;
    worker.act("POST", "/v1/work/w1/fetch").await;
    worker.act("POST", &format!("/v1/work/w1/tasks/{task}/1/start")).await;
    broker.stop().await;

    let broker =
        Broker::on(Arc::new(disk.reopen()), "127.0.0.1:0", Settings::default(), Keys::default()).await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    let path = format!("/v1/work/w1/tasks/{task}/1/complete");
    let early = worker.ask("POST", &path, &[], b"done").await;
    assert_eq!((early.status, &*early.code()), (409, "not-a-worker"));
    let held = json!([{ "task": task, "attempt": 1 }, { "task": task, "attempt": 7 }]);
    let back = register(&mut worker, "w1", json!({ "held": held })).await;
    assert_eq!((&back["held"][0]["continue"], &back["held"][1]["continue"]), (&json!(true), &json!(false)));
    assert_eq!(back["held"][1]["problem"]["code"], json!("stale-attempt"));
    assert_eq!(worker.ask("POST", &path, &[], b"done").await.status, 204);
    assert_eq!(client.get(&format!("/v1/tasks/{task}/result")).await.text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_belongs_to_its_key() {
    let mut keys = Keys::default();
    keys.add(b"one-key", tenure_hub::Grant { name: "one".into(), ..tenure_hub::Grant::everything() });
    keys.add(b"other-key", tenure_hub::Grant { name: "other".into(), ..tenure_hub::Grant::everything() });
    let broker = Broker::with(Settings::default(), keys).await;
    let mut one = broker.client().await.with("authorization", "Bearer one-key");
    let mut other = broker.client().await.with("authorization", "Bearer other-key");
    register(&mut one, "w1", json!({})).await;
    let answer = other.act("POST", "/v1/work/w1/fetch?wait=0").await;
    assert_eq!((answer.status, &*answer.code()), (409, "not-a-worker"));
    let fields = [("content-type", "application/json")];
    let taken = other.ask("PUT", "/v1/work/w1", &fields, b"{\"queues\":[\"images\"]}").await;
    assert!(taken.status == 409 || taken.status == 403, "{taken:?}");
    assert_eq!(one.act("POST", "/v1/work/w1/fetch?wait=0").await.status, 204);
}

/// Longer than sockets and buffers take while the client reads nothing.
const LONG: usize = 15 << 20;

/// Settings with room for few long bodies.
fn little_room(bytes: usize) -> Settings {
    let budget = tenure_door_kit::ByteBudget::new(bytes);
    Settings {
        door: tenure_door_kit::DoorSettings { budget, ..tenure_door_kit::DoorSettings::default() },
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_stay_unread_are_refused_before_they_are_read() {
    let settings = little_room(40 << 20);
    let budget = Arc::clone(&settings.door.budget);
    let broker = Broker::with(settings, Keys::default()).await;
    let mut client = broker.client().await;
    let answer = client.ask("POST", "/v1/queues/images/tasks", &[], &vec![b'x'; LONG]).await;
    let task = answer.json()["task"].as_str().unwrap().to_owned();
    let path = format!("/v1/tasks/{task}/body");
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut one = broker.client().await;
        one.send("GET", &path, &[], b"").await;
        unread.push(one);
    }
    let full = async {
        while budget.used() < 2 * LONG - (1 << 20) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), full).await.expect("both are on their way");
    let refused = client.get(&path).await;
    assert_eq!((refused.status, &*refused.code()), (503, "full"));
    assert_eq!(unread[0].answer("GET").await.body.len(), LONG);
    drop(unread);
    let free = async { while client.get(&path).await.status != 200 {} };
    tokio::time::timeout(std::time::Duration::from_secs(60), free).await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_is_refused_for_lack_of_memory_gives_the_task_back() {
    let broker = Broker::with(little_room(20 << 20), Keys::default()).await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    let fields = [("content-type", "application/octet-stream")];
    let submit = "/v1/queues/images/tasks?on_lost=pause";
    let answer = client.ask("POST", submit, &fields, &vec![b'x'; LONG]).await;
    let task = answer.json()["task"].as_str().unwrap().to_owned();
    // As JSON the task needs the room twice, and there is less.
    let refused = worker.act("POST", "/v1/work/w1/fetch?wait=30").await;
    assert_eq!((refused.status, &*refused.code()), (503, "full"));
    let accept = [("accept", "application/octet-stream")];
    let fetched = worker.ask("POST", "/v1/work/w1/fetch?wait=30", &accept, b"").await;
    assert_eq!((fetched.status, fetched.body.len()), (200, LONG));
    assert_eq!((fetched.field("tenure-task"), fetched.field("tenure-attempt")), (Some(&*task), Some("2")));
    let shown = client.get(&format!("/v1/tasks/{task}")).await.json();
    assert_eq!((&shown["state"], &shown["crashes"]), (&json!("running"), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_must_not_run_twice_is_started_when_it_is_fetched_and_goes_back_if_it_was_not_sent() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({ "slots": 1 })).await;
    let mut gone = broker.client().await;
    gone.send("POST", "/v1/work/w1/fetch?wait=30", &[], b"").await;
    drop(gone);
    let task = submit(&mut client, json!({ "on_lost": "pause" })).await;
    // The abandoned fetch may have asked for it. The answer that was not sent does not count.
    let fetched = worker.act("POST", "/v1/work/w1/fetch?wait=60").await.json();
    assert_eq!(fetched["task"], json!(task));
    let shown = client.get(&format!("/v1/tasks/{task}")).await.json();
    assert_eq!((&shown["state"], &shown["crashes"]), (&json!("running"), &json!(0)));
    let path = format!("/v1/work/w1/tasks/{task}/{}", fetched["attempt"]);
    assert_eq!(worker.act("POST", &format!("{path}/start")).await.status, 200, "a start changes nothing");
    assert_eq!(worker.ask("POST", &format!("{path}/complete"), &[], b"done").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_knows_its_array_and_its_index_and_a_task_what_it_waited_for() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({ "slots": 2 })).await;
    let body = json!({ "task": { "queue": "images" }, "size": 2, "first": 10, "step": 5 });
    let array = client.post("/v1/arrays", &body).await.json()["array"].clone();
    let first = worker.act("POST", "/v1/work/w1/fetch").await.json();
    assert_eq!((&first["array"], &first["index"], &first["after"]), (&array, &json!(10), &json!([])));
    let accept = [("accept", "application/octet-stream")];
    let second = worker.ask("POST", "/v1/work/w1/fetch", &accept, b"").await;
    assert_eq!((second.field("tenure-array"), second.field("tenure-index")), (array.as_str(), Some("15")));
    for task in [first["task"].as_str().unwrap(), second.field("tenure-task").unwrap()] {
        assert_eq!(
            worker.ask("POST", &format!("/v1/work/w1/tasks/{task}/1/complete"), &[], b"done").await.status,
            204
        );
    }
    submit(&mut client, json!({ "after": [array] })).await;
    let after = worker.act("POST", "/v1/work/w1/fetch").await;
    assert_eq!((after.field("tenure-array"), after.field("tenure-index")), (None, None));
    let after = after.json();
    assert_eq!((&after["array"], &after["index"]), (&json!(null), &json!(null)));
    assert_eq!((&after["after"][0]["task"], &after["after"][0]["state"]), (&array, &json!("completed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_waits_for_an_array() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({ "slots": 3 })).await;
    let body = json!({ "task": { "queue": "images", "name": "scans" }, "size": 2 });
    let array = client.post("/v1/arrays", &body).await.json()["array"].as_str().unwrap().to_owned();
    let one = submit(&mut client, json!({ "queue": "absent" })).await;
    assert_eq!(client.get(&format!("/v1/tasks/{array}/wait?wait=0.05")).await.status, 204);
    let both = json!({ "tasks": [array, one], "wait": 0.05 });
    assert_eq!(client.post("/v1/wait", &both).await.json(), json!({ "ended": [], "pending": [array, one] }));
    let mut waiting = broker.client().await;
    waiting.send("GET", "/v1/tasks/name:scans/wait?wait=60", &[], b"").await;
    for _ in 0..2 {
        let task = worker.act("POST", "/v1/work/w1/fetch").await.json()["task"].as_str().unwrap().to_owned();
        worker.ask("POST", &format!("/v1/work/w1/tasks/{task}/1/complete"), &[], b"").await;
    }
    let ended = waiting.answer("GET").await.json();
    assert_eq!(
        (&ended["id"], &ended["state"], &ended["size"]),
        (&json!(array), &json!("completed"), &json!(2))
    );
    let now = client.get(&format!("/v1/tasks/{array}/wait?wait=60")).await;
    assert_eq!((now.status, &now.json()["state"]), (200, &json!("completed")));
    let both = json!({ "tasks": [array, one], "wait": 0.5 });
    let pending = client.post("/v1/wait", &both).await.json()["pending"].clone();
    assert_eq!(pending, json!([one]));
    for path in ["/v1/tasks/07070707-0707-0707-0707-070707070707/wait", "/v1/tasks/name:nothing/wait"] {
        assert_eq!(client.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_sends_what_its_task_prints() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    let task = submit(&mut client, json!({})).await;
    worker.act("POST", "/v1/work/w1/fetch").await;
    let path = format!("/v1/work/w1/tasks/{task}/1/logs");
    for (query, bytes, status) in [
        ("offset=0", &b"one\n"[..], 200),
        ("stream=stdout&offset=4", b"two\n", 200),
        ("stream=stderr&offset=0", b"oh\n", 200),
        ("stream=stdin&offset=0", b"x", 400),
        ("stream=stdout", b"x", 400),
        ("offset=8", &vec![b'x'; (64 << 10) + 1], 400),
    ] {
        let answer = worker.ask("POST", &format!("{path}?{query}"), &[], bytes).await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
    }
    let stale =
        worker.ask("POST", &path.replace("/1/", "/7/").replace("logs", "logs?offset=0"), &[], b"x").await;
    assert_eq!((stale.status, &*stale.code()), (409, "stale-attempt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_an_attempt_in_place_and_continues_when_a_client_resumes_it() {
    let broker = Broker::start().await;
    let (mut client, mut worker) = (broker.client().await, broker.client().await);
    register(&mut worker, "w1", json!({})).await;
    let task = submit(&mut client, json!({})).await;
    worker.act("POST", "/v1/work/w1/fetch").await;
    let path = |verb: &str| format!("/v1/work/w1/tasks/{task}/1/{verb}");
    worker.act("POST", &path("start")).await;
    client.act("POST", &format!("/v1/tasks/{task}/pause")).await;
    let wanted = worker.post(&path("progress"), &json!({})).await.json();
    assert_eq!((&wanted["wanted"], &wanted["in_place"]), (&json!("pause"), &json!(true)));
    let both = worker.post(&path("suspend"), &json!({ "resume": true, "children": true })).await;
    assert_eq!((both.status, &*both.code()), (400, "bad-value"));
    let stopped = worker.post(&path("suspend?wait=0"), &json!({ "resume": true })).await;
    assert_eq!((stopped.status, &stopped.json()["continues"]), (200, &json!(false)), "{stopped:?}");
    let shown = client.get(&format!("/v1/tasks/{task}")).await.json();
    assert_eq!((&shown["state"], &shown["attempt"]), (&json!("suspended"), &json!(1)));
    client.act("POST", &format!("/v1/tasks/{task}/resume")).await;
    let continued = worker.post(&path("suspend?wait=60"), &json!({ "resume": true })).await.json();
    assert_eq!((&continued["continues"], &continued["ends"]), (&json!(true), &json!([])));
    assert_eq!(worker.ask("POST", &path("complete"), &[], b"done").await.status, 204);
}
