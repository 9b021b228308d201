//! A worker that leaves while its broker is away keeps what it could not report.

use std::time::Duration;

use tenure_client::TaskId;

use crate::stage::{Process, Stage, eventually, touch};

/// A worker whose only task has ended while the broker is away. Its directory is `w`.
fn with_a_result_that_no_broker_takes(stage: &mut Stage, args: &[&str]) -> (Process, TaskId) {
    let dir = stage.path("w");
    let mut all = vec!["--lease", "10m", "--dir", dir.to_str().unwrap()];
    all.extend(args);
    let worker = stage.worker("w", &all);
    let (begun, go_on) = (stage.path("begun"), stage.path("go-on"));
    let task = stage.script(&format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; echo done",
        begun.display(),
        go_on.display()
    ));
    eventually("it runs", || begun.exists());
    stage.until_running(task);
    stage.kill_broker();
    touch(&go_on);
    eventually("it has ended", || stage.log().contains(": completed after"));
    (worker, task)
}

/// The next worker of the name reports what was kept, and the broker takes it.
fn is_reported_by_the_next(stage: &mut Stage, task: TaskId) {
    let kept = stage.path("w").join("unreported-w").join(format!("{task}-1"));
    assert!(
        kept.exists() && stage.log().contains(&kept.parent().unwrap().display().to_string()),
        "{}",
        stage.log()
    );
    let dir = stage.path("w");
    let _next = stage.worker("w", &["--dir", dir.to_str().unwrap()]);
    stage.start_broker();
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("done\n")));
    assert_eq!(stage.show(task).attempt, 1, "it was not run again");
    eventually("the file goes", || !kept.exists());
}

#[test]
fn a_draining_worker_waits_a_limited_time_for_a_lost_broker() {
    let mut stage = Stage::new();
    let (mut worker, task) = with_a_result_that_no_broker_takes(&mut stage, &["--drain-timeout", "4s"]);
    worker.terminate();
    eventually("it says what it waits for", || {
        stage.log().contains("waiting for the broker at") && stage.log().contains("to accept 1 result")
    });
    assert_eq!(worker.ended().code(), Some(69), "{}", stage.log());
    is_reported_by_the_next(&mut stage, task);
}

#[test]
fn a_second_signal_ends_the_waiting_for_a_broker_that_is_gone() {
    let mut stage = Stage::new();
    let (mut worker, task) = with_a_result_that_no_broker_takes(&mut stage, &["--drain-timeout", "1h"]);
    worker.terminate();
    eventually("it drains", || stage.log().contains("draining"));
    std::thread::sleep(Duration::from_millis(1_100));
    worker.terminate();
    assert_eq!(worker.ended().code(), Some(69), "{}", stage.log());
    is_reported_by_the_next(&mut stage, task);
}

#[test]
fn a_result_that_comes_too_late_is_kept_and_changes_nothing() {
    let mut stage = Stage::new();
    let (mut worker, task) = with_a_result_that_no_broker_takes(&mut stage, &["--drain-timeout", "1s"]);
    worker.terminate();
    worker.ended();
    stage.start_broker();
    stage.block_on(stage.client.cancel(task, None)).unwrap();
    // Another process in the worker's name, without its result, says that the attempt is over.
    let mut other = stage.worker("w", &[]);
    assert_eq!(stage.wait(task).state.as_str(), "cancelled");
    other.terminate();
    other.ended();
    let dir = stage.path("w");
    let _next = stage.worker("w", &["--dir", dir.to_str().unwrap()]);
    eventually("the log says so", || stage.log().contains("came too late"));
    assert!(dir.join("unreported-w").join(format!("{task}-1.stale")).exists());
    assert_eq!(stage.show(task).state.as_str(), "cancelled");
}
