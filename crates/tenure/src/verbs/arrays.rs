//! `tenure arrays`: lists arrays and limits how much of one runs at once.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{ArrayInfo, Client, Error, EventKind, Query, StateCounts, StateName, TaskId, Watch};

use super::progress::Progress;
use super::which::resolve;
use crate::exit::{Failure, OK, Outcome, STILL_GOING, TASK_CANCELLED, TASK_FAILED, of_task};
use crate::output::label::{ID_DIGITS, digits_needed, short, shortened};
use crate::output::paint::{Color, escape_line, of_state};
use crate::output::table::{Cell, Column, Table};
use crate::output::times::{relative, rfc3339};
use crate::output::{Screen, json, remark};
use crate::units::counted;

/// How often the counts are read while a person looks at the bar.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// List arrays and limit how many of their tasks run at once
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure arrays
  tenure arrays limit name:sweep 20   at most 20 of its tasks at once
  tenure arrays unlimit name:sweep
  tenure list --where array=ID        its tasks")]
pub(crate) struct Arrays {
    #[command(subcommand)]
    act: Option<Act>,
    /// Maximum number of arrays to list
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Show whole ids instead of as many of their last digits as differ
    #[arg(long)]
    full_ids: bool,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show all arrays, newest first
    List,
    /// Limit how many tasks of an array run at once
    Limit {
        /// Id of the array (its last digits are enough) or name:NAME
        array: String,
        /// How many of its tasks workers may hold at once
        limit: u32,
    },
    /// Remove the limit of an array
    Unlimit {
        /// Id of the array (its last digits are enough) or name:NAME
        array: String,
    },
}

impl Arrays {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let (array, limit) = match &self.act {
            None | Some(Act::List) => return self.list(client, screen).await,
            Some(Act::Limit { array, limit }) => (array, Some(*limit)),
            Some(Act::Unlimit { array }) => (array, None),
        };
        let id = resolve(client, array).await?;
        client.limit_array(id, limit).await?;
        let text = || match limit {
            Some(limit) => {
                format!("limit of array {} is {}", short(id), counted(limit.into(), "task", "tasks"))
            }
            None => format!("limit of array {} removed", short(id)),
        };
        screen.one(text, || json!({ "array": id.to_string(), "limit": limit }))?;
        Ok(OK)
    }

    async fn list(&self, client: &Client, screen: &Screen) -> Outcome {
        let arrays = client.arrays(self.limit).await?;
        let ids = if self.full_ids { ID_DIGITS } else { digits_needed(arrays.iter().map(|array| array.id)) };
        screen.list(|| table(&arrays, ids, screen), || arrays.iter().map(json::array).collect())?;
        Ok(OK)
    }
}

/// The width that a column for each count needs.
const WIDE: usize = 100;

fn table(arrays: &[ArrayInfo], id_digits: usize, screen: &Screen) -> Table {
    if screen.width < WIDE {
        narrow(arrays, id_digits, screen.now)
    } else {
        wide(arrays, id_digits, screen.now)
    }
}

/// For a narrow terminal: all counts in one column.
fn narrow(arrays: &[ArrayInfo], id_digits: usize, now: u64) -> Table {
    let columns = [
        Column::Fixed("ARRAY"),
        Column::Fixed("STATE"),
        Column::Flexible("QUEUE"),
        Column::Flexible("NAME"),
        Column::Flexible("ELEMENTS"),
        Column::Fixed("SUBMITTED"),
    ];
    let mut table = Table::new(columns, "no arrays");
    for array in arrays {
        table.row([
            shortened(array.id, id_digits).into(),
            Cell::new(array.state.as_str(), of_state(array.state.as_str())),
            array.queue.to_string().into(),
            array.name.as_deref().unwrap_or_default().into(),
            note(array).into(),
            Cell::new(relative(array.submitted_at.0, now), Color::Dim),
        ]);
    }
    table
}

fn wide(arrays: &[ArrayInfo], id_digits: usize, now: u64) -> Table {
    let columns = [
        Column::Fixed("ARRAY"),
        Column::Fixed("STATE"),
        Column::Flexible("QUEUE"),
        Column::Flexible("NAME"),
        Column::Number("SIZE"),
        Column::Number("LIMIT"),
        Column::Number("RUNNING"),
        Column::Number("COMPLETED"),
        Column::Number("FAILED"),
        Column::Number("CANCELLED"),
        Column::Fixed("SUBMITTED"),
    ];
    let mut table = Table::new(columns, "no arrays");
    for array in arrays {
        let counts = &array.counts;
        let color = |count: u64, color: Color| if count > 0 { color } else { Color::Plain };
        table.row([
            shortened(array.id, id_digits).into(),
            Cell::new(array.state.as_str(), of_state(array.state.as_str())),
            array.queue.to_string().into(),
            array.name.as_deref().unwrap_or_default().into(),
            array.size.to_string().into(),
            array.limit.map(|limit| limit.to_string()).unwrap_or_default().into(),
            (counts.assigned + counts.running).to_string().into(),
            counts.completed.to_string().into(),
            Cell::new(counts.failed.to_string(), color(counts.failed, Color::Red)),
            Cell::new(counts.cancelled.to_string(), color(counts.cancelled, Color::Yellow)),
            Cell::new(relative(array.submitted_at.0, now), Color::Dim),
        ]);
    }
    table
}

