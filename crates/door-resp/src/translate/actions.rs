//! Actions: a plan run once per input. An action is a held task, the parent of its jobs; so it is durable, and
//! cancelling it cancels its jobs. When the broker has forgotten the last of its jobs, it forgets the action too.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tenure_hub::words::{Blob, Command, ListQuery, NewTask, Refusal, StateName, TaskId, TaskInfo, Timestamp};
use tenure_hub::{HubRefusal, Request, Submission, fresh_id};
use tenure_plans::{OfAction, Plan, PlanJob};

use super::CallerInfo;
use super::jobs::{AfterFilter, Keep, ids};
use super::lookup::{
    AfterList, AfterMatch, AfterName, AfterPage, AfterReopen, AfterWorkers, LookupResult, find_name, list,
    page as page_of, reopen_task, workers,
};
use super::names::{ACTIONS, action_name, job_id, plan_tag, status, tool_needs};
use super::plans::{AfterPlan, held_in, with_plan};
use super::ranges::part;
use super::refusals::refusal;
use super::render::time;
use super::submit::{accepted, named, new_task};
use super::views::{AfterIsThere, AfterValue};
use crate::codec::Reply;
use crate::command::{ActionCommand, JobFilter, JobStatus, PageOptions};
use crate::flow::{CommandFlow, FlowStep, Input};
use crate::json::SubmittedAction;

/// How many of its jobs are shown. An action creates at most a hundred; only a client can add more.
const JOBS_MAX: usize = 10_000;
/// An action without jobs that is younger than this may be about to get them.
const SETTLED_AFTER: Duration = Duration::from_secs(600);

/// The state of a waiting command on actions.
#[derive(Debug)]
pub(crate) enum ActionFlow {
    SubmittingFirst { id: String, parent: TaskId, answer: Value },
    SubmittingAgain { id: String, parent: TaskId, own: Vec<TaskId>, answer: Value },
    ReadingAbout(Vec<TaskInfo>, AfterAbout),
    Retiring(Vec<TaskId>, AfterRetire),
}

impl ActionFlow {
    fn ask(self, request: Request) -> FlowStep {
        FlowStep::Ask(request, CommandFlow::Action(self))
    }

    pub(crate) fn resume(self, _: Timestamp, input: Input) -> FlowStep {
        match self {
            Self::SubmittingFirst { id, parent, answer } => match accepted(input.answer()) {
                Ok(_) => FlowStep::Reply(Reply::bulk(answer.to_string())),
                Err(HubRefusal::Engine(Refusal::BadParent { .. } | Refusal::NameTaken { .. })) => {
                    FlowStep::Reply(exists(&id))
                }
                // All or nothing: accepted jobs are cancelled with the action.
                Err(reason) => retire(vec![parent], AfterRetire::Reply(refusal(&reason))),
            },
            Self::SubmittingAgain { id, parent, own, answer } => match accepted(input.answer()) {
                Err(HubRefusal::Engine(Refusal::BadParent { .. })) => FlowStep::Reply(exists(&id)),
                Err(reason) => retire(own, AfterRetire::Reply(refusal(&reason))),
                Ok(_) => jobs_of(parent, AfterJobs::SubmittedAgain { id, own, answer }),
            },
            Self::ReadingAbout(jobs, then) => {
                let words = input.read().ok().and_then(|words| serde_json::from_slice(&words).ok());
                then.go(Some((ActionInfo::new(words.unwrap_or_default(), &jobs), jobs)))
            }
            // A task that has already gone need not be cancelled.
            Self::Retiring(tasks, then) => retire(tasks, then),
        }
    }
}

/// What to do with the task of an action.
#[derive(Debug)]
pub(crate) enum AfterAction {
    About(AfterAbout),
    Filtered { action: String, filter: Box<JobFilter>, page: PageOptions, then: AfterFilter },
    Length,
    Range { start: i64, stop: i64 },
    IsThere(AfterIsThere),
}

/// What to do with an action and its jobs; `None` if there is no such action any more.
#[derive(Debug)]
pub(crate) enum AfterAbout {
    Get {
        action: String,
        page: PageOptions,
    },
    Status,
    Value(AfterValue),
    /// One of several that are listed, the last ones first.
    Describe {
        actions: Vec<TaskInfo>,
        wanted: Option<JobStatus>,
        page: PageOptions,
        shown: Vec<Value>,
    },
}

