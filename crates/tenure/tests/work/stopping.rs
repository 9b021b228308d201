//! Cancelling, pausing, draining: everything that a command has started ends with it.

use std::time::{Duration, Instant};

use crate::stage::{Stage, eventually, is_running, text, touch};

/// Starts a command whose child and grandchild write their numbers down, and returns those.
fn start_a_family(stage: &Stage) -> (tenure_client::TaskId, Vec<String>) {
    let file = stage.path("family");
    let script = format!(
        "echo $$ >> {0}; sh -c 'echo $$ >> {0}; sleep 300 & echo $! >> {0}; wait' & wait",
        file.display()
    );
    let task = stage.script(&script);
    eventually("three processes", || text(&file).lines().count() == 3);
    let family: Vec<String> = text(&file).lines().map(str::to_owned).collect();
    assert!(family.iter().all(|pid| is_running(pid)));
    stage.until_running(task);
    (task, family)
}

#[test]
fn cancelling_ends_the_whole_process_group() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let (task, family) = start_a_family(&stage);
    stage.block_on(stage.client.cancel(task, Some("wrong scan"))).unwrap();
    let ended = stage.wait(task);
    assert_eq!(ended.state.as_str(), "cancelled");
    eventually("the family is gone", || !family.iter().any(|pid| is_running(pid)));
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--grace", "300ms"]);
    let file = stage.path("pid");
    let task =
        stage.script(&format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.05; done", file.display()));
    eventually("it runs", || !text(&file).is_empty());
    stage.until_running(task);
    let begun = Instant::now();
    stage.block_on(stage.client.cancel(task, None)).unwrap();
    assert_eq!(stage.wait(task).state.as_str(), "cancelled");
    assert!(begun.elapsed() >= Duration::from_millis(300), "the grace is given");
    assert!(!is_running(text(&file).trim()));
}

#[test]
fn a_task_that_is_paused_and_terminated_ends_here_and_can_be_resumed() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let (task, family) = start_a_family(&stage);
    stage.block_on(stage.client.pause_and_terminate(task, None)).unwrap();
    eventually("it is paused", || stage.show(task).state.as_str() == "paused");
    eventually("the family is gone", || !family.iter().any(|pid| is_running(pid)));
    stage.block_on(stage.client.resume(task)).unwrap();
    stage.until_running(task);
    assert_eq!(stage.show(task).attempt, 2);
    stage.block_on(stage.client.cancel(task, None)).unwrap();
    stage.wait(task);
}

/// Whether a process is stopped by a signal.
fn is_stopped(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

/// Starts a family and has it stopped in place.
fn stop_a_family(stage: &Stage) -> (tenure_client::TaskId, Vec<String>) {
    let (task, family) = start_a_family(stage);
    stage.block_on(stage.client.pause(task, Some("lunch"))).unwrap();
    eventually("it is stopped", || stage.show(task).state.as_str() == "suspended");
    // The kernel stops each process when it is next scheduled.
    eventually("every process of the group is stopped", || family.iter().all(|pid| is_stopped(pid)));
    assert_eq!(stage.show(task).pause.and_then(|pause| pause.reason).as_deref(), Some("lunch"));
    (task, family)
}

#[test]
fn a_paused_command_stops_where_it_is_and_goes_on_in_the_same_attempt() {
    let mut stage = Stage::new();
    let _worker = stage.worker("w", &["--lease", "10s"]);
    let (ticks, go_on) = (stage.path("ticks"), stage.path("go-on"));
    let script = format!(
        "while [ ! -e {} ]; do echo tick >> {}; sleep 0.02; done; echo done",
        go_on.display(),
        ticks.display()
    );
    let task = stage.script(&script);
    eventually("it runs", || text(&ticks).lines().count() > 2);
    stage.until_running(task);
    stage.block_on(stage.client.pause(task, None)).unwrap();
    eventually("it is stopped", || stage.show(task).state.as_str() == "suspended");
    let stopped_at = text(&ticks);
    // Its slot is free for another task.
    let (other, _) = stage.result(stage.script("echo meanwhile"));
    assert_eq!(other.state.as_str(), "completed");
    // The broker comes back, and the worker says again that it waits.
    stage.restart_broker(Duration::from_millis(100));
    eventually("the worker is back", || {
        let workers = stage.block_on(stage.client.workers()).unwrap_or_default();
        workers.iter().any(|worker| worker.presence.as_str() == "live")
    });
    assert_eq!(stage.show(task).state.as_str(), "suspended");
    assert_eq!(text(&ticks), stopped_at, "nothing ran meanwhile");
    stage.block_on(stage.client.resume(task)).unwrap();
    eventually("it goes on", || text(&ticks).len() > stopped_at.len());
    touch(&go_on);
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("done\n")));
    assert_eq!(stage.show(task).attempt, 1);
}

