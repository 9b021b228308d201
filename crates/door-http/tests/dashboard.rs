//! The pages of the dashboard: what they show, what they escape, and to whom.

mod support;

use serde_json::json;
use support::{Answer, Broker, Client};

/// Text that would run, break out of an attribute or look like a tag if a page forgot to escape it.
const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'&amp;";

const PAGES: [&str; 6] = ["/", "/tasks", "/workers", "/queues", "/topics", "/events"];

async fn open(client: &mut Client, path: &str) -> Answer {
    client.ask("GET", path, &[("accept", "text/html")], b"").await
}

/// A page is HTML that runs no script but its own, and none of the hostile text is in it as it is.
#[track_caller]
fn check(path: &str, answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"), "{path}");
    let policy = answer.field("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let html = answer.text();
    assert!(html.starts_with("<!DOCTYPE html>"), "{path}");
    for bad in ["<script>", "<img src=x", "onerror=alert(2)>", " style=", " onclick="] {
        assert!(!html.contains(bad), "{path} holds {bad}");
    }
    html
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_an_empty_broker_says_what_to_do_next() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for path in PAGES {
        let html = check(path, &open(&mut client, path).await);
        assert!(html.contains("class=\"empty\""), "{path}");
        assert!(html.contains("Skip to the content") && html.contains("id=\"confirm\""), "{path}");
    }
    let html = check("/", &open(&mut client, "/").await);
    assert!(html.contains("Nothing. All workers answer"));
    assert!(html.contains("tenure submit -- date"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_text_on_every_page() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let task = json!({ "queue": HOSTILE, "name": HOSTILE, "body": HOSTILE, "tags": [HOSTILE] });
    assert_eq!(client.post("/v1/tasks", &task).await.status, 201);
    let id = client.get("/v1/tasks?state=ready").await.json()["tasks"][0]["id"].as_str().unwrap().to_owned();
    let task = format!("/tasks/{id}");
    let reason = json!({ "reason": HOSTILE });
    assert_eq!(client.post(&format!("/v1{task}/pause"), &reason).await.status, 204);
    let topic = format!("/v1/topics/{}", HOSTILE.replace('"', "%22").replace(['<', '>', ' ', '/'], "_"));
    client.ask("POST", &topic, &[], HOSTILE.as_bytes()).await;
    let queue =
        "/queues/%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E%3Cimg%20src=x%20onerror=alert(2)%3E'%26amp;";
    let limit = format!("/v1/limits/{}", &queue["/queues/".len()..]);
    let json = [("content-type", "application/json")];
    assert_eq!(client.ask("PUT", &limit, &json, b"{\"limit\":3}").await.status, 204);
    for path in ["/", "/tasks", "/queues", "/events", &task, queue] {
        let html = check(path, &open(&mut client, path).await);
        assert!(html.contains("&lt;script&gt;alert(1)"), "{path} shows it as text");
    }
    check("/topics", &open(&mut client, "/topics").await);
    for path in ["/tasks?search=%22%3E%3Cscript%3E", "/tasks?queue=%22%3E%3Cscript%3E&tag=%27%3Cimg%20src=x"]
    {
        check(path, &open(&mut client, path).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_found_by_state_queue_and_search() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for number in 0..3 {
        let task = json!({ "queue": "images", "name": format!("scan-{number}"), "hold": number == 2 });
        assert_eq!(client.post("/v1/tasks", &task).await.status, 201);
    }
    let id = client.get("/v1/tasks/name:scan-1").await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        client.post("/v1/tasks/name:scan-0/cancel", &json!({ "reason": "not needed" })).await.status,
        204
    );
    for (path, shown) in [
        ("/tasks".to_owned(), vec!["scan-1", "scan-2"]),
        ("/tasks?state=all".to_owned(), vec!["scan-0", "scan-1", "scan-2"]),
        ("/tasks?state=created".to_owned(), vec!["scan-2"]),
        ("/tasks?state=cancelled".to_owned(), vec!["scan-0"]),
        ("/tasks?queue=other".to_owned(), vec![]),
        ("/tasks?search=scan-1".to_owned(), vec!["scan-1"]),
        ("/tasks?search=can-".to_owned(), vec!["scan-0", "scan-1", "scan-2"]),
        (format!("/tasks?search={}", &id[..id.len() - 1]), vec!["scan-1"]),
        (format!("/tasks?search={}", &id[id.len() - 8..]), vec!["scan-1"]),
    ] {
        let html = check(&path, &open(&mut client, &path).await);
        for name in ["scan-0", "scan-1", "scan-2"] {
            let is_shown = html.contains(&format!("<strong>{name}</strong>"));
            assert_eq!(is_shown, shown.contains(&name), "{name} at {path}");
        }
    }
    assert!(check("/", &open(&mut client, "/tasks?state=cancelled").await).contains("not needed"));
    let whole = open(&mut client, &format!("/tasks?search={id}")).await;
    assert_eq!((whole.status, whole.field("location")), (303, Some(&*format!("/tasks/{id}"))));
    for wrong in ["/tasks?state=redy", "/tasks?parent=7", "/tasks?cursor=x", "/tasks?stat=ready"] {
        let answer = open(&mut client, wrong).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().contains("<h1>This does not work</h1>"), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_shown_a_page_at_a_time() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let tasks: Vec<_> = (0..120).map(|number| json!({ "name": format!("n{number:03}") })).collect();
    assert_eq!(client.post("/v1/tasks/batch", &json!({ "tasks": tasks })).await.status, 200);
    let mut path = "/tasks".to_owned();
    let mut seen = Vec::new();
    loop {
        let html = check(&path, &open(&mut client, &path).await);
        let names = html.split("<strong>").skip(1).filter_map(|rest| rest.split_once("</strong>"));
        let before = seen.len();
        seen.extend(names.map(|(name, _)| name.to_owned()));
        assert!(seen.len() - before <= 50);
        let Some((_, rest)) = html.split_once("rel=\"next\" href=\"") else { break };
        path = rest.split_once('"').unwrap().0.replace("&amp;", "&");
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_only_look_is_offered_no_acts() {
    let broker = Broker::with_keys().await;
    let mut lab = broker.client().await.with("authorization", "Bearer lab-key");
    assert_eq!(lab.post("/v1/tasks", &json!({ "name": "of-the-lab" })).await.status, 201);
    let html = check("/tasks", &open(&mut lab, "/tasks").await);
    assert!(
        html.contains("of-the-lab")
            && html.contains("data-bulk=\"cancel\"")
            && html.contains("name=\"task\"")
    );
    let mut looker = broker.client().await.with("authorization", "Bearer looker");
    for path in PAGES {
        let html = check(path, &open(&mut looker, path).await);
        assert!(html.contains("read-only"), "{path}");
        assert!(!html.contains("data-bulk") && !html.contains("data-act"), "{path}");
        assert!(!html.contains("of-the-lab"), "{path} is about another namespace");
    }
    let mut nobody = broker.client().await;
    for path in PAGES {
        let answer = open(&mut nobody, path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(!answer.text().contains("of-the-lab"));
    }
    assert_eq!(nobody.get("/live").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_chosen_on_the_page_and_its_name_is_text() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = "namespace=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let answer = client.ask("POST", "/namespace", &form, body.as_bytes()).await;
    assert_eq!((answer.status, answer.field("location")), (303, Some("/")));
    let cookie = answer.field("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("SameSite=Strict") && cookie.contains("HttpOnly") && !cookie.contains('<'));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let mut other = broker.client().await.with("cookie", &cookie);
    assert_eq!(other.post("/v1/tasks", &json!({ "name": "elsewhere" })).await.status, 201);
    for path in PAGES {
        let html = check(path, &open(&mut other, path).await);
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{path}");
    }
    assert!(check("/tasks", &open(&mut other, "/tasks").await).contains("elsewhere"));
    assert!(!check("/tasks", &open(&mut client, "/tasks").await).contains("elsewhere"));
    let wrong = client.ask("POST", "/namespace", &form, b"namespace=a%00b").await;
    assert_eq!(wrong.status, 400);
    let cross = [form[0], ("sec-fetch-site", "cross-site")];
    assert_eq!(client.ask("POST", "/namespace", &cross, b"namespace=x").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_page_may_be_kept_and_have_their_type() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let html = check("/", &open(&mut client, "/").await);
    let mut found = 0;
    for part in html.split("\"/assets/").skip(1) {
        let path = format!("/assets/{}", part.split_once('"').unwrap().0);
        let answer = client.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.field("cache-control").unwrap().contains("immutable"));
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert!(!answer.body.is_empty(), "{path}");
        found += 1;
    }
    assert!(found >= 3, "{found} files");
    assert_eq!(client.get("/assets/old/app.js").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_hears_counts_each_second_and_crashes_at_once() {
    let broker = Broker::start().await;
    let mut stream = broker.client().await;
    stream.send("GET", "/live", &[], b"").await;
    assert_eq!(stream.head().await.0, 200);
    let mut client = broker.client().await;
    let threshold = json!({ "depth": 1 });
    let put = [("content-type", "application/json")];
    let path = "/v1/queues/slow/thresholds";
    assert_eq!(client.ask("PUT", path, &put, threshold.to_string().as_bytes()).await.status, 204);
    assert_eq!(client.post("/v1/tasks", &json!({ "queue": "slow" })).await.status, 201);
    let mut heard = String::new();
    while !(heard.contains("Queue slow has a backlog") && heard.contains("\"ready\":1")) {
        heard += &String::from_utf8(stream.chunk().await.expect("the stream goes on")).unwrap();
    }
    assert!(heard.contains("event: pulse\n") && heard.contains("event: notice\nid: "), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_says_why_it_does_not_run_and_what_can_be_done() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let body = json!({ "html": "<b>bold</b>", "command": ["date"] });
    let task = json!({ "queue": "images", "name": "scan", "body": body, "tags": ["gpu"] });
    assert_eq!(client.post("/v1/tasks", &task).await.status, 201);
    let parent = client.get("/v1/tasks/name:scan").await.json()["id"].as_str().unwrap().to_owned();
    let child = json!({ "queue": "images", "name": "part", "parent": parent });
    assert_eq!(client.post("/v1/tasks", &child).await.status, 201);
    let path = format!("/tasks/{parent}");
    let html = check(&path, &open(&mut client, &path).await);
    for text in [
        "no worker has ever served queue images",
        "&lt;b&gt;bold&lt;/b&gt;",
        "No worker has had it yet",
        "data-act=\"cancel\"",
        "data-act=\"pause\"",
        ">part</a>",
        "<span class=\"kind\">submitted</span>",
    ] {
        assert!(html.contains(text), "{text} is missing in {html}");
    }
    assert!(!html.contains("data-act=\"resume\"") && !html.contains("<b>bold"));
    assert_eq!(client.post("/v1/tasks/name:scan/pause", &json!({ "reason": "wait" })).await.status, 204);
    let html = check(&path, &open(&mut client, "/tasks/name:scan").await);
    assert!(html.contains("data-act=\"resume\"") && html.contains("it is paused: resume it"));
    assert_eq!(client.post("/v1/tasks/name:scan/cancel", &json!({ "reason": "no" })).await.status, 204);
    let html = check(&path, &open(&mut client, &path).await);
    assert!(html.contains("data-act=\"retry\"") && !html.contains("data-act=\"cancel\""));
    for missing in ["/tasks/name:nobody", "/workers/nobody", "/queues/nobody", "/nothing"] {
        let answer = open(&mut client, missing).await;
        assert_eq!(answer.status, 404, "{missing}");
        assert!(answer.text().contains("<h1>This does not work</h1>"), "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_shown_within_a_limit() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for (name, length, text) in
        [("middle", 100_000, "more</pre>"), ("long", 300_000, "too long for a preview")]
    {
        let path = format!("/v1/queues/q/tasks?name={name}");
        let sent = client.ask("POST", &path, &[], &vec![b'x'; length]).await;
        assert_eq!(sent.status, 201);
        let html = check(name, &open(&mut client, &format!("/tasks/name:{name}")).await);
        assert!(html.contains(text), "{name}");
        assert!(html.len() < 40_000, "{name} has {} bytes", html.len());
    }
    assert_eq!(client.ask("POST", "/v1/queues/q/tasks?name=bytes", &[], &[0, 255, 60]).await.status, 201);
    let html = check("bytes", &open(&mut client, "/tasks/name:bytes").await);
    assert!(html.contains("000000  00 ff 3c"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_goes_on_where_the_page_ends() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    assert_eq!(client.post("/v1/tasks", &json!({ "queue": "a" })).await.status, 201);
    let html = check("/events", &open(&mut client, "/events?queue=a").await);
    let stream =
        html.split_once("data-stream=\"").unwrap().1.split_once('"').unwrap().0.replace("&amp;", "&");
    assert!(stream.ends_with("&queue=a"), "{stream}");
    for queue in ["b", "a"] {
        assert_eq!(client.post("/v1/tasks", &json!({ "queue": queue, "name": queue })).await.status, 201);
    }
    let task = client.get("/v1/tasks/name:a").await.json()["id"].as_str().unwrap().to_owned();
    let mut listener = broker.client().await;
    listener.send("GET", &stream, &[], b"").await;
    assert_eq!(listener.head().await.0, 200);
    let mut heard = String::new();
    while !heard.contains(&task) {
        heard += &String::from_utf8(listener.chunk().await.expect("the stream goes on")).unwrap();
    }
    assert!(heard.contains("event: rows\nid: ") && !heard.contains("queue=b"), "{heard}");
    assert_eq!(open(&mut client, "/events?kind=nonsense").await.status, 400);
}
