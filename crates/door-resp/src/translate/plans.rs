//! Plans and actions. Both are tasks that are held back for ever: a plan's body is its recipe, an action is the parent
//! of its jobs. So they are durable, they can be seen through every door, and cancelling an action cancels its jobs.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Command, ListQuery, Name, NewTask, StateName, TaskInfo, Timestamp};
use tenure_hub::{Request, Submission, fresh_id};

use super::Speaker;
use super::names::{
    ACTIONS, PLANS, action_name, job_id, live_states, plan_name, plan_of_name, plan_tag, status,
};
use super::pages::{LOOKS_MAX, find_name, list};
use super::refusals::refusal;
use super::render::time;
use super::submit::{accepted, envelope, named, new_task};
use crate::codec::Reply;
use crate::command::{ActionCommand, JobStatus, Page, PlanCommand};
use crate::errand::Step;
use crate::glob::glob;
use crate::shapes::{Action, Plan};

/// How often a plan may be deleted and submitted anew under the same id while the old ones are remembered.
const EDITIONS_MAX: u32 = 1000;

pub(super) fn start_plan(command: PlanCommand) -> Step {
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

pub(super) fn start_action(command: ActionCommand, speaker: &Speaker) -> Step {
    match command {
        ActionCommand::Submit(action) => submit_action(*action, speaker),
        ActionCommand::Get { action, page } => of_action(&action, move |_, task, jobs| {
            let mut shown = action_status(&task, &jobs);
            let ids = jobs.iter().skip(page.offset).take(page.limit).map(|job| Value::from(job_id(job)));
            shown.insert("job_ids".into(), ids.collect());
            Reply::bulk(Value::Object(shown).to_string())
        }),
        ActionCommand::Status { action } => of_action(&action, |_, task, jobs| {
            Reply::bulk(Value::Object(action_status(&task, &jobs)).to_string())
        }),
        ActionCommand::List { status, page } => list_actions(status, page),
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
        let tasks: Vec<TaskInfo> = tasks.into_iter().skip(page.offset).collect();
        describe_plans(tasks, Vec::new())
    })
}

