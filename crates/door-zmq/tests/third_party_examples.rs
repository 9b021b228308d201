//! The Python examples, on pyzmq, against a real broker: every role, and real processes that are killed.

mod support;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use support::broker::Broker;
use support::python::{Script, python};
use tenure_door_zmq::{PingPongSettings, Settings};

/// The example programs, pointed at one broker.
struct Stage {
    python: OsString,
    broker: Broker,
}

impl Stage {
    fn new() -> Option<Stage> {
        Stage::with(Settings::default())
    }

    fn with(settings: Settings) -> Option<Stage> {
        Some(Stage { python: python()?, broker: Broker::with(settings, PingPongSettings::default()) })
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Script {
        self.start_at(self.broker.mdp, name, arguments)
    }

    fn start_at(&self, address: SocketAddr, name: &str, arguments: &[&str]) -> Script {
        let broker = format!("tcp://{address}");
        Script::start(&self.python, name, &[arguments, &["--broker", &broker]].concat())
    }
}

#[test]
fn a_majordomo_client_gets_its_reply() {
    let Some(stage) = Stage::new() else { return };
    let mut worker = stage.start("mdp_worker.py", &["echo"]);
    worker.line("ready");
    let (went_well, said) = stage.start("mdp_client.py", &["echo", "hello", "", "world"]).end();
    assert!(went_well);
    assert_eq!(said, ["HELLO", "", "WORLD"]);
    worker.line("done");
}

#[test]
fn a_single_threaded_worker_may_compute_much_longer_than_its_heartbeat_limit() {
    let settings = Settings { heartbeat: Duration::from_millis(100), ..Settings::default() };
    let Some(stage) = Stage::with(settings) else { return };
    let mut worker = stage.start("mdp_worker.py", &["echo", "--seconds", "1.5", "--heartbeat", "0.1"]);
    worker.line("ready");
    let (went_well, said) =
        stage.start("mdp_client.py", &["echo", "x", "--timeout", "10", "--retries", "1"]).end();
    assert!(went_well, "{said:?}");
    assert_eq!(said, ["X"]);
}

#[test]
fn test_case_1_the_client_hears_that_its_worker_crashed_and_the_job_is_done_by_another() {
    let Some(stage) = Stage::new() else { return };
    let mut worker = stage.start("pl_worker.py", &["Tools/Count", "--seconds", "60"]);
    worker.line("ready");
    stage.broker.until_workers(1);
    let mut client = stage.start("pl_client.py", &["Tools/Count", "5"]);
    assert_eq!(worker.line("working"), "working job-5 attempt 1");
    stage.broker.until_running(1);
    worker.kill();
    let told = client.line("WORKER_CRASHED");
    assert!(told.starts_with("WORKER_CRASHED job-5 attempt 1 requeued event "), "{told}");
    assert!(told.contains("connection-closed") && told.contains("It will be tried again"), "{told}");
    let mut next = stage.start("pl_worker.py", &["Tools/Count"]);
    assert_eq!(next.line("working"), "working job-5 attempt 2");
    client.line("reply");
    assert_eq!(next.line("finished"), "finished example");
    let (went_well, said) = client.end();
    assert!(went_well, "{said:?}");
}

#[test]
fn test_case_2_without_workers_the_client_learns_it_at_once_and_the_job_waits() {
    let Some(stage) = Stage::new() else { return };
    let mut client = stage.start("pl_client.py", &["Tools/Count", "7"]);
    let told = client.line("NO_WORKERS");
    assert!(told.contains("no worker has ever served queue Tools/Count: start one"), "{told}");
    let _worker = stage.start("pl_worker.py", &["Tools/Count"]);
    assert!(client.end().0, "and it is done when a worker comes");
    let (went_well, _) = stage.start("pl_client.py", &["Tools/Count", "8"]).end();
    assert!(went_well, "the next one, too");
}

#[test]
fn test_case_3_a_worker_that_dies_half_way_costs_only_what_it_was_doing() {
    let Some(stage) = Stage::new() else { return };
    let mut worker = stage.start("pl_worker.py", &["Tools/Count", "--threads", "1", "--seconds", "0.5"]);
    worker.line("ready");
    stage.broker.until_workers(1);
    let mut client = stage.start("pl_client.py", &["Tools/Count", "1", "2", "3"]);
    worker.line("done job-1");
    worker.line("working job-2");
    stage.broker.until_running(1);
    worker.kill();
    assert!(client.line("WORKER_CRASHED").starts_with("WORKER_CRASHED job-2 attempt 1 requeued"));
    let mut next = stage.start("pl_worker.py", &["Tools/Count", "--threads", "1"]);
    assert_eq!(next.line("working"), "working job-2 attempt 2");
    assert_eq!(next.line("working"), "working job-3 attempt 1");
    assert!(client.end().0);
}

#[test]
fn a_client_that_was_away_asks_what_it_missed() {
    let Some(stage) = Stage::new() else { return };
    let client = stage.start("pl_client.py", &["Tools/Count", "5", "--identity", "lab", "--leave"]);
    assert!(client.end().0);
    let mut worker = stage.start("pl_worker.py", &["Tools/Count", "--seconds", "60", "--identity", "node-1"]);
    worker.line("working");
    stage.broker.until_running(1);
    worker.kill();
    stage.broker.until_running(0);
    let (went_well, said) = stage.start("pl_client.py", &["--identity", "lab", "--after", "0"]).end();
    assert!(went_well);
    assert!(said[0].starts_with("NO_WORKERS job-5 "), "{said:?}");
    assert!(said[1].starts_with("WORKER_CRASHED job-5 attempt 1 requeued event "), "{said:?}");
    assert!(said[1].contains("Worker node-1 crashed"), "{said:?}");
    assert!(said[2].starts_with("200 latest event "), "{said:?}");
}

#[test]
fn a_monitor_sees_services_workers_and_their_figures() {
    // A broker that beats more often than its worker wants to hear it, or the worker opens new sockets all the time.
    let settings = Settings { heartbeat: Duration::from_millis(100), liveness: 100, ..Settings::default() };
    let Some(stage) = Stage::with(settings) else { return };
    let arguments = ["Tools/Count", "--identity", "node-1", "--heartbeat", "1", "--seconds", "60"];
    let mut worker = stage.start("pl_worker.py", &arguments);
    worker.line("ready");
    stage.broker.until_figures(1);
    assert!(stage.start("pl_client.py", &["Tools/Count", "5", "--identity", "lab", "--leave"]).end().0);
    worker.line("working");
    let (went_well, said) = stage.start("mdp_monitor.py", &[]).end();
    assert!(went_well);
    for line in [
        "  Tools/Count",
        "  node-1|example#Tools/Count|v1 2024-01-01 00:00:00 +0000",
        "  Running: Tools/Count|lab||node-1|0",
        "  Workers: 1|node-1|example",
    ] {
        assert!(said.iter().any(|said| said == line), "{line} is missing in {said:?}");
    }
    assert!(
        said.iter().any(|line| line.contains("NumberThreads:2#TotalPhysicalMemory:64000000000")),
        "{said:?}"
    );
}

#[test]
fn workers_register_again_after_the_broker_was_restarted() {
    let settings = Settings { heartbeat: Duration::from_millis(200), ..Settings::default() };
    let Some(stage) = Stage::with(settings) else { return };
    let mut simple = stage.start("mdp_worker.py", &["echo", "--heartbeat", "0.2"]);
    simple.line("ready");
    let mut plugin = stage.start("pl_worker.py", &["Tools/Count", "--heartbeat", "0.2"]);
    plugin.line("ready");
    let Stage { python, broker } = stage;
    let stage = Stage { python, broker: broker.restart() };
    let (went_well, said) = stage.start("mdp_client.py", &["echo", "x", "--timeout", "10"]).end();
    assert!(went_well, "{said:?}");
    assert!(stage.start("pl_client.py", &["Tools/Count", "5"]).end().0);
}

#[test]
fn a_computation_goes_on_through_a_restart_of_the_broker() {
    let Some(stage) = Stage::new() else { return };
    let mut worker = stage.start("pl_worker.py", &["Tools/Count", "--seconds", "2", "--identity", "node-1"]);
    worker.line("ready");
    stage.broker.until_workers(1);
    assert!(stage.start("pl_client.py", &["Tools/Count", "5", "--identity", "lab", "--leave"]).end().0);
    assert_eq!(worker.line("working"), "working job-5 attempt 1");
    stage.broker.until_running(1);
    let Stage { python, broker } = stage;
    let stage = Stage { python, broker: broker.restart() };
    worker.line("done job-5");
    let mut native = support::native::Native::open(stage.broker.hub(), "observer");
    for _ in 0..400 {
        let tasks = native.tasks();
        if tasks[0].state.name().has_ended() {
            assert_eq!((tasks[0].state.name().as_str(), tasks[0].attempt), ("completed", 1));
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the result was lost: {:?}", native.tasks());
}

#[test]
fn ping_pong_work_is_done_and_survives_its_worker() {
    let Some(stage) = Stage::new() else { return };
    let (clients, workers) = (stage.broker.clients, stage.broker.workers);
    let mut worker = stage.start_at(workers, "pingpong_worker.py", &[]);
    worker.line("ready");
    let (went_well, said) =
        stage.start_at(clients, "pingpong_client.py", &["count the cells", "again"]).end();
    assert!(went_well);
    assert_eq!(said, ["COUNT THE CELLS", "AGAIN"]);
    worker.kill();

    let mut slow = stage.start_at(workers, "pingpong_worker.py", &["--seconds", "60"]);
    slow.line("ready");
    let client = stage.start_at(clients, "pingpong_client.py", &["hard work"]);
    slow.line("working");
    slow.kill();
    let mut next = stage.start_at(workers, "pingpong_worker.py", &["--old-form"]);
    next.line("done");
    let (went_well, said) = client.end();
    assert!(went_well);
    assert_eq!(said, ["HARD WORK"]);
}
