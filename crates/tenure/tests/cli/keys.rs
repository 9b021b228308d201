//! Keys: from the environment, a file or stdin, and never where other users can read them.

use std::path::PathBuf;

use crate::support::{Broker, eventually, run};

const KEY: &str = "00112233445566778899aabbccddeeff";

fn with_keys() -> (tempfile::TempDir, Broker, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tenure.toml");
    std::fs::write(&file, format!("[[keys]]\nname = \"ada\"\nkey = \"{KEY}\"\n")).unwrap();
    let broker = Broker::start_in(dir.path(), &[]);
    let key = dir.path().join("key");
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    (dir, broker, key)
}

#[test]
fn a_key_comes_from_the_environment_a_file_or_stdin() {
    let (_dir, broker, file) = with_keys();
    let file = file.to_str().unwrap();
    broker.tenure(&["list"]).fails(77, "TENURE_KEY");
    broker.tenure(&["--key-file", file, "list"]).ok();
    let mut command = broker.command(&["list"]);
    command.env("TENURE_KEY_FILE", file);
    run(command).ok();
    let mut command = broker.command(&["list"]);
    command.env("TENURE_KEY", KEY);
    run(command).ok();
    let said = broker.tenure_fed(&["--key-file", "-", "submit", "-"], format!("{KEY}\na body").as_bytes());
    let task = said.ok().split_whitespace().next().unwrap().to_owned();
    assert_eq!(broker.tenure(&["--key-file", file, "show", "--body", &task]).ok(), "a body");
}

#[test]
fn a_key_on_the_command_line_is_refused_with_what_to_use_instead() {
    let (_dir, broker, _) = with_keys();
    let err = broker.tenure(&["--key", KEY, "list"]).fails(64, "TENURE_KEY");
    assert!(err.contains("--key-file") && !err.contains(KEY), "{err}");
    broker.tenure(&["--key", "ask", "list"]).fails(64, "no terminal");
    broker.tenure(&["--key-file", "/nowhere", "list"]).fails(64, "/nowhere cannot be read");
}

#[test]
fn neither_the_list_of_processes_nor_a_tasks_environment_shows_the_workers_key() {
    let (_dir, broker, file) = with_keys();
    let file = file.to_str().unwrap();
    let mut command = broker.command(&["work", "--supervise", "1", "--id", "boss"]);
    command.env("TENURE_KEY", KEY).env("TENURE_KEY_FILE", file);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut boss = command.spawn().unwrap();
    let said = broker.tenure(&["--key-file", file, "submit", "--wait", "--", "env"]);
    let shown: Vec<String> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .filter(|line| line.contains(KEY))
        .collect();
    let _ = std::process::Command::new("kill").arg(boss.id().to_string()).status();
    eventually("the supervisor ends", || boss.try_wait().unwrap().is_some());
    let environment = said.ok();
    assert!(environment.contains("TENURE_TASK_ID="), "{environment}");
    assert!(!environment.contains(KEY) && !environment.contains("TENURE_KEY"), "{environment}");
    assert_eq!(shown, Vec::<String>::new());
}

#[test]
fn a_door_without_tls_that_others_can_reach_says_what_crosses_in_clear() {
    let (_dir, broker, _) = with_keys();
    assert!(!broker.log.so_far().contains("clear text"), "loopback: {}", broker.log.so_far());
    drop(broker);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tenure.toml"), format!("[[keys]]\nname = \"ada\"\nkey = \"{KEY}\"\n"))
        .unwrap();
    let broker = Broker::start_in(dir.path(), &["--native", "0.0.0.0:0", "--resp", "127.0.0.1:0"]);
    eventually("the broker warns", || broker.log.so_far().contains("clear text"));
    let warnings: Vec<String> =
        broker.log.so_far().lines().filter(|line| line.contains("clear text")).map(str::to_owned).collect();
    assert_eq!(warnings.len(), 1, "only the door that others can reach: {warnings:?}");
    assert!(
        warnings[0].contains("keys, bodies and results") && warnings[0].contains("native"),
        "{warnings:?}"
    );
}
