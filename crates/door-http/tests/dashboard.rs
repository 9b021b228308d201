//! The pages of the dashboard: what they show, what they escape, and to whom.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Answer, Broker, Client};
use tenure_hub::words::Timestamp;
use tenure_hub::{HookAbout, HookKind, HookProgress, Undelivered};

/// Text that would run, break out of an attribute or look like a tag if a page forgot to escape it.
const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'&amp;";

const PAGES: [&str; 8] = ["/", "/tasks", "/workers", "/queues", "/schedules", "/hooks", "/topics", "/events"];

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
async fn an_array_is_one_row_with_its_counts_and_has_a_page() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let array = json!({ "task": { "queue": "sums", "name": "<sums>", "body": "x" }, "size": 1_000 });
    let accepted = client.post("/v1/arrays", &array).await;
    assert_eq!(accepted.status, 201);
    let id = accepted.json()["array"].as_str().unwrap().to_owned();
    assert_eq!(client.post("/v1/tasks", &json!({ "queue": "sums", "name": "alone" })).await.status, 201);
    let html = check("/tasks", &open(&mut client, "/tasks").await);
    assert!(html.contains(&format!("<a href=\"/arrays/{id}\">&lt;sums&gt;</a>")), "{html}");
    assert!(html.contains("<strong>alone</strong>"));
    assert_eq!(html.matches("data-href=\"/tasks/").count(), 1, "its elements are not listed one by one");
    let page = format!("/arrays/{id}");
    let html = check(&page, &open(&mut client, &page).await);
    assert!(html.contains("1000 elements") || html.contains("1,000 elements"), "{html}");
    assert_eq!(html.matches("data-href=\"/tasks/").count(), 50);
    assert_eq!(client.post(&format!("/v1/tasks/{id}/cancel"), &json!({})).await.status, 204);
    let ended = format!("/arrays/{id}?state=cancelled");
    assert!(check(&ended, &open(&mut client, &ended).await).contains("data-act=\"retry\""));
    let html = check("/tasks", &open(&mut client, "/tasks").await);
    assert!(!html.contains(&id), "an array that has ended is not among what has not");
    for wrong in ["/arrays/7", "/arrays/00000000-0000-4000-8000-000000000009"] {
        assert!(open(&mut client, wrong).await.status >= 400, "{wrong}");
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
async fn an_array_is_found_by_its_name_and_its_id() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let body = json!({ "task": { "name": "sweep" }, "size": 3 });
    let array = client.post("/v1/arrays", &body).await.json()["array"].as_str().expect("an id").to_owned();
    let html = check("/tasks", &open(&mut client, "/tasks?search=sweep").await);
    assert!(html.contains(&format!("href=\"/arrays/{array}\"")), "{html}");
    assert!(!html.contains("No task has"), "the search has found something: {html}");
    assert!(open(&mut client, "/tasks").await.text().contains("No task outside of arrays waits or runs"));
    let answer = open(&mut client, &format!("/tasks?search={array}&namespace=default")).await;
    let place = format!("/arrays/{array}?namespace=default");
    assert_eq!((answer.status, answer.field("location")), (303, Some(&*place)));
    assert_eq!(open(&mut client, &place).await.status, 200);
    // The API says where an array is.
    for (task, there) in [("name:sweep", "/v1/arrays/name:sweep"), (&*array, &*format!("/v1/arrays/{array}"))]
    {
        let answer = client.get(&format!("/v1/tasks/{task}")).await;
        assert_eq!(answer.status, 404);
        assert!(answer.json()["detail"].as_str().expect("a text").contains(there), "{}", answer.text());
        assert_eq!(client.get(there).await.status, 200);
    }
}

