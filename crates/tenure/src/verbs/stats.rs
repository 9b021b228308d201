//! `tenure stats`: the broker at a glance.

use clap::Args;
use serde_json::json;
use tenure_client::wire::queue::StateCounts;
use tenure_client::Client;

use crate::exit::{OK, Outcome};
use crate::output::paint::of_state;
use crate::output::{Screen, shapes};

/// Show numbers at a glance
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure stats
  tenure stats -o json | jq .by_state.ready")]
pub(crate) struct Stats {}

impl Stats {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let (counts, queues, workers) = (client.counts().await?, client.queues().await?, client.workers().await?);
        let welcome = client.welcome();
        let live = || workers.iter().filter(|worker| worker.presence.as_str() == "live");
        let slots: u64 = live().map(|worker| u64::from(worker.slots)).sum();
        let held: u64 = live().map(|worker| worker.held.len() as u64).sum();
        let text = || {
            let mut text = format!(
                "broker      {}, namespace {}\n",
                welcome.software.as_deref().unwrap_or("unknown"),
                welcome.namespace
            );
            text += "tasks       ";
            let shown: Vec<String> = by_state(&counts.by_state)
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(state, count)| screen.paint.apply(of_state(state), format!("{count} {state}")).into_owned())
                .collect();
            text += &if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
            text += &format!("\nqueues      {}\n", queues.len());
            text += &format!("workers     {} live, {} lost\n", counts.live_workers, counts.lost_workers);
            text += &format!("slots       {held} of {slots} in use\n");
            text += &format!("events      {}\n", counts.last_event);
            text
        };
        let value = || {
            let mut value = shapes::counts(&counts);
            value["broker"] = json!(welcome.software);
            value["namespace"] = json!(&*welcome.namespace);
            value["queues"] = json!(queues.len());
            value["slots"] = json!(slots);
            value["slots_in_use"] = json!(held);
            value
        };
        screen.one(text, value)?;
        Ok(OK)
    }
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
