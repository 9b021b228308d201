//! `tenure cancel`: cancels tasks.

use clap::Args;
use tenure_client::Client;

use super::select::{Targets, UNENDED, Verb};
use crate::exit::Outcome;
use crate::output::Screen;

/// Cancel tasks and their children
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure cancel 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure cancel name:scan-7 --reason 'wrong sample'
  tenure cancel --where queue=images --where state=ready --dry-run
  tenure cancel --where tag=gpu --yes")]
pub(crate) struct Cancel {
    #[command(flatten)]
    targets: Targets,
    /// Reason, shown to the submitter
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Cancel {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let verb = Verb {
            plain: "cancel",
            done: "cancelled",
            asked: Some("asked to cancel"),
            states: UNENDED,
            wants_paused: None,
        };
        self.targets
            .each(client, screen, verb, async |task| client.cancel(task, self.reason.as_deref()).await)
            .await
    }
}
