//! `tenure queues`: lists queues, pauses them, and sets their rates and backlog thresholds.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{Client, QueueInfo, Threshold, Thresholds};

use crate::exit::{OK, Outcome};
use crate::output::paint::Color;
use crate::output::table::{Cell, Column, Table};
use crate::output::times::relative;
use crate::output::{Screen, json};
use crate::units::{counted, parse_duration, show_duration};
use crate::verbs::rate::GivenRate;
use crate::verbs::stats::by_state;

/// List, pause and resume queues; set their rates and backlog thresholds
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure queues
  tenure queues pause images        no task of it starts; running tasks continue
  tenure queues resume images
  tenure queues threshold images --depth 1000 --age 5m
                                      report a backlog when 1,000 tasks are ready, or one for 5 minutes
  tenure queues threshold images --default
  tenure queues rate images 100/s   hand out at most 100 tasks in a second
  tenure queues rate images --none
  tenure watch --kind queue-backlog,queue-backlog-cleared")]
pub(crate) struct Queues {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show all queues
    List,
    /// Stop assigning tasks of these queues
    Pause {
        /// Names of the queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Assign tasks of these queues again
    #[command(alias = "play")]
    Resume {
        /// Names of the queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Set when these queues have a backlog: events queue-backlog, and queue-backlog-cleared at half of it
    Threshold {
        /// Names of the queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
        #[command(flatten)]
        thresholds: Given,
    },
    /// Limit how often a task of a queue is assigned
    Rate {
        /// Name of the queue
        queue: String,
        #[command(flatten)]
        rate: GivenRate,
    },
}

/// The thresholds from now on. One that is not given does not apply.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct Given {
    /// A queue has a backlog from this many ready tasks on
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// A queue has a backlog when one task has been ready for this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    age: Option<Duration>,
    /// Set no thresholds: the queues never have a backlog
    #[arg(long, conflicts_with_all = ["depth", "age"])]
    none: bool,
    /// Use the broker's settings backlog_depth and backlog_age again
    #[arg(long, conflicts_with_all = ["depth", "age", "none"])]
    default: bool,
}

impl Given {
    fn thresholds(&self) -> Option<Thresholds> {
        let age_ms = self.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        (!self.default).then_some(Thresholds { depth: self.depth, age_ms })
    }

    fn sentence(&self, queue: &str) -> String {
        let depth =
            self.depth.map(|depth| format!("{} ready", counted(u64::from(depth), "task is", "tasks are")));
        let age = self.age.map(|age| format!("a task has been ready for {}", show_duration(age)));
        match (depth, age) {
            _ if self.default => format!("queue {queue} has the thresholds of all queues again"),
            (None, None) => format!("queue {queue} reports no backlogs"),
            (Some(one), None) | (None, Some(one)) => format!("queue {queue} reports a backlog when {one}"),
            (Some(depth), Some(age)) => format!("queue {queue} reports a backlog when {depth}, or {age}"),
        }
    }
}

impl Queues {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let queues = client.queues().await?;
                screen.list(|| table(&queues, screen), || queues.iter().map(json::queue).collect())?;
            }
            Some(Act::Pause { queues }) => {
                for queue in queues {
                    client.pause_queue(queue.as_str()).await?;
                    screen.next(
                        || format!("paused queue {queue}"),
                        || json!({ "queue": queue, "paused": true }),
                    )?;
                }
            }
            Some(Act::Resume { queues }) => {
                for queue in queues {
                    client.resume_queue(queue.as_str()).await?;
                    screen.next(
                        || format!("resumed queue {queue}"),
                        || json!({ "queue": queue, "paused": false }),
                    )?;
                }
            }
            Some(Act::Rate { queue, rate: given }) => {
                let rate = given.rate();
                client.set_queue_rate(queue.as_str(), rate).await?;
                screen.one(
                    || given.sentence(&format!("queue {queue}")),
                    || json!({ "queue": queue, "rate": rate.as_ref().map(json::rate) }),
                )?;
            }
            Some(Act::Threshold { queues, thresholds: given }) => {
                for queue in queues {
                    let thresholds = given.thresholds();
                    client.set_thresholds(queue.as_str(), thresholds).await?;
                    screen.next(
                        || given.sentence(queue),
                        || json!({ "queue": queue, "thresholds": thresholds.as_ref().map(json::thresholds) }),
                    )?;
                }
            }
        }
        Ok(OK)
    }
}

