//! `tenure wait`: waits until tasks have ended, and exits with their exit code.

use std::time::{Duration, Instant};

use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tenure_client::{Client, Ended, Error, TaskId};

use super::arrays;
use super::follow::{self, print_end};
use super::labels::Labels;
use super::progress::Progress;
use super::which::{find_array, resolve};
use crate::exit::{Failure, OK, Outcome, STILL_GOING, of_task};
use crate::output::paint::{escape_line, of_state};
use crate::output::{ItemList, Screen, json, remark};
use crate::units::parse_duration;

/// How long the broker's word that the time is up may take to arrive.
const ANSWER: Duration = Duration::from_secs(2);

/// Wait for tasks to end and exit with their exit code
#[derive(Args, Debug)]
#[command(after_help = "\
With one task, the command prints its result. With several, it prints a line as each one ends, and exits with the
code of the first task, in the given order, that did not complete.

Examples:
  tenure wait 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f && echo done
  tenure wait name:scan-7 name:scan-8 --timeout 2h
  tenure wait name:sweep                 an array: its counts, and the code of its first task that failed")]
pub(crate) struct Wait {
    /// Task ids (their last digits are enough) or name:NAME, or one array
    #[arg(value_name = "TASK", required = true)]
    tasks: Vec<String>,
    /// Stop waiting after this time (exit code 83); the tasks keep running
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

impl Wait {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let mut tasks = Vec::new();
        for text in &self.tasks {
            tasks.push(resolve(client, text).await?);
        }
        follow::unless_interrupted(&tasks, self.wait(client, &tasks, screen)).await
    }

    async fn wait(&self, client: &Client, tasks: &[TaskId], screen: &Screen) -> Outcome {
        if let [task] = tasks {
            if find_array(client, *task).await?.is_some() {
                return arrays::wait(client, *task, self.timeout, screen).await;
            }
            return match within(client, *task, self.timeout).await? {
                Some(ended) => print_end(&ended, screen),
                None => report_pending(tasks, screen, &mut |value| screen.one(String::new, || value)),
            };
        }
        for task in tasks {
            if find_array(client, *task).await?.is_some() {
                return Err(Failure::usage(format!("{task} is an array: wait for it alone")));
            }
        }
        all(client, tasks, self.timeout, screen).await
    }
}

/// Waits for all, telling of each as it ends.
pub(crate) async fn all(
    client: &Client,
    tasks: &[TaskId],
    timeout: Option<Duration>,
    screen: &Screen,
) -> Outcome {
    let mut waiting: FuturesUnordered<_> = tasks
        .iter()
        .enumerate()
        .map(async |(index, task)| (index, within(client, *task, timeout).await))
        .collect();
    let mut told = ItemList::new(screen);
    let mut labels = Labels::default();
    let bar = Progress::new(tasks.len());
    let mut codes: Vec<Option<u8>> = vec![None; tasks.len()];
    while let Some((index, ended)) = waiting.next().await {
        let Some(ended) = ended? else { continue };
        let label = if screen.is_table() { labels.find(client, ended.task).await } else { "" };
        let text = || {
            let state = ended.state.as_str();
            let label = escape_line(label);
            format!("{} {}  {label}", ended.task, screen.paint.apply(of_state(state), state))
                .trim_end()
                .to_owned()
        };
        bar.aside(|| told.next(text, || json::ended(&ended)))?;
        bar.ended(ended.exit_code == 0);
        codes[index] = Some(of_task(ended.exit_code));
    }
    bar.finish();
    let pending: Vec<TaskId> =
        tasks.iter().zip(&codes).filter(|(_, code)| code.is_none()).map(|(task, _)| *task).collect();
    if !pending.is_empty() {
        let code = report_pending(&pending, screen, &mut |value| told.next(String::new, || value));
        told.end()?;
        return code;
    }
    told.end()?;
    Ok(codes.into_iter().flatten().find(|code| *code != OK).unwrap_or(OK))
}

/// Waits for one task. A broker that is away comes back: work of days outlives a restart, and so does waiting for it.
async fn within(client: &Client, task: TaskId, timeout: Option<Duration>) -> Result<Option<Ended>, Error> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut is_told = false;
    loop {
        let waited = match deadline {
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                match tokio::time::timeout(left + ANSWER, client.wait_timeout(task, left)).await {
                    Ok(waited) => waited,
                    Err(_) => return Ok(None),
                }
            }
            None => client.wait(task).await.map(Some),
        };
        match waited {
            Err(Error::Unreachable { .. } | Error::Lost { .. } | Error::UnknownOutcome { .. }) => {
                if !is_told {
                    remark(format!("connection to the broker lost; reconnecting to wait for task {task}"));
                    is_told = true;
                }
            }
            other => return other,
        }
    }
}

fn report_pending(
    pending: &[TaskId],
    screen: &Screen,
    tell: &mut dyn FnMut(Value) -> std::io::Result<()>,
) -> Result<u8, Failure> {
    if screen.is_table() {
        for task in pending {
            remark(format!("timed out waiting for task {task}; the task keeps running"));
        }
    } else {
        let pending: Vec<String> = pending.iter().map(ToString::to_string).collect();
        tell(json!({ "pending": pending }))?;
    }
    Ok(STILL_GOING)
}
