//! Submitting: pushes, jobs, and the bodies that carry plans.

use bytes::Bytes;
use serde_json::Value;
use tenure_hub::words::{
    Accepted, After, AfterTask, Backoff, Name, NewTask, Refusal, Reply as Decided, TaskId, Timestamp,
};
use tenure_hub::{HubRefusal, Request, Response, fresh_id};
use tenure_plans::{Plan, PlanJob};

use super::CallerInfo;
use super::envelope::runs_plan;
use super::last::LastReply;
use super::lookup::{AfterFind, AfterMatch, AfterWorkers, find, one_queue, workers};
use super::names::{open_queue, plan_tag, tool_needs};
use super::plans::{AfterPlan, AfterStore, store_plan, with_plan};
use super::refusals::{engine_refusal_text, refusal, refused};
use crate::codec::Reply;
use crate::flow::{FlowOutcome, FlowStep, OTHER_KIND};
use crate::json::{AfterJob, JobSubmission, JobTemplate, JobWork, NotBefore, TaskOptions, pushed_name};
use crate::key::RespQueueKey;

/// Maximum delay before a failed job is retried.
const BACKOFF_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

/// `LPUSH`: one task per body.
pub(super) fn push(queue: &RespQueueKey, bodies: Vec<Bytes>, speaker: &CallerInfo) -> FlowStep {
    let name = match open_queue(queue) {
        Ok(name) => name,
        Err(error) => return FlowStep::Reply(error.reply()),
    };
    let mut submissions = Vec::with_capacity(bodies.len());
    for body in bodies {
        let known_as = match pushed_name(&body) {
            Ok(known_as) => known_as,
            Err(error) => return FlowStep::error(format!("ERR {error}")),
        };
        let mut task = named(NewTask::new(fresh_id(), name.clone()), known_as.as_deref());
        // A body that is not a plan's job has no run limit.
        if runs_plan(&body) {
            limit_run(&mut task, speaker.settings.run_limit);
        }
        submissions.push(tenure_hub::Submission::new(task, body));
    }
    FlowStep::Push { queue: name, submissions }
}

/// The replies to pushes that were submitted together: the length of the queue after each.
pub(crate) fn pushed(counts: &[usize], submitted: FlowOutcome, queue: FlowOutcome) -> Vec<Reply> {
    let (each, queue) = match (submitted, one_queue(queue)) {
        (Ok(Response::Command(Decided::Submitted(each))), Ok(queue)) => (each, queue),
        (Err(reason), _) | (_, Err(reason)) => return vec![refusal(&reason); counts.len()],
        (Ok(_), Ok(_)) => return vec![Reply::error("ERR unexpected answer"); counts.len()],
    };
    let mut length = queue.map_or(0, |queue| super::lists::ready(&queue));
    let mut replies = Vec::with_capacity(counts.len());
    let mut rest = &each[..];
    // From the last to the first, because the length is that after the last.
    for count in counts.iter().rev() {
        let own;
        (rest, own) = rest.split_at(rest.len().saturating_sub(*count));
        let is_fresh = |answer: &&Result<Accepted, Refusal>| answer.as_ref().is_ok_and(|one| !one.known);
        let fresh = i64::try_from(own.iter().filter(is_fresh).count()).unwrap_or(i64::MAX);
        replies.push(match own.iter().position(Result::is_err) {
            Some(first) => partly_refused(own, first),
            // Redis counts the pushed elements before a waiting client takes them.
            None => Reply::Integer(length.max(fresh)),
        });
        length = (length - fresh).max(0);
    }
    replies.reverse();
    replies
}

/// Each body is accepted or refused on its own, and a client that pushed several needs the outcome of each.
fn partly_refused(each: &[Result<Accepted, Refusal>], first: usize) -> Reply {
    let reasons: Vec<&Refusal> = each.iter().filter_map(|answer| answer.as_ref().err()).collect();
    let (reason, number) = (engine_refusal_text(reasons[0]), first + 1);
    Reply::error(match (each.len(), reasons.len()) {
        (1, _) => reason,
        (all, 1) => format!("{reason}; body {number} of {all} was refused, the others were pushed"),
        (all, refused) if all == refused => format!("{reason}; none of {all} bodies was pushed"),
        (all, refused) => {
            format!(
                "{reason}; {refused} of {all} bodies were refused, {number} first, the others were pushed"
            )
        }
    })
}

/// `JOB.SUBMIT`.
pub(super) fn job(mut submission: JobSubmission, speaker: &CallerInfo) -> FlowStep {
    if let Some(words) = submission.options.needs_described.take() {
        let then = AfterMatch::Job(Box::new((submission, speaker.clone())));
        return workers(AfterWorkers::Match { words, then });
    }
    let JobSubmission { name, work, parent, options } = submission;
    let job = PendingJob { name, work, options, speaker: speaker.clone() };
    match parent {
        None => job.with_parent(None),
        Some(parent) => find(&parent.clone(), AfterFind::Parent { parent, job: Box::new(job) }),
    }
}

/// A job that is about to be submitted.
#[derive(Debug)]
pub(crate) struct PendingJob {
    name: Option<String>,
    work: JobWork,
    options: TaskOptions,
    speaker: CallerInfo,
}

