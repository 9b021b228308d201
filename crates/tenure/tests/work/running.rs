//! Commands: what they are given, and what is kept of them.

use serde_json::json;
use tenure_client::{Submission, Watch, Watched};

use crate::stage::{Stage, eventually, shell, text};
use crate::support::run;

#[test]
fn a_commands_output_and_exit_code_are_kept() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let (ended, result) = stage.result(stage.script("echo out; echo err >&2"));
    assert_eq!((ended.state.as_str(), ended.exit_code), ("completed", 0));
    assert_eq!((result["stdout"].as_str(), result["stderr"].as_str()), (Some("out\n"), Some("err\n")));

    let (ended, result) = stage.result(stage.script("echo out; echo 'no such scan' >&2; exit 3"));
    assert_eq!((ended.state.as_str(), ended.exit_code), ("failed", 3));
    assert_eq!(ended.message.as_deref(), Some("exit code 3: no such scan"));
    assert_eq!((result["exit_code"].as_i64(), result["stdout"].as_str()), (Some(3), Some("out\n")));

    let (ended, result) = stage.result(stage.script("kill -9 $$"));
    assert_eq!((ended.state.as_str(), ended.exit_code), ("failed", 137));
    assert_eq!(result["signal"].as_i64(), Some(9));

    let missing = Submission::to("default").body(r#"{"command": ["no-such-command-here"]}"#);
    let (ended, _) = stage.result(stage.submit(missing));
    assert_eq!(ended.exit_code, 127);
    let message = ended.message.unwrap();
    assert_eq!(message.matches("no-such-command-here").count(), 1, "{message}");

    let nowhere = Submission::to("default").body(r#"{"command": ["true"], "cwd": "/no/such/place"}"#);
    let (ended, _) = stage.result(stage.submit(nowhere));
    assert_eq!(ended.exit_code, 126);
    let message = ended.message.unwrap();
    assert!(message.starts_with("the directory /no/such/place cannot be used"), "{message}");
    assert_eq!(message.matches("/no/such/place").count(), 1, "{message}");
}

#[test]
fn a_command_finds_the_trace_of_its_submitter() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let mut submit = stage.broker.command(&[
        "submit",
        "--wait",
        "--name",
        "traced",
        "--",
        "sh",
        "-c",
        "echo $TRACEPARENT",
    ]);
    submit.env("TRACEPARENT", PARENT);
    run(submit).ok();
    let shown = stage.broker.tenure(&["show", "name:traced", "-o", "json"]).json();
    assert_eq!(shown["traceparent"], PARENT);
    let logs = stage.broker.tenure(&["logs", "name:traced"]).ok();
    assert_eq!(logs, format!("{PARENT}\n"));

    stage.broker.tenure(&["submit", "--traceparent", "00-1", "--", "true"]).fails(76, "traceparent");
    let mut submit = stage.broker.command(&["submit", "--name", "plain", "--", "true"]);
    submit.env("TRACEPARENT", "not a trace");
    run(submit).ok();
    let shown = stage.broker.tenure(&["show", "name:plain", "-o", "json"]).json();
    assert_eq!(shown["traceparent"], serde_json::Value::Null);
}

#[test]
fn the_output_of_a_command_does_not_control_the_terminal_of_a_waiting_client() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let task = stage.script("printf '\\033[2Jgone\\n' >&2; exit 3");
    stage.wait(task);
    let said = stage.broker.tenure(&["wait", &task.to_string()]);
    let last = said.err.lines().last().unwrap_or_default();
    assert!(last.contains("gone") && !last.contains('\x1b'), "{said:?}");
}

#[test]
fn an_attempt_does_not_begin_while_an_older_one_is_still_ending() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "4", "--grace", "3s"]);
    // The first attempt does not want to end; the second one sees whether it is still there.
    let (first, seen) = (stage.path("first"), stage.path("seen"));
    let script = format!(
        "if [ $TENURE_ATTEMPT = 1 ]; then echo $$ > {0}; trap '' TERM; while :; do sleep 0.05; done; fi; \
         kill -0 $(cat {0}) && echo beside > {1} || echo alone > {1}",
        first.display(),
        seen.display()
    );
    let task = stage.submit(shell(&script).run_limit(std::time::Duration::from_secs(1)).crash_budget(20));
    stage.wait(task);
    assert_eq!(text(&seen), "alone\n", "{}", stage.log());
}

#[test]
fn a_command_finds_itself_described_in_its_environment() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--queue", "images"]);
    let script = "echo $TENURE_TASK_ID $TENURE_ATTEMPT $TENURE_QUEUE $TENURE_TASK_NAME $TENURE_WORKER $COLOUR; pwd; echo $TENURE_TASK_DIR; cat";
    let body = json!({ "command": ["sh", "-c", script], "env": { "COLOUR": "blue" }, "stdin": "fed" });
    let task = stage.submit(Submission::to("images").name("scan-7").body(body.to_string()));
    let (_, result) = stage.result(task);
    let lines: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(lines[0], format!("{task} 1 images scan-7 w blue"));
    assert_eq!(lines[1], lines[2], "it runs in its own directory");
    assert_eq!(lines[3], "fed");
    assert!(!std::path::Path::new(lines[1]).exists(), "the directory is gone");
}

