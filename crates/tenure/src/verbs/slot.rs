//! Waiting inside a task of `tenure work`: the worker lends the slot of the task to others meanwhile, so that the tasks
//! that it waits for can run there.

use tenure_client::TaskId;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::output::remark;
use crate::work::control::{ControlReply, ControlRequest, TASKS_MAX, VARIABLE};

/// Waits without the slot of the surrounding task, and returns when that has it again. Outside a task it only waits.
pub(crate) async fn without_slot<T>(tasks: &[TaskId], waiting: impl Future<Output = T>) -> T {
    let lent = lend(tasks).await;
    let ended = waiting.await;
    if let Some(lent) = lent
        && let Some(why) = lent.take_back().await
    {
        remark(format!("this task kept its slot while it waited: {why}"));
    }
    ended
}

/// A slot that others may use.
struct LentSlot {
    control: BufReader<UnixStream>,
}

/// `None` outside a task, and where the worker cannot be reached: then the task keeps its slot.
async fn lend(tasks: &[TaskId]) -> Option<LentSlot> {
    let socket = std::env::var_os(VARIABLE)?;
    let task = std::env::var("TENURE_TASK_ID").ok()?;
    let attempt = std::env::var("TENURE_ATTEMPT").ok()?.parse().ok()?;
    if tasks.is_empty() || tasks.len() > TASKS_MAX {
        return None;
    }
    let mut control = BufReader::new(UnixStream::connect(socket).await.ok()?);
    let on = tasks.iter().map(ToString::to_string).collect();
    send(&mut control, &ControlRequest::Wait { task, attempt, on }).await.ok()?;
    Some(LentSlot { control })
}

impl LentSlot {
    /// Returns when the task has its slot, with why it had it all the time if it did.
    async fn take_back(mut self) -> Option<String> {
        // A worker that has gone takes this process with it.
        send(&mut self.control, &ControlRequest::GoOn).await.ok()?;
        let mut line = String::new();
        self.control.read_line(&mut line).await.ok()?;
        match serde_json::from_str(&line).ok()? {
            ControlReply::Continued => None,
            ControlReply::Refused(why) => Some(why),
        }
    }
}

async fn send(control: &mut BufReader<UnixStream>, asked: &ControlRequest) -> std::io::Result<()> {
    let line = serde_json::to_string(asked)? + "\n";
    control.write_all(line.as_bytes()).await?;
    control.flush().await
}