const NO_QUEUES: &str = "no queues: the first task makes its own";
/// The width that a column for each state needs.
const WIDE: usize = 120;

fn table(queues: &[QueueInfo], screen: &Screen) -> Table {
    if screen.width < WIDE { narrow(queues, screen.now) } else { wide(queues, screen.now) }
}

/// For a narrow terminal: all counts in one column.
fn narrow(queues: &[QueueInfo], now: u64) -> Table {
    let columns = [
        Column::Flexible("QUEUE"),
        Column::Number("WORKERS"),
        Column::Flexible("TASKS"),
        Column::Fixed("NEXT SINCE"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, NO_QUEUES);
    for queue in queues {
        let counts = by_state(&queue.counts).into_iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
        table.row([
            queue.queue.to_string().into(),
            queue.live_workers.to_string().into(),
            counts.join(", ").into(),
            Cell::new(queue.oldest_ready.map(|at| relative(at.0, now)).unwrap_or_default(), Color::Dim),
            Cell::new(note(queue, now), Color::Yellow),
        ]);
    }
    table
}

fn wide(queues: &[QueueInfo], now: u64) -> Table {
    let columns = [
        Column::Flexible("QUEUE"),
        Column::Number("WORKERS"),
        Column::Number("READY"),
        Column::Number("WAITING"),
        Column::Number("DELAYED"),
        Column::Number("CREATED"),
        Column::Number("ASSIGNED"),
        Column::Number("RUNNING"),
        Column::Number("SUSPENDED"),
        Column::Number("PAUSED"),
        Column::Number("COMPLETED"),
        Column::Number("FAILED"),
        Column::Number("CANCELLED"),
        Column::Fixed("NEXT SINCE"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, NO_QUEUES);
    for queue in queues {
        let counts = &queue.counts;
        let number = |count: u64, color: Color| {
            if count == 0 { Cell::from("") } else { Cell::new(count.to_string(), color) }
        };
        let workers = if queue.live_workers == 0 && counts.ready > 0 { Color::Red } else { Color::Plain };
        table.row([
            Cell::new(queue.queue.to_string(), Color::Plain),
            Cell::new(queue.live_workers.to_string(), workers),
            number(counts.ready, Color::Blue),
            number(counts.waiting, Color::Dim),
            number(counts.delayed, Color::Dim),
            number(counts.created, Color::Dim),
            number(counts.assigned, Color::Cyan),
            number(counts.running, Color::Green),
            number(counts.suspended, Color::Dim),
            number(counts.paused, Color::Yellow),
            number(counts.completed, Color::Plain),
            number(counts.failed, Color::Red),
            number(counts.cancelled, Color::Yellow),
            Cell::new(queue.oldest_ready.map(|at| relative(at.0, now)).unwrap_or_default(), Color::Dim),
            Cell::new(note(queue, now), Color::Yellow),
        ]);
    }
    table
}

fn note(queue: &QueueInfo, now: u64) -> String {
    let mut notes = Vec::new();
    match queue.unserved_since {
        _ if queue.paused => notes.push("paused".to_owned()),
        Some(since) => notes.push(format!("no worker can take its tasks since {}", relative(since.0, now))),
        None if !queue.ever_served => notes.push("no worker ever".to_owned()),
        None => {}
    }
    if !queue.backlog.is_empty() {
        let by: Vec<&str> = queue.backlog.iter().map(Threshold::as_str).collect();
        notes.push(format!("backlog by {}", by.join(" and ")));
    }
    if let Some(rate) = queue.rate {
        notes.push(format!("rate {rate}"));
    }
    notes.join(", ")
}