#[test]
fn a_stopped_command_can_be_cancelled_or_ended() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--grace", "20s"]);
    let (task, family) = stop_a_family(&stage);
    let begun = Instant::now();
    stage.block_on(stage.client.cancel(task, None)).unwrap();
    assert_eq!(stage.wait(task).state.as_str(), "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(20), "it receives TERM although it was stopped");
    eventually("the family is gone", || !family.iter().any(|pid| is_running(pid)));
    std::fs::remove_file(stage.path("family")).unwrap();
    let (task, family) = stop_a_family(&stage);
    stage.block_on(stage.client.pause_and_terminate(task, None)).unwrap();
    eventually("it is paused", || stage.show(task).state.as_str() == "paused");
    eventually("the family is gone", || !family.iter().any(|pid| is_running(pid)));
}

#[test]
fn a_draining_worker_ends_what_it_keeps_stopped_and_leaves_it_paused() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &[]);
    let (task, family) = stop_a_family(&stage);
    worker.terminate();
    assert!(worker.ended().success());
    assert!(!family.iter().any(|pid| is_running(pid)));
    let shown = stage.show(task);
    assert_eq!((shown.state.as_str(), shown.crashes), ("paused", 0));
}

#[test]
fn the_command_of_a_killed_worker_does_not_stay_stopped() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &[]);
    let (task, family) = stop_a_family(&stage);
    worker.kill();
    eventually("the family is gone", || !family.iter().any(|pid| is_running(pid)));
    eventually("it is paused", || stage.show(task).state.as_str() == "paused");
    assert_eq!(stage.show(task).crashes, 0);
}

#[test]
fn a_time_limit_stands_still_while_a_command_is_stopped() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let begun = stage.path("begun");
    let body =
        format!(r#"{{"command": ["sh", "-c", "touch {}; sleep 0.5"], "timeout_secs": 1}}"#, begun.display());
    let task = stage.submit(tenure_client::Submission::to("default").body(body));
    eventually("it runs", || begun.exists());
    stage.until_running(task);
    stage.block_on(stage.client.pause(task, None)).unwrap();
    eventually("it is stopped", || stage.show(task).state.as_str() == "suspended");
    std::thread::sleep(Duration::from_millis(1_200));
    stage.block_on(stage.client.resume(task)).unwrap();
    assert_eq!(stage.wait(task).state.as_str(), "completed");
}

#[test]
fn a_command_has_the_trace_of_its_task_and_not_that_of_its_worker() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let (_, result) = stage.result(stage.script("echo \"${TRACEPARENT-none}\""));
    assert_eq!(result["stdout"].as_str(), Some("none\n"));
}

#[test]
fn what_a_command_leaves_behind_does_not_stay() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let (ended, result) = stage.result(stage.script("sleep 300 & echo $!"));
    assert_eq!(ended.state.as_str(), "completed");
    let left_behind = result["stdout"].as_str().unwrap().trim();
    assert!(!left_behind.is_empty() && !is_running(left_behind));
}

#[test]
fn a_worker_that_gets_sigterm_finishes_what_it_runs() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &[]);
    let (begun, go_on) = (stage.path("begun"), stage.path("go-on"));
    let wait = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; echo done",
        begun.display(),
        go_on.display()
    );
    let running = stage.script(&wait);
    eventually("it runs", || begun.exists());
    let waiting = stage.script("echo never");
    worker.terminate();
    eventually("it drains", || stage.log().contains("draining"));
    touch(&go_on);
    assert_eq!(stage.wait(running).state.as_str(), "completed");
    assert!(worker.ended().success());
    assert_eq!(stage.show(waiting).state.as_str(), "ready", "nothing new was taken");
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one_signal() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &[]);
    let (begun, go_on) = (stage.path("begun"), stage.path("go-on"));
    let wait = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; echo done",
        begun.display(),
        go_on.display()
    );
    let task = stage.script(&wait);
    eventually("it runs", || begun.exists());
    stage.until_running(task);
    // As `timeout` does: once to its child, and once to the whole group. Two kinds, so that they are not merged.
    worker.terminate();
    worker.interrupt();
    eventually("it drains", || stage.log().contains("draining"));
    // Long enough for the command to be ended, if it were.
    std::thread::sleep(Duration::from_millis(500));
    touch(&go_on);
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("done\n")));
    assert!(worker.ended().success());
}

#[test]
fn a_second_signal_ends_what_runs() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &[]);
    let (task, family) = start_a_family(&stage);
    worker.terminate();
    eventually("it drains", || stage.log().contains("draining"));
    std::thread::sleep(Duration::from_millis(1_100));
    worker.terminate();
    worker.ended();
    assert!(!family.iter().any(|pid| is_running(pid)));
    eventually("another may try", || stage.show(task).state.as_str() == "ready");
    assert_eq!(stage.show(task).crashes, 1);
}
