//! `tenure stats`: the broker at a glance.

use clap::Args;
use serde_json::{Map, Value, json};
use tenure_client::wire::queue::StateCounts;
use tenure_client::{Client, Figure};

use crate::exit::{OK, Outcome};
use crate::output::paint::of_state;
use crate::output::{Screen, shapes};
use crate::units::show_size;

/// Show numbers at a glance
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure stats
  tenure stats --figures                   every counter of the broker, by the name of its metric
  tenure stats -o json | jq .by_state.ready")]
pub(crate) struct Stats {
    /// Every counter and measure of the broker
    #[arg(long)]
    figures: bool,
}

impl Stats {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let (counts, queues, workers) =
            (client.counts().await?, client.queues().await?, client.workers().await?);
        let figures = client.stats().await?;
        let welcome = client.welcome();
        let live = || workers.iter().filter(|worker| worker.presence.as_str() == "live");
        let slots: u64 = live().map(|worker| u64::from(worker.slots)).sum();
        let held: u64 = live().map(|worker| worker.held.len() as u64).sum();
        let text = || {
            let broker = welcome.software.as_deref().unwrap_or("unknown");
            let shown: Vec<String> = by_state(&counts.by_state)
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(state, count)| {
                    screen.paint.apply(of_state(state), format!("{count} {state}")).into_owned()
                })
                .collect();
            let tasks = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
            let mut text = format!("broker      {broker}, namespace {}\n", welcome.namespace);
            text += &format!("tasks       {tasks}\n");
            text += &format!("queues      {}\n", queues.len());
            text += &format!("workers     {} live, {} lost\n", counts.live_workers, counts.lost_workers);
            text += &format!("slots       {held} of {slots} in use\n");
            text += &format!("events      {}\n", counts.last_event);
            text += &disk(&figures);
            if self.figures {
                text += "\n";
                for Figure { name, value } in &figures {
                    text += &format!("{name:<44} {value}\n");
                }
            }
            text
        };
        let value = || {
            let mut value = shapes::counts(&counts);
            value["broker"] = json!(welcome.software);
            value["namespace"] = json!(&*welcome.namespace);
            value["queues"] = json!(queues.len());
            value["slots"] = json!(slots);
            value["slots_in_use"] = json!(held);
            let figures: Map<String, Value> =
                figures.iter().map(|figure| (figure.name.to_string(), json!(figure.value))).collect();
            value["figures"] = figures.into();
            value
        };
        screen.one(text, value)?;
        Ok(OK)
    }
}

/// What the broker says of its disk, if it says so.
fn disk(figures: &[Figure]) -> String {
    let find =
        |name: &str| figures.iter().find(|figure| figure.name.ends_with(name)).map(|figure| figure.value);
    let (Some(journal), Some(free)) = (find("journal_bytes"), find("disk_free_bytes")) else {
        return String::new();
    };
    let full = if find("disk_full") == Some(1.0) { ", FULL: new tasks are refused" } else { "" };
    format!("disk        {} of journal, {} free{full}\n", show_size(journal as u64), show_size(free as u64))
}

/// All states with their counts, in the order of a task's life.
pub(crate) fn by_state(counts: &StateCounts) -> [(&'static str, u64); 9] {
    [
        ("created", counts.created),
        ("delayed", counts.delayed),
        ("ready", counts.ready),
        ("assigned", counts.assigned),
        ("running", counts.running),
        ("paused", counts.paused),
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
    ]
}