#[test]
fn a_failed_tasks_directory_is_kept_on_request() {
    let stage = Stage::new();
    let base = stage.path("places");
    let _worker = stage.worker("w", &["--keep", "--dir", base.to_str().unwrap()]);
    let failed = stage.script("echo evidence > file; exit 1");
    stage.wait(failed);
    stage.wait(stage.script("echo nothing > file"));
    eventually("one directory stays", || std::fs::read_dir(&base).unwrap().count() == 1);
    assert_eq!(text(&base.join(format!("{failed}-1/file"))), "evidence\n");
}

#[test]
fn a_body_that_is_no_command_fails_with_a_sentence() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let ended = stage.wait(stage.submit(Submission::to("default").body("echo hello").retries(5)));
    assert_eq!(ended.exit_code, 65);
    assert!(ended.message.unwrap().contains("--shell"));
    drop(_worker);

    let _worker = stage.worker("w2", &["--shell"]);
    let (ended, result) =
        stage.result(stage.submit(Submission::to("default").body("echo hello | tr a-z A-Z")));
    assert_eq!((ended.exit_code, result["stdout"].as_str()), (0, Some("HELLO\n")));
}

#[test]
fn much_output_is_kept_by_its_ends() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--keep-output", "2KB"]);
    let (_, result) = stage.result(stage.script("echo begin; seq 1 100000; echo end"));
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("begin\n") && stdout.ends_with("end\n") && stdout.len() < 2_200, "{stdout}");
    assert_eq!(result["stdout_truncated"].as_bool(), Some(true));
    assert_eq!(result["stderr_truncated"].as_bool(), Some(false));
}

#[test]
fn progress_lines_reach_watchers() {
    let stage = Stage::new();
    let told = stage.block_on(async {
        let mut watcher = stage.client.watch(Watch::default().submitter("ada")).await.unwrap();
        stage.client.submit(shell("echo '::progress 42 half way'; sleep 0.2")).await.unwrap();
        let _worker = stage.worker("w", &[]);
        loop {
            if let Some(Ok(Watched::Event(event))) = watcher.next().await
                && event.kind.as_str() == "progress"
            {
                return *event.more.unwrap();
            }
        }
    });
    assert_eq!((told.percent, told.note.as_deref()), (Some(42), Some("half way")));
}

#[test]
fn a_command_has_no_longer_than_it_may_have() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--grace", "200ms"]);
    let body = json!({ "command": ["sh", "-c", "trap '' TERM; echo here; sleep 60 & wait; sleep 60"], "timeout_secs": 1 });
    let (ended, result) = stage.result(stage.submit(Submission::to("default").body(body.to_string())));
    assert_eq!((ended.exit_code, result["signal"].as_i64()), (137, Some(9)), "{result}");
    assert!(ended.message.unwrap().contains("time limit"));
    assert_eq!(result["stdout"].as_str(), Some("here\n"));
}

#[test]
fn a_pipeline_runs_in_order_without_a_shell_that_drives_it() {
    let stage = Stage::new();
    let submit = |args: &[&str]| {
        let said = stage.broker.tenure(&[&["submit"], args].concat());
        said.out.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let fetch = submit(&["--name", "fetch", "--", "echo", "fetched"]);
    let sort = submit(&["--after", "fetch", "--", "sh", "-c", "echo after $TENURE_AFTER"]);
    let alarm = submit(&["--after", &format!("{sort}:failed"), "--", "false"]);
    let held = submit(&["--after", &format!("{sort}:failed"), "--after-broken", "hold", "--", "true"]);
    let waits = stage.broker.tenure(&["explain", &sort]);
    assert!(waits.out.contains("waits for 1 task") && waits.out.contains("(fetch)"), "{waits:?}");
    let shown = stage.broker.tenure(&["show", &sort]);
    assert!(shown.out.contains("waiting (after 1 task)") && shown.out.contains("fetch (ready)"), "{shown:?}");
    let _worker = stage.worker("w", &[]);
    let (ended, result) = stage.result(sort.parse().unwrap());
    assert_eq!((ended.state.as_str(), ended.exit_code), ("completed", 0));
    assert_eq!(result["stdout"], format!("after {fetch}\n"));
    let cancelled = stage.wait(alarm.parse().unwrap());
    assert_eq!(cancelled.state.as_str(), "cancelled");
    let shown = stage.broker.tenure(&["show", &held, "-o", "json"]);
    assert!(shown.out.contains("dependency-broken"), "{shown:?}");
}

#[test]
fn a_lease_that_is_too_short_names_the_options() {
    let stage = Stage::new();
    let said = stage.broker.tenure(&["work", "--lease", "6s"]);
    said.fails(64, "--lease must be at least three times --heartbeat: write --lease 15s");
}
