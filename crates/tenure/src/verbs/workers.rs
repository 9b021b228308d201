//! `tenure workers`: lists workers and what they hold, and drains them.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{Client, Quantity, ResourceInfo, WorkerInfo};

use crate::exit::{OK, Outcome};
use crate::output::paint::{Color, of_presence};
use crate::output::table::{Cell, Column, Table};
use crate::output::times::relative;
use crate::output::{Screen, json};
use crate::units::{show_duration, show_size};

/// List and drain workers, end a quarantine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure workers
  tenure workers --all                 also those that are gone
  tenure workers drain node-7          it finishes its tasks, then leaves
  tenure workers clear node-7          ends its quarantine")]
pub(crate) struct Workers {
    /// Include workers that are gone
    #[arg(short, long)]
    all: bool,
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show workers
    List,
    /// Let workers finish their tasks and exit
    Drain(Drain),
    /// End the quarantine of workers that crashed too often
    Clear {
        /// Names of the workers
        #[arg(required = true, value_name = "WORKER")]
        workers: Vec<String>,
    },
}

/// Let workers finish their tasks and exit
#[derive(Args, Debug)]
#[command(after_help = "\
To drain the broker itself, send it SIGTERM.

Examples:
  tenure drain node-7 node-8")]
pub(crate) struct Drain {
    /// Names of the workers
    #[arg(required = true, value_name = "WORKER")]
    workers: Vec<String>,
}

impl Drain {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        for worker in &self.workers {
            client.drain_worker(worker.as_str()).await?;
            let text = || format!("worker {worker} is draining: it finishes its tasks and leaves");
            screen.next(text, || json!({ "worker": worker, "draining": true }))?;
        }
        Ok(OK)
    }
}

impl Workers {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let mut workers = client.workers().await?;
                if !self.all {
                    workers.retain(|worker| worker.presence.as_str() != "gone");
                }
                screen.list(|| table(&workers, screen.now), || workers.iter().map(json::worker).collect())?;
                Ok(OK)
            }
            Some(Act::Drain(drain)) => drain.run(client, screen).await,
            Some(Act::Clear { workers }) => {
                for worker in workers {
                    client.clear_worker(worker.as_str()).await?;
                    let text = || format!("worker {worker} is cleared");
                    screen.next(text, || json!({ "worker": worker, "cleared": true }))?;
                }
                Ok(OK)
            }
        }
    }
}

pub(crate) fn table(workers: &[WorkerInfo], now: u64) -> Table {
    let columns = [
        Column::Flexible("WORKER"),
        Column::Fixed("PRESENCE"),
        Column::Number("HOLDS"),
        Column::Number("SLOTS"),
        Column::Spare("RESOURCES"),
        Column::Flexible("QUEUES"),
        Column::Flexible("CAPABILITIES"),
        Column::Fixed("SEEN"),
        Column::Spare("CPU"),
        Column::Spare("MEMORY"),
        Column::Number("CRASHES"),
        Column::Spare("DOOR"),
        Column::Spare("HOST"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no workers: start one with `tenure work`");
    for worker in workers {
        let presence = worker.presence.as_str();
        table.row([
            worker.worker.to_string().into(),
            Cell::new(presence, of_presence(presence)),
            worker.held.len().to_string().into(),
            slots(worker).into(),
            resources(worker).into(),
            worker.queues.join(",").into(),
            worker.capabilities.join(",").into(),
            Cell::new(relative(worker.last_seen.0, now), Color::Dim),
            cpu(worker).into(),
            memory(worker).into(),
            Cell::new(
                if worker.crashes == 0 { String::new() } else { worker.crashes.to_string() },
                Color::Red,
            ),
            worker.door.as_deref().unwrap_or_default().into(),
            worker.host.as_deref().unwrap_or_default().into(),
            Cell::new(note(worker, now), Color::Yellow),
        ]);
    }
    table
}

/// The slots in use and all of them.
fn slots(worker: &WorkerInfo) -> String {
    format!("{}/{}", worker.slots_used, worker.slots)
}

/// Of each resource, what is in use and what there is.
fn resources(worker: &WorkerInfo) -> String {
    let one = |info: &ResourceInfo| {
        let (used, total) = (Quantity(info.used).of(&info.name), Quantity(info.total).of(&info.name));
        format!("{} {used}/{total}", info.name)
    };
    worker.resources.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The recent use of the worker's process, in percent of one processor.
fn cpu(worker: &WorkerInfo) -> String {
    let percent = worker.stats.as_ref().and_then(|stats| stats.cpu_percent);
    percent.map_or_else(String::new, |percent| format!("{percent:.0}%"))
}

fn memory(worker: &WorkerInfo) -> String {
    let used = worker.stats.as_ref().and_then(|stats| stats.memory_used);
    used.map_or_else(String::new, show_size)
}

fn note(worker: &WorkerInfo, now: u64) -> String {
    if let Some(until) = worker.quarantined_until.filter(|until| until.0 > now) {
        return format!("quarantined, ends {}", relative(until.0, now));
    }
    if worker.draining {
        return "draining".to_owned();
    }
    if worker.presence.as_str() == "lost" && !worker.held.is_empty() {
        let lease_ends = worker.last_seen.0.saturating_add(worker.lease_ms);
        let left = Duration::from_millis(lease_ends.saturating_sub(now));
        return format!("its lease has {} left", show_duration(left));
    }
    String::new()
}
