//! Says which attempts crashed without leaving any output, so that an empty log is not taken for a silent command.

use std::ops::ControlFlow;
use std::time::Duration;

use tenure_client::wire::request::Watch;
use tenure_client::{Event, EventKind, TaskInfo};

use super::history::{self, Past};
use crate::args::Global;
use crate::output::paint::escape_line;
use crate::output::{events, remark};
use crate::units::counted;

/// How many attempts are named.
const NAMED_MAX: usize = 3;
/// How long the log of events is read.
const READING_MAX: Duration = Duration::from_secs(10);

/// Remarks on the crashed attempts that `concerns` selects: those whose output is asked for, and of which nothing is kept.
pub(crate) async fn remark_crashed(global: &Global, task: &TaskInfo, concerns: impl Fn(u32) -> bool) {
    if task.crashes == 0 || !(1..=task.attempt).any(&concerns) {
        return;
    }
    let mut crashed = read(global, task).await;
    crashed.retain(|event| concerns(event.attempt));
    for event in crashed.iter().take(NAMED_MAX) {
        let worker = event.worker.as_deref().map(escape_line).unwrap_or_default();
        let reason = event.more.as_deref().map(events::lost).unwrap_or_default();
        remark(format!(
            "no output is kept of attempt {}: it crashed on worker {worker} ({reason}), and what the worker had not sent \
             yet is lost",
            event.attempt
        ));
    }
    if let more @ 1.. = crashed.len().saturating_sub(NAMED_MAX) {
        remark(format!("the same is true of {}", counted(more as u64, "other attempt", "other attempts")));
    }
}

/// The crashes of a task that the log of events still has. A remark is not worth an error.
async fn read(global: &Global, task: &TaskInfo) -> Vec<Event> {
    let mut crashed = Vec::new();
    let kinds = vec![EventKind::Crashed];
    let watch = Watch { from: Some(1), task: Some(task.id), kinds, ..Watch::default() };
    let reading = history::read(global, watch, async |past| {
        if let Past::Event(event) = past {
            crashed.push(event);
        }
        Ok(ControlFlow::Continue(()))
    });
    let _ = tokio::time::timeout(READING_MAX, reading).await;
    crashed
}
