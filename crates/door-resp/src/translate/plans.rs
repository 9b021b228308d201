//! Plans: tasks that are held back until they are deleted, with the recipe as their body. So they are durable and can be
//! seen through every door.

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_hub::words::{Command, ListQuery, Name, NewTask, StateName, TaskInfo, Timestamp};
use tenure_hub::{Request, Submission, fresh_id};

use super::names::{PLANS, live_states, plan_name, plan_of_name, plan_tag};
use super::pages::{find_name, list};
use super::refusals::refusal;
use super::render::time;
use super::submit::accepted;
use crate::codec::Reply;
use crate::command::{Page, PlanCommand};
use crate::errand::Step;
use crate::glob::glob;
use crate::shapes::Plan;

/// How often a plan may be deleted and submitted anew under the same id while the old ones are remembered.
const EDITIONS_MAX: u32 = 1000;

pub(super) fn start(command: PlanCommand) -> Step {
    match command {
        PlanCommand::Submit { plan, json } => {
            let json: Value = serde_json::from_slice(&json).unwrap_or(Value::Null);
            submit_plan(&plan.id.clone(), json, 0)
        }
        PlanCommand::Get { plan } => get_plan(plan),
        PlanCommand::List { pattern, page } => list_plans(pattern, page),
        PlanCommand::Delete { plan } => delete_plan(plan),
    }
}

/// A stored plan as it was submitted, and as we understand it. Answers for itself if there is none.
pub(super) fn with_plan(
    plan: String,
    then: impl FnOnce(Timestamp, Option<(Plan, Value)>) -> Step + Send + 'static,
) -> Step {
    find_plan(plan.clone(), 0, move |_, found| {
        let Some(task) = found else { return Step::error(format!("ERR Plan not found: {plan}")) };
        Step::read(task.body, move |now, body| match body {
            Err(reason) => Step::Reply(refusal(&reason)),
            Ok(body) => match (Plan::parse(&body), serde_json::from_slice(&body)) {
                (Ok(plan), Ok(json)) => then(now, Some((plan, json))),
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
    find_plan(plan.clone(), 0, move |now, found| match found {
        None => Step::ask(Request::Submit(vec![stored(&plan, &json, 0)]), move |now, outcome| {
            then(now, accepted(outcome).map(drop).map_err(|_| exists(&plan)))
        }),
        Some(task) => Step::read(task.body, move |_, body| {
            let same = body.is_ok_and(|body| body == json.to_string());
            then(now, if same { Ok(()) } else { Err(exists(&plan)) })
        }),
    })
}

/// The task that keeps a plan. A deleted one stays under its name for a while, so the next edition has another.
pub(super) fn find_plan(
    plan: String,
    edition: u32,
    then: impl FnOnce(Timestamp, Option<Box<TaskInfo>>) -> Step + Send + 'static,
) -> Step {
    find_edition(plan, edition, Box::new(then))
}

type ThenPlan = Box<dyn FnOnce(Timestamp, Option<Box<TaskInfo>>) -> Step + Send>;

fn find_edition(plan: String, edition: u32, then: ThenPlan) -> Step {
    find_name(plan_name(&plan, edition), move |now, found| match found {
        Ok(task) if !task.state.name().has_ended() => then(now, Some(task)),
        Ok(_) if edition < EDITIONS_MAX => find_edition(plan, edition + 1, then),
        Ok(_) | Err(_) => then(now, None),
    })
}

fn submit_plan(plan: &str, json: Value, edition: u32) -> Step {
    let plan = plan.to_owned();
    find_name(plan_name(&plan, edition), move |_, found| match found {
        Ok(task) if !task.state.name().has_ended() || edition >= EDITIONS_MAX => Step::Reply(exists(&plan)),
        Ok(_) => submit_plan(&plan, json, edition + 1),
        Err(_) => Step::ask(Request::Submit(vec![stored(&plan, &json, edition)]), move |_, outcome| {
            Step::Reply(match accepted(outcome) {
                Ok(each) if each.iter().any(|accepted| accepted.known) => exists(&plan),
                Ok(_) => Reply::bulk(plan),
                Err(reason) => refusal(&reason),
            })
        }),
    })
}

fn stored(plan: &str, json: &Value, edition: u32) -> Submission {
    let mut task = NewTask::new(fresh_id(), PLANS);
    task.name = Some(plan_name(plan, edition));
    task.hold = true;
    Submission::new(task, Bytes::from(json.to_string()))
}

fn exists(plan: &str) -> Reply {
    Reply::error(format!("ERR Plan already exists: {plan}"))
}

fn get_plan(plan: String) -> Step {
    find_plan(plan, 0, |_, found| match found {
        None => Step::Reply(Reply::Null),
        Some(task) => Step::read(task.body, |_, body| {
            Step::Reply(body.map_or_else(|reason| refusal(&reason), Reply::bulk))
        }),
    })
}

fn list_plans(pattern: Option<Bytes>, page: Page) -> Step {
    let fits = move |task: &TaskInfo| {
        let plan = task.name.as_deref().and_then(plan_of_name);
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
    find_plan(plan.clone(), 0, move |_, found| {
        let Some(task) = found else { return Step::Reply(Reply::Integer(0)) };
        let jobs = ListQuery { states: live_states(), tag: Some(plan_tag(&plan)), ..ListQuery::default() };
        list(
            jobs,
            1,
            |_| true,
            move |_, jobs| {
                if !jobs.is_empty() {
                    return Step::error("ERR Cannot delete plan with active jobs");
                }
                let cancel = Command::Cancel { task: task.id, reason: Some("the plan was deleted".into()) };
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
