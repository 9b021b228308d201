//! `tenure resume`: lets paused tasks run again.

use clap::Args;
use tenure_client::Client;

use super::select::{Targets, Verb};
use crate::exit::Outcome;
use crate::output::Screen;

/// Resume paused tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure resume 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure resume --where state=paused --where queue=images --yes")]
pub(crate) struct Resume {
    #[command(flatten)]
    targets: Targets,
}

impl Resume {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let verb = Verb {
            plain: "resume",
            done: "resumed",
            asked: None,
            states: &["paused", "suspended"],
            wants_paused: Some(true),
        };
        self.targets.each(client, screen, verb, async |task| client.resume(task).await).await
    }
}
