//! Two groups in one database: each namespace belongs to one of them, clients find it, and a namespace moves with its
//! tasks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_client::{Outcome, Worker, WorkerHandle};
use tenure_journal_postgres::testing::free_port;

use crate::stage::{Stage, TestMember, http};
use crate::support::{Said, eventually, program, run};

/// A story with `b1` in the group g1, and `c1` and `c2` in g2, each with a native, a RESP and an HTTP door.
pub(crate) struct TwoGroups {
    pub(crate) stage: Stage,
    http: Vec<u16>,
}

pub(crate) const B1: usize = 0;
const C1: usize = 1;
const C2: usize = 2;

impl TwoGroups {
    pub(crate) fn start() -> Option<TwoGroups> {
        let mut stage = Stage::start(0, 0)?;
        run(stage.cluster_command("g2", &["init"])).ok();
        let mut http = Vec::new();
        for (name, group) in [("b1", "g1"), ("c1", "g2"), ("c2", "g2")] {
            let dir = stage.scratch.path().join(name);
            let mut member = TestMember::new(name, dir);
            group.clone_into(&mut member.group);
            stage.members.push(member);
            http.push(free_port());
        }
        let mut groups = TwoGroups { stage, http };
        for index in [B1, C1, C2] {
            groups.start_member(index);
        }
        groups.stage.leader();
        groups.leader_of_g2();
        Some(groups)
    }

    pub(crate) fn start_member(&mut self, index: usize) {
        let http = format!("127.0.0.1:{}", self.http[index]);
        self.stage.start_member(index, &["--http", &http]);
    }

    pub(crate) fn leader_of_g2(&self) -> usize {
        self.stage.leader_of("g2", None)
    }

    /// Runs the program at one member, in a namespace.
    pub(crate) fn at(&self, index: usize, namespace: &str, args: &[&str]) -> Said {
        let mut command = program(args);
        let address = format!("127.0.0.1:{}", self.stage.members[index].port);
        // A group whose leader was asked to make way for a program that is gone has no leader for ten seconds.
        command.args(["--namespace", namespace, "--broker", &address, "--connect-timeout", "60s"]);
        run(command)
    }

    /// The id, the state and the attempt of each task of a namespace.
    fn tasks(&self, index: usize, namespace: &str) -> BTreeMap<String, String> {
        let listed = self.at(index, namespace, &["list", "--all", "-o", "jsonl"]);
        assert_eq!(listed.code, 0, "{listed:?}\n{}", self.stage.logs());
        let lines = listed.lines();
        let count = lines.len();
        let of = |line: &serde_json::Value| {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            (text("id"), format!("{} {}", text("state"), line["attempt"]))
        };
        let tasks: BTreeMap<String, String> = lines.iter().map(of).collect();
        assert_eq!(tasks.len(), count, "no task is there twice");
        tasks
    }

    fn http(&self, index: usize, path: &str, namespace: &str) -> String {
        let door = format!("127.0.0.1:{}", self.http[index]);
        http(&door, path, &format!("Tenure-Namespace: {namespace}\r\n"))
    }

    pub(crate) fn place(&self, namespace: &str, group: &str) -> Said {
        run(self.stage.cluster_command("g1", &["place", namespace, group, "-o", "json"]))
    }
}

/// A worker of the namespace `lab`. It knows one address, and follows its namespace.
struct LabWorker {
    began: Arc<Mutex<Vec<String>>>,
    handle: WorkerHandle,
    runtime: Option<tokio::runtime::Runtime>,
}

impl LabWorker {
    fn start(member: &TestMember, go_on: &Path) -> LabWorker {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads");
        let began = Arc::new(Mutex::new(Vec::new()));
        let (noted, go_on) = (Arc::clone(&began), go_on.to_owned());
        let address = format!("127.0.0.1:{}", member.port);
        let worker = Worker::builder(&address).namespace("lab").id("w1").queues(["q", "later"]).slots(2);
        let builder = worker.handle(move |context| {
            let (noted, go_on) = (Arc::clone(&noted), go_on.clone());
            async move {
                let body = String::from_utf8_lossy(context.body()).into_owned();
                noted.lock().expect("no panic").push(body.clone());
                while body == "hold" && !go_on.exists() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Outcome::complete(body)
            }
        });
        let handle = runtime.block_on(builder.start()).expect("the worker registers");
        LabWorker { began, handle, runtime: Some(runtime) }
    }

