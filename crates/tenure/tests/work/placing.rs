//! Where a command runs, what it finds there, and what becomes of the files it writes.

use std::path::Path;
use std::process::Command;

use crate::stage::{Stage, text};
use crate::support::{Said, run};

/// The program as a user in a directory calls it.
fn from(stage: &Stage, dir: &Path, args: &[&str]) -> Command {
    let mut command = stage.broker.command(args);
    command.current_dir(dir);
    command
}

fn submit(stage: &Stage, dir: &Path, args: &[&str]) -> Said {
    let mut all = vec!["submit", "--wait"];
    all.extend(args);
    run(from(stage, dir, &all))
}

/// A directory that a user stands in.
fn submit_dir(stage: &Stage) -> std::path::PathBuf {
    let submit_dir = stage.path("submit_dir");
    std::fs::create_dir_all(submit_dir.join("sub")).unwrap();
    std::fs::write(submit_dir.join("input.txt"), "data\n").unwrap();
    submit_dir.canonicalize().unwrap()
}

#[test]
fn a_command_runs_where_its_submitter_stands() {
    let stage = Stage::new();
    let submit_dir = submit_dir(&stage);
    let _worker = stage.worker("w", &[]);
    let said = submit(
        &stage,
        &submit_dir,
        &["--name", "here", "--", "sh", "-c", "pwd; cat input.txt; echo new > made.txt"],
    );
    assert_eq!(said.out, format!("{}\ndata\n", submit_dir.display()), "{said:?}");
    assert_eq!(text(&submit_dir.join("made.txt")), "new\n");
    let shown = stage.broker.tenure(&["show", "name:here"]).ok();
    assert!(shown.contains(&format!("{} (where it was submitted)", submit_dir.display())), "{shown}");
    assert!(shown.contains("command     sh -c"), "{shown}");
    for (cwd, expected) in [(".", submit_dir.clone()), ("sub", submit_dir.join("sub")), ("/", "/".into())] {
        let said = submit(&stage, &submit_dir, &["--cwd", cwd, "--", "pwd"]);
        assert_eq!(said.out, format!("{}\n", expected.display()), "{cwd}: {said:?}");
    }
}

