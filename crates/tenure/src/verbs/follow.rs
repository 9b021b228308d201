//! Follows a task to its end: its events as they happen, then its outcome.

use std::time::Duration;

use serde_json::json;
use tenure_client::{Client, Ended, Error, Event, TaskId, Watch, Watched, Watcher};

use super::slot::without_slot;
use crate::exit::{Failure, TASK_CANCELLED, of_task};
use crate::output::label::short;
use crate::output::paint::escape_line;
use crate::output::{Format, Screen, events, json, remark};

/// How often it is seen whether the broker is there, while there is nothing to tell.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Waits for the end of tasks, or until Ctrl-C: then it says that they go on, and how to follow them.
pub(crate) async fn unless_interrupted<T>(
    tasks: &[TaskId],
    waiting: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        ended = without_slot(tasks, waiting) => ended,
        caught = tokio::signal::ctrl_c() => {
            caught.map_err(|error| Failure::system(format!("cannot catch signals: {error}")))?;
            Err(Failure::new(TASK_CANCELLED, goes_on(tasks)))
        }
    }
}

fn goes_on(tasks: &[TaskId]) -> String {
    match tasks {
        [task] => {
            let task = short(*task);
            format!(
                "no longer waiting: the task goes on. Follow it with `tenure wait {task}`, end it with `tenure cancel {task}`"
            )
        }
        tasks => format!(
            "no longer waiting: the {} tasks go on. Follow them with `tenure list` or `tenure watch`",
            tasks.len()
        ),
    }
}

/// Watches one task from now on. What is submitted after this returns is not missed.
pub(crate) async fn begin(client: &Client, task: TaskId) -> Result<Watcher, Failure> {
    Ok(client.watch(Watch::default().task(task)).await?)
}

/// Tells every event until the task has ended, then how it ended. People read the events on stderr, so that stdout has
/// the result alone; programs get everything as lines of JSON, or the end alone where they want one document.
pub(crate) async fn follow_to_end(
    client: &Client,
    mut watcher: Watcher,
    task: TaskId,
    screen: &Screen,
) -> Result<Ended, Failure> {
    while let Some(watched) = next(client, &mut watcher).await {
        if let Some(event) = print_watched(watched?, screen)?
            && event.is_end()
        {
            break;
        }
    }
    Ok(client.wait(task).await?)
}

/// The next item of a watch. The watch reconnects by itself when the broker was away; a message tells the user
/// meanwhile.
pub(crate) async fn next(client: &Client, watcher: &mut Watcher) -> Option<Result<Watched, Error>> {
    let mut is_away = false;
    loop {
        let look = async {
            tokio::time::sleep(LOOK_EVERY).await;
            client.ping().await
        };
        tokio::select! {
            biased;
            watched = watcher.next() => return watched,
            seen = look, if !is_away => if seen.is_err() {
                remark("connection to the broker lost; reconnecting");
                is_away = true;
            },
        }
    }
}

/// The same for a task that was there before the watch: it may have ended already.
pub(crate) async fn from_here(client: &Client, task: TaskId, screen: &Screen) -> Result<Ended, Failure> {
    let watcher = begin(client, task).await?;
    if client.show(task).await?.state.has_ended() {
        return Ok(client.wait(task).await?);
    }
    follow_to_end(client, watcher, task, screen).await
}

/// Tells one thing that a watch of one task brought. Returns the event, if it was one.
fn print_watched(watched: Watched, screen: &Screen) -> Result<Option<Event>, Failure> {
    match watched {
        Watched::Event(event) => {
            let line = || events::line(&event, event.at.0, screen.paint);
            if screen.is_table() {
                remark(line());
            } else if screen.format != Format::Json {
                screen.next(line, || json::event(&event))?;
            }
            Ok(Some(event))
        }
        Watched::Gap { from, to } => {
            if screen.is_table() || screen.format != Format::Json {
                tell_gap(from, to, screen)?;
            }
            Ok(None)
        }
    }
}

pub(crate) fn tell_gap(from: u64, to: u64, screen: &Screen) -> Result<(), Failure> {
    if screen.is_table() {
        remark(if to < from {
            format!("the log of events ends before {from}; it begins again after {to}")
        } else {
            format!("events {from} to {to} are no longer kept")
        });
        return Ok(());
    }
    Ok(screen.next(String::new, || json!({ "gap": { "from": from, "to": to } }))?)
}

/// The last word on a task that was waited for, and the exit code that goes with it.
pub(crate) fn print_end(ended: &Ended, screen: &Screen) -> Result<u8, Failure> {
    if !screen.is_table() {
        screen.one(String::new, || json::ended_with_result(ended))?;
        return Ok(of_task(ended.exit_code));
    }
    if let Some(result) = &ended.result {
        super::logs::print(result)?;
    }
    if ended.exit_code != 0 {
        // The message of a failure may end with the output of its command.
        let message = ended.message.as_deref().map(|message| format!(": {}", escape_line(message)));
        let message = message.unwrap_or_default();
        remark(format!("task {} {}{message}", short(ended.task), ended.state.as_str()));
    }
    Ok(of_task(ended.exit_code))
}
