//! Actions: a plan run once per input. An action is a task that is held back, the parent of its jobs; so it is durable,
//! and cancelling it cancels its jobs. When the last of its jobs has been forgotten, it goes the same way.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Command, ListQuery, NewTask, Refusal, StateName, TaskId, TaskInfo, Timestamp};
use tenure_hub::{Request, Submission, fresh_id};
use tenure_plans::{OfAction, Plan, PlanJob};

use super::Speaker;
use super::names::{ACTIONS, action_name, job_id, plan_tag, status};
use super::pages::{find_name, list, page as page_of, take_up};
use super::plans::{held_in, with_plan};
use super::refusals::refusal;
use super::render::time;
use super::submit::{accepted, named, new_task};
use crate::codec::Reply;
use crate::command::{ActionCommand, JobStatus, Page};
use crate::errand::Step;
use crate::shapes::SubmittedAction;

/// How many of its jobs are shown. An action makes at most a hundred; more can only be put under it by hand.
const JOBS_MAX: usize = 10_000;
/// An action without jobs that is younger than this may be about to get them.
const SETTLED_AFTER: Duration = Duration::from_secs(600);

pub(super) fn start(command: ActionCommand, speaker: &Speaker) -> Step {
    match command {
        ActionCommand::Submit(action) => submit_action(*action, speaker),
        ActionCommand::Get { action, page } => with_action(&action, move |_, found| {
            let Some((about, jobs)) = found else { return Step::Reply(Reply::Null) };
            let mut shown = action_status(&about, &jobs);
            let ids = jobs.iter().skip(page.offset).take(page.limit).map(|job| Value::from(job_id(job)));
            shown.insert("job_ids".into(), ids.collect());
            Step::Reply(Reply::bulk(Value::Object(shown).to_string()))
        }),
        ActionCommand::Status { action } => with_action(&action, |_, found| {
            let shown = found.map(|(about, jobs)| Value::Object(action_status(&about, &jobs)).to_string());
            Step::Reply(shown.map_or(Reply::Null, Reply::bulk))
        }),
        ActionCommand::List { status, page } => list_actions(status, page),
    }
}

fn submit_action(submitted: SubmittedAction, speaker: &Speaker) -> Step {
    if speaker.tidies {
        let speaker = Speaker { tidies: false, ..speaker.clone() };
        return tidy(held_in(ACTIONS), Box::new(move || submit_action(submitted, &speaker)));
    }
    let speaker = speaker.clone();
    with_plan(submitted.action.plan.clone(), move |now, plan, json| {
        let id = submitted.action.id.clone().unwrap_or_else(|| fresh_id().to_string());
        find_name(action_name(&id), move |_, found| {
            let fan = |parent: TaskId| Fan::out(id.clone(), &plan, &json, &submitted, parent, now, &speaker);
            match found {
                Err(_) => match fan(fresh_id()) {
                    Ok(fan) => fan.submit_first(),
                    Err(reply) => Step::Reply(reply),
                },
                Ok(task) if *task.terms.queue != *ACTIONS || task.children > 0 => Step::Reply(exists(&id)),
                // The jobs that it had are forgotten, and the action with them: only its name is left.
                Ok(task) => match fan(task.id) {
                    Ok(fan) if task.state.name().has_ended() => take_up(task.id, move || fan.submit_again()),
                    Ok(fan) => fan.submit_again(),
                    Err(reply) => Step::Reply(reply),
                },
            }
        })
    })
}

/// An action about to begin.
struct Fan {
    id: String,
    parent: TaskId,
    jobs: Vec<Submission>,
    /// What is remembered about it.
    about: Value,
    answer: Value,
}