/// How many elements are in each state.
pub(crate) fn by_state(counts: &StateCounts) -> Vec<(&'static str, u64)> {
    StateName::KNOWN
        .iter()
        .filter_map(|state| {
            let count = match state {
                StateName::Created => counts.created,
                StateName::Waiting => counts.waiting,
                StateName::Delayed => counts.delayed,
                StateName::Ready => counts.ready,
                StateName::Assigned => counts.assigned,
                StateName::Running => counts.running,
                StateName::Suspended => counts.suspended,
                StateName::Paused => counts.paused,
                StateName::Completed => counts.completed,
                StateName::Failed => counts.failed,
                StateName::Cancelled => counts.cancelled,
                StateName::Other(_) => return None,
            };
            Some((state.as_str(), count))
        })
        .collect()
}

/// What an array is doing, in a few words.
pub(crate) fn note(array: &ArrayInfo) -> String {
    let StateCounts { assigned, running, completed, failed, cancelled, .. } = array.counts;
    let mut parts = vec![format!("{} of {} ended", completed + failed + cancelled, array.size)];
    for (count, word) in [(assigned + running, "running"), (failed, "failed"), (cancelled, "cancelled")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}

/// Everything about one array.
pub(crate) fn show(array: &ArrayInfo, screen: &Screen) -> Result<(), Failure> {
    let text = || {
        let state = array.state.as_str();
        let last = u64::from(array.first) + (u64::from(array.size) - 1) * u64::from(array.step);
        let step = if array.step == 1 { String::new() } else { format!(":{}", array.step) };
        let mut lines = vec![("array", array.id.to_string())];
        lines.extend(array.name.as_deref().map(|name| ("name", escape_line(name).into_owned())));
        lines.push(("state", screen.paint.apply(of_state(state), state).into_owned()));
        lines.push(("queue", escape_line(&array.queue).into_owned()));
        lines.push((
            "indexes",
            format!("{}-{last}{step} ({})", array.first, counted(u64::from(array.size), "task", "tasks")),
        ));
        lines.extend(array.limit.map(|limit| ("limit", format!("{limit} at once"))));
        lines.extend(array.submitter.as_deref().map(|name| ("submitter", escape_line(name).into_owned())));
        let ago = relative(array.submitted_at.0, screen.now);
        lines.push(("submitted", format!("{} ({ago})", rfc3339(array.submitted_at.0))));
        lines.extend(array.ended_at.map(|at| ("ended", rfc3339(at.0))));
        for (state, count) in by_state(&array.counts).into_iter().filter(|(_, count)| *count > 0) {
            lines.push((state, count.to_string()));
        }
        lines.iter().map(|(name, value)| format!("{name:<10} {value}")).collect::<Vec<_>>().join("\n")
    };
    Ok(screen.one(text, || json::array(array))?)
}

/// Waits for the end of an array, with a bar for people.
pub(crate) async fn wait(
    client: &Client,
    array: TaskId,
    timeout: Option<Duration>,
    screen: &Screen,
) -> Outcome {
    let mut bar: Option<Progress> = None;
    let ended = within(client, array, timeout, |info| {
        let bar = bar.get_or_insert_with(|| Progress::new(info.size as usize));
        let StateCounts { completed, failed, cancelled, .. } = info.counts;
        bar.at(completed + failed + cancelled, failed + cancelled);
    })
    .await?;
    if let Some(bar) = &bar {
        bar.finish();
    }
    let Some(info) = ended else {
        if screen.is_table() {
            remark(format!("timed out waiting for array {}; it has not ended", short(array)));
        } else {
            screen.one(String::new, || json!({ "pending": [array.to_string()] }))?;
        }
        return Ok(STILL_GOING);
    };
    screen.one(|| summary(&info), || json::array(&info))?;
    exit_code(client, &info).await
}

/// How the elements of an array ended.
pub(crate) fn summary(array: &ArrayInfo) -> String {
    let StateCounts { completed, failed, cancelled, .. } = array.counts;
    format!("{completed} completed, {failed} failed, {cancelled} cancelled")
}

/// The array when it has ended, or `None` when the time is over. `look` sees it from time to time.
pub(crate) async fn within(
    client: &Client,
    array: TaskId,
    timeout: Option<Duration>,
    mut look: impl FnMut(&ArrayInfo),
) -> Result<Option<ArrayInfo>, Failure> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut watcher = client.watch(Watch::default().task(array).kinds([EventKind::ArrayEnded])).await?;
    let mut is_printed = false;
    loop {
        match client.array(array).await {
            Ok(info) => {
                look(&info);
                if info.ended_at.is_some() {
                    return Ok(Some(info));
                }
            }
            // A broker that is away comes back.
            Err(Error::Unreachable { .. } | Error::Lost { .. } | Error::UnknownOutcome { .. }) => {
                if !std::mem::replace(&mut is_printed, true) {
                    remark(format!(
                        "connection to the broker lost; reconnecting to wait for array {}",
                        short(array)
                    ));
                }
            }
            Err(error) => return Err(error.into()),
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
        // The event ends the wait at once; the rest is for the bar.
        let left = deadline.map_or(LOOK_EVERY, |deadline| deadline.saturating_duration_since(Instant::now()));
        let _ = tokio::time::timeout(left.min(LOOK_EVERY), watcher.next()).await;
    }
}

/// The exit code of the first element, by its index, that did not complete.
pub(crate) async fn exit_code(client: &Client, array: &ArrayInfo) -> Outcome {
    if array.state == StateName::Completed {
        return Ok(OK);
    }
    let query = Query::default().array(array.id).states([array.state.clone()]).page(1);
    let first = client.list(query).next().await.transpose()?;
    let code = first.and_then(|task| Some(of_task(task.end?.exit_code)));
    // Retention may have removed it.
    let otherwise = if array.state == StateName::Cancelled { TASK_CANCELLED } else { TASK_FAILED };
    Ok(code.unwrap_or(otherwise))
}