#[test]
fn files_in_a_private_directory_are_not_lost_silently() {
    let stage = Stage::new();
    let submit_dir = submit_dir(&stage);
    let base = stage.path("places");
    let worker = stage.worker("w", &["--dir", base.to_str().unwrap()]);
    let script = "pwd; mkdir out; echo 1,2 > out/result.csv";
    let said = submit(&stage, &submit_dir, &["--cwd", "private", "--name", "p", "--", "sh", "-c", script]);
    assert!(said.err.contains("out/result.csv (4 B)") && said.err.contains("--keep-files"), "{said:?}");
    assert!(!Path::new(said.out.trim_end()).exists(), "{said:?}");
    let logs = stage.broker.tenure(&["logs", "name:p", "-o", "json"]).json();
    assert_eq!(logs["output"]["files"][0]["path"], "out/result.csv");
    drop(worker);

    let _worker = stage.worker("w2", &["--keep-files", "--dir", base.to_str().unwrap()]);
    let said = submit(&stage, &submit_dir, &["--cwd", "private", "--", "sh", "-c", script]);
    assert_eq!(text(&Path::new(said.out.trim_end()).join("out/result.csv")), "1,2\n", "{said:?}");
    assert!(said.err.contains("is kept"), "{said:?}");
    // A directory that the worker does not have.
    let gone = submit_dir.join("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut command = from(&stage, &gone, &["submit", "--hold", "--name", "g", "--", "pwd"]);
    assert!(command.status().unwrap().success());
    std::fs::remove_dir(&gone).unwrap();
    stage.broker.tenure(&["release", "name:g"]).ok();
    let ran_in = stage.broker.tenure(&["wait", "name:g"]).ok();
    assert!(Path::new(ran_in.trim_end()).starts_with(base.canonicalize().unwrap()), "{ran_in}");
    let shown = stage.broker.tenure(&["show", "name:g"]).ok();
    assert!(shown.contains(&format!("the worker does not have {}", gone.display())), "{shown}");
}

#[test]
fn variables_are_forwarded_and_all_output_goes_to_files() {
    let stage = Stage::new();
    let submit_dir = submit_dir(&stage);
    let _worker = stage.worker("w", &["--keep-output", "64"]);
    let script = "echo $COLOUR $SIZE; echo complaint >&2; seq 1 100; exit $((TENURE_ATTEMPT == 1))";
    let args = [
        "submit",
        "--wait",
        "--name",
        "sim/7",
        "--retries",
        "1",
        "--backoff",
        "1ms",
        "-e",
        "COLOUR",
        "-e",
        "SIZE=3",
        "--stdout",
        "out/%{name}-%{attempt}.txt",
        "--stderr",
        "%{id}.err",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut command = from(&stage, &submit_dir, &args);
    let said = run({
        command.env("COLOUR", "blue");
        command
    });
    assert_eq!(said.code, 0, "{said:?}");
    for attempt in [1, 2] {
        let out = text(&submit_dir.join(format!("out/sim/7-{attempt}.txt")));
        assert!(out.starts_with("blue 3\n1\n") && out.ends_with("\n100\n"), "{out}");
    }
    let id = said.err.lines().next().unwrap_or_default().trim();
    assert_eq!(text(&submit_dir.join(format!("{id}.err"))), "complaint\ncomplaint\n", "{said:?}");
    let said = submit(&stage, &submit_dir, &["--stdout", "/dev/null/x", "--", "true"]);
    assert!(said.code == 80 && said.err.contains("/dev/null/x"), "{said:?}");
    let said = submit(&stage, &submit_dir, &["--stdout", "/dev/full", "--", "echo", "x"]);
    assert!(said.code != 0 && said.err.contains("/dev/full"), "{said:?}");
    submit(&stage, &submit_dir, &["-e", "TENURE_KEY", "--", "true"]).fails(64, "key");
    submit(&stage, &submit_dir, &["-e", "NO_SUCH_VARIABLE", "--", "true"]).fails(64, "not set");
}

#[test]
fn a_job_file_holds_what_is_repeated() {
    let stage = Stage::new();
    let submit_dir = submit_dir(&stage);
    let _worker = stage.worker("w", &[]);
    std::fs::write(
        submit_dir.join("job.toml"),
        "command = [\"sh\", \"-c\", \"echo $LEVEL $0\"]\nname = \"of-the-file\"\npriority = 3\ntags = [\"a\"]\n[env]\nLEVEL = \"7\"\n",
    )
    .unwrap();
    let said = submit(&stage, &submit_dir, &["job.toml"]);
    assert_eq!(said.out, "7 sh\n", "{said:?}");
    let said =
        submit(&stage, &submit_dir, &["job.toml", "--name", "of-the-line", "-e", "LEVEL=8", "--", "more"]);
    assert_eq!(said.out, "8 more\n", "{said:?}");
    let shown = stage.broker.tenure(&["show", "name:of-the-line", "-o", "json"]).json();
    assert_eq!((shown["priority"].as_i64(), shown["tags"][0].as_str()), (Some(3), Some("a")));

    std::fs::write(
        submit_dir.join("job.sh"),
        "#TENURE --name script --retries 2\necho $TENURE_TASK_NAME $1\n",
    )
    .unwrap();
    let said = submit(&stage, &submit_dir, &["job.sh", "--", "argument"]);
    assert_eq!(said.out, "script argument\n", "{said:?}");
    let shown = stage.broker.tenure(&["show", "name:script", "-o", "json"]).json();
    assert_eq!(shown["retries"], 2);

    std::fs::write(submit_dir.join("wrong.toml"), "command = [\"true\"]\nretrys = 2\n").unwrap();
    submit(&stage, &submit_dir, &["wrong.toml"]).fails(65, "did you mean `retries`");
    submit(&stage, &submit_dir, &["missing.toml"]).fails(65, "no such job file");
    submit(&stage, &submit_dir, &["both", "--", "true"]).fails(64, "not both");
}

#[test]
fn lines_of_json_say_commands_in_the_words_of_the_flags() {
    let stage = Stage::new();
    let submit_dir = submit_dir(&stage);
    let _worker = stage.worker("w", &["--slots", "4"]);
    let lines = "{\"command\": [\"cat\", \"input.txt\"], \"name\": \"a\"}\n\
                 {\"command\": \"pwd | tr a-z A-Z\", \"cwd\": \"sub\", \"name\": \"b\", \"not-before\": \"0s\", \"tag\": \"t\"}\n";
    std::fs::write(submit_dir.join("tasks.jsonl"), lines).unwrap();
    let said = submit(&stage, &submit_dir, &["--jsonl", "tasks.jsonl"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(stage.broker.tenure(&["logs", "name:a"]).ok(), "data\n");
    let place = submit_dir.join("sub").display().to_string().to_uppercase();
    assert_eq!(stage.broker.tenure(&["logs", "name:b"]).ok().trim_end(), place);
    for (line, word) in [
        ("{\"comand\": [\"x\"]}", "did you mean `command`"),
        ("{\"cwd\": \"x\"}", "cwd: is for a command"),
        ("{\"command\": [\"x\"], \"body\": 1}", "body"),
        ("{\"command\": 7}", "command: is not"),
    ] {
        std::fs::write(submit_dir.join("wrong.jsonl"), line).unwrap();
        submit(&stage, &submit_dir, &["--jsonl", "wrong.jsonl"]).fails(65, word);
    }
}

#[test]
fn an_exit_code_is_said_once() {
    let stage = Stage::new();
    let submit_dir = submit_dir(&stage);
    let _worker = stage.worker("w", &[]);
    let said = submit(&stage, &submit_dir, &["--name", "four", "--", "sh", "-c", "echo bad >&2; exit 4"]);
    assert_eq!(said.code, 4);
    assert!(!said.err.contains("exit code 4 (exit code 4"), "{said:?}");
    let shown = stage.broker.tenure(&["show", "name:four", "--no-timeline"]).ok();
    let state = shown.lines().find(|line| line.starts_with("state")).unwrap_or_default();
    assert_eq!(state, "state       failed (exit code 4: bad)", "{shown}");
    let worker = stage.log();
    assert!(worker.contains(" four: attempt 1 begins"), "{worker}");
}
