//! Submitting: pushes, jobs, and the bodies that carry plans.

use bytes::Bytes;
use tenure_hub::words::{
    Accepted, Backoff, Name, NewTask, OnLost, Refusal, Reply as Decided, TaskId, Timestamp,
};
use tenure_hub::{Request, Response, fresh_id};
use tenure_plans::PlanJob;

use super::Speaker;
use super::names::{open_queue, plan_tag};
use super::pages::{find, one_queue};
use super::plans::{store_plan, with_plan};
use super::refusals::{refusal, refusal_text, refused};
use crate::codec::Reply;
use crate::errand::{Outcome, Step};
use crate::key::QueueKey;
use crate::shapes::{LostPolicy, Submission, TaskOptions, When, Work, pushed_name};

/// How long a failed job waits at most before it is tried again.
const BACKOFF_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

/// `LPUSH`: one task per body.
pub(super) fn push(queue: &QueueKey, bodies: Vec<Bytes>, speaker: &Speaker) -> Step {
    let name = match open_queue(queue) {
        Ok(name) => name,
        Err(error) => return Step::Reply(error.reply()),
    };
    let mut submissions = Vec::with_capacity(bodies.len());
    for body in bodies {
        let known_as = match pushed_name(&body) {
            Ok(known_as) => known_as,
            Err(error) => return Step::error(format!("ERR {error}")),
        };
        let mut task = named(NewTask::new(fresh_id(), name.clone()), known_as.as_deref());
        task.run_limit = Some(speaker.settings.run_limit);
        submissions.push(tenure_hub::Submission::new(task, body));
    }
    Step::Push { queue: name, submissions }
}

/// The answers to pushes that went together: to each how long the queue was after it.
pub(crate) fn pushed(counts: &[usize], submitted: Outcome, queue: Outcome) -> Vec<Reply> {
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
            // Redis counts what was pushed before somebody who waits gets it.
            None => Reply::Integer(length.max(fresh)),
        });
        length = (length - fresh).max(0);
    }
    replies.reverse();
    replies
}

/// Each body is accepted or refused on its own, and whoever pushed several has to know what became of each.
fn partly_refused(each: &[Result<Accepted, Refusal>], first: usize) -> Reply {
    let reasons: Vec<&Refusal> = each.iter().filter_map(|answer| answer.as_ref().err()).collect();
    let (reason, number) = (refusal_text(reasons[0]), first + 1);
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
pub(super) fn job(submission: Submission, speaker: &Speaker) -> Step {
    let Submission { name, work, parent, options } = submission;
    let speaker = speaker.clone();
    let go_on = move |parent: Option<TaskId>| match work {
        Work::Body(body) => submit(name, parent, &options, Vec::new(), body, &speaker),
        Work::Plan { plan, input } => with_plan(plan, move |_, plan, json| {
            let body = PlanJob::render(&json, &input, None).into();
            submit_of_plan(name, parent, &options, &plan.id, plan.tasks.needs(), body, &speaker)
        }),
        Work::Unnamed { needs, json, input } => {
            let mut options = options;
            options.needs.get_or_insert(needs);
            submit(name, parent, &options, Vec::new(), PlanJob::render(&json, &input, None).into(), &speaker)
        }
        Work::Inline { plan, json, input } => {
            let body = PlanJob::render(&json, &input, None).into();
            let (id, needs) = (plan.id.clone(), plan.tasks.needs());
            store_plan(&id.clone(), &json, move |_, stored| match stored {
                Err(reply) => Step::Reply(reply),
                Ok(()) => submit_of_plan(name, parent, &options, &id, needs, body, &speaker),
            })
        }
    };
    match parent {
        None => go_on(None),
        Some(parent) => find(&parent.clone(), move |_, found| match found {
            Ok(task) => go_on(Some(task.id)),
            Err(_) => Step::error(format!("ERR Parent job not found: {parent}")),
        }),
    }
}

/// A task with everything its submitter may say about it.
pub(super) fn new_task(options: &TaskOptions, now: Timestamp, speaker: &Speaker) -> Result<NewTask, Reply> {
    let queue = open_queue(&options.queue).map_err(|error| error.reply())?;
    let mut task = NewTask::new(fresh_id(), queue);
    task.priority = Some(options.priority);
    task.needs = options.needs.iter().flatten().map(|need| Name::from(need.as_str())).collect();
    task.tags = options.tags.iter().map(|tag| Name::from(tag.as_str())).collect();
    task.on_lost = match options.on_lost_worker {
        None | Some(LostPolicy::Requeue) => OnLost::Requeue,
        Some(LostPolicy::Pause) => OnLost::Pause,
        Some(LostPolicy::Fail) => OnLost::Fail,
    };
    task.not_before = options.not_before.map(|when| match when {
        When::At(millis) => Timestamp(millis),
        When::In(delay) => now + delay,
    });
    task.expires_at = options.start_within.map(|within| task.not_before.unwrap_or(now).max(now) + within);
    task.run_limit =
        Some(options.run_limit.unwrap_or(speaker.settings.run_limit)).filter(|limit| !limit.is_zero());
    let few = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    task.retries = options.retries.map_or(0, few);
    task.crash_budget = options.crash_budget.map_or(task.crash_budget, few);
    if let Some(first) = options.retry_delay {
        task.backoff = Backoff { first, max: first.max(BACKOFF_MAX) };
    }
    Ok(task)
}

/// A job's own id makes it the same job however often it is submitted. One that is a UUID is also its id here.
pub(super) fn named(mut task: NewTask, name: Option<&str>) -> NewTask {
    if let Some(name) = name {
        if let Ok(id) = name.parse::<TaskId>() {
            task.id = id;
        }
        task.name = Some(Name::from(name));
    }
    task
}

pub(super) fn accepted(outcome: Outcome) -> Result<Vec<Accepted>, Refusal> {
    match refused(outcome)? {
        Response::Command(Decided::Submitted(each)) => Ok(each.into_iter().flatten().collect()),
        _ => Err(Refusal::BadValue { what: "answer", why: "is of another kind" }),
    }
}

fn submit_of_plan(
    name: Option<String>,
    parent: Option<TaskId>,
    options: &TaskOptions,
    plan: &str,
    needs: Vec<String>,
    body: Bytes,
    speaker: &Speaker,
) -> Step {
    let mut options = options.clone();
    options.needs.get_or_insert(needs);
    submit(name, parent, &options, vec![plan_tag(plan)], body, speaker)
}

fn submit(
    name: Option<String>,
    parent: Option<TaskId>,
    options: &TaskOptions,
    tags: Vec<Name>,
    body: Bytes,
    speaker: &Speaker,
) -> Step {
    let mut task = match new_task(options, speaker.now, speaker) {
        Ok(task) => named(task, name.as_deref()),
        Err(reply) => return Step::Reply(reply),
    };
    task.parent = parent;
    task.tags.extend(tags);
    let submission = tenure_hub::Submission::new(task, body);
    Step::last(Request::Submit(vec![submission]), move |_, outcome| match accepted(outcome) {
        Err(reason) => refusal(&reason),
        Ok(each) => {
            let task = each.first().map(|accepted| accepted.task.to_string()).unwrap_or_default();
            Reply::bulk(name.unwrap_or(task))
        }
    })
}
