//! Looking: every verb that changes nothing, for people and for programs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Broker, eventually};

#[test]
fn list_shows_what_was_asked_for() {
    let broker = Broker::start();
    let one = broker.submit(&["-q", "images", "--name", "one", "--tag", "gpu", "x"]);
    let two = broker.submit(&["-q", "mail", "--hold", "x"]);
    broker.tenure(&["cancel", &two, "--reason", "no longer needed"]).ok();
    let table = broker.tenure(&["list"]).ok();
    assert!(
        table.starts_with("TASK") && table.contains(&one[28..]) && !table.contains(&two[28..]),
        "{table}"
    );
    assert!(table.contains("gpu"), "{table}");
    let table = broker.tenure(&["list", "--all", "--full-ids"]).ok();
    assert!(table.contains(&two) && table.contains("no longer needed"), "{table}");
    let json = broker.tenure(&["list", "--tag", "gpu", "-o", "json"]).json();
    assert_eq!(json.as_array().unwrap().len(), 1);
    assert_eq!(json[0]["id"], one.as_str());
    assert!(json[0]["submitted_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        broker.tenure(&["list", "--state", "cancelled", "-o", "jsonl"]).lines()[0]["id"],
        two.as_str()
    );
    assert_eq!(broker.tenure(&["list", "--where", "queue=nothing"]).ok(), "no tasks\n");
    broker.tenure(&["list", "--state", "redy"]).fails(64, "did you mean `ready`");
    assert!(broker.tenure(&["list", "--all", "-n", "1"]).err.contains("more tasks match"));
    // What waits comes before what has ended, when not all is shown.
    assert!(broker.tenure(&["list", "--all", "-n", "1"]).ok().contains(&one[28..]));
    broker.tenure(&["pause", &broker.submit(&["-q", "images", "x"])]).ok();
    assert!(broker.tenure(&["list", "-n", "1"]).ok().contains("paused"));
}

#[test]
fn show_tells_the_story_of_a_task() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "--name", "n", "--retries", "1", "--backoff", "1ms", "fail 3"]);
    let _worker = broker.worker("w1", "q");
    assert_eq!(broker.tenure(&["wait", "name:n"]).code, 3);
    let json = broker.tenure(&["show", &task, "-o", "json"]).json();
    let kinds: Vec<&str> =
        json["timeline"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "started").count(), 2, "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"failed"), "{kinds:?}");
    assert_eq!(json["end"]["exit_code"], 3);
    let text = broker.tenure(&["show", "name:n"]).ok();
    for part in
        [task.as_str(), "failed", "attempt 2 started by worker w1", "exit code", "as the body says", "by ada"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_task_is_found_by_the_beginning_or_the_end_of_its_id() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "x"]);
    assert!(broker.tenure(&["show", &task[28..]]).ok().contains(&task));
    assert!(broker.tenure(&["explain", &task[20..]]).ok().contains("no worker"));
    assert!(broker.tenure(&["show", &task[..23]]).ok().contains(&task));
    let own = "ab12cd34-0000-4000-8000-000000000001";
    broker.submit(&["-q", "q", "--id", own, "x"]);
    assert!(broker.tenure(&["show", "ab12cd"]).ok().contains(own));
    broker.submit(&["-q", "q", "--id", "ab12cd34-0000-4000-8000-000000000002", "x"]);
    broker.tenure(&["show", "ab12cd"]).fails(65, "not unique");
    broker.tenure(&["show", "ffffff"]).fails(76, "no task whose id begins or ends");
    broker.tenure(&["show", "xyz"]).fails(65, "name:NAME");
    broker.tenure(&["show", "name:absent"]).fails(76, "unknown-name");
}

#[test]
fn explain_names_the_reason_and_the_remedy() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "images", "x"]);
    let text = broker.tenure(&["explain", &task]).ok();
    assert!(
        text.contains("no worker has ever served queue images")
            && text.contains("tenure work --queue images"),
        "{text}"
    );
    broker.tenure(&["queues", "pause", "images"]).ok();
    let json = broker.tenure(&["explain", &task, "-o", "json"]).json();
    assert_eq!(json["code"], "queue-paused");
    assert_eq!(json["facts"]["queue"], "images");
}