/// What a script asks for when an act is for all tasks that a page shows.
fn states_of(html: &str, verb: &str) -> String {
    let (_, button) = html.split_once(&format!("data-bulk=\"{verb}\" data-states=\"")).expect("a button");
    button.split_once('"').expect("its states").0.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_on_all_that_match_is_about_the_tasks_that_the_page_shows() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for name in ["waiting", "ended"] {
        assert_eq!(client.post("/v1/tasks", &json!({ "name": name })).await.status, 201);
    }
    assert_eq!(client.act("POST", "/v1/tasks/name:ended/cancel").await.status, 204);
    let array = json!({ "task": { "name": "sweep" }, "size": 3 });
    assert_eq!(client.post("/v1/arrays", &array).await.status, 201);

    let html = check("/tasks", &open(&mut client, "/tasks").await);
    assert_eq!(states_of(&html, "retry"), "", "no task of this list has ended");
    assert_eq!(states_of(&html, "resume"), "paused,suspended");
    assert!(html.contains("data-where-plain=\"true\""), "its elements are in the row of the array");
    let html = check("/tasks", &open(&mut client, "/tasks?state=all").await);
    assert_eq!(states_of(&html, "retry"), "failed,cancelled");
    assert!(!html.contains("data-where-plain"));
    let html = check("/tasks", &open(&mut client, "/tasks?state=paused").await);
    assert_eq!((states_of(&html, "resume"), states_of(&html, "release")), ("paused".into(), String::new()));

    let matched = async |client: &mut Client, filter: Value| {
        let body = json!({ "where": filter, "dry_run": true });
        client.post("/v1/bulk/cancel", &body).await.json()["matched"].clone()
    };
    assert_eq!(matched(&mut client, json!({ "state": ["ready"] })).await, json!(4));
    let plain = json!({ "state": ["ready"], "without_elements": true });
    assert_eq!(matched(&mut client, plain).await, json!(1));
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
    let mut none = broker.client().await;
    for path in PAGES {
        let answer = open(&mut none, path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(!answer.text().contains("of-the-lab"));
    }
    assert_eq!(none.get("/live").await.status, 401);
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
    assert!(cookie.contains("SameSite=Strict") && !cookie.contains('<'));
    assert!(!cookie.contains("HttpOnly"), "scripts compare it with the namespace of their page");
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
    assert!(heard.contains("event: samples\n") && heard.contains("event: notice\nid: "), "{heard}");
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
    for missing in ["/tasks/name:absent", "/workers/absent", "/queues/absent", "/nothing"] {
        let answer = open(&mut client, missing).await;
        assert_eq!(answer.status, 404, "{missing}");
        assert!(answer.text().contains("<h1>This does not work</h1>"), "{missing}");
    }
}

async fn submit_child(client: &mut Client, name: &str, parent: Option<&str>) -> String {
    let accepted = client.post("/v1/tasks", &json!({ "queue": "q", "name": name, "parent": parent })).await;
    assert_eq!(accepted.status, 201, "{accepted:?}");
    accepted.json()["task"].as_str().expect("an id").to_owned()
}

/// The card of a task's page that shows its family.
async fn family(client: &mut Client, task: &str) -> String {
    let path = format!("/tasks/{task}");
    let html = check(&path, &open(client, &path).await);
    let card = html.split("id=\"family\"").nth(1).expect("a family");
    card.split("</section>").next().expect("an end").to_owned()
}

/// The levels at which names stand in a tree: how many lists are open there.
fn level(tree: &str, name: &str) -> usize {
    let before = tree.split(&format!(">{name}<")).next().filter(|before| before.len() < tree.len());
    let before = before.unwrap_or_else(|| panic!("{name} is missing in {tree}"));
    before.matches("<ul").count() - before.matches("</ul>").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_is_a_tree_from_the_root_to_the_grandchildren() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let root = submit_child(&mut client, "root", None).await;
    let alone = submit_child(&mut client, "alone", None).await;
    let uncle = submit_child(&mut client, "uncle", Some(&root)).await;
    let parent = submit_child(&mut client, "parent", Some(&root)).await;
    let task = submit_child(&mut client, "itself", Some(&parent)).await;
    let first = submit_child(&mut client, "first", Some(&task)).await;
    let second = submit_child(&mut client, "<second>", Some(&task)).await;
    let grandchild = submit_child(&mut client, "grandchild", Some(&second)).await;

    let tree = family(&mut client, &task).await;
    let levels =
        ["root", "parent", "itself", "first", "&lt;second&gt;", "grandchild"].map(|name| level(&tree, name));
    assert_eq!(levels, [1, 2, 3, 4, 4, 5], "{tree}");
    for linked in [&root, &parent, &first, &second, &grandchild] {
        assert!(tree.contains(&format!("href=\"/tasks/{linked}\"")), "{tree}");
    }
    assert!(tree.contains("<strong aria-current=\"true\">itself</strong>"), "{tree}");
    assert!(!tree.contains(&uncle), "{tree}");
    assert!(tree.contains(&format!("<a href=\"/tasks?parent={root}\">1 more</a>")), "the uncle: {tree}");
    assert!(tree.contains("2 children") && tree.matches(" more</a>").count() == 1, "{tree}");
    assert!(family(&mut client, &alone).await.contains("No parent and no children"));
    assert!(family(&mut client, &parent).await.contains("1 child<"), "one child is no children");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_family_is_shown_in_part_with_links_to_the_rest() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    // A chain of twelve, and below its end 15 children with 12 children each.
    let mut chain: Vec<String> = Vec::new();
    for number in 0..12 {
        let parent = chain.last().cloned();
        chain.push(submit_child(&mut client, &format!("chain-{number}"), parent.as_deref()).await);
    }
    let task = chain.last().expect("a task").clone();
    let mut children = Vec::new();
    for number in 0..15 {
        children.push(submit_child(&mut client, &format!("child-{number}"), Some(&task)).await);
    }
    for (number, child) in children.iter().enumerate() {
        for other in 0..12 {
            submit_child(&mut client, &format!("grandchild-{number}-{other}"), Some(child)).await;
        }
    }
    let tree = family(&mut client, &task).await;
    assert_eq!(level(&tree, "chain-3"), 2, "eight ancestors: {tree}");
    assert!(!tree.contains(">chain-2<"), "{tree}");
    let above = format!("<a href=\"/tasks/{}\">Further ancestors</a>", chain[2]);
    assert!(tree.contains(&above), "{tree}");
    assert_eq!(tree.matches(">child-").count(), 10);
    assert!(tree.contains(&format!("<a href=\"/tasks?parent={task}\">5 more</a>")), "{tree}");
    assert_eq!(tree.matches(">grandchild-").count(), 30, "the children share the room that is left");
    let left = format!("<a href=\"/tasks?parent={}\">9 more</a>", children[0]);
    assert!(tree.contains(&left), "{tree}");

    // Of a long chain of descendants, three generations are shown, and a link leads on.
    let tree = family(&mut client, &chain[0]).await;
    assert_eq!((level(&tree, "chain-0"), level(&tree, "chain-3")), (1, 4));
    assert!(!tree.contains(">chain-4<"), "{tree}");
    assert!(tree.contains(&format!("<a href=\"/tasks?parent={}\">1 more</a>", chain[3])), "{tree}");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_shows_its_depth_by_priority_and_its_rate() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for (priority, count) in [(-3, 1), (0, 2), (7, 4)] {
        for _ in 0..count {
            let task = json!({ "queue": "images", "priority": priority });
            assert_eq!(client.post("/v1/tasks", &task).await.status, 201);
        }
    }
    let fields = [("content-type", "application/json")];
    let rate = json!({ "count": 5, "period_ms": 2000, "burst": 9 }).to_string();
    assert_eq!(client.ask("PUT", "/v1/queues/images/rate", &fields, rate.as_bytes()).await.status, 204);
    let queue = client.get("/v1/queues/images").await.json();
    let by_priority = json!([
        { "priority": 7, "ready": 4 }, { "priority": 0, "ready": 2 }, { "priority": -3, "ready": 1 }
    ]);
    assert_eq!(queue["ready_by_priority"], by_priority);
    let html = check("/queues/images", &open(&mut client, "/queues/images").await);
    assert!(html.contains("Ready by priority") && html.contains("value=\"4\""), "{html}");
    assert!(html.contains("data-put=\"/v1/queues/images/rate\""), "{html}");
    assert!(
        html.contains(
            "id=\"rate-burst\" name=\"burst\" type=\"number\" min=\"1\" max=\"1000000\" value=\"9\""
        )
    );
    // Of many priorities those with the most tasks are shown.
    let many: Vec<_> =
        (100..130).map(|priority| json!({ "queue": "images", "priority": priority })).collect();
    assert_eq!(client.post("/v1/tasks/batch", &json!({ "tasks": many })).await.status, 200);
    let queue = client.get("/v1/queues/images").await.json();
    let shown = queue["ready_by_priority"].as_array().unwrap().clone();
    assert_eq!((shown.len(), &shown[0]["priority"]), (20, &json!(129)));
    assert!(shown.contains(&json!({ "priority": 7, "ready": 4 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_door_shows_everything_and_changes_nothing() {
    let settings = tenure_door_http::Settings { read_only: true, ..tenure_door_http::Settings::default() };
    let broker = Broker::with(settings, tenure_hub::Keys::default()).await;
    let mut client = broker.client().await;
    for (method, path) in [
        ("POST", "/v1/tasks"),
        ("POST", "/v1/queues/images/tasks"),
        ("PUT", "/v1/limits/t"),
        ("DELETE", "/v1/limits/t"),
        ("PUT", "/v1/work/w1"),
        ("POST", "/v1/topics/news"),
        ("POST", "/v1/bulk/cancel"),
    ] {
        let answer = client.ask(method, path, &[("content-type", "application/json")], b"{}").await;
        assert_eq!((answer.status, &*answer.code()), (403, "read-only"), "{method} {path}");
    }
    for path in PAGES {
        let html = check(path, &open(&mut client, path).await);
        assert!(html.contains("read-only"), "{path}");
        assert!(
            !html.contains("data-act=") && !html.contains("data-put=") && !html.contains("data-submit"),
            "{path}"
        );
    }
    assert_eq!(client.get("/v1/counts").await.status, 200);
    let wait = client.post("/v1/wait", &json!({ "tasks": [], "wait": 0 })).await;
    assert_eq!(wait.status, 200, "waiting changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_has_given_up_needs_attention_and_can_send_again() {
    let broker = Broker::start().await;
    let about = HookAbout {
        name: "pager".into(),
        namespace: "default".into(),
        kind: HookKind::Webhook,
        target: "http://127.0.0.1:9/<script>".into(),
        events: Vec::new(),
        queues: Vec::new(),
    };
    let hook = Arc::new(HookProgress::new(about));
    broker.hub.hooks().set(vec![Arc::clone(&hook)]);
    let mut client = broker.client().await;
    let html = check("/", &open(&mut client, "/").await);
    assert!(!html.contains("has given up"), "{html}");
    hook.give_up(Undelivered {
        seq: 17,
        kind: "crashed".into(),
        given_up_at: Timestamp(1_000),
        attempts: 5,
        error: "connection refused <b>".into(),
        body: "{}".into(),
        is_due: false,
    });
    let html = check("/", &open(&mut client, "/").await);
    assert!(html.contains("Hook <a href=\"/hooks\">pager</a> has given up 1 event."), "{html}");
    let html = check("/hooks", &open(&mut client, "/hooks").await);
    for part in
        ["pager", "connection refused &lt;b&gt;", "data-path=\"/v1/hooks/pager/redeliver\"", "crashed"]
    {
        assert!(html.contains(part), "{part} in {html}");
    }
    let answer = client.act("POST", "/v1/hooks/pager/redeliver").await;
    assert_eq!((answer.status, &answer.json()["events"]), (200, &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_task_says_that_a_reconciliation_submitted_it() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let declared = json!([{ "name": "job/1", "task": { "queue": "q" } }]);
    let page = json!({ "prefix": "job/", "apply": true, "declared": declared });
    let answer = client.post("/v1/reconcile", &page).await.json();
    let path = format!("/tasks/{}", answer["tasks"][0]["task"].as_str().expect("it is submitted"));
    let html = check(&path, &open(&mut client, &path).await);
    assert!(html.contains("by anyone, in the reconciliation of job/*"), "{html}");
    assert!(html.contains("by the reconciliation of job/*; no worker has ever served queue q"), "{html}");
}
