//! Workers that are kept alive.

use crate::stage::{Stage, eventually, is_running, text};

/// The process of each worker, as the supervisor's log tells it, oldest first.
fn started(stage: &Stage, worker: &str) -> Vec<String> {
    let mark = format!("worker {worker} started, process ");
    stage.log().lines().filter_map(|line| line.split_once(&mark)).map(|(_, pid)| pid.to_owned()).collect()
}

#[test]
fn a_crashed_worker_is_started_again_and_goes_on() {
    let stage = Stage::new();
    let mut boss = stage.worker("boss", &["--supervise", "2"]);
    eventually("two workers", || stage.block_on(stage.client.workers()).unwrap().len() == 2);
    let first = started(&stage, "boss-1").remove(0);
    let done = std::process::Command::new("kill").args(["-9", &first]).status().unwrap();
    assert!(done.success());
    eventually("it is started again", || started(&stage, "boss-1").len() == 2);
    let file = stage.path("who");
    for _ in 0..4 {
        stage.script(&format!("echo $TENURE_WORKER >> {}; sleep 0.5", file.display()));
    }
    eventually("both work", || ["boss-1", "boss-2"].iter().all(|name| text(&file).contains(name)));

    // The signal reaches all of them, and they leave in peace.
    let last: Vec<String> =
        ["boss-1", "boss-2"].iter().filter_map(|name| started(&stage, name).pop()).collect();
    boss.terminate();
    assert!(boss.ended().success());
    assert!(!last.iter().any(|pid| is_running(pid)));
}

#[test]
fn a_worker_with_invalid_options_is_not_restarted() {
    let stage = Stage::new();
    let mut boss = stage.worker("boss", &["--supervise", "1", "--keep-output", "1GB"]);
    assert_eq!(boss.ended().code(), Some(64));
}

#[test]
fn a_worker_whose_name_is_taken_says_what_it_waits_for() {
    let stage = Stage::new();
    let mut first = stage.worker("w", &[]);
    eventually("it is there", || stage.block_on(stage.client.workers()).unwrap().len() == 1);
    let _second = stage.worker("w", &[]);
    eventually("it says so", || stage.log().contains("worker w waits: another worker of this name"));
    first.terminate();
    first.ended();
    eventually("it has the name", || stage.log().matches("worker w serves").count() == 2);
}
