//! `tenure wait`: waits until tasks have ended, and exits with their exit code.

use std::time::{Duration, Instant};

use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tenure_client::{ArrayInfo, Client, Code, Ended, Error, TaskId};
use unicode_width::UnicodeWidthStr;

use super::arrays;
use super::follow::{self, print_end};
use super::labels::Labels;
use super::progress::Progress;
use super::which::{find_array, resolve};
use crate::exit::{Failure, OK, Outcome, STILL_GOING, of_task};
use crate::output::label::{digits_needed, short, shortened};
use crate::output::paint::{escape_line, of_state};
use crate::output::table::cut;
use crate::output::{ItemList, Screen, json, remark};
use crate::units::parse_duration;

/// How long the broker's word that the time is up may take to arrive.
const ANSWER: Duration = Duration::from_secs(2);

/// No label is cut shorter.
const LABEL_WIDTH_MIN: usize = 6;

/// Wait for tasks to end and exit with their exit code
#[derive(Args, Debug)]
#[command(after_help = "\
With one task, the command prints its result; with one array, the counts of its tasks. With several, it prints a line
as each one ends, and exits with the code of the first one, in the given order, that did not complete. Inside a task of
`tenure work`, the slot of that task is free for others meanwhile.

Examples:
  tenure wait 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f && echo done
  tenure wait name:scan-7 name:scan-8 --timeout 2h
  tenure wait name:sweep name:reduce     an array and a task")]
pub(crate) struct Wait {
    /// Tasks or arrays: ids (their last digits are enough) or name:NAME
    #[arg(value_name = "TASK", required = true)]
    tasks: Vec<String>,
    /// Stop waiting after this time (exit code 83); the tasks go on
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
        .map(async |(index, task)| (index, one_of_many(client, *task, timeout).await))
        .collect();
    let mut told = ItemList::new(screen);
    let mut labels = Labels::default();
    let bar = Progress::new(tasks.len());
    let ids = digits_needed(tasks.iter().copied());
    let mut codes: Vec<Option<u8>> = vec![None; tasks.len()];
    while let Some((index, ended)) = waiting.next().await {
        let Some(over) = ended? else { continue };
        let label = if screen.is_table() { labels.find(client, tasks[index]).await } else { "" };
        let text = || {
            let (state, summary) = match &over {
                Over::Task(ended) => (ended.state.as_str(), String::new()),
                Over::Array(array) => (array.state.as_str(), format!("  {}", arrays::summary(array))),
            };
            let id = shortened(tasks[index], ids);
            let room = screen.width.saturating_sub(id.width() + 2 + state.width() + 2 + summary.width());
            let label = cut(&escape_line(label), room.max(LABEL_WIDTH_MIN));
            let state = screen.paint.apply(of_state(state), state);
            format!("{id}  {state}{summary}  {label}").trim_end().to_owned()
        };
        let value = || match &over {
            Over::Task(ended) => json::ended(ended),
            Over::Array(array) => json::array(array),
        };
        bar.suspend_and_print(|| told.next(text, value))?;
        let code = match &over {
            Over::Task(ended) => of_task(ended.exit_code),
            Over::Array(array) => arrays::exit_code(client, array).await?,
        };
        bar.ended(code == OK);
        codes[index] = Some(code);
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

/// One of several that were waited for.
enum Over {
    Task(Box<Ended>),
    Array(Box<ArrayInfo>),
}

async fn one_of_many(
    client: &Client,
    id: TaskId,
    timeout: Option<Duration>,
) -> Result<Option<Over>, Failure> {
    match within(client, id, timeout).await {
        Ok(ended) => Ok(ended.map(|ended| Over::Task(Box::new(ended)))),
        Err(Error::Refused(no)) if no.code == Code::UnknownTask => {
            if find_array(client, id).await?.is_none() {
                return Err(Failure::from(&*no));
            }
            let ended = arrays::within(client, id, timeout, |_| {}).await?;
            Ok(ended.map(|array| Over::Array(Box::new(array))))
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for one task. A broker that is away comes back: work of days outlives a restart, and so does waiting for it.
async fn within(client: &Client, task: TaskId, timeout: Option<Duration>) -> Result<Option<Ended>, Error> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut is_printed = false;
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
                if !is_printed {
                    remark(format!(
                        "connection to the broker lost; reconnecting to wait for task {}",
                        short(task)
                    ));
                    is_printed = true;
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
            remark(format!("timed out waiting for task {}; it has not ended", short(*task)));
        }
    } else {
        let pending: Vec<String> = pending.iter().map(ToString::to_string).collect();
        tell(json!({ "pending": pending }))?;
    }
    Ok(STILL_GOING)
}
