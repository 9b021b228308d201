//! `tenure logs`: the output that was kept of a shell task.

use std::borrow::Cow;
use std::io::Write;

use clap::Args;
use serde_json::{Value, json};
use tenure_client::Client;

use super::which::show;
use crate::exit::{OK, Outcome, STILL_GOING};
use crate::output::{Screen, remark};

/// Print the output that was kept of a shell task (or the result of any other)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure logs 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure logs name:scan-7 | less")]
pub(crate) struct Logs {
    /// An id, at least its first 6 digits, or name:NAME
    #[arg(value_name = "TASK")]
    task: String,
}

impl Logs {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let task = show(client, &self.task).await?;
        if task.end.is_none() {
            remark(format!("task {} is {}: its output is kept when it ends", task.id, task.state.as_str()));
            return Ok(STILL_GOING);
        }
        let result = client.result(task.id).await?;
        let output = output_of(&result);
        if screen.is_table() {
            let mut out = std::io::stdout().lock();
            out.write_all(&output)?;
            out.flush()?;
        } else {
            let text = String::from_utf8_lossy(&output);
            screen.one(String::new, || json!({ "task": task.id.to_string(), "output": text }))?;
        }
        Ok(OK)
    }
}

/// A shell task's result is a JSON object that holds what it wrote; any other result is shown as it is.
pub(crate) fn output_of(result: &[u8]) -> Cow<'_, [u8]> {
    let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(result) else {
        return Cow::Borrowed(result);
    };
    let texts: Vec<&str> =
        ["output", "stdout", "stderr"].into_iter().filter_map(|name| fields.get(name)?.as_str()).collect();
    if texts.is_empty() { Cow::Borrowed(result) } else { Cow::Owned(texts.concat().into_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_tasks_output_is_found_in_its_result() {
        let result = br#"{"exit_code": 0, "stdout": "hello\n", "stderr": "careful\n"}"#;
        assert_eq!(&*output_of(result), b"hello\ncareful\n");
        assert_eq!(&*output_of(b"42"), b"42");
        assert_eq!(&*output_of(br#"{"answer": 42}"#), br#"{"answer": 42}"#);
        assert_eq!(&*output_of(b"\xff\x00"), b"\xff\x00");
    }
}