    fn began(&self) -> Vec<String> {
        self.began.lock().expect("no panic").clone()
    }
}

impl Drop for LabWorker {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[test]
fn a_namespace_belongs_to_one_group_and_clients_are_led_there() {
    let Some(mut groups) = TwoGroups::start() else { return };
    let text = groups.stage.cluster(&["namespaces"]).ok();
    assert!(text.contains("no namespace is placed"), "{text}");
    groups.place("lab", "g9").fails(65, "there is no group g9 (there are: g1, g2)");
    groups.place("a\u{7}b", "g2").fails(64, "namespace");

    // What the namespace has moves with it: a task that waits, one with a name that has ended, one that waits for another.
    groups.at(B1, "lab", &["submit", "--queue", "q", "--name", "first", "one"]).ok();
    let first = groups.at(B1, "lab", &["show", "name:first", "-o", "json"]).json()["id"].clone();
    groups.at(B1, "lab", &["queues", "pause", "later"]).ok();
    let waiting = groups.at(B1, "lab", &["submit", "--queue", "later", "two"]).ok();
    groups.at(B1, "lab", &["submit", "--queue", "later", "--after", waiting.trim(), "three"]).ok();
    groups.at(B1, "lab", &["submit", "--queue", "later", "--array", "1-3", "--name", "many", "four"]).ok();
    let worker = LabWorker::start(&groups.stage.members[B1], &groups.stage.scratch.path().join("go on"));
    groups.at(B1, "lab", &["wait", "name:first"]).ok();
    groups.at(B1, "lab", &["submit", "--queue", "q", "--name", "long", "hold"]).ok();
    eventually("it runs", || worker.began().contains(&"hold".to_owned()));
    groups.at(B1, "default", &["submit", "--queue", "q", "stays"]).ok();
    let before = groups.tasks(B1, "lab");
    assert_eq!(before.len(), 5, "an array is one line: {before:?}");
    let said = groups.place("lab", "g2").json();
    assert_eq!((said["tasks"].as_u64(), said["from"].as_str()), (Some(7), Some("g1")), "{said}");

    // Led to the right group from the wrong one, by the native protocol.
    groups.stage.leader();
    let leader = groups.leader_of_g2();
    for index in [B1, C1, C2] {
        assert_eq!(groups.tasks(index, "lab"), before, "each task once, as it was");
        assert_eq!(groups.tasks(index, "default").len(), 1);
    }
    assert_eq!(groups.at(B1, "lab", &["show", "name:first", "--result"]).ok().trim(), "one");
    let again = groups.at(B1, "lab", &["submit", "--queue", "q", "--name", "first", "one"]).ok();
    assert_eq!(Some(again.trim()), first.as_str(), "its name is known: it does not run twice");

    // The other doors say where the namespace is.
    let (b1, leads) = (&groups.stage.members[B1], &groups.stage.members[leader]);
    let refused = groups.stage.redis(leader, "LPUSH jobs body");
    let wanted = format!(
        "-ELSEWHERE the namespace default belongs to the group g1: connect to 127.0.0.1:{}",
        b1.resp_port
    );
    assert_eq!(refused, wanted);
    assert_eq!(groups.stage.redis(leader, "PUBLISH jobs body"), wanted);
    assert_eq!(groups.stage.redis(leader, "SET key value"), wanted);
    assert_eq!(groups.stage.redis(leader, "PING"), "+PONG");
    let answer = groups.http(B1, "/v1/tasks", "lab");
    let address = format!("127.0.0.1:{}", groups.http[leader]);
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    assert!(answer.contains("\"code\":\"elsewhere\"") && answer.contains(&address), "{answer}");
    assert!(groups.http(leader, "/v1/tasks", "lab").starts_with("HTTP/1.1 200 "));
    assert!(groups.http(B1, "/v1/topics", "lab").starts_with("HTTP/1.1 421 "));
    assert!(groups.http(leader, "/metrics", "default").starts_with("HTTP/1.1 200 "), "of the broker");
    assert!(leads.resp_port != b1.resp_port);

    // Said, and nothing done.
    let said = groups.place("lab", "g2").json();
    assert_eq!(said["changed"], false, "{said}");
    let text = groups.stage.cluster(&["namespaces"]).ok();
    assert!(text.contains("lab") && text.contains("g2") && text.contains("all others"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let listed = groups.stage.cluster(&["namespaces", "-o", "json"]).json();
    assert_eq!(listed["default_group"], "g1");
    assert_eq!(listed["namespaces"][0]["group"], "g2");

    // The leader of one group is killed: the other serves on, and the next leader has the namespace.
    groups.stage.kill(leader);
    groups.at(B1, "default", &["submit", "--queue", "q", "more"]).ok();
    assert_eq!(groups.stage.leader(), B1);
    groups.stage.leader_of("g2", Some(leader));
    assert_eq!(groups.tasks(B1, "lab"), before);
    groups.start_member(leader);

    // Back again, with what has changed meanwhile; then the tasks run, each once.
    groups.at(B1, "lab", &["queues", "resume", "later"]).ok();
    groups.place("lab", "g1").json();
    groups.stage.leader();
    let mut after = groups.tasks(C1, "lab");
    std::fs::write(groups.stage.scratch.path().join("go on"), "").expect("a file");
    eventually("all have run", || {
        after = groups.tasks(C1, "lab");
        after.values().all(|state| ["completed 1", "completed null"].contains(&state.as_str()))
    });
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let mut began = worker.began();
    began.sort();
    assert_eq!(began, ["four", "four", "four", "hold", "one", "three", "two"], "each began once");
    assert!(groups.stage.cluster(&["status", "-o", "json"]).json()["members"].as_array().unwrap().len() == 1);
}

#[test]
fn a_move_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let Some(groups) = TwoGroups::start() else { return };
    for number in 0..5 {
        groups.at(B1, "lab", &["submit", "--queue", "q", "--name", &format!("n{number}"), "body"]).ok();
    }
    groups.at(B1, "lab", &["submit", "--queue", "q", "--array", "1-20", "body"]).ok();
    groups.at(B1, "lab", &["cancel", "name:n0"]).ok();
    let before = groups.tasks(B1, "lab");
    let (begun, mut group) = (Instant::now(), "g2");
    assert_eq!(groups.place("lab", group).json()["tasks"], 25);
    let took = begun.elapsed();
    let kills = 4;
    for kill in 1..=kills {
        let other = if group == "g1" { "g2" } else { "g1" };
        let mut moving = groups.stage.cluster_command("g1", &["place", "lab", other]);
        let mut moving = moving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // Not a moment that matters, but as many different ones as there are kills.
        std::thread::sleep(took * kill / kills);
        let _ = moving.kill();
        let _ = moving.wait();
        groups.stage.leader();
        groups.leader_of_g2();
        for index in [B1, C1] {
            assert_eq!(groups.tasks(index, "lab"), before, "kill {kill}, on the way to {other}");
        }
        let listed = groups.stage.cluster(&["namespaces", "-o", "json"]).json();
        group = if listed["namespaces"][0]["group"] == "g1" { "g1" } else { "g2" };
        println!("kill {kill}: the namespace is in {group}, {}", listed["namespaces"][0]["state"]);
    }
    let other = if group == "g1" { "g2" } else { "g1" };
    assert_eq!(groups.place("lab", other).json()["tasks"], 25);
    groups.stage.leader();
    groups.leader_of_g2();
    assert_eq!(groups.tasks(B1, "lab"), before);
}

#[test]
fn groups_with_tasks_of_their_own_stay_independent() {
    let Some(groups) = TwoGroups::start() else { return };
    let leader = groups.leader_of_g2();
    groups.at(B1, "lab", &["submit", "--queue", "q", "one"]).ok();
    groups.at(leader, "lab", &["submit", "--queue", "q", "two"]).ok();
    groups.place("lab", "g2").fails(65, "the group g2 has tasks, settings, topics or keys of its own in lab");
    groups.stage.leader();
    groups.leader_of_g2();
    for index in [B1, leader] {
        assert_eq!(groups.tasks(index, "lab").len(), 1, "each group serves its own clients, as before");
    }
}
