//! `tenure list`: lists tasks.

use clap::Args;
use tenure_client::{ArrayInfo, Client, DependencyProgress, Query, StateName, TaskId, TaskInfo};

use super::arrays;
use super::labels::Labels;
use super::select::{Selection, UNENDED, counted, parse, state_name, with_whole_ids, worker_of};
use super::selected_arrays::ARRAYS_READ_MAX;
use crate::exit::{Failure, OK, Outcome};
use crate::output::label::{ID_DIGITS, digits_needed, shortened};
use crate::output::paint::{Color, of_state};
use crate::output::table::{Cell, Column, Table};
use crate::output::times::relative;
use crate::output::{Format, Screen, json, remark};

/// List tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure list                                    tasks that have not ended
  tenure list --all
  tenure list --state failed,cancelled --queue images
  tenure list --where tag=gpu --where since=1h
  tenure list --where 'name=sim/*' --where exit-code=4 --where since=yesterday
  tenure list --state failed -o jsonl | jq -r .id
  tenure list --elements                         the tasks of arrays one by one")]
pub(crate) struct List {
    /// Only tasks in these states
    #[arg(short, long = "state", value_name = "STATE", value_delimiter = ',')]
    states: Vec<String>,
    /// Only tasks of this queue
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// Only tasks with this tag
    #[arg(short, long, value_name = "NAME")]
    tag: Option<String>,
    /// Only tasks that this worker holds or held last
    #[arg(short, long, value_name = "NAME")]
    worker: Option<String>,
    /// Only tasks that match; same keys as `cancel --where`. A name, an exit code or a time includes ended tasks
    #[arg(long = "where", value_name = "KEY=VALUE")]
    wanted: Vec<String>,
    /// Include ended tasks
    #[arg(short, long)]
    all: bool,
    /// List the tasks of arrays one by one, not each array as one row
    #[arg(long)]
    elements: bool,
    /// Show whole ids instead of as many of their last digits as differ
    #[arg(long)]
    full_ids: bool,
    /// Maximum number of tasks to list
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
}

impl List {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let mut selection = self.selection(client, screen.now).await?;
        let mut arrays = Vec::new();
        if self.joins_arrays(&selection) {
            selection.query = selection.query.without_elements();
            arrays = self.arrays(client, &selection).await?;
        } else {
            selection.learn_arrays(client).await?;
        }
        let (mut tasks, more) = read(client, &selection, self.limit).await?;
        if more && screen.format == Format::Table {
            tasks = self.most_relevant(client, &selection).await?;
        }
        let mut labels = Labels::default();
        if screen.format == Format::Table {
            labels.learn(client, &tasks).await;
        }
        let all = || arrays.iter().map(|array| array.id).chain(tasks.iter().map(|task| task.id));
        let ids = if self.full_ids { ID_DIGITS } else { digits_needed(all()) };
        let entries = || arrays.iter().map(json::array).chain(tasks.iter().map(json::task)).collect();
        screen.list(|| table(&arrays, &tasks, &labels, ids, screen), entries)?;
        if more && screen.format == Format::Table {
            remark(format!("more tasks match: raise --limit (now {})", self.limit));
        }
        Ok(OK)
    }

    /// Whether an array is one row. A selection by something in which its elements differ lists the elements.
    fn joins_arrays(&self, selection: &Selection) -> bool {
        !self.elements && selection.is_of_whole_arrays()
    }

    /// The arrays with elements in one of the states that are meant.
    async fn arrays(&self, client: &Client, selection: &Selection) -> Result<Vec<ArrayInfo>, Failure> {
        let mut meant = Vec::new();
        for array in client.arrays(ARRAYS_READ_MAX).await? {
            let is_meant = meant.len() < self.limit && selection.takes_array(&array);
            if is_meant && has_meant(client, &array, selection, |task| selection.takes_element(task)).await? {
                meant.push(array);
            }
        }
        Ok(meant)
    }

    /// What to ask for, and the states that are meant.
    async fn selection(&self, client: &Client, now: u64) -> Result<Selection, Failure> {
        let mut wanted = with_whole_ids(client, &self.wanted).await?;
        for (key, value) in [("queue", &self.queue), ("tag", &self.tag), ("worker", &self.worker)] {
            wanted.extend(value.as_ref().map(|value| format!("{key}={value}")));
        }
        for state in &self.states {
            state_name(state)?;
            wanted.push(format!("state={state}"));
        }
        let mut selection = parse(&wanted, now)?;
        if selection.states.is_empty() {
            let all = self.all || selection.is_of_all();
            let meant = if all { &FOREMOST } else { UNENDED };
            selection.states = meant.iter().map(|state| StateName::from(*state)).collect();
        }
        selection.query = selection.query.states(selection.states.iter().cloned());
        Ok(selection)
    }

    /// When not all can be shown, people see first what they look for first.
    async fn most_relevant(&self, client: &Client, selection: &Selection) -> Result<Vec<TaskInfo>, Failure> {
        let mut tasks = Vec::new();
        let is_meant = |state: &StateName| selection.states.contains(state);
        for state in FOREMOST.map(StateName::from).into_iter().filter(is_meant) {
            let of_state = selection.of_state(state);
            let (more, _) = read(client, &of_state, self.limit - tasks.len()).await?;
            tasks.extend(more);
        }
        Ok(tasks)
    }
}

