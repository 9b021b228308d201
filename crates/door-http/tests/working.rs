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
    assert_eq!(worker.act("POST", &path("start")).await.json(), json!({ "wanted": null, "reason": null }));
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
    let wanted = json!([{ "task": task, "attempt": 1, "wanted": "cancel", "reason": "wrong scan" }]);
    let news = worker.act("POST", "/v1/work/w1/heartbeat").await.json();
    assert_eq!((&news["wanted"], &news["drain"]), (&wanted, &json!(false)));
    let progress = worker.post(&format!("/v1/work/w1/tasks/{task}/1/progress"), &json!({})).await.json();
    assert_eq!(progress, json!({ "wanted": "cancel", "reason": "wrong scan" }));
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