#[test]
fn the_time_a_task_waits_for_is_written_as_people_read_it() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "--not-before", "2200-01-31T12:00:00Z", "x"]);
    assert_eq!(broker.tenure(&["explain", &task]).ok().trim_end(), "not before 2200-01-31T12:00:00.000Z");
}

#[test]
fn watch_replays_and_follows() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "x"]);
    broker.tenure(&["cancel", &task]).ok();
    let said = broker.tenure(&["watch", &task, "--from", "1", "-o", "jsonl"]);
    let kinds: Vec<String> =
        said.lines().iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["submitted", "cancelled"]);
    let text = broker.tenure(&["watch", "--from", "1", "--queue", "q", "-n", "2"]).ok();
    assert!(text.contains(&task[28..]) && text.contains("cancelled"), "{text}");
    let only = broker.tenure(&["watch", "--from", "1", "--kind", "cancelled", "-n", "1", "-o", "jsonl"]);
    assert_eq!(only.lines()[0]["kind"], "cancelled");
    broker.tenure(&["watch", "--kind", "exploded"]).fails(64, "exploded");
}

#[test]
fn a_subscriber_of_future_events_learns_that_they_are_in_the_future() {
    let broker = Broker::start();
    broker.submit(&["-q", "q", "x"]);
    let mut command = broker.command(&["watch", "--from", "99999999"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("the newest event is "), "{line}");
}

#[test]
fn wait_tells_of_several_and_ends_with_the_first_failure() {
    let broker = Broker::start();
    let tasks = [
        broker.submit(&["-q", "q", "a"]),
        broker.submit(&["-q", "q", "fail 5"]),
        broker.submit(&["-q", "q", "fail 6"]),
    ];
    let _worker = broker.worker("w1", "q");
    let said = broker.tenure(&["wait", &tasks[0], &tasks[1], &tasks[2]]);
    assert_eq!(said.code, 5, "{said:?}");
    for task in &tasks {
        assert!(said.out.contains(&task[task.len() - 8..]), "{said:?}");
    }
    assert_eq!(broker.tenure(&["logs", &tasks[0]]).ok(), "did a");
    assert_eq!(broker.tenure(&["logs", &tasks[0], "-o", "json"]).json()["result"], "did a");
    assert_eq!(broker.tenure(&["show", "--result", &tasks[0]]).ok(), "did a");
    let waiting = broker.submit(&["-q", "absent", "x"]);
    assert_eq!(broker.tenure(&["wait", &waiting, "--timeout", "100ms"]).code, 83);
    assert_eq!(broker.tenure(&["logs", &waiting]).code, 83);
}

#[test]
fn arrays_are_waited_for_beside_tasks() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "a"]);
    broker.tenure(&["submit", "-q", "q", "--array", "1-3", "--name", "sweep", "fail 7"]).ok();
    let waiting = ["wait", &task, "name:sweep", "--timeout", "100ms", "-o", "json"];
    let said = broker.tenure(&waiting);
    assert_eq!(said.code, 83, "{said:?}");
    let _worker = broker.worker("w1", "q");
    let said = broker.tenure(&["wait", &task, "name:sweep"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.out.contains("failed  0 completed, 3 failed, 0 cancelled  sweep"), "{said:?}");
    let said = broker.tenure(&["wait", "name:sweep", &task, "-o", "json"]);
    let both: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let ended = |state: &str| both.as_array().unwrap().iter().filter(|one| one["state"] == state).count();
    assert_eq!((ended("completed"), ended("failed")), (1, 1), "{both}");
    broker.tenure(&["wait", &task, "0190b5a2-77f0-7cc3-98b4-dc0c0c07398f"]).fails(76, "unknown-task");
}

