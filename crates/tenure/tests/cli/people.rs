//! What people see: work instead of ids, within the width of their terminal.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Broker, eventually};
use crate::terminal::on_a_terminal_of;

/// The lines of a terminal, without colours.
fn lines(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => drop(chars.by_ref().find(char::is_ascii_alphabetic)),
            '\r' => {}
            c => plain.push(c),
        }
    }
    plain.lines().map(str::to_owned).collect()
}

/// The same without what a bar has erased.
fn lines_left(text: &str) -> Vec<String> {
    let left = text.split('\n').map(|line| line.rsplit("\x1b[2K").next().unwrap_or(line));
    lines(&left.collect::<Vec<_>>().join("\n"))
}

/// A broker with long names, many states and several queues.
fn crowded() -> (Broker, crate::support::TestWorker) {
    let broker = Broker::start();
    let worker = broker.worker("a-worker-with-quite-a-long-name-1", "simulations-of-the-lab");
    let queue = "simulations-of-the-lab";
    let failed = broker.submit(&["-q", queue, "--name", "sim/failed", "--priority", "99", "fail 4"]);
    eventually("one has failed", || broker.state(&failed) == "failed");
    for number in 0..3 {
        let name = format!("sim/run-with-a-long-name-{number}");
        broker.submit(&["-q", queue, "--name", &name, "--priority", "12", "wait"]);
    }
    broker.submit(&[
        "-q",
        "default",
        "--",
        "./simulate",
        "--steps",
        "100",
        "--input",
        "a file with blanks.csv",
    ]);
    broker.submit(&["-q", "default", "--hold", "--name", "held/back", "x"]);
    broker.submit(&["-q", "default", "--not-before", "tomorrow 6:00", "x"]);
    eventually("two run", || {
        let running = broker.tenure(&["list", "--state", "running", "-o", "json"]).json();
        running.as_array().is_some_and(|running| running.len() == 2)
    });
    (broker, worker)
}

#[test]
fn tables_fit_the_terminal() {
    let (broker, _worker) = crowded();
    let name = "a-long-name-of-an-array-of-many-elements";
    broker.tenure(&["submit", "-q", "elsewhere", "--array", "1-1000", "--name", name, "--", "echo"]).ok();
    let long = "sim/failed-too-with-a-name-that-is-much-too-long-for-a-line-of-80";
    broker.submit(&["-q", "simulations-of-the-lab", "--name", long, "--hold", "x"]);
    broker.tenure(&["cancel", &format!("name:{long}")]).ok();
    let nightly =
        ["--schedule", "0 2 * * *", "--zone", "Europe/Zurich", "--name", "nightly-simulations-of-the-lab"];
    broker.tenure(&[&["submit"][..], &nightly, &["--", "./simulate", "--steps", "100"]].concat()).ok();
    broker.submit(&["-q", "q", "--after", "sim/run-with-a-long-name-2", "--name", "after/it", "x"]);
    let _other = broker.worker("other", "other");
    let mut lacking = Vec::new();
    for columns in [80, 120] {
        // What must be seen of each, however narrow the terminal is.
        for (args, parts) in [
            (&["list", "--all"][..], &["failed", "running", "sim/run", "./simu", "exit code 4"][..]),
            (&["list", "--all", "--where", "name=sim/*"], &["failed", "running", "sim/run"]),
            (&["list", "--where", "name=a-long-name*"], &["a-long-name-of-an-array", "0 of 1000"]),
            (&["queues"], &["simulations-of", "elsewhere"]),
            (&["arrays"], &["a-long-name-of-an-array", "elsewhere", "1000"]),
            (&["workers"], &["a-worker-with-q", "2/2"]),
            (&["limits"], &["no limits"]),
            (&["shares"], &["no share"]),
            (&["topics", "--subscriptions"], &["no "]),
            (&["top", "--once"], &["running 2", "completed 0", "failed ", "cancelled 1", "sim/run"]),
            (&["schedules"], &["nightly-sim", "0 2 * * *"]),
            (&["schedules", "show", "nightly-simulations-of-the-lab"], &["Europe/Zurich", "0 2 * * *"]),
            (&["hooks"], &["no "]),
            (&["reconcile", "--prefix", "sim/", "--jsonl", "/dev/null"], &["sim/run-with-a-long-name-2"]),
            (
                &["watch", "--since", "1h", "--until", "now"],
                &["sim/failed", "failed with exit code 4", "sim/run-with", "a-long-name-o"],
            ),
            (
                &["wait", "name:sim/failed", &format!("name:{long}")],
                &["failed", "cancelled", "sim/failed-too"],
            ),
            (
                &["show", "name:sim/run-with-a-long-name-0"],
                &["sim/run-with-a-long-name-0", "running", "50 %"],
            ),
            (&["show", "name:after/it"], &["sim/run-with-a-long-name-2", "(ready)", "waiting"]),
            (&["explain", "name:after/it"], &["waits for 1 task", "which is ready"]),
            (
                &["submit", "--wait", "-q", "other", "fail 7"],
                &["failed with exit code 7 (as the body says)", "as the body says"],
            ),
            (&["cancel", "--where", "name=sim/*", "--dry-run"], &["would cancel 3 tasks", "sim/run-with"]),
        ] {
            let shown = lines_left(&on_a_terminal_of(columns, broker.command(args)));
            for line in &shown {
                let width = line.chars().count();
                assert!(
                    width <= usize::from(columns),
                    "{args:?} at {columns} is {width} wide: {line}\n{shown:#?}"
                );
            }
            let shown = shown.join("\n");
            let missing = parts.iter().filter(|part| !shown.contains(**part));
            lacking.extend(missing.map(|part| format!("{args:?} at {columns} lacks {part}:\n{shown}")));
        }
    }
    assert!(lacking.is_empty(), "{}", lacking.join("\n\n"));
}