impl Fan {
    fn out(
        id: String,
        plan: &Plan,
        json: &Value,
        submitted: &SubmittedAction,
        parent: TaskId,
        now: Timestamp,
        speaker: &Speaker,
    ) -> Result<Self, Reply> {
        let SubmittedAction { action, options } = submitted;
        let mut options = options.clone();
        options.needs.get_or_insert_with(|| plan.tasks.needs());
        let (mut jobs, mut ids) = (Vec::new(), Vec::new());
        for (index, input) in action.inputs.iter().enumerate() {
            let mut task = named(new_task(&options, now, speaker)?, None);
            task.parent = Some(parent);
            task.tags.push(plan_tag(&plan.id));
            ids.push(task.id.to_string());
            let of = OfAction { action: &id, index, jobs: action.inputs.len() };
            jobs.push(Submission::new(task, PlanJob::render(json, input, Some(of)).into()));
        }
        let about = json!({"action_id": id, "plan_id": plan.id, "jobs_created": ids.len()});
        let answer = json!({
            "action_id": id, "plan_id": plan.id, "plan_description": plan.description, "jobs_created": ids.len(),
            "job_ids": ids,
        });
        Ok(Self { id, parent, jobs, about, answer })
    }

    /// The action and its jobs together. If somebody else has begun it meanwhile, the jobs have no parent and are refused.
    fn submit_first(self) -> Step {
        let Self { id, parent, jobs, about, answer } = self;
        let mut task = NewTask::new(parent, ACTIONS);
        task.name = Some(action_name(&id));
        task.hold = true;
        let mut all = vec![Submission::new(task, Bytes::from(about.to_string()))];
        all.extend(jobs);
        Step::ask(Request::Submit(all), move |_, outcome| match accepted(outcome) {
            Ok(_) => Step::Reply(Reply::bulk(answer.to_string())),
            Err(Refusal::BadParent { .. } | Refusal::NameTaken { .. }) => Step::Reply(exists(&id)),
            // All of it or nothing: a job that was accepted goes with the action.
            Err(reason) => retire(vec![parent], Box::new(move || Step::Reply(refusal(&reason)))),
        })
    }

    /// Jobs for an action that is there. Two that come at the same time would mix, so both of them step back.
    fn submit_again(self) -> Step {
        let Self { id, parent, jobs, answer, .. } = self;
        let own: Vec<TaskId> = jobs.iter().map(|job| job.task.id).collect();
        Step::ask(Request::Submit(jobs), move |_, outcome| match accepted(outcome) {
            Err(Refusal::BadParent { .. }) => Step::Reply(exists(&id)),
            Err(reason) => retire(own, Box::new(move || Step::Reply(refusal(&reason)))),
            Ok(_) => jobs_of(parent, move |_, jobs| {
                if jobs.iter().all(|job| own.contains(&job.id)) {
                    return Step::Reply(Reply::bulk(answer.to_string()));
                }
                retire(own, Box::new(move || Step::Reply(exists(&id))))
            }),
        })
    }
}

fn exists(action: &str) -> Reply {
    Reply::error(format!("ERR Action ID already exists: {action}"))
}

/// What was said when an action began, which outlives some of its jobs.
pub(super) struct About {
    action: Value,
    plan: Value,
    jobs_created: usize,
}

/// An action and its jobs; nothing if there is no such action, or none any more.
pub(super) fn with_action(
    action: &str,
    then: impl FnOnce(Timestamp, Option<(About, Vec<TaskInfo>)>) -> Step + Send + 'static,
) -> Step {
    find_action(action, move |now, found| match found {
        None => then(now, None),
        Some(task) => with_jobs(&task, then),
    })
}

fn with_jobs(
    action: &TaskInfo,
    then: impl FnOnce(Timestamp, Option<(About, Vec<TaskInfo>)>) -> Step + Send + 'static,
) -> Step {
    // An action whose name was used before has the words of the former one; its jobs have its own.
    let words = (action.state.name() == StateName::Created).then_some(action.body);
    jobs_of(action.id, move |now, jobs| {
        let Some(first) = jobs.first() else { return then(now, None) };
        Step::read(words.unwrap_or(first.body), move |now, words| {
            let mut words: Value =
                words.ok().and_then(|words| serde_json::from_slice(&words).ok()).unwrap_or_default();
            let created = words["jobs_created"].as_u64().and_then(|count| usize::try_from(count).ok());
            let about = About {
                action: words["action_id"].take(),
                plan: words["plan_id"].take(),
                // Somebody at another door may have added one.
                jobs_created: created.unwrap_or(0).max(jobs.len()),
            };
            then(now, Some((about, jobs)))
        })
    })
}

