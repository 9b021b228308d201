//! `tenure logs`: prints what a task has printed, while it runs and afterwards.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tenure_client::{Client, LogChunk, LogStream, TaskId, TaskInfo};

use super::follow;
use super::lost_output::remark_crashed;
use super::which::show_task;
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome, STILL_GOING, of_task};
use crate::output::label::short;
use crate::output::{Screen, remark, text};
use crate::units::counted;
use crate::work::output::Output;

/// The delay before the first poll for more output, and its upper bound as it doubles.
const LOOK_AFTER: Duration = Duration::from_millis(100);
const LOOK_AFTER_MAX: Duration = Duration::from_secs(1);

/// Print the output of a task, live with -f; for tasks of other workers, the result
#[derive(Args, Debug)]
#[command(after_help = "\
The command's stdout goes to stdout, its stderr to stderr. On a terminal, control characters are escaped; a file or a
pipe gets the bytes unchanged. A worker sends output after a tenth of a second, then at most every half second. If a
command prints more than the limits allow, the broker keeps the beginning and the end, and `logs` says how much is
missing. For an ended task, `logs` prints the last attempt; --attempt selects an earlier one, even one that crashed.

Examples:
  tenure logs 0c07398f         the last digits of an id are enough
  tenure logs -f name:scan-7   until it ends; exits with its exit code
  tenure logs name:scan-7 --attempt 1
  tenure logs name:scan-7 2>/dev/null | less")]
pub(crate) struct Logs {
    /// Task id (its last digits are enough) or name:NAME
    #[arg(value_name = "TASK")]
    task: String,
    /// Follow the output until the task ends, including later attempts
    #[arg(short, long)]
    follow: bool,
    /// Print the output of this attempt
    #[arg(long, value_name = "NUMBER", conflicts_with = "follow")]
    attempt: Option<u32>,
}

impl Logs {
    pub(crate) async fn run(&self, client: &Client, global: &Global, screen: &Screen) -> Outcome {
        let task = show_task(client, &self.task).await?;
        if self.follow {
            return follow::unless_interrupted(&[task.id], follow_output(client, global, &task, screen))
                .await;
        }
        let printed = Printed::read(client, task.id).await?;
        if !screen.is_table() {
            return self.json(client, &task, &printed, screen).await;
        }
        if let Some(attempt) = self.attempt {
            return one_attempt(global, attempt, &task, &printed).await;
        }
        if task.end.is_none() {
            printed.print(None)?;
            remark_crashed(global, &task, |attempt| !printed.has(attempt)).await;
            remark(format!("task {} is {}: {}", short(task.id), task.state.as_str(), what_follows(&printed)));
            return Ok(STILL_GOING);
        }
        printed.print_last(client, &task).await?;
        let in_result = task.end.as_ref().is_some_and(|end| end.result_bytes > 0).then_some(task.attempt);
        let is_printed = |attempt| printed.has(attempt) || in_result == Some(attempt);
        remark_crashed(global, &task, |attempt| !is_printed(attempt)).await;
        let earlier = printed.attempts().filter(|attempt| *attempt < task.attempt);
        let earlier: Vec<String> = earlier.map(|attempt| attempt.to_string()).collect();
        if !earlier.is_empty() {
            remark(format!("this is attempt {}; --attempt shows {}", task.attempt, earlier.join(", ")));
        }
        Ok(OK)
    }

    async fn json(&self, client: &Client, task: &TaskInfo, printed: &Printed, screen: &Screen) -> Outcome {
        let mut value = json!({ "task": task.id.to_string() });
        if task.end.is_some() {
            let result = client.result(task.id).await?;
            match read(&result) {
                Some(output) => value["output"] = json!(output),
                None => value["result"] = String::from_utf8_lossy(&result).into(),
            }
        }
        let attempts =
            printed.attempts().filter(|attempt| self.attempt.is_none_or(|wanted| wanted == *attempt));
        value["attempts"] = attempts.map(|attempt| printed.json(attempt)).collect::<Vec<Value>>().into();
        screen.one(String::new, || value)?;
        Ok(if task.end.is_some() { OK } else { STILL_GOING })
    }
}

fn what_follows(printed: &Printed) -> &'static str {
    if printed.chunks.is_empty() {
        "it has printed nothing yet; -f waits for it"
    } else {
        "this is what it has printed; -f waits for more"
    }
}

