//! `tenure schedules`: tasks that the broker submits again and again.

use std::path::PathBuf;

use bytes::Bytes;
use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{CatchUp, Client, Overlap, ScheduleInfo, ScheduleState};

use super::input::{read_file, read_stdin};
use super::submit::options::Options;
use super::submit::schedule::ScheduleOptions;
use super::submit::shell::{Shell, SubmitterEnvironment};
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::{Color, escape_line};
use crate::output::table::{Cell, Column, Table};
use crate::output::times::{relative, rfc3339};
use crate::output::{Screen, json, remark};
use crate::units::show_duration;

/// List, add and control schedules
#[derive(Args, Debug)]
#[command(after_help = "\
A schedule submits a task at each due time. The name of the task is the name of the schedule and the due
time: nightly@2026-11-18T02:00:00Z. When clocks go forward, a skipped time is due at the jump; when they go back, a
repeated time is due once.

Examples:
  tenure schedules add nightly --cron '0 2 * * *' --zone Europe/Zurich --catch-up last -- ./backup
  tenure schedules add poll --every 15m --overlap skip --queue feeds --body '{\"feed\": 7}'
  tenure schedules
  tenure schedules show nightly
  tenure schedules run-now nightly
  tenure schedules pause nightly
  tenure schedules remove nightly")]
pub(crate) struct Schedules {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show all schedules with their next due times
    List,
    /// Add a schedule, or change the one of this name
    Add(Box<Add>),
    /// Show one schedule
    Show {
        /// Name of the schedule
        name: String,
    },
    /// Stop schedules until they are resumed
    Pause {
        /// Names of the schedules
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Let paused schedules fire again
    #[command(alias = "play")]
    Resume {
        /// Names of the schedules
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Submit the task of a schedule now, whatever its times
    RunNow {
        /// Name of the schedule
        name: String,
    },
    /// Remove schedules; their tasks stay
    Remove {
        /// Names of the schedules
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct Add {
    /// Name of the schedule
    #[arg(id = "schedule_name", value_name = "NAME")]
    name: String,
    /// Cron expression: minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "EXPRESSION", required_unless_present = "every", conflicts_with = "every")]
    cron: Option<String>,
    /// Interval, such as 15m or 1h30m
    #[arg(long, value_name = "DURATION")]
    every: Option<String>,
    /// Add it paused
    #[arg(long)]
    paused: bool,
    /// Task body, instead of a command; - reads stdin
    #[arg(long, value_name = "BODY", conflicts_with_all = ["file", "command"])]
    body: Option<String>,
    /// Read the body from a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    #[command(flatten)]
    schedule: ScheduleOptions,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    shell: Shell,
}

impl Add {
    async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let task = self.options.resolved(client).await?.submission(screen.now)?.body(self.body()?);
        let when = match (&self.cron, &self.every) {
            (Some(cron), _) => cron.clone(),
            (None, every) => format!("every {}", every.as_deref().unwrap_or_default()),
        };
        let schedule = self.schedule.schedule(&self.name, &when, task).paused(self.paused);
        client.set_schedule(schedule).await?;
        tell(client, &self.name, screen).await
    }

    fn body(&self) -> Result<Bytes, Failure> {
        if let Some(body) = self.shell.body(&SubmitterEnvironment::of_this_process())? {
            return Ok(body);
        }
        match (&self.file, self.body.as_deref()) {
            (Some(file), _) => read_file(file),
            (None, Some("-")) => read_stdin(),
            (None, Some(text)) => Ok(Bytes::copy_from_slice(text.as_bytes())),
            (None, None) => {
                Err(Failure::usage("nothing to submit: give -- and a command, --body, or --file"))
            }
        }
    }
}

/// Says when a schedule that was set is due next.
async fn tell(client: &Client, name: &str, screen: &Screen) -> Outcome {
    let info = client.schedule(name).await?;
    screen.one(|| sentence(&info), || json::schedule(&info))?;
    Ok(OK)
}

/// The same for `submit`, whose stdout has the name and nothing else.
pub(crate) async fn tell_name(client: &Client, name: &str, screen: &Screen) -> Outcome {
    let info = client.schedule(name).await?;
    screen.one(|| escape_line(name).into_owned(), || json::schedule(&info))?;
    if screen.is_table() {
        remark(sentence(&info));
    }
    Ok(OK)
}

fn sentence(info: &ScheduleInfo) -> String {
    let next = match info.next.first() {
        Some(next) => format!("is due next at {}", rfc3339(next.0)),
        None if info.state == ScheduleState::Paused => "is paused".to_owned(),
        None => "is never due".to_owned(),
    };
    format!("schedule {} {next}", escape_line(&info.schedule))
}

impl Schedules {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let schedules = client.schedules().await?;
                screen.list(
                    || table(&schedules, screen.now),
                    || schedules.iter().map(json::schedule).collect(),
                )?;
            }
            Some(Act::Add(add)) => return add.run(client, screen).await,
            Some(Act::Show { name }) => {
                let info = client.schedule(name.as_str()).await?;
                screen.one(|| lines(&info, screen.now), || json::schedule(&info))?;
            }
            Some(Act::Pause { names }) => {
                for name in names {
                    client.pause_schedule(name.as_str()).await?;
                    print_state(screen, name, "paused")?;
                }
            }
            Some(Act::Resume { names }) => {
                for name in names {
                    client.resume_schedule(name.as_str()).await?;
                    print_state(screen, name, "active")?;
                }
            }
            Some(Act::RunNow { name }) => {
                let accepted = client.run_schedule(name.as_str()).await?;
                screen.one(|| accepted.task.to_string(), || json::accepted(&accepted))?;
            }
            Some(Act::Remove { names }) => {
                for name in names {
                    client.remove_schedule(name.as_str()).await?;
                    print_state(screen, name, "removed")?;
                }
            }
        }
        Ok(OK)
    }
}

