//! Which tasks a verb acts on: ids, or every task that matches `--where`.

use clap::Args;
use futures::stream::{self, StreamExt};
use serde_json::json;
use tenure_client::{Client, Error, Query, StateName, TaskId, TaskInfo, Timestamp};

use super::connect::code_of;
use super::which::resolve;
use crate::config::nearest;
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::confirm::confirm;
use crate::output::times::parse_past;

/// How many tasks one act may select.
const SELECTED_MAX: usize = 1_000_000;
/// How many requests are under way at once.
const UNDER_WAY: usize = 256;
const KEYS: [&str; 8] = ["state", "queue", "tag", "worker", "parent", "submitter", "before", "after"];

/// Tasks by id or by what they have in common.
#[derive(Args, Clone, Debug)]
pub(crate) struct Targets {
    /// Tasks: an id, at least its first 6 digits, or name:NAME
    #[arg(value_name = "TASK", required_unless_present = "wanted", conflicts_with = "wanted")]
    tasks: Vec<String>,
    /// Every task that matches, such as state=failed, queue=x, tag=x, worker=x, parent=ID, submitter=x, before=1h,
    /// after=2026-01-31T12:00:00Z; all that are given must match, several states count as either
    #[arg(id = "wanted", long = "where", value_name = "KEY=VALUE")]
    wanted: Vec<String>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before acting on what --where selects
    #[arg(short, long)]
    yes: bool,
}

impl Targets {
    /// Does `act` to each task and tells what became of it.
    pub(crate) async fn each(
        &self,
        client: &Client,
        screen: &Screen,
        verb: Verb,
        act: impl AsyncFn(TaskId) -> Result<(), Error>,
    ) -> Outcome {
        let tasks = self.select(client, screen, verb).await?;
        if self.dry_run {
            return preview(&tasks, screen, verb);
        }
        if !self.wanted.is_empty() && !self.yes && !tasks.is_empty() {
            let question = format!("{} {}", verb.plain, counted(tasks.len()));
            if !confirm(&question)? {
                return Err(Failure::usage("nothing was done"));
            }
        }
        let act = &act;
        let mut results = stream::iter(tasks.iter().copied())
            .map(|task| async move { (task, act(task).await) })
            .buffered(UNDER_WAY);
        let mut tally = Tally { done: 0, refused: Vec::new() };
        while let Some((task, result)) = results.next().await {
            match result {
                Ok(()) => tally.done += 1,
                Err(Error::Refused(refusal)) => tally.refused.push((task, refusal)),
                // Without the broker there is no point in going on.
                Err(error) => return Err(error.into()),
            }
        }
        tally.tell(&tasks, screen, verb)
    }

    async fn select(&self, client: &Client, screen: &Screen, verb: Verb) -> Result<Vec<TaskId>, Failure> {
        let mut tasks = Vec::new();
        if self.wanted.is_empty() {
            for text in &self.tasks {
                tasks.push(resolve(client, text).await?);
            }
            return Ok(tasks);
        }
        let (mut query, names_states) = parse(&self.wanted, screen.now)?;
        if !names_states {
            // Without a word about states, only those where the verb makes sense.
            query = query.states(verb.states.iter().map(|state| StateName::from(*state)));
        }
        let mut listing = client.list(query.page(1_000));
        while let Some(task) = listing.next().await {
            tasks.push(task?.id);
            if tasks.len() > SELECTED_MAX {
                return Err(Failure::usage(format!(
                    "more than {SELECTED_MAX} tasks match: narrow it down with --where"
                )));
            }
        }
        Ok(tasks)
    }
}

/// How a verb is spoken of, and which states it makes sense in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    pub(crate) plain: &'static str,
    pub(crate) done: &'static str,
    pub(crate) states: &'static [&'static str],
}

struct Tally {
    done: usize,
    refused: Vec<(TaskId, Box<tenure_client::Refusal>)>,
}