async fn one_attempt(global: &Global, attempt: u32, task: &TaskInfo, printed: &Printed) -> Outcome {
    if !printed.has(attempt) {
        remark_crashed(global, task, |crashed| crashed == attempt).await;
        let known: Vec<String> = printed.attempts().map(|attempt| attempt.to_string()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        remark(format!(
            "nothing is kept of attempt {attempt} of task {}; kept are: {known}. Short attempts that complete are kept in \
             the result: `tenure logs {0}`",
            short(task.id)
        ));
        return Ok(OK);
    }
    printed.print(Some(attempt))?;
    Ok(OK)
}

/// What the broker keeps of a task's output.
#[derive(Debug, Default)]
struct Printed {
    chunks: Vec<LogChunk>,
}

impl Printed {
    async fn read(client: &Client, task: TaskId) -> Result<Printed, Failure> {
        let mut printed = Printed::default();
        let mut after = 0;
        loop {
            let page = client.logs(task, after).await?;
            after = page.next;
            printed.chunks.extend(page.chunks);
            if !page.more {
                return Ok(printed);
            }
        }
    }

    /// The attempts that printed something, in order.
    fn attempts(&self) -> impl Iterator<Item = u32> {
        let mut attempts: Vec<u32> = self.chunks.iter().map(|chunk| chunk.attempt).collect();
        attempts.sort_unstable();
        attempts.dedup();
        attempts.into_iter()
    }

    /// Whether this attempt printed something.
    fn has(&self, attempt: u32) -> bool {
        self.chunks.iter().any(|chunk| chunk.attempt == attempt)
    }

    /// Prints what the last attempt of an ended task printed: its result has everything. An attempt that crashed, or
    /// that did not confirm that it was cancelled, has none.
    async fn print_last(&self, client: &Client, task: &TaskInfo) -> Result<(), Failure> {
        let has_result = task.end.as_ref().is_some_and(|end| end.result_bytes > 0);
        if has_result { print(&client.result(task.id).await?) } else { self.print(Some(task.attempt)) }
    }

    /// Prints one attempt, or all with a line between them.
    fn print(&self, attempt: Option<u32>) -> Result<(), Failure> {
        let mut printer = Printer::default();
        let wanted = |chunk: &&LogChunk| attempt.is_none_or(|attempt| attempt == chunk.attempt);
        for chunk in self.chunks.iter().filter(wanted) {
            printer.print(chunk)?;
        }
        Ok(())
    }

    fn json(&self, attempt: u32) -> Value {
        let text = |stream: LogStream| {
            let chunks =
                self.chunks.iter().filter(|chunk| chunk.attempt == attempt && chunk.stream == stream);
            let bytes: Vec<u8> = chunks.flat_map(|chunk| chunk.bytes.iter().copied()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        json!({ "attempt": attempt, "stdout": text(LogStream::Stdout), "stderr": text(LogStream::Stderr) })
    }
}

/// Prints chunks in the order in which they came, each once, and says what is missing.
#[derive(Debug, Default)]
struct Printer {
    attempt: Option<u32>,
    /// How far each stream is printed.
    stdout: u64,
    stderr: u64,
}

impl Printer {
    fn print(&mut self, chunk: &LogChunk) -> Result<(), Failure> {
        if self.attempt != Some(chunk.attempt) {
            if self.attempt.is_some() {
                remark(format!("tenure: attempt {}", chunk.attempt));
            }
            *self = Printer { attempt: Some(chunk.attempt), ..Printer::default() };
        }
        let printed = match chunk.stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        };
        let end = chunk.offset + chunk.bytes.len() as u64;
        if chunk.offset > *printed {
            remark(format!(
                "tenure: {} kept",
                counted(chunk.offset - *printed, "byte is not", "bytes are not")
            ));
        }
        // A worker that lost its connection may send a piece twice.
        let known = usize::try_from(printed.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
        let fresh = chunk.bytes.get(known..).unwrap_or_default();
        *printed = end.max(*printed);
        match chunk.stream {
            LogStream::Stdout => text::write(&mut std::io::stdout().lock(), fresh)?,
            LogStream::Stderr => text::write(&mut std::io::stderr().lock(), fresh)?,
        }
        Ok(())
    }
}

/// Prints what comes until the task has ended.
async fn follow_output(client: &Client, global: &Global, task: &TaskInfo, screen: &Screen) -> Outcome {
    let (mut after, mut pause) = (0, LOOK_AFTER);
    let mut heard = BTreeSet::new();
    let mut printer = Printer::default();
    loop {
        // Asked first: what is printed before the end is there when the end is known.
        let now = client.show(task.id).await?;
        let page = client.logs(task.id, after).await?;
        after = page.next;
        for chunk in &page.chunks {
            heard.insert(chunk.attempt);
            if screen.is_table() {
                printer.print(chunk)?;
            } else {
                screen.next(String::new, || chunk_json(chunk))?;
            }
        }
        if page.more {
            continue;
        }
        if let Some(end) = &now.end {
            // A short attempt has sent nothing: its result has everything.
            if printer.attempt != Some(now.attempt) && screen.is_table() && end.result_bytes > 0 {
                print(&client.result(task.id).await?)?;
                heard.insert(now.attempt);
            }
            if screen.is_table() {
                remark_crashed(global, &now, |attempt| !heard.contains(&attempt)).await;
            }
            return Ok(of_task(end.exit_code));
        }
        pause = if page.chunks.is_empty() { (pause * 2).min(LOOK_AFTER_MAX) } else { LOOK_AFTER };
        tokio::time::sleep(pause).await;
    }
}

fn chunk_json(chunk: &LogChunk) -> Value {
    json!({
        "attempt": chunk.attempt,
        "stream": chunk.stream.as_str(),
        "offset": chunk.offset,
        "at": crate::output::json::time(chunk.at),
        "text": String::from_utf8_lossy(&chunk.bytes),
    })
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
    if let Some(files) = output.files_sentence() {
        writeln!(err, "tenure: {}", text::escape_line(&files))?;
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