impl AfterAbout {
    fn go(self, found: Option<(ActionInfo, Vec<TaskInfo>)>) -> FlowStep {
        let status = |(about, jobs): &(ActionInfo, Vec<TaskInfo>)| {
            Value::Object(action_status(about, jobs)).to_string()
        };
        match self {
            Self::Get { action, page } => {
                let Some((about, jobs)) = found else {
                    return FlowStep::error(format!("ERR Action not found: {action}"));
                };
                let mut shown = action_status(&about, &jobs);
                let ids = jobs.iter().skip(page.offset).take(page.limit).map(|job| Value::from(job_id(job)));
                let ids: Vec<Value> = ids.collect();
                shown.insert("summary".into(), Value::Object(summary(&about, &jobs)));
                shown.insert("job_ids_offset".into(), page.offset.into());
                shown.insert("job_ids_limit".into(), page.limit.into());
                shown.insert("job_ids_returned".into(), ids.len().into());
                shown.insert("job_ids".into(), ids.into());
                FlowStep::Reply(Reply::bulk(Value::Object(shown).to_string()))
            }
            Self::Status => FlowStep::Reply(found.as_ref().map(status).map_or(Reply::Null, Reply::bulk)),
            Self::Value(then) => then.go(found.as_ref().map(status).map(Bytes::from)),
            Self::Describe { actions, wanted, page, mut shown } => {
                if let Some((about, jobs)) = &found
                    && (wanted.is_none() || overall(about, jobs) == wanted)
                {
                    let mut one = action_status(about, jobs);
                    one.append(&mut summary(about, jobs));
                    shown.push(Value::Object(one));
                }
                describe(actions, wanted, page, shown)
            }
        }
    }
}

/// What to do with the jobs of an action.
#[derive(Debug)]
pub(crate) enum AfterJobs {
    /// The action's data is read from here, or else from its first job.
    About {
        words: Option<Blob>,
        then: AfterAbout,
    },
    Length,
    Range {
        start: i64,
        stop: i64,
    },
    SubmittedAgain {
        id: String,
        own: Vec<TaskId>,
        answer: Value,
    },
}

impl AfterJobs {
    pub(super) fn go(self, jobs: Vec<TaskInfo>) -> FlowStep {
        match self {
            Self::About { words, then } => {
                let Some(first) = jobs.first() else { return then.go(None) };
                let words = words.unwrap_or(first.body);
                FlowStep::Read(vec![words], CommandFlow::Action(ActionFlow::ReadingAbout(jobs, then)))
            }
            Self::Length => FlowStep::Reply(Reply::count(jobs.len())),
            Self::Range { start, stop } => {
                let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
                let (first, length) = part(count, start, stop).unwrap_or_default();
                FlowStep::Reply(ids(jobs.iter().skip(first).take(length)))
            }
            Self::SubmittedAgain { id, own, answer } => {
                if jobs.iter().all(|job| own.contains(&job.id)) {
                    return FlowStep::Reply(Reply::bulk(answer.to_string()));
                }
                retire(own, AfterRetire::Reply(exists(&id)))
            }
        }
    }
}

/// What to do after unneeded tasks are cancelled.
#[derive(Debug)]
pub(crate) enum AfterRetire {
    Reply(Reply),
    Submit(Box<(SubmittedAction, CallerInfo)>),
    Tidy(Box<ListQuery>, Box<AfterRetire>),
}

impl AfterRetire {
    fn go(self) -> FlowStep {
        match self {
            Self::Reply(reply) => FlowStep::Reply(reply),
            Self::Submit(submit) => {
                let (submitted, speaker) = *submit;
                submit_action(submitted, &speaker)
            }
            Self::Tidy(next, then) => cancel_empty_actions(*next, *then),
        }
    }
}

pub(super) fn start(command: ActionCommand, speaker: &CallerInfo) -> FlowStep {
    match command {
        ActionCommand::Submit(submitted) => submit_action(*submitted, speaker),
        ActionCommand::Get { action, page } => with_action(&action.clone(), AfterAbout::Get { action, page }),
        ActionCommand::Status { action } => with_action(&action, AfterAbout::Status),
        ActionCommand::List { status, page } => {
            let then = AfterList::Actions { wanted: status, page };
            list(held_in(ACTIONS), usize::MAX, Keep::Parents, then)
        }
    }
}

pub(super) fn submit_action(mut submitted: SubmittedAction, speaker: &CallerInfo) -> FlowStep {
    if let Some(words) = submitted.options.needs_described.take() {
        let then = AfterMatch::Action(Box::new((submitted, speaker.clone())));
        return workers(AfterWorkers::Match { words, then });
    }
    if speaker.tidies {
        let speaker = CallerInfo { tidies: false, ..speaker.clone() };
        return cancel_empty_actions(held_in(ACTIONS), AfterRetire::Submit(Box::new((submitted, speaker))));
    }
    let plan = submitted.action.plan.clone();
    with_plan(plan, AfterPlan::Action(Box::new((submitted, speaker.clone()))))
}

