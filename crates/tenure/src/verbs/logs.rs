//! `tenure logs`: prints the stored output of a shell task.

use std::io::Write;

use clap::Args;
use serde_json::json;
use tenure_client::Client;

use super::which::show;
use crate::exit::{Failure, OK, Outcome, STILL_GOING};
use crate::output::{Screen, remark, text};
use crate::work::output::Output;

/// Print the output of a shell task (or the result of any other task)
#[derive(Args, Debug)]
#[command(after_help = "\
The command's stdout goes to stdout, its stderr to stderr. On a terminal, control characters are escaped; a file or a
pipe gets the bytes unchanged.

Examples:
  tenure logs 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure logs name:scan-7 2>/dev/null | less")]
pub(crate) struct Logs {
    /// Task id (at least 6 digits) or name:NAME
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
        if screen.is_table() {
            print(&result)?;
            return Ok(OK);
        }
        let id = task.id.to_string();
        let value = || match read(&result) {
            Some(output) => json!({ "task": id, "output": output }),
            None => json!({ "task": id, "result": String::from_utf8_lossy(&result) }),
        };
        screen.one(String::new, value)?;
        Ok(OK)
    }
}

/// Writes a task's result: a shell task's output to where it wrote it, anything else as it is.
pub(crate) fn print(result: &[u8]) -> Result<(), Failure> {
    let Some(output) = read(result) else {
        return Ok(text::write(&mut std::io::stdout().lock(), result)?);
    };
    text::write(&mut std::io::stdout().lock(), output.stdout.as_bytes())?;
    let mut err = std::io::stderr().lock();
    text::write(&mut err, output.stderr.as_bytes())?;
    for (stream, truncated) in [("stdout", output.stdout_truncated), ("stderr", output.stderr_truncated)] {
        if truncated {
            writeln!(err, "tenure: only a part of {stream} was kept")?;
        }
    }
    Ok(err.flush()?)
}

/// The output of a shell task, if the result is one.
fn read(result: &[u8]) -> Option<Output> {
    serde_json::from_slice(result).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shell_tasks_result_is_taken_for_output() {
        let output = read(br#"{"exit_code": 0, "stdout": "hello\n", "stderr": "careful\n"}"#).unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("hello\n", "careful\n"));
        for other in [&b"42"[..], br#"{"answer": 42}"#, b"\xff\x00", b""] {
            assert!(read(other).is_none());
        }
    }
}
