//! Plans: tasks that are held back until they are deleted. So they are durable and can be seen through every door.
//!
//! A plan is two of them: its place, which has the plan's name, and on it the recipe. Deleting cancels both. The broker
//! remembers what has ended for a while, and with it the name; so a plan that comes again takes its place up again and
//! puts a new recipe there. One question finds a plan, whatever the broker has forgotten meanwhile.

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_hub::words::{Command, ListQuery, Name, NewTask, Refusal, StateName, TaskId, TaskInfo, Timestamp};
use tenure_hub::{Request, Submission, fresh_id};
use tenure_plans::Plan;

use super::names::{PLANS, live_states, plan_name, plan_of_recipe, plan_tag, recipe_name};
use super::pages::{find_name, list, take_up};
use super::refusals::refusal;
use super::render::time;
use super::submit::accepted;
use crate::codec::Reply;
use crate::command::{Page, PlanCommand};
use crate::errand::Step;
use crate::glob::glob;

pub(super) fn start(command: PlanCommand) -> Step {
    match command {
        PlanCommand::Submit { plan, json } => {
            let json: Value = serde_json::from_slice(&json).unwrap_or(Value::Null);
            submit_plan(plan.id, json)
        }
        PlanCommand::Get { plan } => get_plan(&plan),
        PlanCommand::List { pattern, page } => list_plans(pattern, page),
        PlanCommand::Delete { plan } => delete_plan(plan),
    }
}

/// A stored plan as it was submitted, and as we understand it. Answers for itself if there is none.
pub(super) fn with_plan(
    plan: String,
    then: impl FnOnce(Timestamp, Plan, Value) -> Step + Send + 'static,
) -> Step {
    find_plan(&plan.clone(), move |_, found| {
        let Some(recipe) = found else { return Step::error(format!("ERR Plan not found: {plan}")) };
        Step::read(recipe.body, move |now, body| match body {
            Err(reason) => Step::Reply(refusal(&reason)),
            Ok(body) => match (Plan::parse(&body), serde_json::from_slice(&body)) {
                (Ok(plan), Ok(json)) => then(now, plan, json),
                _ => Step::error(format!("ERR Plan not found: {plan}")),
            },
        })
    })
}

/// Stores a plan that came along with a job. The same plan twice is one; another one under its id is refused.
pub(super) fn store_plan(
    plan: &str,
    json: &Value,
    then: impl FnOnce(Timestamp, Result<(), Reply>) -> Step + Send + 'static,
) -> Step {
    let (plan, json) = (plan.to_owned(), json.clone());
    look_up(&plan.clone(), move |now, place| match place {
        Place::Open { recipe: Some(recipe), .. } => Step::read(recipe.body, move |_, body| {
            let same = body.is_ok_and(|body| body == json.to_string());
            then(now, if same { Ok(()) } else { Err(exists(&plan)) })
        }),
        place => store(now, plan, &json, &place, then),
    })
}

/// The task that holds a plan's recipe.
pub(super) fn find_plan(
    plan: &str,
    then: impl FnOnce(Timestamp, Option<Box<TaskInfo>>) -> Step + Send + 'static,
) -> Step {
    look_up(plan, move |now, place| match place {
        Place::Open { recipe, .. } => then(now, recipe),
        Place::None | Place::Ended(_) | Place::Taken => then(now, None),
    })
}

/// Where a plan is, or would be.
enum Place {
    None,
    /// Remembered from a plan that was deleted.
    Ended(TaskId),
    /// A place without a recipe is left behind by somebody who was cut off while storing.
    Open {
        place: TaskId,
        recipe: Option<Box<TaskInfo>>,
    },
    /// The name belongs to a task of another door.
    Taken,
}

fn look_up(plan: &str, then: impl FnOnce(Timestamp, Place) -> Step + Send + 'static) -> Step {
    find_name(plan_name(plan), move |now, found| match found {
        Err(_) => then(now, Place::None),
        Ok(task) if *task.terms.queue != *PLANS => then(now, Place::Taken),
        Ok(task) if task.state.name().has_ended() => then(now, Place::Ended(task.id)),
        Ok(task) => {
            let place = task.id;
            first_recipe(place, move |now, recipe| then(now, Place::Open { place, recipe }))
        }
    })
}

fn first_recipe(
    place: TaskId,
    then: impl FnOnce(Timestamp, Option<Box<TaskInfo>>) -> Step + Send + 'static,
) -> Step {
    let recipes = ListQuery { parent: Some(place), ..held_in(PLANS) };
    list(recipes, 1, |_| true, move |now, mut recipes| then(now, recipes.pop().map(Box::new)))
}

fn submit_plan(plan: String, json: Value) -> Step {
    look_up(&plan.clone(), move |now, place| {
        store(now, plan.clone(), &json, &place, move |_, stored| {
            Step::Reply(match stored {
                Ok(()) => Reply::bulk(plan),
                Err(reply) => reply,
            })
        })
    })
}

fn store(
    now: Timestamp,
    plan: String,
    json: &Value,
    place: &Place,
    then: impl FnOnce(Timestamp, Result<(), Reply>) -> Step + Send + 'static,
) -> Step {
    let body = Bytes::from(json.to_string());
    match *place {
        Place::None => store_first(plan, body, then),
        Place::Ended(place) => take_up(place, move || store_again(plan, body, place, then)),
        Place::Open { place, recipe: None } => store_again(plan, body, place, then),
        Place::Open { recipe: Some(_), .. } | Place::Taken => then(now, Err(exists(&plan))),
    }
}

