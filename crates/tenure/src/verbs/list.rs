//! `tenure list`: lists tasks.

use clap::Args;
use tenure_client::{Client, Query, StateName, TaskInfo};

use super::select::{UNENDED, parse, state_name, worker_of};
use crate::exit::{Failure, OK, Outcome};
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
  tenure list --where tag=gpu --where after=1h
  tenure list --state failed -o jsonl | jq -r .id")]
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
    /// Only tasks that match; same keys as `cancel --where`
    #[arg(long = "where", value_name = "KEY=VALUE")]
    wanted: Vec<String>,
    /// Include ended tasks
    #[arg(short, long)]
    all: bool,
    /// Maximum number of tasks to list
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
}

impl List {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let (query, states) = self.query(screen.now)?;
        let (mut tasks, more) = read(client, &query, self.limit).await?;
        if more && screen.format == Format::Table {
            tasks = self.foremost(client, &query, &states).await?;
        }
        screen.list(|| table(&tasks, screen.now), || tasks.iter().map(json::task).collect())?;
        if more && screen.format == Format::Table {
            remark(format!("and more: --limit sets how many are shown, now {}", self.limit));
        }
        Ok(OK)
    }

    /// What to ask for, and the states that are meant.
    fn query(&self, now: u64) -> Result<(Query, Vec<StateName>), Failure> {
        let mut wanted = self.wanted.clone();
        for (key, value) in [("queue", &self.queue), ("tag", &self.tag), ("worker", &self.worker)] {
            wanted.extend(value.as_ref().map(|value| format!("{key}={value}")));
        }
        for state in &self.states {
            state_name(state)?;
            wanted.push(format!("state={state}"));
        }
        let (query, mut states) = parse(&wanted, now)?;
        if states.is_empty() {
            let meant = if self.all { &FOREMOST } else { UNENDED };
            states = meant.iter().map(|state| StateName::from(*state)).collect();
        }
        Ok((query.states(states.iter().cloned()), states))
    }

    /// When not all can be shown, people see first what they look for first.
    async fn foremost(
        &self,
        client: &Client,
        query: &Query,
        states: &[StateName],
    ) -> Result<Vec<TaskInfo>, Failure> {
        let mut tasks = Vec::new();
        for state in FOREMOST.map(StateName::from).into_iter().filter(|state| states.contains(state)) {
            let of_state = query.clone().states([state]);
            let (more, _) = read(client, &of_state, self.limit - tasks.len()).await?;
            tasks.extend(more);
        }
        Ok(tasks)
    }
}

/// What runs, then what waits, then what has ended.
const FOREMOST: [&str; 9] =
    ["running", "assigned", "paused", "ready", "delayed", "created", "failed", "cancelled", "completed"];

/// Reads at most this many, and returns whether there are more.
async fn read(client: &Client, query: &Query, limit: usize) -> Result<(Vec<TaskInfo>, bool), Failure> {
    let page = limit.saturating_add(1).clamp(1, 1_000);
    let mut listing = client.list(query.clone().page(page as u32));
    let mut tasks = Vec::new();
    while let Some(task) = listing.next().await {
        if tasks.len() == limit {
            return Ok((tasks, true));
        }
        tasks.push(task?);
    }
    Ok((tasks, false))
}

fn table(tasks: &[TaskInfo], now: u64) -> Table {
    let columns = [
        Column::Fixed("TASK"),
        Column::Fixed("STATE"),
        Column::Flexible("QUEUE"),
        Column::Flexible("NAME"),
        Column::Number("PRIO"),
        Column::Number("TRY"),
        Column::Flexible("WORKER"),
        Column::Fixed("SUBMITTED"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no tasks");
    for task in tasks {
        let number = |value: i64| if value == 0 { String::new() } else { value.to_string() };
        table.row([
            task.id.to_string().into(),
            Cell::new(task.state.as_str(), of_state(task.state.as_str())),
            task.terms.queue.to_string().into(),
            task.name.as_deref().unwrap_or_default().into(),
            number(task.priority.into()).into(),
            number(task.attempt.into()).into(),
            worker_of(task).unwrap_or_default().into(),
            Cell::new(relative(task.submitted_at.0, now), Color::Dim),
            note(task, now).into(),
        ]);
    }
    table
}

/// What is worth knowing besides.
pub(crate) fn note(task: &TaskInfo, now: u64) -> String {
    if let Some(until) = task.until {
        return format!("starts {}", relative(until.0, now));
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
    if let Some(pause) = &task.aside {
        return pause.reason.as_deref().map_or_else(|| pause.why.as_str().to_owned(), str::to_owned);
    }
    match &task.end {
        Some(end) if end.exit_code != 0 => {
            let message = end.message.as_deref().unwrap_or_default();
            if end.exit_code > 0 {
                format!("exit code {} {message}", end.exit_code)
            } else {
                message.to_owned()
            }
        }
        _ => String::new(),
    }
}
