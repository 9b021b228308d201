//! `tenure retry`: runs ended tasks again.

use clap::Args;
use tenure_client::Client;

use super::select::{Targets, Verb};
use crate::exit::Outcome;
use crate::output::Screen;

/// Run ended tasks again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure retry name:scan-7
  tenure retry --where state=failed --where after=1h --dry-run")]
pub(crate) struct Retry {
    #[command(flatten)]
    targets: Targets,
}

impl Retry {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let verb = Verb {
            plain: "retry",
            done: "retried",
            asked: None,
            states: &["failed", "cancelled"],
            wants_paused: None,
        };
        self.targets.each(client, screen, verb, async |task| client.retry(task).await).await
    }
}
