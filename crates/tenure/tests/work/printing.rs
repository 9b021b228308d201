//! What commands print is seen while they run, and after they crashed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use tenure_client::OnLost;

use crate::stage::{Stage, eventually, shell, touch};

/// Prints, waits for a file, and goes on.
fn script(stage: &Stage, rest: &str) -> String {
    format!(
        "echo first; echo oops >&2; while [ ! -e {} ]; do sleep 0.02; done; {rest}",
        stage.path("go").display()
    )
}

#[test]
fn output_is_followed_while_the_command_runs() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let task = stage.script(&script(&stage, "echo second; exit 3")).to_string();
    let mut follower = stage.broker.command(&["logs", "-f", &task]);
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    let so_far = stage.broker.tenure(&["logs", &task]);
    assert_eq!((so_far.code, so_far.out.as_str()), (83, "first\n"), "{so_far:?}");
    assert!(so_far.err.contains("oops"), "{so_far:?}");
    touch(&stage.path("go"));
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert!(lines.next().is_none());
    assert_eq!(follower.wait().unwrap().code(), Some(3));
    let chunks = stage.broker.tenure(&["logs", "-f", &task, "-o", "jsonl"]).lines();
    assert_eq!((chunks[0]["stream"].as_str(), chunks[0]["text"].as_str()), (Some("stdout"), Some("first\n")));
}

#[test]
fn a_short_command_is_followed_too() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let task = stage.script("echo hello").to_string();
    let said = stage.broker.tenure(&["logs", "-f", &task]);
    assert_eq!((said.code, said.out.as_str()), (0, "hello\n"), "{said:?}");
}

#[test]
fn what_a_crashed_attempt_printed_is_there_afterwards() {
    let mut stage = Stage::new();
    let mut worker = stage.worker("w1", &[]);
    let task = stage.script(&script(&stage, "echo second"));
    let id = task.to_string();
    eventually("it is printed", || stage.broker.tenure(&["logs", &id]).out == "first\n");
    worker.kill();
    stage.restart_broker(Duration::ZERO);
    touch(&stage.path("go"));
    let _other = stage.worker("w2", &[]);
    stage.wait(task);
    let said = stage.broker.tenure(&["logs", &id]);
    assert_eq!(said.out, "first\nsecond\n", "{said:?}");
    assert!(said.err.contains("--attempt shows 1"), "{said:?}");
    let crashed = stage.broker.tenure(&["logs", &id, "--attempt", "1"]);
    assert_eq!((crashed.out.as_str(), crashed.err.as_str()), ("first\n", "oops\n"));
    let all = stage.broker.tenure(&["logs", &id, "-o", "json"]).json();
    assert_eq!(all["attempts"][0]["stdout"], "first\n");
    assert_eq!(all["output"]["stdout"], "first\nsecond\n");
}

#[test]
fn a_command_that_kills_its_own_worker_soon_leaves_what_it_printed() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &[]);
    // Far less than a second passes between the two.
    let task = stage.submit(shell("echo last words; sleep 0.4; kill -9 $PPID").on_lost(OnLost::Fail));
    assert_eq!(stage.wait(task).state.as_str(), "failed");
    worker.ended();
    let said = stage.broker.tenure(&["logs", &task.to_string()]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("last words\n", ""), "{said:?}");
}

