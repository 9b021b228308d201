//! Actions: a plan run once per input. An action is a task that is held back, the parent of its jobs; so it is durable,
//! and cancelling it cancels its jobs. When the last of its jobs has been forgotten, it goes the same way.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Command, ListQuery, NewTask, TaskId, TaskInfo, Timestamp};
use tenure_hub::{Request, Submission, fresh_id};

use super::Speaker;
use super::names::{ACTIONS, action_name, job_id, plan_tag, status};
use super::pages::{find_name, list, page as page_of};
use super::plans::{held_in, with_plan};
use super::refusals::refusal;
use super::render::time;
use super::submit::{accepted, envelope, named, new_task};
use crate::codec::Reply;
use crate::command::{ActionCommand, JobStatus, Page};
use crate::errand::Step;
use crate::shapes::{Action, Plan};

/// How many of its jobs are shown. An action makes at most a hundred; more can only be put under it by hand.
const JOBS_MAX: usize = 10_000;
/// An action without jobs that is younger than this may be about to get them.
const SETTLED_AFTER: Duration = Duration::from_secs(600);

pub(super) fn start(command: ActionCommand, speaker: &Speaker) -> Step {
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

fn submit_action(action: Action, speaker: &Speaker) -> Step {
    if speaker.tidies {
        let speaker = Speaker { tidies: false, ..speaker.clone() };
        return tidy(held_in(ACTIONS), Box::new(move || submit_action(action, &speaker)));
    }
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
    parent: TaskId,
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

/// An action and its jobs; nothing if there is no such action, or none any more.
fn of_action(
    action: &str,
    reply: impl FnOnce(Timestamp, Box<TaskInfo>, Vec<TaskInfo>) -> Reply + Send + 'static,
) -> Step {
    find_action(action, move |_, found| match found {
        None => Step::Reply(Reply::Null),
        Some(task) => jobs_of(&task.clone(), move |now, jobs| Step::Reply(reply(now, task, jobs))),
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
        JOBS_MAX,
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
        usize::MAX,
        |_| true,
        move |_, mut actions| {
            // The newest first; they are taken from the end.
            actions.sort_by_key(|action| action.id);
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
    let enough = shown.len() >= page.offset.saturating_add(page.limit);
    let Some(action) = actions.pop().filter(|_| !enough) else {
        return Step::Reply(Reply::Array(shown.into_iter().skip(page.offset).collect()));
    };
    jobs_of(&action.clone(), move |_, jobs| {
        if wanted.is_none_or(|wanted| overall(&jobs) == wanted) {
            shown.push(Reply::bulk(Value::Object(action_status(&action, &jobs)).to_string()));
        }
        describe_actions(actions, wanted, page, shown)
    })
}

/// The task that stands for an action. One that was retired is there no more, although its name is still taken.
pub(super) fn find_action(
    action: &str,
    then: impl FnOnce(Timestamp, Option<Box<TaskInfo>>) -> Step + Send + 'static,
) -> Step {
    find_name(action_name(action), move |now, found| {
        let there = |task: &TaskInfo| task.children > 0 || !task.state.name().has_ended();
        then(now, found.ok().filter(|task| there(task)))
    })
}

/// Ends the actions whose jobs are all forgotten, so that they are forgotten as well.
fn tidy(query: ListQuery, then: ThenStep) -> Step {
    page_of(query, move |now, actions, next| {
        let over = |task: &&TaskInfo| task.children == 0 && task.submitted_at + SETTLED_AFTER < now;
        let over: Vec<TaskId> = actions.iter().filter(over).map(|task| task.id).collect();
        let then: ThenStep = match next {
            Some(next) => Box::new(move || tidy(next, then)),
            None => then,
        };
        retire(over, then)
    })
}

type ThenStep = Box<dyn FnOnce() -> Step + Send>;

fn retire(mut actions: Vec<TaskId>, then: ThenStep) -> Step {
    let Some(task) = actions.pop() else { return then() };
    let cancel = Command::Cancel { task, reason: Some("its jobs are forgotten".into()) };
    // Whatever becomes of it, the next time it is looked at again.
    Step::ask(Request::Command(cancel), move |_, _| retire(actions, then))
}
