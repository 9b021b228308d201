//! `/v1/bulk/{verb}`: one act on many tasks, by their ids or by what they have in common. A dry run only says which
//! tasks it would act on.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::keyspace::glob;
use tenure_hub::words::{
    Answer, ArrayInfo, Command, ListQuery, Query, Refusal, StateName, TaskId, TaskInfo, TaskState,
};
use tenure_hub::{HubRefusal, Request};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate::{self, MoveInput, TimeInput};

/// How many tasks one act may select. Larger sets are acted on in several requests.
const SELECTED_MAX: usize = 100_000;
/// How many tasks are asked for at a time.
const PAGE: usize = 1_000;
/// How many commands are sent at a time.
const COMMANDS_AT_ONCE: usize = 256;
/// How many tasks and refusals an answer names.
const NAMED_MAX: usize = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BulkInput {
    /// These tasks.
    tasks: Option<Vec<String>>,
    /// Or all that match.
    r#where: Option<WhereInput>,
    dry_run: bool,
    reason: Option<String>,
    /// What to change, for `move`.
    to: Option<MoveInput>,
}

/// A task must match all fields that are there; several states mean any of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WhereInput {
    state: Vec<String>,
    /// A pattern: `*` stands for any characters. The name of an array is that of its elements.
    name: Option<String>,
    queue: Option<String>,
    tag: Option<String>,
    worker: Option<String>,
    parent: Option<String>,
    submitter: Option<String>,
    submitted_after: Option<TimeInput>,
    submitted_before: Option<TimeInput>,
    without_elements: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Cancel,
    Pause,
    Resume,
    Retry,
    Release,
    Move,
}

impl Act {
    pub(crate) fn parse(verb: &str) -> Option<Act> {
        Some(match verb {
            "cancel" => Act::Cancel,
            "pause" => Act::Pause,
            "resume" => Act::Resume,
            "retry" => Act::Retry,
            "release" => Act::Release,
            "move" => Act::Move,
            _ => return None,
        })
    }

    /// The states in which the act makes sense, if the request names none.
    pub(crate) fn states(self) -> Vec<StateName> {
        use StateName::{
            Assigned, Cancelled, Created, Delayed, Failed, Paused, Ready, Running, Suspended, Waiting,
        };
        match self {
            Act::Cancel => vec![Created, Waiting, Delayed, Ready, Assigned, Running, Suspended, Paused],
            Act::Pause => vec![Created, Waiting, Delayed, Ready, Assigned, Running, Suspended],
            Act::Resume => vec![Paused, Suspended],
            Act::Retry => vec![Failed, Cancelled],
            Act::Release => vec![Created],
            Act::Move => vec![Created, Waiting, Delayed, Ready, Paused],
        }
    }

    /// Whether the act makes sense for a task in one of these states. Some suspended tasks are paused.
    fn fits(self, state: &TaskState) -> bool {
        match (self, state) {
            (Act::Resume, TaskState::Suspended(_)) => state.pause().is_some(),
            (Act::Pause, TaskState::Suspended(_)) => state.pause().is_none(),
            _ => true,
        }
    }

    fn command(self, task: TaskId, reason: Option<&str>, to: &MoveInput) -> Command {
        let reason = reason.map(Into::into);
        match self {
            Act::Cancel => Command::Cancel { task, reason },
            Act::Pause => Command::Pause { task, reason, terminate: false },
            Act::Resume => Command::Resume { task },
            Act::Retry => Command::Retry { task },
            Act::Release => Command::Release { task },
            Act::Move => Command::Move { task, to: to.clone().to() },
        }
    }
}

pub(crate) async fn act(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let verb = call.path.get("verb")?.to_owned();
    let act = Act::parse(&verb).ok_or_else(|| ProblemDetails::not_found(call.head.uri.path()))?;
    let input: BulkInput = call.json().await?;
    if (act == Act::Move) != input.to.is_some() {
        return Err(ProblemDetails::bad_value("`to` says what a move changes, and only a move has it"));
    }
    let mut hub = call.hub()?;
    let tasks = select(&mut hub, act, &input).await?;
    if input.dry_run {
        let named: Vec<String> = tasks.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        return Ok(reply::json(&json!({
            "verb": verb, "dry_run": true, "matched": tasks.len(), "tasks": named,
        })));
    }
    let to = input.to.clone().unwrap_or_default();
    let mut done = 0;
    let mut refused: Vec<Value> = Vec::new();
    let mut refused_count = 0;
    for some in tasks.chunks(COMMANDS_AT_ONCE) {
        let commands = some.iter().map(|task| act.command(*task, input.reason.as_deref(), &to));
        let replies = hub.ask_many(commands.map(Request::Command).collect()).await;
        let replies = replies.map_err(|no| translate::problem(&no))?;
        for (task, reply) in some.iter().zip(replies) {
            match reply {
                Ok(_) => done += 1,
                // The key does not allow the act at all.
                Err(no @ HubRefusal::Engine(Refusal::NotAllowed { .. })) => {
                    return Err(translate::problem(&no));
                }
                Err(no) => {
                    refused_count += 1;
                    if refused.len() < NAMED_MAX {
                        let problem = translate::problem(&no).json();
                        refused.push(json!({ "task": task.to_string(), "problem": problem }));
                    }
                }
            }
        }
    }
    Ok(reply::json(&json!({
        "verb": verb, "dry_run": false, "matched": tasks.len(), "done": done,
        "refused": refused_count, "problems": refused,
    })))
}

