//! `--notify`: a line of sh that runs on the submitter's machine when the waiting is over.

use std::process::{Command, Stdio};

use tenure_client::{Client, TaskId};

use crate::output::remark;

/// Runs it. What it prints goes to stderr, so that stdout has the result alone. Several arrays are one piece of work to
/// the submitter: their ids are separated by spaces, and their state is that of the first that did not complete.
pub(crate) async fn run(client: &Client, ids: &[TaskId], command: &str) {
    let mut state = "completed".to_owned();
    for id in ids {
        if state == "completed" {
            state = state_of(client, *id).await;
        }
    }
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let status = Command::new("sh")
        .args(["-c", command])
        .env("TENURE_TASK_ID", ids.join(" "))
        .env("TENURE_STATE", state)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => remark(format!("the command of --notify ended with {status}")),
        Err(error) => remark(format!("the command of --notify cannot be started: {error}")),
    }
}

async fn state_of(client: &Client, id: TaskId) -> String {
    match client.show(id).await {
        Ok(task) => task.state.as_str().to_owned(),
        // Retention may have removed it, or it is an array.
        Err(_) => {
            client.array(id).await.map_or("unknown".to_owned(), |array| array.state.as_str().to_owned())
        }
    }
}
