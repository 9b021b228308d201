//! `tenure pause`: pause tasks.

use clap::Args;
use tenure_client::Client;

use super::select::{Targets, UNENDED, Verb};
use crate::exit::Outcome;
use crate::output::Screen;

/// Pause tasks until they are resumed
#[derive(Args, Debug)]
#[command(after_help = "\
To pause a queue: `tenure queues pause NAME`.

Examples:
  tenure pause 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f --reason 'disk is being replaced'
  tenure pause --where submitter=ada --where state=ready --yes")]
pub(crate) struct Pause {
    #[command(flatten)]
    targets: Targets,
    /// Reason, shown with the task
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Pause {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let states = &UNENDED[..UNENDED.len() - 1];
        let verb = Verb { plain: "pause", done: "paused", asked: Some("asked to pause"), states };
        self.targets
            .each(client, screen, verb, async |task| client.pause(task, self.reason.as_deref()).await)
            .await
    }
}