/// What a command shows on a terminal of 80 columns: no line is longer.
#[track_caller]
fn on_80_columns(broker: &Broker, args: &[&str]) -> String {
    let shown = lines_left(&on_a_terminal_of(80, broker.command(args)));
    for line in &shown {
        assert!(line.chars().count() <= 80, "{args:?}: {line}\n{shown:#?}");
    }
    shown.join("\n")
}

#[test]
fn a_narrow_terminal_shows_everything_that_counts() {
    let (broker, _worker) = crowded();
    let parent = "sim/run-with-a-long-name-2";
    let id = broker.tenure(&["show", &format!("name:{parent}"), "-o", "json"]).json()["id"].clone();
    let id = id.as_str().unwrap();
    let short = &id[id.len() - 8..];
    let child = ["--after", parent, "--name", "sim/a-dependent-with-quite-a-long-name-of-its-own"];
    let dependent = broker.submit(&[&["-q", "simulations-of-the-lab"][..], &child, &["x"]].concat());

    let shown = on_80_columns(&broker, &["explain", &dependent]);
    assert!(shown.contains(&format!("waits for 1 task: {short}")), "{shown}");
    let whole = broker.tenure(&["explain", &dependent, "-o", "json"]).json();
    assert!(whole["message"].as_str().unwrap().contains(id), "{whole}");

    let shown = on_80_columns(&broker, &["show", &dependent]);
    let after = shown.lines().find(|line| line.starts_with("after")).unwrap_or_default();
    assert!(after.contains(short) && after.contains("sim/run-with") && after.contains("(ready)"), "{shown}");

    let shown = on_80_columns(&broker, &["top", "--once"]);
    for part in ["ready 2", "suspended 0", "completed 0", "failed 1", "cancelled 0"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let message = "a-queue-that-no-worker-has-ever-served-and-that-has-a-long-name-of-its-own";
    let shown = on_80_columns(&broker, &["submit", "--wait", "--timeout", "1s", "-q", message, "x"]);
    assert!(shown.contains("no worker"), "{shown}");
    let _other = broker.worker("other", "other");
    let shown = on_80_columns(&broker, &["submit", "--wait", "-q", "other", "fail 7"]);
    assert!(shown.contains("failed with exit code 7 (as the body says)"), "{shown}");

    let running = "name:sim/run-with-a-long-name-0";
    let shown = on_80_columns(&broker, &["logs", running]);
    assert!(shown.contains("it has printed nothing yet; -f waits for it"), "{}", shown.replace('\n', " "));
    let failed = broker.tenure(&["show", "name:sim/failed", "-o", "json"]).json()["id"].clone();
    let failed = failed.as_str().unwrap();
    let shown = on_80_columns(&broker, &["cancel", failed]);
    assert!(shown.contains(&failed[failed.len() - 8..]) && !shown.contains(failed), "{shown}");
    let piped = broker.tenure(&["cancel", failed]);
    assert!(piped.err.contains(failed), "a program gets the whole id: {piped:?}");
    let shown = on_80_columns(&broker, &["cancel", failed, &dependent]);
    assert!(shown.contains("refused") && !shown.contains(failed), "{shown}");
}

#[test]
fn names_and_commands_are_shown_instead_of_ids() {
    let (broker, _worker) = crowded();
    let list = broker.tenure(&["list", "--all"]).ok();
    assert!(list.contains("sim/failed") && list.contains("./simulate --steps 100"), "{list}");
    assert!(list.contains("'a file with blanks.csv'"), "{list}");
    let top = broker.tenure(&["top"]).ok();
    assert!(top.contains("sim/run-with"), "{top}");
    let watched = broker.tenure(&["watch", "--from", "1", "--kind", "failed", "-n", "1"]).ok();
    assert!(watched.contains("sim/failed"), "{watched}");
    let waited = broker.tenure(&["wait", "name:sim/failed", "name:sim/failed"]);
    assert!(waited.out.contains("sim/failed") && waited.code == 4, "{waited:?}");
}

#[test]
fn tasks_are_selected_by_name_exit_code_and_day() {
    let (broker, _worker) = crowded();
    let ids = |args: &[&str]| {
        let mut all = vec!["list", "-o", "json"];
        all.extend(args);
        broker.tenure(&all).json().as_array().map_or(0, Vec::len)
    };
    assert_eq!(ids(&["--where", "name=sim/*"]), 4, "who asks for a name means also what has ended");
    assert_eq!(ids(&["--where", "queue=simulations-of-the-lab"]), 3, "those that have not ended");
    assert_eq!(ids(&["--where", "name=sim/run*-0"]), 1);
    assert_eq!(ids(&["--where", "exit-code=4"]), 1);
    assert_eq!(ids(&["--where", "exit-code=5"]), 0);
    assert_eq!(ids(&["--where", "since=yesterday"]), 7);
    assert_eq!(ids(&["--all", "--where", "before=yesterday"]), 0);
    let would = broker.tenure(&["cancel", "--where", "name=held/*", "--dry-run", "-o", "json"]).json();
    assert_eq!(would["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_watch_looks_back_over_a_span_of_time() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "x"]);
    broker.tenure(&["cancel", &task]).ok();
    let kinds = |args: &[&str]| -> Vec<String> {
        let mut all = vec!["watch", "-o", "jsonl"];
        all.extend(args);
        let said = broker.tenure(&all);
        assert_eq!(said.code, 0, "{said:?}");
        said.lines().iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&["--since", "1h", "--until", "now", "--queue", "q"]), ["submitted", "cancelled"]);
    assert_eq!(kinds(&["--since", "1h", "--until", "30m"]), [""; 0]);
    assert_eq!(kinds(&["--since", "now", "--until", "now"]), [""; 0]);
    let text = broker.tenure(&["watch", "--since", "yesterday", "--until", "now"]).ok();
    let year = text.split('-').next().unwrap_or_default();
    assert!(year.len() == 4 && year.parse::<u32>().is_ok(), "lines have a date: {text}");
    broker.tenure(&["watch", "--since", "whenever"]).fails(64, "point in time");
}

#[test]
fn who_stops_waiting_hears_that_the_task_goes_on() {
    let broker = Broker::start();
    let _worker = broker.worker("w", "q");
    let mut command = broker.command(&["submit", "-q", "q", "--name", "n", "--wait", "wait"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        assert_ne!(err.read_line(&mut line).unwrap(), 0, "it says that the task has started");
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: String = err.lines().map_while(Result::ok).collect();
    assert!(rest.contains("goes on") && rest.contains("tenure wait"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let shown = broker.tenure(&["show", "name:n", "--no-timeline", "-o", "json"]).json();
    assert_eq!(shown["state"], "running");
}

#[test]
fn waiting_for_many_shows_a_bar_on_a_terminal() {
    let broker = Broker::start();
    let _worker = broker.worker("w", "q");
    let file = broker.dir.join("tasks.jsonl");
    std::fs::write(&file, "{\"body\": \"a\"}\n{\"body\": \"fail 3\"}\n{\"body\": \"b\"}\n").unwrap();
    let file = file.to_str().unwrap();
    let shown = on_a_terminal_of(80, broker.command(&["submit", "-q", "q", "--wait", "--jsonl", file]));
    let shown = lines(&shown).join("\n");
    assert!(shown.contains("/3") && shown.contains("1 did not complete"), "{shown}");
    assert_eq!(shown.matches("completed").count(), 2, "{shown}");
}

#[test]
fn a_report_says_what_happened() {
    let (broker, _worker) = crowded();
    let report = broker.tenure(&["report", "-o", "json"]).json();
    assert_eq!((report["submitted"].as_u64(), report["ended"]["failed"].as_u64()), (Some(7), Some(1)));
    assert_eq!(report["failures"][0]["name"], "sim/failed");
    assert_eq!(
        (report["failures"][0]["exit_code"].as_i64(), report["failures"][0]["count"].as_u64()),
        (Some(4), Some(1))
    );
    assert_eq!(report["workers"][0]["attempts"], 1);
    let page = broker.dir.join("report.html");
    for columns in [80, 120] {
        let command = broker.command(&["report", "--since", "1h", "--html", page.to_str().unwrap()]);
        let shown = lines(&on_a_terminal_of(columns, command));
        assert!(shown.iter().all(|line| line.chars().count() <= usize::from(columns)), "{shown:#?}");
        let shown = shown.join("\n");
        for part in ["7 tasks submitted, 1 failed", "failures by message", "sim/failed", "machine use"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<svg") && page.contains("sim/failed"),
        "{page}"
    );
    assert!(!page.contains("http") && !page.contains("<script"), "it needs nothing else: {page}");
    assert_eq!(broker.tenure(&["report", "--queue", "none", "-o", "json"]).json()["submitted"], 0);
    broker.tenure(&["report", "--since", "now"]).fails(64, "--since must be before");
}

#[test]
fn a_list_tells_a_command_that_is_paused_in_place_from_one_that_waits() {
    let broker = Broker::start();
    let mut work = broker.command(&["work"]);
    let mut worker = work.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a worker");
    let task = broker.submit(&["--", "sleep", "600"]);
    eventually("it runs", || broker.state(&task) == "running");
    broker.tenure(&["pause", &task, "--reason", "lunch"]).ok();
    eventually("it is stopped", || broker.state(&task) == "suspended");
    let list = broker.tenure(&["list"]).ok();
    assert!(list.contains("paused: lunch"), "{list}");
    let ids = |states: &str| {
        let listed = broker.tenure(&["list", "--state", states, "-o", "json"]).json();
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("paused"), [task.as_str()]);
    assert_eq!(ids("suspended"), [task.as_str()]);
    let preview = broker.tenure(&["resume", "--where", "state=paused", "--dry-run"]).ok();
    let short = &task[task.len() - 8..];
    assert_eq!(preview, format!("would resume 1 task\n  {short} sleep 600\n"));
    broker.tenure(&["cancel", &task]).ok();
    eventually("it has ended", || broker.state(&task) == "cancelled");
    worker.kill().expect("the worker runs");
    worker.wait().expect("it ends");
}

#[test]
fn the_note_of_a_cancelled_dependent_has_a_short_id() {
    let broker = Broker::start();
    let first = broker.submit(&["-q", "q", "x"]);
    let dependent = broker.submit(&["-q", "q", "--after", &first, "y"]);
    broker.tenure(&["cancel", &first]).ok();
    let list = broker.tenure(&["list", "--all"]).ok();
    let short = &first[first.len() - 8..];
    assert!(list.contains(&format!("dependency {short} ended as cancelled")), "{list}");
    assert!(!list.contains(&first), "{list}");
    let list = on_a_terminal_of(80, broker.command(&["--no-color", "list", "--all"]));
    assert!(
        list.contains(&format!("dependency {short}")) && lines(&list).iter().all(|line| line.len() <= 80),
        "{list}"
    );
    // The whole id is where there is room for it.
    let shown = broker.tenure(&["show", &dependent]).ok();
    assert!(shown.contains(&format!("dependency {first} ended as cancelled")), "{shown}");
}