/// The tasks that the request is about.
async fn select(hub: &mut HubAccess, act: Act, input: &BulkInput) -> Result<Vec<TaskId>, ProblemDetails> {
    let too_many = || translate::problem(&Refusal::TooMany { what: "tasks selected", limit: SELECTED_MAX });
    let mut query = match (&input.tasks, &input.r#where) {
        (Some(tasks), None) => {
            if tasks.len() > SELECTED_MAX {
                return Err(too_many());
            }
            let tasks: Result<_, _> = tasks.iter().map(|task| translate::task_id("tasks", task)).collect();
            return tasks.map_err(|no| translate::problem(&no));
        }
        (None, Some(wanted)) => filter(act, wanted).map_err(|no| translate::problem(&no))?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(ProblemDetails::bad_value("name the tasks with either `tasks` or `where`"));
        }
    };
    let name = match input.r#where.as_ref().and_then(|wanted| wanted.name.as_deref()) {
        Some(pattern) => Some(WantedName { pattern, arrays: arrays_named(hub, pattern).await? }),
        None => None,
    };
    let is_meant =
        |task: &TaskInfo| act.fits(&task.state) && name.as_ref().is_none_or(|name| name.is_name_of(task));
    let mut selected = Vec::new();
    loop {
        let Answer::Tasks { tasks, next } = hub.query(Query::List(Box::new(query.clone()))).await? else {
            return Err(ProblemDetails::unexpected());
        };
        selected.extend(tasks.iter().filter(|task| is_meant(task)).map(|task| task.id));
        if selected.len() > SELECTED_MAX {
            return Err(too_many());
        }
        query.cursor = next;
        if query.cursor.is_none() {
            return Ok(selected);
        }
    }
}

/// What tasks are called that are meant.
struct WantedName<'a> {
    pattern: &'a str,
    /// The arrays that are called so: their elements have no names.
    arrays: HashSet<TaskId>,
}

impl WantedName<'_> {
    fn is_name_of(&self, task: &TaskInfo) -> bool {
        let element = task.terms.element(task.id);
        task.name.as_deref().is_some_and(|name| matches(self.pattern, name))
            || element.is_some_and(|element| self.arrays.contains(&element.array))
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    glob(pattern.as_bytes(), name.as_bytes())
}

async fn arrays_named(hub: &mut HubAccess, pattern: &str) -> Result<HashSet<TaskId>, ProblemDetails> {
    let (mut named, mut cursor) = (HashSet::new(), None);
    loop {
        let Answer::Arrays { arrays, next } = hub.query(Query::Arrays { cursor, limit: PAGE }).await? else {
            return Err(ProblemDetails::unexpected());
        };
        let is_meant = |array: &&ArrayInfo| array.name.as_deref().is_some_and(|name| matches(pattern, name));
        named.extend(arrays.iter().filter(is_meant).map(|array| array.id));
        cursor = next;
        if cursor.is_none() {
            return Ok(named);
        }
    }
}

fn filter(act: Act, wanted: &WhereInput) -> Result<ListQuery, HubRefusal> {
    let states: Vec<StateName> =
        wanted.state.iter().map(|state| translate::state(state)).collect::<Result<_, _>>()?;
    let name = |text: &Option<String>| text.as_deref().map(Into::into);
    let at = |what, time: &Option<TimeInput>| time.as_ref().map(|time| time.at(what)).transpose();
    Ok(ListQuery {
        states: if states.is_empty() { act.states() } else { states },
        queue: name(&wanted.queue),
        tag: name(&wanted.tag),
        worker: name(&wanted.worker),
        parent: wanted.parent.as_deref().map(|id| translate::task_id("parent", id)).transpose()?,
        submitter: name(&wanted.submitter),
        submitted_after: at("submitted_after", &wanted.submitted_after)?,
        submitted_before: at("submitted_before", &wanted.submitted_before)?,
        without_elements: wanted.without_elements,
        cursor: None,
        limit: PAGE,
        ..ListQuery::default()
    })
}
