//! `tenure explain`: says why a task is not running.

use clap::Args;
use serde_json::json;
use tenure_client::{Client, TaskId, Why, WhyCode};

use super::which::resolve;
use crate::exit::{OK, Outcome};
use crate::output::label::{short, with_short_ids};
use crate::output::paint::escape_line;
use crate::output::{Screen, events, json};

/// Explain why a task is not running and what to do
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure explain 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure explain name:scan-7 -o json | jq -r .code")]
pub(crate) struct Explain {
    /// Task id (its last digits are enough) or name:NAME
    #[arg(value_name = "TASK")]
    task: String,
}

impl Explain {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let task = resolve(client, &self.task).await?;
        let why = client.explain(task).await?;
        // How a task ended, a reconciliation for instance, is part of why it does not run.
        let ended = match why.code {
            WhyCode::NotWaiting => client.show(task).await.ok().and_then(|task| task.end?.message),
            _ => None,
        };
        let text = || {
            let mut text = escape_line(&with_short_ids(&why.message)).into_owned();
            if let Some(message) = ended.as_deref().filter(|message| !why.message.contains(message)) {
                text += &format!(": {}", escape_line(&with_short_ids(message)));
            }
            if let Some(prefix) = &why.reconciliation {
                text += &format!("\nsubmitted by {}", events::reconciliation(prefix));
            }
            if let Some(advice) = advice(&why, task) {
                text += &format!("\n{advice}");
            }
            screen.wrapped(&text)
        };
        let value = || {
            let mut value = json::why(&why);
            value["task"] = json!(task.to_string());
            if let Some(message) = &ended {
                value["end_message"] = json!(message);
            }
            value
        };
        screen.one(text, value)?;
        Ok(OK)
    }
}

/// The verb that helps.
fn advice(why: &Why, task: TaskId) -> Option<String> {
    let task = short(task);
    let queue = why.queue.as_deref().unwrap_or("QUEUE");
    let worker = why.worker.as_deref().unwrap_or("WORKER");
    let tag = why.tag.as_deref().unwrap_or("TAG");
    let advice = match &why.code {
        WhyCode::Held => format!("tenure release {task}"),
        WhyCode::Paused => format!("tenure resume {task}"),
        WhyCode::QueuePaused => format!("tenure queues resume {queue}"),
        WhyCode::NoWorkerEver | WhyCode::AllLost => format!("start a worker: tenure work --queue {queue}"),
        WhyCode::Draining => "start another worker, or let one that drains come back".to_owned(),
        WhyCode::NeedsUnmet => "start a worker that offers these capabilities".to_owned(),
        WhyCode::Quarantined => format!("look at the worker, then: tenure workers clear {worker}"),
        WhyCode::TagLimit => format!("wait, or raise it: tenure limits set {tag} COUNT"),
        WhyCode::ArrayLimit => {
            let array = why.array.map(short).unwrap_or_default();
            format!("wait, or raise it: tenure arrays limit {array} COUNT")
        }
        WhyCode::AllFull => format!("wait, start more workers, or: tenure move {task} --priority 10"),
        WhyCode::TooLarge => "start a larger worker, or submit the task with less".to_owned(),
        WhyCode::ResourcesShort | WhyCode::Reserved => "wait, or start more workers".to_owned(),
        _ => return None,
    };
    Some(format!("→ {}", escape_line(&advice)))
}