impl Tally {
    fn tell(self, tasks: &[TaskId], screen: &Screen, verb: Verb) -> Outcome {
        let Tally { done, refused } = self;
        // One task that is refused is an error like any other.
        if let ([_], [(_, refusal)]) = (tasks, refused.as_slice()) {
            return Err(Failure::from(&**refusal));
        }
        let text = || {
            let mut text = match tasks {
                [] => "no task matches".to_owned(),
                [task] => format!("{} {task}", verb.done),
                _ => format!("{} {}", verb.done, counted(done)),
            };
            const SHOWN_MAX: usize = 20;
            for (task, refusal) in refused.iter().take(SHOWN_MAX) {
                text += &format!("\nrefused {task}: {refusal}");
            }
            if refused.len() > SHOWN_MAX {
                text += &format!("\nrefused {} more", refused.len() - SHOWN_MAX);
            }
            text
        };
        let value = || {
            let refused: Vec<_> = refused
                .iter()
                .map(|(task, refusal)| json!({ "task": task.to_string(), "code": refusal.code.as_str(), "message": refusal.message }))
                .collect();
            json!({ "verb": verb.plain, "done": done, "refused": refused })
        };
        screen.one(text, value)?;
        Ok(refused.first().map_or(OK, |(_, refusal)| code_of(&refusal.code)))
    }
}

fn preview(tasks: &[TaskId], screen: &Screen, verb: Verb) -> Outcome {
    let text = || {
        const SHOWN_MAX: usize = 50;
        let mut text = format!("would {} {}", verb.plain, counted(tasks.len()));
        for task in tasks.iter().take(SHOWN_MAX) {
            text += &format!("\n  {task}");
        }
        if tasks.len() > SHOWN_MAX {
            text += &format!("\n  and {} more", tasks.len() - SHOWN_MAX);
        }
        text
    };
    let ids = || tasks.iter().map(ToString::to_string).collect::<Vec<_>>();
    screen.one(text, || json!({ "verb": verb.plain, "dry_run": true, "tasks": ids() }))?;
    Ok(OK)
}

/// Reads `KEY=VALUE` pairs. Says also whether states were named.
pub(crate) fn parse(pairs: &[String], now: u64) -> Result<(Query, bool), Failure> {
    let mut query = Query::default();
    let mut states = Vec::new();
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`{pair}` is not KEY=VALUE: write such as state=failed or queue=images"))
        })?;
        let time = || parse_past(value, now).map(Timestamp).map_err(Failure::usage);
        query = match key {
            "state" | "states" => {
                for state in value.split(',') {
                    states.push(state_name(state)?);
                }
                query
            }
            "queue" => query.queue(value),
            "tag" => query.tag(value),
            "worker" => query.worker(value),
            "submitter" => query.submitter(value),
            "parent" => query.parent(
                value
                    .parse()
                    .map_err(|_| Failure::usage(format!("`{value}` is not a task's id: write all of it")))?,
            ),
            "before" => query.submitted_before(time()?),
            "after" => query.submitted_after(time()?),
            _ => return Err(Failure::usage(nearest::unknown("thing to select by", key, KEYS))),
        };
    }
    let names_states = !states.is_empty();
    Ok((if names_states { query.states(states) } else { query }, names_states))
}

pub(crate) fn state_name(text: &str) -> Result<StateName, Failure> {
    const STATES: [&str; 9] =
        ["created", "delayed", "ready", "assigned", "running", "paused", "completed", "failed", "cancelled"];
    match STATES.contains(&text) {
        true => Ok(StateName::from(text)),
        false => Err(Failure::usage(nearest::unknown("state", text, STATES))),
    }
}

pub(crate) fn counted(tasks: usize) -> String {
    crate::units::counted(tasks as u64, "task", "tasks")
}

/// Tasks that have not ended.
pub(crate) const UNENDED: &[&str] = &["created", "delayed", "ready", "assigned", "running", "paused"];

/// The worker that has to do with a task, if one has.
pub(crate) fn worker_of(task: &TaskInfo) -> Option<&str> {
    let holder = task.holding.as_ref().map(|holding| &*holding.worker);
    holder.or_else(|| task.end.as_ref().and_then(|end| end.worker.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pair: &str) -> String {
        parse(&[pair.to_owned()], 0).err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn what_to_select_by_is_checked_before_anything_is_asked() {
        assert!(refusal("state").contains("KEY=VALUE"));
        assert!(refusal("sate=failed").contains("did you mean `state`"));
        assert!(refusal("state=faild").contains("did you mean `failed`"));
        assert!(refusal("parent=xyz").contains("id"));
        assert!(refusal("before=yesterday").contains("point in time"));
        let pairs = ["state=failed,cancelled", "queue=x", "after=0s"].map(str::to_owned);
        assert!(parse(&pairs, 5).is_ok_and(|(_, names_states)| names_states));
    }
}
