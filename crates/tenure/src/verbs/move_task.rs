//! `tenure move`: changes queue, priority or tags of waiting tasks.

use clap::Args;
use tenure_client::{Client, Move};

use super::select::{Targets, Verb};
use crate::exit::{Failure, Outcome};
use crate::output::Screen;

/// Change the queue, priority or tags of waiting tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure move name:scan-7 --priority 10
  tenure move --where queue=images --queue images-slow --yes
  tenure move name:scan-7 --tag gpu --tag lab-2          replaces all its tags
  tenure move name:scan-7 --no-tags")]
pub(crate) struct MoveTask {
    #[command(flatten)]
    targets: Targets,
    /// New queue
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// New priority; higher runs first
    #[arg(short, long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// New tags; they replace all old ones
    #[arg(long = "tag", value_name = "NAME", value_delimiter = ',', conflicts_with = "no_tags")]
    tags: Vec<String>,
    /// Remove all tags
    #[arg(long)]
    no_tags: bool,
}

impl MoveTask {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let mut to = Move::default();
        if let Some(queue) = &self.queue {
            to = to.queue(queue.as_str());
        }
        if let Some(priority) = self.priority {
            to = to.priority(priority);
        }
        if !self.tags.is_empty() || self.no_tags {
            to = to.tags(self.tags.iter().map(String::as_str));
        }
        if self.queue.is_none() && self.priority.is_none() && self.tags.is_empty() && !self.no_tags {
            return Err(Failure::usage("nothing to change: add --queue, --priority, --tag or --no-tags"));
        }
        let verb = Verb {
            plain: "move",
            done: "moved",
            asked: None,
            states: &["created", "waiting", "delayed", "ready", "paused"],
            wants_paused: None,
        };
        self.targets.each(client, screen, verb, async |task| client.move_task(task, to.clone()).await).await
    }
}
