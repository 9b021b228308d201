//! Questions to the broker itself, and work that crosses doors.

mod support;

use std::time::Duration;

use support::broker::Broker;
use support::cbor::Item;
use support::native::Native;
use support::plugin::{PluginClient, PluginWorker, says};
use support::wire::Wire;
use tenure_hub::words::{NewTask, TaskId};
use tenure_hub::{
    Declared, DeclaredState, Grant, Keys, Reconciliation, Request, Response, Right, Rights, Submission,
};

const PATH: &str = "Tools/Count";

/// A worker with two threads and figures, known to the broker.
fn served(broker: &Broker) -> (PluginWorker, PluginClient) {
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 2, PATH);
    let figures = ["2", "64000000000", "16000000000", "250", "12.5", "3.5"];
    worker.wire.send(&[&["", "MDPW01_PL", "\x04"][..], &figures].concat());
    let mut client = PluginClient::start(broker.mdp, "lab");
    while client.lines("mmi.service", &[PATH]) != ["200"] {}
    broker.until_figures(1);
    (worker, client)
}

#[test]
fn services_and_plugins_are_listed() {
    let broker = Broker::start();
    let (_worker, mut client) = served(&broker);
    let mut simple = Wire::named(broker.mdp, b"simple");
    simple.send(&["", "MDPW01", "\x01", "echo"]);
    while client.lines("mmi.service", &["echo"]) != ["200"] {}
    assert_eq!(client.lines("mmi.list", &[]), [PATH, "echo"]);
    assert_eq!(client.lines("mmi.list", &[""]), [PATH, "echo"]);
    let record = Item::decode(&client.ask("mmi.list", &[PATH])[0]).expect("a record");
    assert!(says(&record, r#"{"Path": "Tools/Count", "PluginVersion": "v7"}"#), "{record:?}");
    assert_eq!(client.lines("mmi.list", &["nothing"]), Vec::<String>::new());
    assert_eq!(client.lines("mmi.list_services", &[]), ["node-1|node#Tools/Count|v7", "simple|#echo|"]);
}

#[test]
fn what_waits_and_runs_and_who_works_is_listed() {
    let broker = Broker::start();
    let (mut worker, mut client) = served(&broker);
    client.submit(PATH, &["a", "b", "c", "d"]);
    worker.call();
    worker.call();
    assert_eq!(
        client.lines("mmi.workers", &[]),
        [
            "Pending: Tools/Count|lab|cells|2|0",
            "Running: Tools/Count|lab|cells|node-1|0",
            "Running: Tools/Count|lab|cells|node-1|0",
            "Workers: 0|node-1|node",
            "Workers: 1|node-1|node",
        ]
    );
    assert_eq!(client.lines("mmi.status", &[]), ["0", "4", "2"]);
    assert_eq!(client.lines("mmi.cancel", &[]), ["2"]);
    // What runs goes on.
    let lines = client.lines("mmi.workers", &[]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("Running")).count(), 2);
    assert_eq!(client.lines("mmi.status", &[]), ["2", "2", "2"]);
    assert_eq!(client.lines("mmi.status", &[]), ["0", "2", "2"], "cleared by asking");
}

#[test]
fn the_figures_of_a_heartbeat_are_shown_here_and_through_other_doors() {
    let broker = Broker::start();
    let (_worker, mut client) = served(&broker);
    assert_eq!(
        client.lines("mmi.health", &[]),
        ["node-1|node|NumberThreads:2#TotalPhysicalMemory:64000000000#PhysicalMemoryUsed:16000000000\
          #PhenoLinkMemoryUsage:250#TotalWorkerCPULoad:12.5#PhenoLinkWorkerCPULoad:3.5#Crashes:0#HealthScore:100"]
    );
    let mut native = Native::open(broker.hub(), "observer");
    let workers = native.workers();
    let stats = workers[0].stats.as_ref().expect("figures");
    assert_eq!((stats.cpu_percent, stats.memory_used), (Some(12.5), Some(16_000_000_000)));
    assert_eq!((workers[0].about.door, workers[0].about.host.as_deref()), (Some("mdp"), Some("node")));
}

#[test]
fn a_crash_lowers_the_health_score_of_a_worker_with_a_name() {
    let broker = Broker::start();
    let (mut worker, mut client) = served(&broker);
    client.submit(PATH, &["a"]);
    worker.call();
    broker.until_running(1);
    drop(worker);
    client.notice();
    let (_worker, mut client) = served(&broker);
    let health = client.lines("mmi.health", &[]);
    assert!(health[0].ends_with("#Crashes:1#HealthScore:50"), "{health:?}");
}

#[test]
fn a_client_may_cancel_what_another_one_queued() {
    let broker = Broker::start();
    let mut lab = PluginClient::start(broker.mdp, "lab");
    lab.submit(PATH, &["a", "b"]);
    lab.notice();
    let mut office = PluginClient::start(broker.mdp, "office");
    assert_eq!(office.lines("mmi.cancel", &[]), ["0"]);
    assert_eq!(office.lines("mmi.cancel", &["lab"]), ["2"]);
    while !says(&lab.notice(), r#"{"error": "JOB_CANCELLED", …}"#) {}
}

#[test]
fn a_task_of_another_door_runs_on_a_majordomo_worker_byte_for_byte() {
    let broker = Broker::start();
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "echo"]);
    let mut native = Native::open(broker.hub(), "native");
    let body: Vec<u8> = (0..=255).collect();
    native.submit("echo", &body);
    let frames = worker.receive(Duration::from_secs(5)).expect("a request");
    assert_eq!(frames[5..], std::slice::from_ref(&body)[..]);
    let reply: [&[u8]; 6] = [b"", b"MDPW01", &[3], &frames[3], b"", &body];
    worker.send(&reply);
    assert_eq!(native.result(), body);
}