#[test]
fn one_of_a_kind_is_singular() {
    let broker = Broker::start();
    assert!(broker.tenure(&["top"]).ok().contains("0 workers live"));
    let said = |args: &[&str], text: &str| {
        let out = broker.tenure(args).ok();
        assert!(out.contains(text), "{args:?}: {out}");
    };
    said(&["limits", "set", "gpu", "1"], "limit of tag gpu is 1 task");
    said(&["limits", "set", "gpu", "2"], "limit of tag gpu is 2 tasks");
    let array = broker.tenure(&["submit", "-q", "sums", "--array", "0-2", "body"]).ok();
    let array = array.trim();
    let short = &array[array.len() - 8..];
    said(&["arrays", "limit", array, "1"], &format!("limit of array {short} is 1 task"));
    let file = broker.dir.with_extension("toml");
    std::fs::write(&file, "[[keys]]\nname = \"ada\"\nkey = \"00112233445566778899aabbccddeeff\"\n").unwrap();
    let (file, data) = (file.display().to_string(), broker.dir.with_extension("other").display().to_string());
    said(&["config", "check", "--config", &file, "--data-dir", &data], "1 key)");
}

#[test]
fn queues_workers_limits_stats_and_top_speak_both_ways() {
    let broker = Broker::start();
    broker.submit(&["-q", "images", "--tag", "gpu", "wait"]);
    broker.tenure(&["limits", "set", "gpu", "2"]).ok();
    let _worker = broker.worker("w1", "images");
    eventually("the task runs", || {
        broker.tenure(&["stats", "-o", "json"]).json()["by_state"]["running"] == 1
    });
    let table = broker.tenure(&["queues"]).ok();
    assert!(table.contains("images") && table.contains("RUNNING"), "{table}");
    assert_eq!(broker.tenure(&["queues", "-o", "json"]).json()[0]["counts"]["running"], 1);
    let table = broker.tenure(&["workers"]).ok();
    assert!(table.contains("w1") && table.contains("live"), "{table}");
    let worker = &broker.tenure(&["workers", "-o", "jsonl"]).lines()[0];
    assert_eq!((worker["worker"].as_str(), worker["held"].as_array().map(Vec::len)), (Some("w1"), Some(1)));
    assert!(broker.tenure(&["limits"]).ok().contains("gpu"));
    assert_eq!(broker.tenure(&["limits", "-o", "json"]).json()[0]["in_use"], 1);
    broker.tenure(&["limits", "unset", "gpu"]).ok();
    assert!(broker.tenure(&["limits", "-o", "json"]).json()[0]["limit"].is_null());
    let stats = broker.tenure(&["stats", "--figures"]).ok();
    assert!(
        stats.contains("1 running") && stats.contains("1 live") && stats.contains("submitted_total"),
        "{stats}"
    );
    let frame = broker.tenure(&["top"]).ok();
    assert!(frame.contains("images") && frame.contains("w1") && frame.contains("held tasks"), "{frame}");
    assert!(frame.contains("1 worker live, 0 lost"), "{frame}");
    assert_eq!(broker.tenure(&["top", "-o", "json"]).json()["counts"]["by_state"]["running"], 1);
    let list = broker.tenure(&["list"]).ok();
    assert!(list.contains("50 % halfway"), "{list}");
}

#[test]
fn the_output_of_a_shell_task_is_kept_stream_by_stream() {
    let broker = Broker::start();
    let task = broker.submit(&["--", "sh", "-c", "echo out; echo err >&2; exit 4"]);
    let mut work = broker.command(&["work"]);
    let mut worker = work.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let said = broker.tenure(&["wait", &task, "--timeout", "60s"]);
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!((said.code, said.out.as_str()), (4, "out\n"), "{said:?}");
    let said = broker.tenure(&["logs", &task]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "out\n", "err\n"));
    assert_eq!(broker.tenure(&["logs", &task, "-o", "json"]).json()["output"]["stderr"], "err\n");
}