/// The place and the recipe together. If somebody else has made the place meanwhile, the recipe has none and is refused.
fn store_first(
    plan: String,
    body: Bytes,
    then: impl FnOnce(Timestamp, Result<(), Reply>) -> Step + Send + 'static,
) -> Step {
    let mut place = NewTask::new(fresh_id(), PLANS);
    place.name = Some(plan_name(&plan));
    place.hold = true;
    let recipe = recipe(&plan, place.id, body);
    let both = vec![Submission::new(place, Bytes::new()), recipe];
    Step::ask(Request::Submit(both), move |now, outcome| {
        then(
            now,
            match accepted(outcome) {
                Ok(_) => Ok(()),
                Err(Refusal::BadParent { .. } | Refusal::NameTaken { .. }) => Err(exists(&plan)),
                Err(reason) => Err(refusal(&reason)),
            },
        )
    })
}

/// A recipe on a place that is there. Of two that come at the same time, the first one stays.
fn store_again(
    plan: String,
    body: Bytes,
    place: TaskId,
    then: impl FnOnce(Timestamp, Result<(), Reply>) -> Step + Send + 'static,
) -> Step {
    let recipe = recipe(&plan, place, body);
    let own = recipe.task.id;
    Step::ask(Request::Submit(vec![recipe]), move |now, outcome| match accepted(outcome) {
        Err(Refusal::BadParent { .. }) => {
            then(now, Err(Reply::error(format!("ERR Plan {plan} was deleted meanwhile, submit it again"))))
        }
        Err(reason) => then(now, Err(refusal(&reason))),
        Ok(_) => first_recipe(place, move |now, first| {
            if first.is_some_and(|first| first.id == own) {
                return then(now, Ok(()));
            }
            let cancel = Command::Cancel { task: own, reason: Some("another one was first".into()) };
            Step::ask(Request::Command(cancel), move |now, _| then(now, Err(exists(&plan))))
        }),
    })
}

fn recipe(plan: &str, place: TaskId, body: Bytes) -> Submission {
    let mut task = NewTask::new(fresh_id(), PLANS);
    task.name = Some(recipe_name(plan, task.id));
    task.parent = Some(place);
    task.hold = true;
    Submission::new(task, body)
}

fn exists(plan: &str) -> Reply {
    Reply::error(format!("ERR Plan already exists: {plan}"))
}

fn get_plan(plan: &str) -> Step {
    find_plan(plan, |_, found| match found {
        None => Step::Reply(Reply::Null),
        Some(task) => Step::read(task.body, |_, body| {
            Step::Reply(body.map_or_else(|reason| refusal(&reason), Reply::bulk))
        }),
    })
}

fn list_plans(pattern: Option<Bytes>, page: Page) -> Step {
    let fits = move |task: &TaskInfo| {
        let plan = task.name.as_deref().and_then(plan_of_recipe);
        plan.is_some_and(|plan| pattern.as_ref().is_none_or(|pattern| glob(pattern, plan.as_bytes())))
    };
    list(held_in(PLANS), page.offset.saturating_add(page.limit), fits, move |_, tasks| {
        // They are taken from the end.
        let tasks: Vec<TaskInfo> = tasks.into_iter().skip(page.offset).rev().collect();
        describe_plans(tasks, Vec::new())
    })
}

/// Reads one plan after the other.
fn describe_plans(mut tasks: Vec<TaskInfo>, mut shown: Vec<Reply>) -> Step {
    let Some(task) = tasks.pop() else { return Step::Reply(Reply::Array(shown)) };
    Step::read(task.body, move |_, body| {
        let plan: Value =
            body.ok().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or(Value::Null);
        let steps = plan["tasks"].as_array().map_or(0, Vec::len);
        let summary = json!({
            "plan_id": plan["plan_id"], "plan_description": plan["plan_description"],
            "description": plan["plan_description"], "task_count": steps, "created_at": time(task.submitted_at),
        });
        shown.push(Reply::bulk(summary.to_string()));
        describe_plans(tasks, shown)
    })
}

fn delete_plan(plan: String) -> Step {
    look_up(&plan.clone(), move |_, found| {
        let Place::Open { place, recipe: Some(_) } = found else { return Step::Reply(Reply::Integer(0)) };
        let jobs = ListQuery { states: live_states(), tag: Some(plan_tag(&plan)), ..ListQuery::default() };
        list(
            jobs,
            1,
            |_| true,
            move |_, jobs| {
                if !jobs.is_empty() {
                    return Step::error("ERR Cannot delete plan with active jobs");
                }
                let cancel = Command::Cancel { task: place, reason: Some("the plan was deleted".into()) };
                Step::last(Request::Command(cancel), |_, outcome| {
                    outcome.map_or_else(|reason| refusal(&reason), |_| Reply::Integer(1))
                })
            },
        )
    })
}

pub(super) fn held_in(queue: &str) -> ListQuery {
    let states = vec![StateName::Created, StateName::Ready, StateName::Paused];
    ListQuery { states, queue: Some(Name::from(queue)), ..ListQuery::default() }
}