/// Whether an array has elements that are meant. The counts say how many are suspended, but not whether one of them is
/// paused in place.
pub(crate) async fn has_meant(
    client: &Client,
    array: &ArrayInfo,
    selection: &Selection,
    fits: impl Fn(&TaskInfo) -> bool,
) -> Result<bool, Failure> {
    let counts = arrays::by_state(&array.counts);
    let has = |state: &StateName| counts.iter().any(|(name, count)| *name == state.as_str() && *count > 0);
    let (suspended, others): (Vec<_>, Vec<_>) =
        selection.states.iter().partition(|state| **state == StateName::Suspended);
    if others.into_iter().any(has) {
        return Ok(true);
    }
    if !suspended.into_iter().any(has) {
        return Ok(false);
    }
    let query = Query::default().array(array.id).states([StateName::Suspended]).page(1_000);
    let mut elements = client.list(query);
    while let Some(element) = elements.next().await {
        if fits(&element?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What runs, then what waits, then what has ended.
const FOREMOST: [&str; 11] = [
    "running",
    "assigned",
    "suspended",
    "paused",
    "ready",
    "delayed",
    "waiting",
    "created",
    "failed",
    "cancelled",
    "completed",
];

/// Reads at most this many, and returns whether there are more.
async fn read(
    client: &Client,
    selection: &Selection,
    limit: usize,
) -> Result<(Vec<TaskInfo>, bool), Failure> {
    let page = limit.saturating_add(1).clamp(1, 1_000);
    let mut listing = client.list(selection.query.clone().page(page as u32));
    let mut tasks = Vec::new();
    while let Some(task) = listing.next().await {
        let task = task?;
        if !selection.takes(&task) {
            continue;
        }
        if tasks.len() == limit {
            return Ok((tasks, true));
        }
        tasks.push(task);
    }
    Ok((tasks, false))
}

/// The width that a column for the priority needs.
const WIDE: usize = 100;

fn table(
    arrays: &[ArrayInfo],
    tasks: &[TaskInfo],
    labels: &Labels,
    id_digits: usize,
    screen: &Screen,
) -> Table {
    let now = screen.now;
    let columns = [
        Column::Fixed("TASK"),
        Column::Fixed("STATE"),
        Column::Minor("QUEUE"),
        Column::Flexible("NAME OR COMMAND"),
        Column::Number("PRIO"),
        Column::Number("TRY"),
        Column::Minor("WORKER"),
        Column::Fixed("SUBMITTED"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no tasks");
    let id = |id: TaskId| if id_digits == ID_DIGITS { id.to_string() } else { shortened(id, id_digits) };
    for array in arrays {
        table.row([
            id(array.id).into(),
            Cell::new(array.state.as_str(), of_state(array.state.as_str())),
            array.queue.to_string().into(),
            array.name.as_deref().map_or_else(|| format!("array of {}", array.size), str::to_owned).into(),
            String::new().into(),
            String::new().into(),
            String::new().into(),
            Cell::new(relative(array.submitted_at.0, now), Color::Dim),
            arrays::note(array).into(),
        ]);
    }
    for task in tasks {
        let number = |value: i64| if value == 0 { String::new() } else { value.to_string() };
        let priority = if screen.width < WIDE { 0 } else { task.priority };
        table.row([
            id(task.id).into(),
            Cell::new(task.state.as_str(), of_state(task.state.as_str())),
            task.terms.queue.to_string().into(),
            labels.get(task.id).into(),
            number(priority.into()).into(),
            number(task.attempt.into()).into(),
            worker_of(task).unwrap_or_default().into(),
            Cell::new(relative(task.submitted_at.0, now), Color::Dim),
            with_short_ids(note_or_tags(task, now), task, id).into(),
        ]);
    }
    table
}

/// A note that says which dependency ended otherwise names it as the table does.
fn with_short_ids(note: String, task: &TaskInfo, short: impl Fn(TaskId) -> String) -> String {
    task.after.iter().fold(note, |note, info| note.replace(&info.task.to_string(), &short(info.task)))
}

/// Tags tell tasks of the same queue apart. What happens to a task is more important.
fn note_or_tags(task: &TaskInfo, now: u64) -> String {
    let note = note(task, now);
    if note.is_empty() { task.terms.tags.join(" ") } else { note }
}

/// What is worth knowing besides.
pub(crate) fn note(task: &TaskInfo, now: u64) -> String {
    if let Some(until) = task.until {
        return format!("starts {}", relative(until.0, now));
    }
    if task.state == StateName::Waiting {
        let open = task.after.iter().filter(|info| info.progress == DependencyProgress::Open).count();
        return format!("after {}", counted(open));
    }
    if task.state == StateName::Suspended && task.holding.as_ref().is_some_and(|held| held.intent.is_none()) {
        return match (&task.pause, task.open.unwrap_or(0)) {
            (Some(pause), _) => {
                let reason = pause.reason.as_deref().map(|reason| format!(": {reason}"));
                format!("paused{}", reason.unwrap_or_default())
            }
            (None, 0) => "waits for a free slot".to_owned(),
            (None, open) => format!("waits for {}", counted(open as usize)),
        };
    }
    if let Some(holding) = &task.holding {
        if let Some(intent) = &holding.intent {
            return format!("{} requested", intent.wanted.as_str());
        }
        if let Some(progress) = &holding.progress {
            let percent = progress.percent.map(|percent| format!("{percent} % ")).unwrap_or_default();
            return format!("{percent}{}", progress.note.as_deref().unwrap_or_default());
        }
    }
    if let Some(pause) = &task.pause {
        return pause.reason.as_deref().map_or_else(|| pause.why.as_str().to_owned(), str::to_owned);
    }
    match &task.end {
        Some(end) if end.exit_code != 0 => {
            let message = end.message.as_deref().unwrap_or_default();
            // The shell worker's messages begin with the code.
            if end.exit_code <= 0 || message.contains("exit code") {
                message.to_owned()
            } else {
                format!("exit code {} {message}", end.exit_code).trim_end().to_owned()
            }
        }
        _ => String::new(),
    }
}