/// An action whose plan was found.
#[derive(Debug)]
pub(crate) struct ActionSubmission {
    id: String,
    plan: Plan,
    json: Value,
    submitted: SubmittedAction,
    now: Timestamp,
    speaker: CallerInfo,
}

impl ActionSubmission {
    pub(super) fn find(
        submitted: SubmittedAction,
        speaker: CallerInfo,
        now: Timestamp,
        plan: Plan,
        json: Value,
    ) -> FlowStep {
        let id = submitted.action.id.clone().unwrap_or_else(|| fresh_id().to_string());
        let name = action_name(&id);
        let submission = Self { id, plan, json, submitted, now, speaker };
        find_name(name, AfterName::SubmitAction(Box::new(submission)))
    }

    pub(super) fn found(self: Box<Self>, found: LookupResult) -> FlowStep {
        let fan = |parent: TaskId| {
            let Self { id, plan, json, submitted, now, speaker } = &*self;
            NewAction::out(id.clone(), plan, json, submitted, parent, *now, speaker)
        };
        match found {
            Err(_) => match fan(fresh_id()) {
                Ok(fan) => fan.submit_first(),
                Err(reply) => FlowStep::Reply(reply),
            },
            Ok(task) if *task.terms.queue != *ACTIONS || task.children > 0 => {
                FlowStep::Reply(exists(&self.id))
            }
            // Its jobs are forgotten, and the action with them: only its name is left.
            Ok(task) => match fan(task.id) {
                Ok(fan) if task.state.name().has_ended() => {
                    reopen_task(task.id, AfterReopen::Action(Box::new(fan)))
                }
                Ok(fan) => fan.submit_again(),
                Err(reply) => FlowStep::Reply(reply),
            },
        }
    }
}

/// An action about to begin.
#[derive(Debug)]
pub(crate) struct NewAction {
    id: String,
    parent: TaskId,
    jobs: Vec<Submission>,
    /// What is remembered about it.
    about: Value,
    answer: Value,
}