/// An action's jobs in the order of its inputs.
pub(super) fn jobs_of(
    action: TaskId,
    then: impl FnOnce(Timestamp, Vec<TaskInfo>) -> Step + Send + 'static,
) -> Step {
    let query = ListQuery { parent: Some(action), ..ListQuery::default() };
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

/// What an action's status is follows from its jobs. Those that are forgotten are counted as that.
pub(super) fn action_status(about: &About, jobs: &[TaskInfo]) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("action_id".into(), about.action.clone());
    shown.insert("created_at".into(), jobs.first().map_or(Value::Null, |job| time(job.submitted_at)));
    shown.insert("total_jobs".into(), about.jobs_created.into());
    let count = |wanted: JobStatus| jobs.iter().filter(|job| status(&job.state) == wanted).count();
    for one in JobStatus::ALL {
        shown.insert(one.word().into(), count(one).into());
    }
    shown.insert("forgotten".into(), (about.jobs_created - jobs.len()).into());
    shown.insert("plan_id".into(), about.plan.clone());
    let ended = jobs.iter().filter_map(|job| job.state.end().map(|end| end.at));
    if jobs.iter().all(|job| job.state.name().has_ended())
        && let Some(last) = ended.max()
    {
        shown.insert("completed_jobs_at".into(), time(last));
    }
    shown.insert("status".into(), overall(about, jobs).map_or("ended", JobStatus::word).into());
    shown
}

/// None if all jobs have ended and it is not known any more whether one of them failed.
fn overall(about: &About, jobs: &[TaskInfo]) -> Option<JobStatus> {
    let any = |wanted: &[JobStatus]| jobs.iter().any(|job| wanted.contains(&status(&job.state)));
    let forgotten = about.jobs_created > jobs.len();
    if any(&[JobStatus::Running]) {
        Some(JobStatus::Running)
    } else if any(&[JobStatus::Pending, JobStatus::Scheduled, JobStatus::Paused]) {
        let begun = any(&[JobStatus::Completed, JobStatus::Failed, JobStatus::Dead, JobStatus::Cancelled]);
        Some(if begun || forgotten { JobStatus::Running } else { JobStatus::Pending })
    } else if any(&[JobStatus::Failed, JobStatus::Dead]) {
        Some(JobStatus::Failed)
    } else if forgotten {
        None
    } else if any(&[JobStatus::Cancelled]) {
        Some(JobStatus::Cancelled)
    } else {
        Some(JobStatus::Completed)
    }
}

fn list_actions(wanted: Option<JobStatus>, page: Page) -> Step {
    list(
        held_in(ACTIONS),
        usize::MAX,
        |action| action.children > 0,
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
    with_jobs(&action, move |_, found| {
        if let Some((about, jobs)) = found
            && (wanted.is_none() || overall(&about, &jobs) == wanted)
        {
            shown.push(Reply::bulk(Value::Object(action_status(&about, &jobs)).to_string()));
        }
        describe_actions(actions, wanted, page, shown)
    })
}

/// The task that stands for an action. One whose jobs are all forgotten is there no more, although its name is.
pub(super) fn find_action(
    action: &str,
    then: impl FnOnce(Timestamp, Option<Box<TaskInfo>>) -> Step + Send + 'static,
) -> Step {
    find_name(action_name(action), move |now, found| {
        let there = |task: &TaskInfo| *task.terms.queue == *ACTIONS && task.children > 0;
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

/// Cancels one after the other.
fn retire(mut tasks: Vec<TaskId>, then: ThenStep) -> Step {
    let Some(task) = tasks.pop() else { return then() };
    let cancel = Command::Cancel { task, reason: Some("its action is over".into()) };
    // One that is gone already need not be cancelled.
    Step::ask(Request::Command(cancel), move |_, _| retire(tasks, then))
}
