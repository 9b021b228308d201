//! A command hook: starts a program for an event, with the event on stdin and its main fields in the environment. Exit
//! code 0 means that it is done.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tenure_hub::words::Name;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::body::OutgoingEvent;
use super::settings::CommandSettings;

/// The fields of an event that are variables, as `TENURE_EVENT_` and the name in capitals.
const FIELDS: [&str; 12] = [
    "seq",
    "at",
    "kind",
    "task",
    "attempt",
    "queue",
    "submitter",
    "worker",
    "message",
    "reason",
    "exit_code",
    "next",
];
/// The longest value of a variable; the whole event is on stdin.
const VARIABLE_BYTES_MAX: usize = 4 << 10;

pub(super) async fn deliver(
    settings: &CommandSettings,
    hook: &Name,
    event: &OutgoingEvent,
    within: Duration,
) -> Result<(), String> {
    let [program, arguments @ ..] = &*settings.command else { return Err("there is no command".to_owned()) };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env("TENURE_HOOK", &**hook)
        // A group of its own, so that everything it starts ends with it.
        .process_group(0)
        .kill_on_drop(true);
    for (name, value) in variables(event) {
        command.env(name, value);
    }
    let started = command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    let mut group = ProcessGroup(started);
    match timeout(within, group.run(&event.body)).await {
        Err(_) => Err(format!("{program} ran for more than {} s", within.as_secs_f64())),
        Ok(Err(error)) => Err(format!("{program} failed: {error}")),
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(status))) => Err(format!("{program} ended with {status}")),
    }
}

/// A child and all that it started. They end when this is dropped.
struct ProcessGroup(Child);

impl ProcessGroup {
    /// Returns how it ended, if it did not end well.
    async fn run(&mut self, input: &[u8]) -> io::Result<Option<String>> {
        if let Some(mut stdin) = self.0.stdin.take() {
            // A program that does not read its input closes it: that is not a failure.
            let _ = stdin.write_all(input).await;
        }
        let status = self.0.wait().await?;
        Ok((!status.success()).then(|| status.to_string()))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The id is known until the child was waited for; after that, the group may have been reused.
        if let Some(pid) = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn variables(event: &OutgoingEvent) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
    let mut found = Vec::new();
    if let Some(Value::String(namespace)) = body.get("namespace") {
        found.push(("TENURE_EVENT_NAMESPACE".to_owned(), namespace.clone()));
    }
    for field in FIELDS {
        let text = match body.get("event").and_then(|event| event.get(field)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => continue,
        };
        if text.len() <= VARIABLE_BYTES_MAX && !text.contains('\0') {
            found.push((format!("TENURE_EVENT_{}", field.to_ascii_uppercase()), text));
        }
    }
    found
}
