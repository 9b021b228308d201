//! Lists and queues: a pop claims, a range looks.

use bytes::Bytes;
use serde_json::json;
use tenure_hub::words::{
    Answer, Assignment, Command, ListQuery, Name, Query, QueueInfo, Refusal, StateName, TaskInfo, Timestamp,
};
use tenure_hub::{Request, Response};

use super::names::{assigned_id, job_id, open_queue, queue_name};
use super::pages::{find, list, one_queue};
use super::refusals::{call_refused, refusal};
use super::render::{pulled, time};
use super::workers::about_held;
use super::{Speaker, ranges, submit};
use crate::codec::{Reply, Version};
use crate::command::{Claim, ListCommand, PopReply, QueueCommand, Wait};
use crate::errand::{Step, Whom};
use crate::key::QueueKey;
use crate::shapes::pushed_name;
use crate::worker::{Call, CallAnswer, Pop};

pub(super) fn start(command: ListCommand, speaker: &Speaker) -> Step {
    match command {
        ListCommand::Push { queue, bodies } => submit::push(&queue, bodies, speaker),
        ListCommand::Claim(claim) => pop(claim, speaker),
        ListCommand::Length { key } => ranges::length(key),
        ListCommand::Range { key, start, stop } => ranges::range(key, start, stop),
        ListCommand::Remove { queue, element } => remove(queue, &element, speaker),
    }
}

pub(super) fn start_queue(command: QueueCommand) -> Step {
    match command {
        QueueCommand::Stats { queue: None } => {
            Step::last(Request::Query(Query::Counts), |_, outcome| match outcome {
                Ok(Response::Answer(Answer::Counts(counts))) => Reply::array([
                    Reply::word("pending_jobs"),
                    number(counts.by_state[StateName::Ready as usize]),
                    Reply::word("scheduled_jobs"),
                    number(counts.by_state[StateName::Delayed as usize]),
                ]),
                Ok(_) => Reply::error("ERR unexpected answer"),
                Err(reason) => refusal(&reason),
            })
        }
        QueueCommand::Stats { queue: Some(queue) } => stats(&queue),
        QueueCommand::Peek { queue, count } => match open_queue(&queue) {
            Err(error) => Step::Reply(error.reply()),
            Ok(name) => list(
                waiting_in(name),
                count,
                |_| true,
                |_, tasks| Step::Reply(Reply::array(tasks.iter().map(|task| Reply::bulk(job_id(task))))),
            ),
        },
    }
}

/// How many tasks wait in a queue.
pub(super) fn ready(queue: &QueueInfo) -> i64 {
    whole(queue.counts[StateName::Ready as usize])
}

pub(super) fn waiting_in(queue: Name) -> ListQuery {
    ListQuery { states: vec![StateName::Ready], queue: Some(queue), ..ListQuery::default() }
}

fn pop(claim: Claim, speaker: &Speaker) -> Step {
    let Claim { queues, wait, reply, list } = claim;
    let mut names = Vec::with_capacity(queues.len());
    for (_, queue) in &queues {
        match open_queue(queue) {
            Ok(name) => names.push(name),
            Err(error) => return Step::Reply(error.reply()),
        }
    }
    let whole = !matches!(reply, PopReply::Id);
    let wait = match wait {
        Wait::NotAtAll => Some(std::time::Duration::ZERO),
        Wait::AtMost(wait) => Some(wait),
        Wait::ForEver => None,
    };
    if let PopReply::Jobs { count } = reply {
        let pop = Pop { queues: names, wait, whole, list };
        return pop_many(&pop, count, speaker.worker.clone().unwrap_or_default());
    }
    let worker = speaker.worker.clone().unwrap_or_default();
    let as_pair = queues.len() > 1 || speaker.is_library || speaker.version == Version::Resp3;
    // A long wait holds on to the keys only if the answer names one.
    let keys = if as_pair { names.iter().cloned().zip(queues).collect() } else { Vec::new() };
    let call = Call::Pop(Pop { queues: names, wait, whole, list });
    Step::call(Whom::Puller, call, move |_, answer| match answer {
        CallAnswer::Nothing if matches!(reply, PopReply::KeyAndJob) && as_pair => {
            Step::Reply(Reply::NullArray)
        }
        CallAnswer::Nothing => Step::Reply(Reply::Null),
        CallAnswer::Popped(assignment) => match reply {
            PopReply::Id => Step::Reply(Reply::bulk(assigned_id(&assignment))),
            PopReply::Job | PopReply::Jobs { .. } | PopReply::KeyAndJob => {
                with_body(assignment, move |job, queue| {
                    if !matches!(reply, PopReply::KeyAndJob) || !as_pair {
                        return Reply::Bulk(job);
                    }
                    let asked = keys.iter().position(|(name, _)| *name == queue).unwrap_or(0);
                    let (_, (key, _)) = &keys[asked];
                    Reply::array([Reply::Bulk(key.clone()), Reply::Bulk(job)])
                })
            }
        },
        other => Step::Reply(call_refused(&other, &worker)),
    })
}

