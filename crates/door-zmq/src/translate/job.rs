//! A task as `mmi.job` shows it.

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{TaskInfo, TaskState, Timestamp};

use crate::mdp::iso8601;

/// `200`, the task, its service, its state, its attempts, who runs it or ran it last, and when it was submitted, is due, was
/// started and has ended. What does not apply is an empty frame. One more says that a reconciliation submitted it.
pub(crate) fn job_frames(info: &TaskInfo) -> Vec<Bytes> {
    let (mut worker, mut due, mut started, mut ended) = (None, None, None, None);
    match &info.state {
        TaskState::Created | TaskState::Waiting { .. } | TaskState::Ready { .. } | TaskState::Paused(_) => {}
        TaskState::Delayed { until } => due = Some(*until),
        TaskState::Assigned(holding) | TaskState::Running(holding) => {
            (worker, started) = (Some(&holding.worker), holding.started_at);
        }
        TaskState::Suspended(suspension) => {
            let holding = &suspension.holding;
            (worker, started) = (Some(&holding.worker), holding.started_at);
        }
        TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => {
            (worker, ended) = (end.worker.as_ref(), Some(end.at));
        }
    }
    let time =
        |at: Option<Timestamp>| at.map_or_else(String::new, |at| iso8601(Duration::from_millis(at.millis())));
    let texts = [
        "200".to_owned(),
        info.id.to_string(),
        info.terms.queue.to_string(),
        info.state.name().as_str().to_owned(),
        info.attempt.to_string(),
        worker.map_or_else(String::new, ToString::to_string),
        time(Some(info.submitted_at)),
        time(due),
        time(started),
        time(ended),
    ];
    let reconciliation = info.reconciliation.as_deref().map(|prefix| format!("reconciliation:{prefix}"));
    texts.into_iter().chain(reconciliation).map(Bytes::from).collect()
}