#[test]
fn a_request_of_a_majordomo_client_runs_on_a_worker_of_another_door() {
    let broker = Broker::start();
    let mut native = Native::open(broker.hub(), "native");
    native.work("n-1", "echo");
    let mut client = Wire::dealer(broker.mdp);
    client.send(&["", "MDPC01", "echo", "one frame"]);
    let (held, body) = native.assignment();
    assert_eq!(body, "one frame");
    native.complete(held, b"done");
    assert_eq!(client.texts(), ["", "MDPC01", "echo", "done"]);

    client.send(&["", "MDPC01", "echo", "two", "frames"]);
    let (held, body) = native.assignment();
    assert_eq!(&body[..], b"\xf5frames\x01\0\0\0\x03two\0\0\0\x06frames");
    native.complete(held, &body);
    assert_eq!(client.texts(), ["", "MDPC01", "echo", "two", "frames"]);
}

#[test]
fn plugin_calls_and_other_bodies_meet() {
    let broker = Broker::start();
    let mut native = Native::open(broker.hub(), "native");
    native.submit(PATH, b"plain bytes");
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 1, PATH);
    let call = worker.call();
    assert_eq!(call.get("Body"), Some(&Item::Bytes(b"plain bytes".to_vec())));
    assert_eq!(call.get("Client"), Some(&Item::Text("native".into())));
    worker.finish(&call, &["r"]);
    assert_eq!(native.result(), "r");
    worker.wire.send(&["", "MDPW01_PL", "\x05"]);

    native.work("n-1", "Other");
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit("Other", &["a"]);
    let (held, body) = native.assignment();
    assert!(says(
        &Item::decode(&body).expect("a map"),
        r#"{"JobID": "a", "CommitName": "batch-1", "Project": "cells"}"#
    ));
    native.complete(held, b"r");
    loop {
        // The queue may have been unserved for a moment.
        let frames = client.wire.receive(Duration::from_secs(5)).expect("a reply");
        if frames[3] == b"r" {
            break;
        }
    }
}

#[test]
fn ping_pong_work_meets_other_doors_too() {
    let broker = Broker::start();
    let mut client = Wire::dealer(broker.clients);
    client.send(&["", "x"]);
    let mut worker = Wire::dealer(broker.mdp);
    worker.send(&["", "MDPW01", "\x01", "pingpong"]);
    let frames = worker.receive(Duration::from_secs(5)).expect("a request");
    assert_eq!(frames[5], b"x");
    worker.send(&[&b""[..], b"MDPW01", &[3], &frames[3], b"", b"y"]);
    assert_eq!(client.texts(), ["", "y"]);
    worker.send(&["", "MDPW01", "\x05"]);

    let mut native = Native::open(broker.hub(), "native");
    native.submit("pingpong", b"PONG");
    let mut ping_pong = Wire::dealer(broker.workers);
    ping_pong.send(&["", "READY"]);
    assert_eq!(ping_pong.receive(Duration::from_millis(80)), None);
    let failed = native.tasks().into_iter().find(|task| task.state.name().as_str() == "failed");
    let message = failed.and_then(|task| task.state.end().and_then(|end| end.message.clone()));
    assert!(message.is_some_and(|message| message.contains("PONG")));
}

#[test]
fn a_key_says_what_a_peer_may_do() {
    let mut keys = Keys::default();
    let only_submits = Grant {
        name: "clients".into(),
        rights: Rights::of(&[Right::Submit, Right::Read]),
        ..Grant::everything()
    };
    keys.add(b"letmein", only_submits);
    let broker = Broker::with_keys(&keys);

    let mut client = Wire::silent(broker.mdp);
    client.raw(&support::null_opening("DEALER", b""));
    assert!(client.is_closed(Duration::from_secs(5)));
    assert!(broker.counts("mechanism"));

    let mut wrong = Wire::silent(broker.mdp);
    wrong.raw(&support::greeting(3, 1, "PLAIN"));
    wrong.raw(&support::command("HELLO", b"\x01x\x05wrong"));
    assert!(wrong.is_closed(Duration::from_secs(5)));
    assert!(broker.counts("credentials_refused"));

    let mut peer = Wire::plain(broker.mdp, "x", "letmein");
    peer.send(&["", "MDPC01", "mmi.service", "echo"]);
    assert_eq!(peer.texts()[3], "404");
    peer.send(&["", "MDPW01", "\x01", "echo"]);
    assert_eq!(peer.texts(), ["", "MDPW01", "\x05"], "this key is not for workers");
    peer.send(&["", "MDPC01", "mmi.cancel", "someone"]);
    assert_eq!(peer.texts()[3], "403", "nor for what others queued");
}

#[test]
fn a_job_that_a_reconciliation_submitted_says_so() {
    let broker = Broker::start();
    let mut other = Native::open(broker.hub(), "store");
    let task = NewTask { name: Some("run/1".into()), ..NewTask::new(TaskId::from_u128(7), PATH) };
    let submission = Some(Submission::new(task, "x".into()));
    let declared = vec![Declared { name: "run/1".into(), there: DeclaredState::Exists, submission }];
    let page = Reconciliation { prefix: "run/".into(), apply: true, declared, ..Reconciliation::default() };
    let Response::Reconciled(answer) = other.ask(Request::Reconcile(Box::new(page))) else {
        panic!("a reconciliation is answered")
    };
    let task = answer.tasks[0].task.expect("it is submitted").to_string();
    let mut client = PluginClient::start(broker.mdp, "lab");
    let lines = client.lines("mmi.job", &[&task]);
    assert_eq!((lines.len(), lines[10].as_str()), (11, "reconciliation:run/"), "{lines:?}");
}
