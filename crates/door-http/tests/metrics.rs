//! `/metrics` and the figures for autoscalers.

mod support;

use serde_json::{Value, json};
use support::{Broker, Client};

async fn put(client: &mut Client, path: &str, body: &Value) {
    let fields = [("content-type", "application/json")];
    let answer = client.ask("PUT", path, &fields, body.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The value of one series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_leaves_its_times_and_outcomes_in_the_figures() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    put(&mut client, "/v1/work/w1", &json!({ "queues": ["images"] })).await;
    for verb in ["complete", "fail"] {
        let task = client.post("/v1/tasks", &json!({ "queue": "images" })).await.json()["task"].clone();
        let path = format!("/v1/work/w1/tasks/{}/1", task.as_str().unwrap());
        client.act("POST", "/v1/work/w1/fetch").await;
        assert_eq!(client.act("POST", &format!("{path}/start")).await.status, 200);
        assert_eq!(client.act("POST", &format!("{path}/{verb}")).await.status, 204);
    }
    client.post("/v1/tasks", &json!({ "queue": "images" })).await;
    let answer = client.get("/metrics").await;
    assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    for (series, expected) in [
        ("tenure_task_wait_seconds_count", 2.0),
        ("tenure_attempt_run_seconds_count", 2.0),
        ("tenure_task_end_to_end_seconds_bucket{le=\"+Inf\"}", 2.0),
        ("tenure_attempts_total{outcome=\"completed\"}", 1.0),
        ("tenure_attempts_total{outcome=\"failed\"}", 1.0),
        ("tenure_queue_tasks{namespace=\"default\",queue=\"images\",state=\"ready\"}", 1.0),
        ("tenure_queue_backlog{namespace=\"default\",queue=\"images\"}", 1.0),
        ("tenure_queue_submitted_total{namespace=\"default\",queue=\"images\"}", 3.0),
        ("tenure_queue_started_total{namespace=\"default\",queue=\"images\"}", 2.0),
        ("tenure_queue_completed_total{namespace=\"default\",queue=\"images\"}", 1.0),
        ("tenure_queue_live_workers{namespace=\"default\",queue=\"images\"}", 1.0),
        ("tenure_queue_slots_needed{namespace=\"default\",queue=\"images\",wait=\"60\"}", 1.0),
        ("tenure_door_connections{door=\"http\"}", 1.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
    assert!(value(&text, "tenure_journal_sync_seconds_count") >= 1.0);
    assert!(value(&text, "tenure_journal_batch_bytes_sum") > 0.0);
    let scaling = client.get("/v1/queues/images/scaling?wait=10").await.json();
    assert_eq!(
        (&scaling["backlog"], &scaling["slots_needed"], &scaling["live_workers"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(client.get("/v1/queues/absent/scaling").await.json()["slots_needed"], json!(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_one_worker_counts_once_however_many_tasks_it_held() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let terms = json!({ "queues": ["images"], "slots": 3, "heartbeat_ms": 200, "lost_after_ms": 1000, "lease_ms": 1000 });
    put(&mut client, "/v1/work/w1", &terms).await;
    for _ in 0..3 {
        client.post("/v1/tasks", &json!({ "queue": "images", "on_lost": "fail" })).await;
        let fetched = client.act("POST", "/v1/work/w1/fetch").await.json();
        let task = fetched["task"].as_str().unwrap().to_owned();
        client.act("POST", &format!("/v1/work/w1/tasks/{task}/1/start")).await;
    }
    let mut crashed = 0;
    let mut from = 1;
    while crashed < 3 {
        let page = client.get(&format!("/v1/events?kind=crashed&wait=30&from={from}")).await.json();
        crashed += page["events"].as_array().unwrap().len();
        from = page["next"].as_u64().unwrap();
    }
    let text = client.get("/metrics").await.text();
    assert_eq!(value(&text, "tenure_workers_lost_total{reason=\"heartbeat-missed\"}"), 1.0);
    assert_eq!(value(&text, "tenure_attempt_crashes_total{reason=\"heartbeat-missed\"}"), 3.0);
    assert_eq!(value(&text, "tenure_attempts_total{outcome=\"crashed\"}"), 3.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_queues_make_a_bounded_number_of_series() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let tasks: Vec<Value> = (0..700).map(|number| json!({ "queue": format!("q{number}") })).collect();
    let large: Vec<Value> = (0..5).map(|_| json!({ "queue": "large" })).collect();
    assert_eq!(client.post("/v1/tasks/batch", &json!({ "tasks": tasks })).await.status, 200);
    assert_eq!(client.post("/v1/tasks/batch", &json!({ "tasks": large })).await.status, 200);
    let text = client.get("/metrics").await.text();
    let shown = text.lines().filter(|line| line.starts_with("tenure_queue_backlog{")).count();
    assert_eq!(shown, 501, "500 queues and the sum of the others");
    assert_eq!(value(&text, "tenure_queue_backlog{namespace=\"default\",queue=\"large\"}"), 5.0);
    assert_eq!(value(&text, "tenure_queue_backlog{namespace=\"(others)\",queue=\"(others)\"}"), 201.0);
    assert_eq!(
        value(&text, "tenure_queue_submitted_total{namespace=\"(others)\",queue=\"(others)\"}"),
        201.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_a_namespace_sees_only_its_queues() {
    let broker = Broker::with_keys().await;
    let mut lab = broker.client().await.with("authorization", "Bearer lab-key");
    lab.post("/v1/tasks", &json!({ "queue": "secret" })).await;
    assert!(lab.get("/metrics").await.text().contains("queue=\"secret\""));
    let mut none = broker.client().await;
    assert_eq!(none.get("/metrics").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_a_namespace_learns_nothing_of_the_disk_and_counts_only_its_own() {
    let broker = Broker::with_keys().await;
    let mut lab = broker.client().await.with("authorization", "Bearer lab-key");
    let mut all = broker.client().await.with("authorization", "Bearer all-key");
    lab.post("/v1/tasks", &json!({ "queue": "images" })).await;
    all.post("/v1/tasks", &json!({ "queue": "others" })).await;
    let text = lab.get("/metrics").await.text();
    assert!(!text.contains("tenure_disk_free_bytes"), "{text}");
    assert_eq!(value(&text, "tenure_tasks_submitted_total"), 1.0);
    let text = all.get("/metrics").await.text();
    assert!(value(&text, "tenure_disk_free_bytes") > 0.0);
    assert_eq!(value(&text, "tenure_tasks_submitted_total"), 2.0);
    let open = |text: &str| text.contains("on the disk") || text.contains("Free disk space");
    assert!(!open(&lab.ask("GET", "/", &[("accept", "text/html")], b"").await.text()));
    assert!(open(&all.ask("GET", "/", &[("accept", "text/html")], b"").await.text()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tags_make_a_bounded_number_of_series_and_a_rate_is_no_limit() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let fields = [("content-type", "application/json")];
    for number in 0..510 {
        let answer = client.ask("PUT", &format!("/v1/limits/t{number}"), &fields, b"{\"limit\":3}").await;
        assert_eq!(answer.status, 204);
    }
    let rate = client.ask("PUT", "/v1/limits/rated/rate", &fields, b"{\"count\":1,\"period_ms\":1000}").await;
    assert_eq!(rate.status, 204);
    let text = client.get("/metrics").await.text();
    for family in ["tenure_tag_limit{", "tenure_tag_in_use{"] {
        assert_eq!(text.lines().filter(|line| line.starts_with(family)).count(), 500, "{family}");
    }
    assert!(!text.contains("4294967295") && !text.contains("rated"), "{text}");
}