impl NewAction {
    fn out(
        id: String,
        plan: &Plan,
        json: &Value,
        submitted: &SubmittedAction,
        parent: TaskId,
        now: Timestamp,
        speaker: &CallerInfo,
    ) -> Result<Self, Reply> {
        let SubmittedAction { action, options } = submitted;
        let mut options = options.clone();
        options.needs.get_or_insert_with(|| tool_needs(plan.tasks.needs()));
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

    /// Submits the action and its jobs together. If another client has created it meanwhile, the jobs have no parent
    /// and are refused.
    fn submit_first(self) -> FlowStep {
        let Self { id, parent, jobs, about, answer } = self;
        let mut task = NewTask::new(parent, ACTIONS);
        task.name = Some(action_name(&id));
        task.hold = true;
        let mut all = vec![Submission::new(task, Bytes::from(about.to_string()))];
        all.extend(jobs);
        ActionFlow::SubmittingFirst { id, parent, answer }.ask(Request::Submit(all))
    }

    /// Submits jobs for an existing action. Two such submissions at the same time would mix, so both step back.
    pub(super) fn submit_again(self) -> FlowStep {
        let Self { id, parent, jobs, answer, .. } = self;
        let own: Vec<TaskId> = jobs.iter().map(|job| job.task.id).collect();
        ActionFlow::SubmittingAgain { id, parent, own, answer }.ask(Request::Submit(jobs))
    }
}

fn exists(action: &str) -> Reply {
    Reply::error(format!("ERR Action ID already exists: {action}"))
}

/// The data from when an action was created, which outlives some of its jobs.
#[derive(Debug)]
pub(crate) struct ActionInfo {
    action: Value,
    plan: Value,
    jobs_created: usize,
}

impl ActionInfo {
    fn new(mut words: Value, jobs: &[TaskInfo]) -> Self {
        let created = words["jobs_created"].as_u64().and_then(|count| usize::try_from(count).ok());
        Self {
            action: words["action_id"].take(),
            plan: words["plan_id"].take(),
            // A client of another door may have added one.
            jobs_created: created.unwrap_or(0).max(jobs.len()),
        }
    }
}

/// An action and its jobs.
pub(super) fn with_action(action: &str, then: AfterAbout) -> FlowStep {
    find_action(action, AfterAction::About(then))
}

/// The task that stands for an action.
pub(super) fn find_action(action: &str, then: AfterAction) -> FlowStep {
    find_name(action_name(action), AfterName::Action(then))
}

/// An action whose jobs are all forgotten no longer exists, although its name does.
pub(super) fn found(then: AfterAction, found: LookupResult) -> FlowStep {
    let there = |task: &TaskInfo| *task.terms.queue == *ACTIONS && task.children > 0;
    let found = found.ok().filter(|task| there(task));
    match then {
        AfterAction::About(then) => match found {
            None => then.go(None),
            Some(task) => with_jobs(&task, then),
        },
        AfterAction::Filtered { action, filter, page, then } => {
            super::jobs::of_action(action, &filter, page, then, found.as_deref())
        }
        AfterAction::Length => match found {
            None => FlowStep::Reply(Reply::Integer(0)),
            Some(action) => jobs_of(action.id, AfterJobs::Length),
        },
        AfterAction::Range { start, stop } => match found {
            None => FlowStep::Reply(Reply::Array(Vec::new())),
            Some(action) => jobs_of(action.id, AfterJobs::Range { start, stop }),
        },
        AfterAction::IsThere(then) => then.go(found.is_some()),
    }
}

fn with_jobs(action: &TaskInfo, then: AfterAbout) -> FlowStep {
    // If the action's name was used before, its body is that of the former action; its jobs have the current data.
    let words = (action.state.name() == StateName::Created).then_some(action.body);
    jobs_of(action.id, AfterJobs::About { words, then })
}

/// An action's jobs in the order of its inputs.
fn jobs_of(action: TaskId, then: AfterJobs) -> FlowStep {
    let query = ListQuery { parent: Some(action), ..ListQuery::default() };
    list(query, JOBS_MAX, Keep::All, AfterList::JobsOfAction(then))
}

/// The status of an action follows from its jobs. Forgotten jobs are counted separately.
fn action_status(about: &ActionInfo, jobs: &[TaskInfo]) -> Map<String, Value> {
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

/// A shorter summary: forgotten jobs have ended, and so count as completed.
fn summary(about: &ActionInfo, jobs: &[TaskInfo]) -> Map<String, Value> {
    let count = |wanted: &[JobStatus]| jobs.iter().filter(|job| wanted.contains(&status(&job.state))).count();
    let failed = count(&[JobStatus::Failed, JobStatus::Dead, JobStatus::Cancelled]);
    let completed = count(&[JobStatus::Completed]) + about.jobs_created - jobs.len();
    let counts = [
        ("jobs_total", about.jobs_created),
        ("jobs_completed", completed),
        ("jobs_failed", failed),
        ("jobs_pending", about.jobs_created - completed - failed),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
}

/// `None` if all jobs have ended and it is unknown whether one of them failed.
fn overall(about: &ActionInfo, jobs: &[TaskInfo]) -> Option<JobStatus> {
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

/// Describes one action after the other, the last of them first.
pub(super) fn describe(
    mut actions: Vec<TaskInfo>,
    wanted: Option<JobStatus>,
    page: PageOptions,
    shown: Vec<Value>,
) -> FlowStep {
    let enough = shown.len() >= page.offset.saturating_add(page.limit);
    match actions.pop().filter(|_| !enough) {
        Some(action) => with_jobs(&action, AfterAbout::Describe { actions, wanted, page, shown }),
        None => {
            let shown: Vec<Value> = shown.into_iter().skip(page.offset).collect();
            FlowStep::Reply(Reply::bulk(Value::Array(shown).to_string()))
        }
    }
}

/// Cancels the actions whose jobs are all forgotten, so that they are forgotten as well.
fn cancel_empty_actions(query: ListQuery, then: AfterRetire) -> FlowStep {
    page_of(query, AfterPage::Tidy(then))
}

pub(super) fn tidy_page(
    now: Timestamp,
    actions: &[TaskInfo],
    next: Option<ListQuery>,
    then: AfterRetire,
) -> FlowStep {
    let over = |task: &&TaskInfo| task.children == 0 && task.submitted_at + SETTLED_AFTER < now;
    let over: Vec<TaskId> = actions.iter().filter(over).map(|task| task.id).collect();
    let then = match next {
        Some(next) => AfterRetire::Tidy(Box::new(next), Box::new(then)),
        None => then,
    };
    retire(over, then)
}

/// Cancels one after the other.
fn retire(mut tasks: Vec<TaskId>, then: AfterRetire) -> FlowStep {
    let Some(task) = tasks.pop() else { return then.go() };
    let cancel = Command::Cancel { task, reason: Some("its action is over".into()) };
    ActionFlow::Retiring(tasks, then).ask(Request::Command(cancel))
}
