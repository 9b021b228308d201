//! `tenure explain`: why is it not running?

use clap::Args;
use serde_json::json;
use tenure_client::{Client, WhyCode};

use super::which::resolve;
use crate::exit::{OK, Outcome};
use crate::output::paint::harmless;
use crate::output::{Screen, shapes};

/// Tell exactly why a task is not running, and what to do about it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure explain 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure explain name:scan-7 -o json | jq -r .code")]
pub(crate) struct Explain {
    /// An id, at least its first 6 digits, or name:NAME
    #[arg(value_name = "TASK")]
    task: String,
}

impl Explain {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let task = resolve(client, &self.task).await?;
        let why = client.explain(task).await?;
        let text = || {
            let mut text = harmless(&why.message).into_owned();
            if let Some(advice) = advice(&why.code) {
                text += &format!("\n{advice}");
            }
            text
        };
        let value = || {
            let mut value = shapes::why(&why);
            value["task"] = json!(task.to_string());
            value
        };
        screen.one(text, value)?;
        Ok(OK)
    }
}

/// The verb that helps.
fn advice(code: &WhyCode) -> Option<&'static str> {
    match code {
        WhyCode::Held => Some("→ tenure release TASK"),
        WhyCode::Paused => Some("→ tenure resume TASK"),
        WhyCode::QueuePaused => Some("→ tenure queues resume QUEUE"),
        WhyCode::NoWorkerEver | WhyCode::AllLost | WhyCode::Draining => Some("→ start a worker: tenure work --queue QUEUE"),
        WhyCode::NeedsUnmet => Some("→ start a worker with these capabilities, or submit without the need"),
        WhyCode::Quarantined => Some("→ look at the worker, then: tenure workers clear WORKER"),
        WhyCode::TagLimit => Some("→ wait, or raise it: tenure limits set TAG COUNT"),
        WhyCode::AllFull => Some("→ wait, start more workers, or raise its place: tenure move TASK --priority 10"),
        _ => None,
    }
}
