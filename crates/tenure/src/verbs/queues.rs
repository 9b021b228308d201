//! `tenure queues`: what waits where, and pausing whole queues.

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{Client, QueueInfo};

use crate::exit::{OK, Outcome};
use crate::output::paint::Color;
use crate::output::table::{Cell, Column, Table};
use crate::output::times::relative;
use crate::output::{Screen, shapes};

/// List, pause and resume queues
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure queues
  tenure queues pause images          nothing of it starts; what runs goes on
  tenure queues resume images")]
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
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Assign tasks of these queues again
    #[command(alias = "play")]
    Resume {
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
}

impl Queues {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let queues = client.queues().await?;
                screen.list(|| table(&queues, screen.now), || queues.iter().map(shapes::queue).collect())?;
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
        }
        Ok(OK)
    }
}

pub(crate) fn table(queues: &[QueueInfo], now: u64) -> Table {
    let columns = [
        Column::Flexible("QUEUE"),
        Column::Number("WORKERS"),
        Column::Number("READY"),
        Column::Number("DELAYED"),
        Column::Number("CREATED"),
        Column::Number("ASSIGNED"),
        Column::Number("RUNNING"),
        Column::Number("PAUSED"),
        Column::Number("COMPLETED"),
        Column::Number("FAILED"),
        Column::Number("CANCELLED"),
        Column::Fixed("NEXT SINCE"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no queues: the first task makes its own");
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
            number(counts.delayed, Color::Dim),
            number(counts.created, Color::Dim),
            number(counts.assigned, Color::Cyan),
            number(counts.running, Color::Green),
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
    if queue.paused {
        return "paused".to_owned();
    }
    match queue.unserved_since {
        Some(since) => format!("no worker can take its tasks since {}", relative(since.0, now)),
        None if !queue.ever_served => "no worker ever".to_owned(),
        None => String::new(),
    }
}
