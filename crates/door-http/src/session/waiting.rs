//! A wait: over when all tasks and arrays have ended, or after its timeout.

use std::time::Duration;

use tenure_door_kit::WaitForEnds;
use tenure_hub::words::TaskId;

use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::translate;

/// Waits until all tasks and arrays have ended, or for this long. Returns those that have not ended.
pub(crate) async fn wait(
    peer: &HttpPeer,
    tasks: &[TaskId],
    timeout: Duration,
) -> Result<Vec<TaskId>, ProblemDetails> {
    let mut wait = WaitForEnds::new(peer.open()?, tasks.to_vec()).map_err(|no| translate::problem(&no))?;
    wait.run(Some(timeout), |_| ()).await.map_err(|no| translate::problem(&no))?;
    Ok(wait.left().collect())
}