impl PendingJob {
    pub(super) fn with_parent(self, parent: Option<TaskId>) -> FlowStep {
        let Self { name, work, options, speaker } = self;
        let mut job = PlannedJob { name, parent, options, tags: Vec::new(), body: Bytes::new(), speaker };
        match work {
            JobWork::Body(body) => {
                job.options.run_limit.get_or_insert_default();
                job.body = body;
                job.submit()
            }
            JobWork::Plan { plan, input } => with_plan(plan, AfterPlan::Job(Box::new(job), input)),
            JobWork::Unnamed { needs, json, input } => {
                job.options.needs.get_or_insert_with(|| tool_needs(needs));
                job.body = PlanJob::render(&json, &input, None).into();
                job.submit()
            }
            JobWork::Inline { plan, json, input } => {
                job.runs(&plan, &json, &input);
                store_plan(plan.id, json, AfterStore::Job(Box::new(job)))
            }
        }
    }
}

/// A job whose parent is known, and its body once its plan is known.
#[derive(Debug)]
pub(crate) struct PlannedJob {
    name: Option<String>,
    parent: Option<TaskId>,
    options: TaskOptions,
    tags: Vec<Name>,
    body: Bytes,
    speaker: CallerInfo,
}

impl PlannedJob {
    pub(super) fn of_stored(mut self: Box<Self>, plan: &Plan, json: &Value, input: &Value) -> FlowStep {
        self.runs(plan, json, input);
        self.submit()
    }

    pub(super) fn submit(self) -> FlowStep {
        let Self { name, parent, options, tags, body, speaker } = self;
        let mut task = match new_task(&options, speaker.now, &speaker) {
            Ok(task) => named(task, name.as_deref()),
            Err(reply) => return FlowStep::Reply(reply),
        };
        task.parent = parent;
        task.tags.extend(tags);
        let submission = tenure_hub::Submission::new(task, body);
        FlowStep::Last(Request::Submit(vec![submission]), LastReply::Submitted { name })
    }

    fn runs(&mut self, plan: &Plan, json: &Value, input: &Value) {
        self.options.needs.get_or_insert_with(|| tool_needs(plan.tasks.needs()));
        self.tags.push(plan_tag(&plan.id));
        self.body = PlanJob::render(json, input, None).into();
    }
}

/// A job inside another document, as a submission.
pub(super) fn template(job: JobTemplate, speaker: &CallerInfo) -> Result<tenure_hub::Submission, Reply> {
    let JobTemplate { name, body, mut options } = job;
    options.run_limit.get_or_insert_default();
    let task = named(new_task(&options, speaker.now, speaker)?, name.as_deref());
    Ok(tenure_hub::Submission::new(task, body))
}

/// A job is known by its client's id for it, else by the broker's.
fn after(after: &AfterJob) -> After {
    let task = match after.job.parse() {
        Ok(id) => AfterTask::Id(id),
        Err(_) => AfterTask::Name(after.job.as_str().into()),
    };
    After { task, condition: after.condition }
}

/// A task with everything its submitter may say about it.
pub(super) fn new_task(
    options: &TaskOptions,
    now: Timestamp,
    speaker: &CallerInfo,
) -> Result<NewTask, Reply> {
    let queue = open_queue(&options.queue).map_err(|error| error.reply())?;
    let mut task = NewTask::new(fresh_id(), queue);
    task.priority = Some(options.priority);
    let needs = options.needs.iter().flatten().chain(&options.needs_matched);
    task.needs = needs.map(|need| Name::from(need.as_str())).collect();
    task.tags = options.tags.iter().map(|tag| Name::from(tag.as_str())).collect();
    task.share = options.share.as_deref().map(Name::from);
    task.after = options.after.iter().map(after).collect();
    task.on_broken = options.after_broken;
    task.demand = options.demand.clone();
    task.trace.clone_from(&options.trace);
    task.on_lost = options.on_lost_worker.unwrap_or_default();
    task.not_before = options.not_before.map(|when| match when {
        NotBefore::At(millis) => Timestamp(millis),
        NotBefore::In(delay) => now + delay,
    });
    task.expires_at = options.start_within.map(|within| task.not_before.unwrap_or(now).max(now) + within);
    limit_run(&mut task, options.run_limit.unwrap_or(speaker.settings.run_limit));
    task.cancel_timeout = options.cancel_timeout;
    let few = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    task.retries = options.retries.map_or(0, few);
    task.crash_budget = options.crash_budget.map_or(task.crash_budget, few);
    if let Some(first) = options.retry_delay {
        task.backoff = Backoff { first, max: first.max(BACKOFF_MAX) };
    }
    Ok(task)
}

/// Run limit of one attempt; zero means no limit. A longer attempt fails.
fn limit_run(task: &mut NewTask, limit: std::time::Duration) {
    task.run_limit = Some(limit).filter(|limit| !limit.is_zero());
    task.overrun_fails = task.run_limit.is_some();
}

/// A job's own id is its idempotency key. A UUID is also its task id.
pub(super) fn named(mut task: NewTask, name: Option<&str>) -> NewTask {
    if let Some(name) = name {
        if let Ok(id) = name.parse::<TaskId>() {
            task.id = id;
        }
        task.name = Some(Name::from(name));
    }
    task
}

pub(super) fn accepted(outcome: FlowOutcome) -> Result<Vec<Accepted>, HubRefusal> {
    match refused(outcome)? {
        Response::Command(Decided::Submitted(each)) => Ok(each.into_iter().flatten().collect()),
        _ => Err(OTHER_KIND),
    }
}
