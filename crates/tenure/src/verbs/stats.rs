//! `tenure stats`: shows the broker's main figures.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};
use tenure_client::wire::queue::StateCounts;
use tenure_client::{Client, Figure};

use crate::exit::{OK, Outcome};
use crate::output::paint::of_state;
use crate::output::{Screen, json};
use crate::units::show_size;

/// Show counts of tasks, queues and workers
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure stats
  tenure stats --figures   every counter, by the name of its metric
  tenure stats -o json | jq .by_state.ready")]
pub(crate) struct Stats {
    /// Show every counter and gauge of the broker
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
        let used: u64 = live().map(|worker| u64::from(worker.slots_used)).sum();
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
            text += &format!("slots       {used} of {slots} in use\n");
            text += &format!("events      {}\n", counts.last_event);
            text += &disk(&figures);
            text += &doors_text(&doors(&figures));
            if self.figures {
                text += "\n";
                for Figure { name, value } in &figures {
                    text += &format!("{name:<44} {value}\n");
                }
            }
            text
        };
        let value = || {
            let mut value = json::counts(&counts);
            value["broker"] = json!(welcome.software);
            value["namespace"] = json!(&*welcome.namespace);
            value["queues"] = json!(queues.len());
            value["slots"] = json!(slots);
            value["slots_in_use"] = json!(used);
            value["doors"] = json!(doors(&figures));
            let figures: Map<String, Value> =
                figures.iter().map(|figure| (figure.name.to_string(), json!(figure.value))).collect();
            value["figures"] = figures.into();
            value
        };
        screen.one(text, value)?;
        Ok(OK)
    }
}

/// The state of the broker's disk, if the broker reports it.
fn disk(figures: &[Figure]) -> String {
    let find =
        |name: &str| figures.iter().find(|figure| figure.name.ends_with(name)).map(|figure| figure.value);
    let (Some(journal), Some(free)) = (find("journal_bytes"), find("disk_free_bytes")) else {
        return String::new();
    };
    let full = if find("disk_full") == Some(1.0) { ", FULL: new tasks are refused" } else { "" };
    format!("disk        {} of journal, {} free{full}\n", show_size(journal as u64), show_size(free as u64))
}

/// The counters of each door: `tenure_door_total{door="mdp",what="stale"}`.
fn doors(figures: &[Figure]) -> BTreeMap<&str, BTreeMap<&str, u64>> {
    let mut doors: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for Figure { name, value } in figures {
        let labels = name.strip_prefix("tenure_door_total{door=\"").and_then(|rest| rest.strip_suffix("\"}"));
        if let Some((door, what)) = labels.and_then(|labels| labels.split_once("\",what=\"")) {
            doors.entry(door).or_default().insert(what, *value as u64);
        }
    }
    doors
}

fn doors_text(doors: &BTreeMap<&str, BTreeMap<&str, u64>>) -> String {
    let mut text = String::new();
    for (door, counts) in doors {
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        text += &format!("{:<11} {}\n", format!("at {door}"), counts.join(", "));
    }
    text
}

/// All states with their counts, in the order of a task's life.
pub(crate) fn by_state(counts: &StateCounts) -> [(&'static str, u64); 11] {
    [
        ("created", counts.created),
        ("waiting", counts.waiting),
        ("delayed", counts.delayed),
        ("ready", counts.ready),
        ("assigned", counts.assigned),
        ("running", counts.running),
        ("suspended", counts.suspended),
        ("paused", counts.paused),
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_doors_count_is_shown_door_by_door() {
        let figure = |name: &str, value| Figure { name: name.into(), value };
        let figures = [
            figure("tenure_tasks", 7.0),
            figure("tenure_door_total{door=\"pingpong\",what=\"stale\"}", 1.0),
            figure("tenure_door_total{door=\"mdp\",what=\"client_gone\"}", 3.0),
            figure("tenure_door_total{door=\"mdp\",what=\"stale\"}", 2.0),
        ];
        let doors = doors(&figures);
        assert_eq!(doors_text(&doors), "at mdp      3 client_gone, 2 stale\nat pingpong 1 stale\n");
        assert_eq!(json!(doors)["mdp"]["stale"], 2);
    }
}