/// Reads one plan after the other.
fn describe_plans(mut tasks: Vec<TaskInfo>, mut shown: Vec<Reply>) -> Step {
    if tasks.is_empty() {
        return Step::Reply(Reply::Array(shown));
    }
    let task = tasks.remove(0);
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

fn submit_action(action: Action, speaker: &Speaker) -> Step {
    let speaker = speaker.clone();
    with_plan(action.plan.clone(), move |now, found| {
        let Some((plan, json)) = found else { unreachable!("with_plan answers for itself") };
        let id = action.id.clone().unwrap_or_else(|| fresh_id().to_string());
        let mut parent = NewTask::new(fresh_id(), ACTIONS);
        parent.name = Some(action_name(&id));
        parent.hold = true;
        let about = json!({"action_id": id, "plan_id": plan.id, "jobs_created": action.inputs.len()});
        let parent_id = parent.id;
        let submission = Submission::new(parent, Bytes::from(about.to_string()));
        Step::ask(Request::Submit(vec![submission]), move |_, outcome| match accepted(outcome) {
            Ok(each) if each.iter().all(|accepted| !accepted.known) => {
                fan_out(&id, &plan, &json, &action, parent_id, now, &speaker)
            }
            Ok(_) | Err(tenure_hub::words::Refusal::NameTaken { .. }) => {
                Step::error(format!("ERR Action ID already exists: {id}"))
            }
            Err(reason) => Step::Reply(refusal(&reason)),
        })
    })
}

fn fan_out(
    id: &str,
    plan: &Plan,
    json: &Value,
    action: &Action,
    parent: tenure_hub::words::TaskId,
    now: Timestamp,
    speaker: &Speaker,
) -> Step {
    let mut options = action.options.clone();
    options.needs.get_or_insert_with(|| plan.needs());
    let (mut jobs, mut ids) = (Vec::new(), Vec::new());
    for (index, input) in action.inputs.iter().enumerate() {
        let mut task = match new_task(&options, now, speaker) {
            Ok(task) => named(task, None),
            Err(reply) => return Step::Reply(reply),
        };
        task.parent = Some(parent);
        task.tags.push(plan_tag(&plan.id));
        ids.push(task.id.to_string());
        jobs.push(Submission::new(task, envelope(json, input, Some((id, index)))));
    }
    let answer = json!({
        "action_id": id, "plan_id": plan.id, "plan_description": plan.description, "jobs_created": ids.len(),
        "job_ids": ids,
    });
    Step::last(Request::Submit(jobs), move |_, outcome| match accepted(outcome) {
        Ok(_) => Reply::bulk(answer.to_string()),
        Err(reason) => refusal(&reason),
    })
}

/// An action and its jobs; nothing if there is no such action.
fn of_action(
    action: &str,
    reply: impl FnOnce(Timestamp, Box<TaskInfo>, Vec<TaskInfo>) -> Reply + Send + 'static,
) -> Step {
    find_name(action_name(action), move |_, found| match found {
        Err(_) => Step::Reply(Reply::Null),
        Ok(task) => jobs_of(&task.clone(), move |now, jobs| Step::Reply(reply(now, task, jobs))),
    })
}

/// An action's jobs in the order of its inputs.
pub(super) fn jobs_of(
    action: &TaskInfo,
    then: impl FnOnce(Timestamp, Vec<TaskInfo>) -> Step + Send + 'static,
) -> Step {
    let query = ListQuery { parent: Some(action.id), ..ListQuery::default() };
    list(
        query,
        LOOKS_MAX,
        |_| true,
        move |now, mut jobs| {
            // Their ids are made one after the other and sort by that.
            jobs.sort_by_key(|job| job.id);
            then(now, jobs)
        },
    )
}

/// What an action's status is follows from its jobs.
pub(super) fn action_status(action: &TaskInfo, jobs: &[TaskInfo]) -> Map<String, Value> {
    let mut shown = Map::new();
    let name = action.name.as_deref().unwrap_or_default();
    shown.insert("action_id".into(), name.strip_prefix("action:").unwrap_or(name).into());
    shown.insert("created_at".into(), time(action.submitted_at));
    shown.insert("total_jobs".into(), jobs.len().into());
    let count = |wanted: JobStatus| jobs.iter().filter(|job| status(&job.state) == wanted).count();
    for one in JobStatus::ALL {
        shown.insert(one.word().into(), count(one).into());
    }
    let plan = jobs.iter().flat_map(|job| &job.terms.tags).find_map(|tag| tag.strip_prefix("plan:"));
    shown.insert("plan_id".into(), plan.into());
    let ended = jobs.iter().filter_map(|job| job.state.end().map(|end| end.at));
    if jobs.iter().all(|job| job.state.name().has_ended())
        && let Some(last) = ended.max()
    {
        shown.insert("completed_jobs_at".into(), time(last));
    }
    shown.insert("status".into(), overall(jobs).word().into());
    shown
}

fn overall(jobs: &[TaskInfo]) -> JobStatus {
    let any = |wanted: &[JobStatus]| jobs.iter().any(|job| wanted.contains(&status(&job.state)));
    if any(&[JobStatus::Running]) {
        JobStatus::Running
    } else if any(&[JobStatus::Pending, JobStatus::Scheduled, JobStatus::Paused]) {
        let begun = any(&[JobStatus::Completed, JobStatus::Failed, JobStatus::Dead, JobStatus::Cancelled]);
        if begun { JobStatus::Running } else { JobStatus::Pending }
    } else if any(&[JobStatus::Failed, JobStatus::Dead]) {
        JobStatus::Failed
    } else if any(&[JobStatus::Cancelled]) {
        JobStatus::Cancelled
    } else {
        JobStatus::Completed
    }
}

fn list_actions(wanted: Option<JobStatus>, page: Page) -> Step {
    list(
        held_in(ACTIONS),
        LOOKS_MAX,
        |_| true,
        move |_, mut actions| {
            // The newest first.
            actions.sort_by_key(|action| std::cmp::Reverse(action.id));
            describe_actions(actions, wanted, page, Vec::new())
        },
    )
}

fn describe_actions(
    mut actions: Vec<TaskInfo>,
    wanted: Option<JobStatus>,
    page: Page,
    mut shown: Vec<Reply>,
) -> Step {
    if actions.is_empty() || shown.len() >= page.offset.saturating_add(page.limit) {
        return Step::Reply(Reply::Array(shown.into_iter().skip(page.offset).collect()));
    }
    let action = actions.remove(0);
    jobs_of(&action.clone(), move |_, jobs| {
        if wanted.is_none_or(|wanted| overall(&jobs) == wanted) {
            shown.push(Reply::bulk(Value::Object(action_status(&action, &jobs)).to_string()));
        }
        describe_actions(actions, wanted, page, shown)
    })
}

pub(super) fn held_in(queue: &str) -> ListQuery {
    let states = vec![StateName::Created, StateName::Ready, StateName::Paused];
    ListQuery { states, queue: Some(Name::from(queue)), ..ListQuery::default() }
}