/// Several at once share a sync.
fn pop_many(pop: &Pop, count: usize, worker: Name) -> Step {
    if count == 0 {
        return Step::Reply(Reply::Array(Vec::new()));
    }
    let calls = (0..count).map(|_| (Whom::Puller, Call::Pop(pop.clone()))).collect();
    Step::Calls(
        calls,
        Box::new(move |_, answers| {
            let mut popped = Vec::new();
            let mut reply = Reply::NullArray;
            for answer in answers {
                match answer {
                    CallAnswer::Popped(assignment) => popped.push(assignment),
                    CallAnswer::Nothing => {}
                    other => reply = call_refused(&other, &worker),
                }
            }
            if popped.is_empty() {
                return Step::Reply(reply);
            }
            let bodies = popped.iter().map(|assignment| assignment.body).collect();
            Step::Read(
                bodies,
                Box::new(move |_, bodies| {
                    let whole = |(assignment, body): (Box<Assignment>, Result<Bytes, Refusal>)| {
                        Reply::Bulk(pulled(&assignment, &body.unwrap_or_default()))
                    };
                    Step::Reply(Reply::Array(popped.into_iter().zip(bodies).map(whole).collect()))
                }),
            )
        }),
    )
}

fn with_body(assignment: Box<Assignment>, reply: impl FnOnce(Bytes, Name) -> Reply + Send + 'static) -> Step {
    let body = assignment.body;
    Step::read(body, move |_, body| {
        Step::Reply(match body {
            Ok(body) => {
                let queue = assignment.terms.queue.clone();
                reply(pulled(&assignment, &body), queue)
            }
            Err(reason) => refusal(&reason),
        })
    })
}

/// `LREM`: the element is an id, or for the oldest workers the whole job.
fn remove(queue: QueueKey, element: &Bytes, speaker: &Speaker) -> Step {
    let job = match pushed_name(element) {
        Ok(Some(name)) => name,
        _ => match std::str::from_utf8(element) {
            Ok(text) => text.to_owned(),
            Err(_) => return Step::Reply(Reply::Integer(0)),
        },
    };
    let worker = speaker.worker.clone();
    let finish = Call::Finish { job: job.clone(), list: queue.clone() };
    about_held(Whom::Own, job.clone(), worker.clone(), finish, move |answer| match answer {
        CallAnswer::Done => Step::Reply(Reply::Integer(1)),
        CallAnswer::NotHeld | CallAnswer::NotRegistered => find(&job.clone(), move |_, found| match found {
            Err(_) => Step::Reply(Reply::Integer(0)),
            Ok(task) => remove_other(&task, &queue, &job, worker.as_deref()),
        }),
        other => Step::Reply(call_refused(&other, worker.as_deref().unwrap_or_default())),
    })
}

/// A job that the speaker does not hold on this list: it has ended, waits, is on another list or another's.
fn remove_other(task: &TaskInfo, queue: &QueueKey, job: &str, worker: Option<&str>) -> Step {
    let is_held_list = *queue == QueueKey::Processing;
    if task.state.name().has_ended() {
        // A worker that reported the end takes the job off the list afterwards.
        return Step::Reply(Reply::Integer(i64::from(is_held_list)));
    }
    if let Some(holding) = task.state.holding() {
        return Step::Reply(match is_held_list {
            true => super::jobs::not_yours(worker, &holding.worker),
            false => Reply::Integer(0),
        });
    }
    if queue_name(queue).as_ref() != Some(&task.terms.queue) {
        return Step::Reply(Reply::Integer(0));
    }
    let reason = Some(format!("{job} was removed from its queue").into_boxed_str());
    Step::last(Request::Command(Command::Cancel { task: task.id, reason }), |_, outcome| {
        outcome.map_or_else(|reason| refusal(&reason), |_| Reply::Integer(1))
    })
}

fn stats(queue: &QueueKey) -> Step {
    let name = match open_queue(queue) {
        Ok(name) => name,
        Err(error) => return Step::Reply(error.reply()),
    };
    Step::last(Request::Query(Query::Queue { queue: name }), |now: Timestamp, outcome| {
        match one_queue(outcome) {
            Ok(None) => Reply::Null,
            Ok(Some(queue)) => {
                let count = |state: StateName| queue.counts[state as usize];
                let age = queue.oldest_ready.map(|at| now.since(at).as_secs());
                let shown = json!({
                    "queue": &*queue.queue, "paused": queue.paused, "pending": count(StateName::Ready),
                    "length": count(StateName::Ready), "scheduled": count(StateName::Delayed),
                    "running": count(StateName::Assigned) + count(StateName::Running),
                    "held": count(StateName::Paused), "completed": count(StateName::Completed),
                    "failed": count(StateName::Failed), "cancelled": count(StateName::Cancelled),
                    "workers": queue.live_workers, "oldest_job_age_seconds": age,
                    "oldest_job_at": queue.oldest_ready.map(time),
                    "unserved_since": queue.unserved_since.map(time),
                });
                Reply::bulk(shown.to_string())
            }
            Err(reason) => refusal(&reason),
        }
    })
}

pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn number(count: u64) -> Reply {
    Reply::Integer(whole(count))
}
