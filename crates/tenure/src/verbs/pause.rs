//! `tenure pause`: pause tasks.

use clap::Args;
use tenure_client::Client;

use super::select::{Targets, UNENDED, Verb};
use crate::exit::Outcome;
use crate::output::Screen;

/// Pause tasks until they are resumed
#[derive(Args, Debug)]
#[command(after_help = "\
`tenure work` stops a running command in place (SIGSTOP to its process group) and continues it when you resume the
task. Meanwhile the task is `suspended`: the process keeps its memory, but the task takes no slot and no resources of
its worker. With --terminate, or if the worker cannot stop in place, the attempt ends, and a resumed task starts again.

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
    /// End a running attempt instead of stopping it in place
    #[arg(long)]
    terminate: bool,
}

impl Pause {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let states = &UNENDED[..UNENDED.len() - 1];
        let verb = Verb {
            plain: "pause",
            done: "paused",
            asked: Some("asked to pause"),
            states,
            wants_paused: Some(false),
        };
        self.targets
            .each(client, screen, verb, async |task| match self.terminate {
                true => client.pause_and_terminate(task, self.reason.as_deref()).await,
                false => client.pause(task, self.reason.as_deref()).await,
            })
            .await
    }
}
