//! Parses a body: a command, a plan of several, or a line for the shell.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use tenure_plans::{PlanJob, PlanTask};

/// The program or script to run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    Command(Command),
    Plan(PlanJob),
}

/// One command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    /// The submitter's directory. The command runs there if this machine has it, and `cwd` says nothing else.
    #[serde(default)]
    pub(crate) submitted_from: Option<PathBuf>,
    #[serde(default)]
    pub(crate) stdin: Option<String>,
    /// Files that get all of the output, with `%{id}` and others in their names.
    #[serde(default)]
    pub(crate) stdout: Option<String>,
    #[serde(default)]
    pub(crate) stderr: Option<String>,
    /// How long it may run. Default: no limit.
    #[serde(default)]
    pub(crate) timeout_secs: Option<u64>,
}

impl Command {
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.timeout_secs.map(Duration::from_secs)
    }
}

/// Parses a body. With `shell`, a body in no known form is a line for `sh`; an error within a known form is still
/// reported.
pub(crate) fn parse(body: &[u8], shell: bool) -> Result<Form, String> {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(fields)) if fields.contains_key("command") => {
            let command: Command = serde_json::from_value(Value::Object(fields))
                .map_err(|error| format!("the body is not a shell task: {error}"))?;
            check(&command)?;
            Ok(Form::Command(command))
        }
        Ok(Value::Object(fields)) if PlanJob::is_in(&fields) => plan(&fields).map(Form::Plan),
        _ if shell => line(body).map(Form::Command),
        _ => Err("the body is not a shell task: it should be JSON such as {\"command\": [\"sort\", \"-u\"], \"stdin\": \"b\\na\\n\"}, or a \
                  plan; `tenure work --shell` runs any text as a line of sh"
            .to_owned()),
    }
}

fn plan(body: &Map<String, Value>) -> Result<PlanJob, String> {
    let job = PlanJob::parse(body).map_err(|error| error.to_string())?;
    let has_zero_byte =
        |task: &&PlanTask| task.arguments.iter().chain([&task.command]).any(|text| text.contains('\0'));
    match job.tasks.iter().find(has_zero_byte) {
        Some(task) => Err(format!("task {} of the plan has a zero byte in its command", task.number)),
        None => Ok(job),
    }
}

fn line(body: &[u8]) -> Result<Command, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not text, so no line for sh".to_owned())?;
    if text.trim().is_empty() {
        return Err("the body is empty".to_owned());
    }
    let command =
        Command { command: vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()], ..Command::default() };
    check(&command)?;
    Ok(command)
}

/// Refuses what the system would refuse with less helpful words.
fn check(command: &Command) -> Result<(), String> {
    if command.command.first().is_none_or(String::is_empty) {
        return Err(
            "the body is not a shell task: command is empty, it should be a list with the program first"
                .to_owned(),
        );
    }
    let env = command.env.iter().flat_map(|(name, value)| [name, value]);
    if command.command.iter().chain(env).any(|text| text.contains('\0')) {
        return Err("the body is not a shell task: a zero byte in a command or its environment".to_owned());
    }
    if let Some(name) = command.env.keys().find(|name| name.is_empty() || name.contains('=')) {
        return Err(format!("the body is not a shell task: `{name}` cannot be the name of a variable"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(body: &str, shell: bool) -> Result<Command, String> {
        match parse(body.as_bytes(), shell)? {
            Form::Command(command) => Ok(command),
            Form::Plan(plan) => panic!("{plan:?}"),
        }
    }

    #[test]
    fn a_command_has_arguments_an_environment_a_place_and_an_input() {
        let body = r#"{"command": ["sort", "-u"], "env": {"LC_ALL": "C"}, "cwd": "/tmp", "stdin": "b\na\n", "timeout_secs": 5}"#;
        let sort = command(body, false).unwrap();
        assert_eq!(sort.command, ["sort", "-u"]);
        assert_eq!((sort.env["LC_ALL"].as_str(), sort.stdin.as_deref()), ("C", Some("b\na\n")));
        assert_eq!((sort.cwd, sort.timeout_secs), (Some("/tmp".into()), Some(5)));
    }

    #[test]
    fn only_who_allows_it_runs_lines_of_shell() {
        assert!(command("echo hello | tr a-z A-Z", false).unwrap_err().contains("--shell"));
        assert_eq!(
            command("echo hello | tr a-z A-Z", true).unwrap().command,
            ["sh", "-c", "echo hello | tr a-z A-Z"]
        );
        assert!(command("  ", true).is_err());
        assert!(parse(b"\xff", true).is_err());
    }

    #[test]
    fn a_plan_is_read_and_its_mistakes_are_reported() {
        let plan = |task: &str| parse(format!(r#"{{"tasks": [{{{task}}}], "input": "x"}}"#).as_bytes(), true);
        assert!(matches!(plan(r#""task_number": 1, "command": "ls""#), Ok(Form::Plan(_))));
        for (task, word) in [
            (r#""task_number": 2, "command": "ls""#, "contiguous"),
            (r#""task_number": 1, "command": "l\u0000s""#, "zero byte"),
            (r#""task_number": 1, "command": "ls", "args": ["\u0000"]"#, "zero byte"),
        ] {
            assert!(plan(task).unwrap_err().contains(word), "{task}");
        }
    }

    #[test]
    fn mistakes_in_the_form_are_reported() {
        for (body, word) in [
            (r#"{"command": []}"#, "empty"),
            (r#"{"command": "ls"}"#, "invalid type"),
            (r#"{"command": ["ls"], "enviroment": {}}"#, "enviroment"),
            (r#"{"command": ["a\u0000b"]}"#, "zero byte"),
            (r#"{"command": ["ls"], "env": {"A=B": "1"}}"#, "A=B"),
        ] {
            assert!(command(body, true).unwrap_err().contains(word), "{body}");
        }
    }
}
