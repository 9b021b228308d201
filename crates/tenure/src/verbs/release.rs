//! `tenure release`: lets held tasks run.

use clap::Args;
use tenure_client::Client;

use super::select::{Targets, Verb};
use crate::exit::Outcome;
use crate::output::Screen;

/// Release tasks that were submitted with --hold
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure release 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure release --where state=created --where tag=batch-7 --yes")]
pub(crate) struct Release {
    #[command(flatten)]
    targets: Targets,
}

impl Release {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let verb = Verb {
            plain: "release",
            done: "released",
            asked: None,
            states: &["created"],
            wants_paused: None,
        };
        self.targets.each(client, screen, verb, async |task| client.release(task).await).await
    }
}
