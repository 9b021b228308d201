//! The first examples that a user pastes work: in an empty directory, with a broker and the worker they name.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Broker, eventually, program, run};

/// A line of a terminal: a command, and what stands behind it for people.
struct Example {
    command: String,
    in_background: bool,
}

/// The first block of commands below a heading of the README.
fn readme(heading: &str) -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once(heading).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(|line| example(line.split(" # ").next().unwrap_or(line))).collect()
}

/// The examples of a help text: the indented lines below a heading, without the words behind them.
fn help(args: &[&str], heading: &str) -> Vec<Example> {
    let text = run(program(args)).ok();
    let (_, lines) = text.split_once(heading).unwrap();
    let lines = lines.lines().skip(1).skip_while(|line| line.is_empty());
    let lines = lines.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    lines.map(|line| example(line.trim_start().split("   ").next().unwrap_or(line))).collect()
}

fn example(text: &str) -> Example {
    let text = text.trim();
    let (command, in_background) = match text.strip_suffix('&') {
        Some(command) => (command, true),
        // These go on until the user ends them.
        None => (text, ["tenure work", "tenure watch"].contains(&text)),
    };
    Example { command: command.trim().to_owned(), in_background }
}

/// A process that does not outlive its story.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Types every line, and sees that each does what a new user expects of it.
fn type_all(broker: &Broker, examples: &[Example]) {
    let empty = tempfile::tempdir().unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut background = Vec::new();
    for Example { command, in_background } in examples {
        if command == "tenure serve" {
            continue;
        }
        let mut shell = Command::new("sh");
        let line = if *in_background { format!("exec {command}") } else { command.clone() };
        shell.args(["-c", &line]).current_dir(empty.path()).env("PATH", &path).stdin(Stdio::null());
        shell.env("TENURE_BROKER", &broker.address);
        if *in_background {
            shell.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = Background(shell.spawn().unwrap());
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(child.0.try_wait().unwrap(), None, "`{command}` has ended");
            background.push(child);
        } else {
            let said = run(shell);
            assert_eq!(said.code, 0, "`{command}`: {said:?}");
        }
    }
    eventually("everything for the shell worker has ended well", || {
        let queue = broker.tenure(&["list", "--queue", "default", "--all", "-o", "json"]).json();
        let states: Vec<&str> =
            queue.as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap()).collect();
        assert!(!states.is_empty() && !states.contains(&"failed"), "{queue:#}");
        !states.iter().any(|state| ["ready", "assigned", "running"].contains(state))
    });
}

#[test]
fn the_first_steps_of_the_help_work_as_they_stand() {
    let broker = Broker::start();
    let examples = help(&["--help"], "Start a broker");
    assert!(examples.len() >= 3);
    type_all(&broker, &examples);
}

#[test]
fn the_examples_of_submit_work_with_a_worker() {
    let broker = Broker::start();
    let examples = help(&["submit", "--help"], "Examples:");
    assert!(examples.len() >= 5);
    let mut all = vec![example("tenure work &")];
    all.extend(examples);
    type_all(&broker, &all);
}

#[test]
fn the_five_minutes_of_the_readme_work_as_they_stand() {
    let broker = Broker::start();
    let examples = readme("## Five minutes of use");
    assert!(examples.len() >= 8);
    type_all(&broker, &examples);
}