#[test]
fn logs_says_which_attempt_crashed_before_it_left_any_output() {
    let stage = Stage::new();
    let mut worker = stage.worker("w1", &["--slots", "1"]);
    let until_go = format!("while [ ! -e {} ]; do sleep 0.02; done", stage.path("go").display());
    let silent = format!("if [ $TENURE_ATTEMPT = 1 ]; then {until_go}; kill -9 $PPID; fi; echo made it");
    let (failing, retried) =
        (stage.submit(shell("kill -9 $PPID").on_lost(OnLost::Fail)), stage.script(&silent));
    assert_eq!(stage.wait(failing).state.as_str(), "failed");
    worker.ended();
    let says_so = |err: &str| {
        err.starts_with("no output is kept of attempt 1: it crashed on worker w1 (")
            && err.contains("), and what the worker had not sent yet is lost\n")
    };
    let failing = failing.to_string();
    for verb in [&["logs", &failing][..], &["logs", &failing, "-f"]] {
        let said = stage.broker.tenure(verb);
        assert!(said.out.is_empty() && says_so(&said.err), "{said:?}");
    }
    let said = stage.broker.tenure(&["logs", &failing, "--attempt", "1"]);
    assert!(says_so(&said.err), "{said:?}");
    let mut next = stage.worker("w1", &["--slots", "1"]);
    stage.until_running(retried);
    touch(&stage.path("go"));
    next.ended();
    let _last = stage.worker("w2", &[]);
    assert_eq!(stage.wait(retried).state.as_str(), "completed");
    let said = stage.broker.tenure(&["logs", &retried.to_string()]);
    assert!(said.out == "made it\n" && says_so(&said.err), "{said:?}");
}

#[test]
fn a_task_that_ended_without_a_result_shows_what_it_printed() {
    let stage = Stage::new();
    let mut worker = stage.worker("w", &["--slots", "2"]);
    let crashed = stage.submit(shell(&script(&stage, "echo second")).on_lost(OnLost::Fail));
    let forced =
        stage.submit(shell(&script(&stage, "echo second")).cancel_timeout(Duration::from_millis(200)));
    let id = crashed.to_string();
    let forced_id = forced.to_string();
    for id in [&id, &forced_id] {
        eventually("it is printed", || stage.broker.tenure(&["logs", id]).out == "first\n");
    }
    // A worker that is stopped does not confirm that it has cancelled.
    worker.stop();
    stage.broker.tenure(&["cancel", &forced_id]).ok();
    assert_eq!(stage.wait(forced).state.as_str(), "cancelled");
    worker.kill();
    assert_eq!(stage.wait(crashed).state.as_str(), "failed");
    for id in [&id, &forced_id] {
        let said = stage.broker.tenure(&["logs", id]);
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "first\n", "oops\n"), "{said:?}");
    }
}

#[test]
fn the_output_of_a_retried_attempt_is_kept() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let failing = shell("echo attempt $TENURE_ATTEMPT; exit $((TENURE_ATTEMPT < 3))");
    let task = stage.submit(failing.retries(5).backoff(Duration::from_millis(1), Duration::from_millis(1)));
    stage.wait(task);
    for attempt in ["1", "2"] {
        let said = stage.broker.tenure(&["logs", &task.to_string(), "--attempt", attempt]);
        assert_eq!(said.out, format!("attempt {attempt}\n"), "{said:?}");
    }
}

#[test]
fn holes_in_much_output_are_reported() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let task = stage.script("sleep 1.2; seq 1 200000; sleep 0.7; exit 1").to_string();
    let said = stage.broker.tenure(&["logs", "-f", &task]);
    assert_eq!(said.code, 1);
    assert!(said.out.ends_with("\n200000\n"), "{}", said.out.len());
    assert!(said.err.contains("bytes are not kept"), "{}", said.err);
}

#[test]
fn the_output_is_kept_when_an_attempt_was_paused_and_ended() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    // The last words come after the signal.
    let trap = "trap 'echo last words; exit 1' TERM";
    let task = stage.script(&format!("{trap}; {}", script(&stage, "trap - TERM; echo second")));
    let id = task.to_string();
    stage.until_running(task);
    eventually("it is printed", || stage.broker.tenure(&["logs", &id]).out == "first\n");
    stage.broker.tenure(&["pause", "--terminate", &id]).ok();
    eventually("it is paused", || stage.show(task).state.as_str() == "paused");
    let said = stage.broker.tenure(&["logs", &id, "--attempt", "1"]);
    assert_eq!(said.out, "first\nlast words\n", "{said:?}");
    touch(&stage.path("go"));
    stage.broker.tenure(&["resume", &id]).ok();
    stage.wait(task);
    assert_eq!(stage.broker.tenure(&["logs", &id]).out, "first\nsecond\n");
    let said = stage.broker.tenure(&["logs", &id, "--attempt", "1"]);
    assert_eq!(said.out, "first\nlast words\n", "{said:?}");
}