fn print_state(screen: &Screen, name: &str, state: &str) -> std::io::Result<()> {
    screen.next(
        || format!("schedule {} is {state}", escape_line(name)),
        || json!({ "schedule": name, "state": state }),
    )
}

fn table(schedules: &[ScheduleInfo], now: u64) -> Table {
    let columns = [
        Column::Flexible("SCHEDULE"),
        Column::Flexible("WHEN"),
        Column::Flexible("QUEUE"),
        Column::Fixed("NEXT"),
        Column::Fixed("LAST"),
        Column::Number("FIRED"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no schedules: `tenure schedules add --help` has examples");
    for info in schedules {
        let note = if info.state == ScheduleState::Paused { "paused" } else { "" };
        table.row([
            info.schedule.to_string().into(),
            when(info).into(),
            info.terms.queue.to_string().into(),
            info.next.first().map(|next| relative(next.0, now)).unwrap_or_default().into(),
            Cell::new(info.last_due.map(|due| relative(due.0, now)).unwrap_or_default(), Color::Dim),
            info.fired.to_string().into(),
            Cell::new(note.to_owned(), Color::Yellow),
        ]);
    }
    table
}

fn when(info: &ScheduleInfo) -> String {
    match &info.zone {
        Some(zone) => format!("{} {zone}", info.when),
        None => info.when.to_string(),
    }
}

fn lines(info: &ScheduleInfo, now: u64) -> String {
    let mut lines = vec![
        format!("schedule   {}", escape_line(&info.schedule)),
        format!("state      {}", info.state.as_str()),
        format!("when       {}", escape_line(&when(info))),
        format!("queue      {}", escape_line(&info.terms.queue)),
    ];
    if info.catch_up != CatchUp::None {
        lines.push(format!("catch up   {}", info.catch_up.as_str()));
    }
    if info.overlap != Overlap::Queue {
        lines.push(format!("overlap    {}", info.overlap.as_str()));
    }
    if info.jitter_ms > 0 {
        let jitter = std::time::Duration::from_millis(info.jitter_ms);
        lines.push(format!("jitter     {}", show_duration(jitter)));
    }
    lines.push(format!("fired      {}, skipped {}", info.fired, info.skipped));
    if let (Some(due), Some(task)) = (info.last_due, info.last_task) {
        lines.push(format!("last       {}, task {task}", relative(due.0, now)));
    }
    for (index, next) in info.next.iter().enumerate() {
        let label = if index == 0 { "next" } else { "" };
        lines.push(format!("{label:<10} {} ({})", rfc3339(next.0), relative(next.0, now)));
    }
    lines.join("\n")
}
