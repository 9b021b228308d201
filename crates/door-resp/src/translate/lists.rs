//! Lists and queues: a pop claims, a range reads.

use bytes::Bytes;
use tenure_hub::words::{
    Assignment, Command, ListQuery, Name, Query, QueueInfo, StateName, TaskInfo, Thresholds,
};
use tenure_hub::{HubRefusal, Request};

use super::jobs::Keep;
use super::last::LastReply;
use super::lookup::{AfterFind, AfterList, find, list};
use super::names::{assigned_id, open_queue, queue_name};
use super::refusals::{call_refused, refusal};
use super::render::{pulled, pulled_plan};
use super::workers::{AfterHeld, about_held};
use super::{CallerInfo, ranges, submit};
use crate::codec::{Reply, Version};
use crate::command::{ClaimCommand, OwnThresholds, PopReply, QueueCommand, RespListCommand, Wait};
use crate::flow::{CommandFlow, FlowStep, Input, TargetWorker};
use crate::json::pushed_name;
use crate::key::RespQueueKey;
use crate::worker::{Pop, RespCall, RespCallReply};

/// What a pop waits for.
#[derive(Debug)]
pub(crate) enum ListFlow {
    Popping(Box<Popping>),
    PoppingMany {
        worker: Name,
    },
    Reading {
        assignment: Box<Assignment>,
        keys: Keys,
    },
    ReadingElement(Box<Assignment>),
    /// The pushed bytes; a pop that does not move the job also completes it.
    ReadingRaw {
        assignment: Box<Assignment>,
        keys: Keys,
        ends: bool,
    },
    EndingRaw {
        reply: Reply,
        worker: Name,
    },
    ReadingMany(Vec<Assignment>),
}

/// A pop of one job, and the form of its reply.
#[derive(Debug)]
pub(crate) struct Popping {
    reply: PopReply,
    /// Return the whole job, not only its id.
    whole: bool,
    raw: bool,
    /// The reply names the key that the job came from.
    as_pair: bool,
    keys: Keys,
    worker: Name,
}

/// The keys of a pop, by the queues behind them. Empty if the reply names no key.
type Keys = Vec<(Name, Bytes)>;

impl ListFlow {
    pub(crate) fn resume(self, input: Input) -> FlowStep {
        match self {
            Self::Popping(popping) => popping.popped(input.call()),
            Self::PoppingMany { worker } => popped_many(input.calls(), &worker),
            Self::Reading { assignment, keys } => FlowStep::Reply(match input.read() {
                Ok(body) => {
                    let job = Reply::Bulk(pulled(&assignment, &body));
                    let asked = keys.iter().find(|(name, _)| *name == assignment.terms.queue);
                    match asked.or(keys.first()) {
                        Some((_, key)) => Reply::array([Reply::Bulk(key.clone()), job]),
                        None => job,
                    }
                }
                Err(reason) => refusal(&reason),
            }),
            Self::ReadingElement(assignment) => FlowStep::Reply(match input.read() {
                Ok(body) => match pulled_plan(&assignment, &body) {
                    Some(job) => Reply::Bulk(job),
                    None => Reply::bulk(assigned_id(&assignment)),
                },
                Err(reason) => refusal(&reason),
            }),
            Self::ReadingRaw { assignment, keys, ends } => match input.read() {
                Ok(body) => read_raw(&assignment, &keys, ends, body),
                Err(reason) => FlowStep::Reply(refusal(&reason)),
            },
            Self::EndingRaw { reply, worker } => FlowStep::Reply(match input.call() {
                RespCallReply::Done | RespCallReply::Wanted(_) => reply,
                other => call_refused(&other, &worker),
            }),
            Self::ReadingMany(popped) => {
                let whole = |(assignment, body): (Assignment, Result<Bytes, HubRefusal>)| {
                    Reply::Bulk(pulled(&assignment, &body.unwrap_or_default()))
                };
                FlowStep::Reply(Reply::Array(popped.into_iter().zip(input.read_all()).map(whole).collect()))
            }
        }
    }
}

impl Popping {
    fn popped(self, answer: RespCallReply) -> FlowStep {
        let Self { reply, whole, raw, as_pair, keys, worker } = self;
        match answer {
            RespCallReply::Nothing if matches!(reply, PopReply::KeyAndJob) && as_pair => {
                FlowStep::Reply(Reply::NullArray)
            }
            RespCallReply::Nothing => FlowStep::Reply(Reply::Null),
            RespCallReply::Pulled(assignment) if raw => {
                let (body, ends) = (assignment.body, !matches!(reply, PopReply::Element));
                let flow = ListFlow::ReadingRaw { assignment, keys, ends };
                FlowStep::Read(vec![body], CommandFlow::List(flow))
            }
            RespCallReply::Pulled(assignment) => match reply {
                PopReply::Element if !whole => FlowStep::Reply(Reply::bulk(assigned_id(&assignment))),
                PopReply::Element => {
                    let body = assignment.body;
                    FlowStep::Read(vec![body], CommandFlow::List(ListFlow::ReadingElement(assignment)))
                }
                PopReply::Job | PopReply::Jobs { .. } => read_body(assignment, Vec::new()),
                PopReply::KeyAndJob => read_body(assignment, keys),
            },
            other => FlowStep::Reply(call_refused(&other, &worker)),
        }
    }
}

pub(super) fn start(command: RespListCommand, speaker: &CallerInfo) -> FlowStep {
    match command {
        RespListCommand::Push { queue, bodies } => submit::push(&queue, bodies, speaker),
        RespListCommand::Claim(claim) => pop(claim, speaker),
        RespListCommand::Length { key } => ranges::length(key),
        RespListCommand::Range { key, start, stop } => ranges::range(key, start, stop),
        RespListCommand::Remove { queue, element } => remove(queue, &element, speaker),
    }
}

pub(super) fn start_queue(command: QueueCommand) -> FlowStep {
    match command {
        QueueCommand::Stats { queue: None } => {
            FlowStep::Last(Request::Query(Query::Counts), LastReply::Counts)
        }
        QueueCommand::Stats { queue: Some(queue) } => stats(&queue),
        QueueCommand::Metrics(format) => FlowStep::Last(Request::Stats, LastReply::Metrics(format)),
        QueueCommand::Threshold { queue, own } => match open_queue(&queue) {
            Err(error) => FlowStep::Reply(error.reply()),
            Ok(queue) => {
                let thresholds = own.map(|OwnThresholds { depth, age }| Thresholds { depth, age });
                done(Command::SetThresholds { queue, thresholds })
            }
        },
        QueueCommand::Limit { tag, limit } => done(Command::SetLimit { tag: tag.into(), limit }),
        QueueCommand::Limits => FlowStep::Last(Request::Query(Query::Limits), LastReply::Limits),
        QueueCommand::Peek { queue, count } => match open_queue(&queue) {
            Err(error) => FlowStep::Reply(error.reply()),
            Ok(name) => list(waiting_in(name), count, Keep::All, AfterList::Peek),
        },
    }
}

fn done(command: Command) -> FlowStep {
    FlowStep::Last(Request::Command(command), LastReply::Done(Reply::simple("OK")))
}

/// How many tasks wait in a queue.
pub(super) fn ready(queue: &QueueInfo) -> i64 {
    whole(queue.counts[StateName::Ready as usize])
}

pub(super) fn waiting_in(queue: Name) -> ListQuery {
    ListQuery { states: vec![StateName::Ready], queue: Some(queue), ..ListQuery::default() }
}

fn pop(claim: ClaimCommand, speaker: &CallerInfo) -> FlowStep {
    let ClaimCommand { queues, wait, reply, list, raw } = claim;
    let mut names = Vec::with_capacity(queues.len());
    for (_, queue) in &queues {
        match open_queue(queue) {
            Ok(name) => names.push(name),
            Err(error) => return FlowStep::Reply(error.reply()),
        }
    }
    // A worker that only pings may be of the generation that reads a whole job, until it asks for one by its id.
    let is_oldest = || speaker.may_read_jobs_only && queues.iter().any(|(key, _)| **key == *b"queue:ready");
    let whole = raw || !matches!(reply, PopReply::Element) || is_oldest();
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
    let reads_job = speaker.is_introduced || speaker.settings.pops_job_alone;
    let as_pair = queues.len() > 1 || speaker.is_library || speaker.version == Version::Resp3 || !reads_job;
    // A long wait keeps the keys only if the reply names one.
    let keys = if as_pair && matches!(reply, PopReply::KeyAndJob) {
        names.iter().cloned().zip(queues.into_iter().map(|(key, _)| key)).collect()
    } else {
        Vec::new()
    };
    let call = RespCall::Pull(Pop { queues: names, wait, whole, list });
    let popping = Box::new(Popping { reply, whole, raw, as_pair, keys, worker });
    FlowStep::Call(TargetWorker::Puller, call, CommandFlow::List(ListFlow::Popping(popping)))
}

/// Several at once share a sync.
fn pop_many(pop: &Pop, count: usize, worker: Name) -> FlowStep {
    if count == 0 {
        return FlowStep::Reply(Reply::Array(Vec::new()));
    }
    let calls = (0..count).map(|_| (TargetWorker::Puller, RespCall::Pull(pop.clone()))).collect();
    FlowStep::Calls(calls, CommandFlow::List(ListFlow::PoppingMany { worker }))
}

fn popped_many(answers: Vec<RespCallReply>, worker: &str) -> FlowStep {
    let mut popped = Vec::new();
    let mut reply = Reply::NullArray;
    for answer in answers {
        match answer {
            RespCallReply::Pulled(assignment) => popped.push(*assignment),
            RespCallReply::Nothing => {}
            other => reply = call_refused(&other, worker),
        }
    }
    if popped.is_empty() {
        return FlowStep::Reply(reply);
    }
    let bodies = popped.iter().map(|assignment| assignment.body).collect();
    FlowStep::Read(bodies, CommandFlow::List(ListFlow::ReadingMany(popped)))
}

fn read_body(assignment: Box<Assignment>, keys: Keys) -> FlowStep {
    let body = assignment.body;
    FlowStep::Read(vec![body], CommandFlow::List(ListFlow::Reading { assignment, keys }))
}

/// Returns the pushed bytes. A pop completes the job, as in Redis; a move leaves it held until LREM.
fn read_raw(assignment: &Assignment, keys: &Keys, ends: bool, body: Bytes) -> FlowStep {
    let job = assigned_id(assignment);
    if !ends {
        return FlowStep::Handed { job, element: body };
    }
    let asked = keys.iter().find(|(name, _)| *name == assignment.terms.queue).or(keys.first());
    let reply = match asked {
        Some((_, key)) => Reply::array([Reply::Bulk(key.clone()), Reply::Bulk(body)]),
        None => Reply::Bulk(body),
    };
    let finish = RespCall::Finish { task: job, list: RespQueueKey::Processing };
    let flow = ListFlow::EndingRaw { reply, worker: Name::default() };
    FlowStep::Call(TargetWorker::Own, finish, CommandFlow::List(flow))
}

/// `LREM`: the element is an id, or for the oldest workers the whole job.
fn remove(queue: RespQueueKey, element: &Bytes, speaker: &CallerInfo) -> FlowStep {
    let job = match pushed_name(element) {
        Ok(Some(name)) => name,
        _ => match std::str::from_utf8(element) {
            Ok(text) => text.to_owned(),
            Err(_) => return FlowStep::Reply(Reply::Integer(0)),
        },
    };
    let worker = speaker.worker.clone();
    let finish = RespCall::Finish { task: job.clone(), list: queue.clone() };
    let then = AfterHeld::Remove { queue, job: job.clone(), worker: worker.clone() };
    about_held(TargetWorker::Own, job, worker, finish, then)
}

/// The worker actor's reply to a removal.
pub(super) fn removed(
    queue: RespQueueKey,
    job: String,
    worker: Option<Name>,
    answer: &RespCallReply,
) -> FlowStep {
    match answer {
        RespCallReply::Done => FlowStep::Reply(Reply::Integer(1)),
        RespCallReply::NotHeld | RespCallReply::NotRegistered => {
            find(&job.clone(), AfterFind::Remove { queue, job, worker })
        }
        other => FlowStep::Reply(call_refused(other, worker.as_deref().unwrap_or_default())),
    }
}

/// A job that this worker does not hold on this list: it has ended, waits, is on another list or belongs to another
/// worker.
pub(super) fn remove_other(
    task: &TaskInfo,
    queue: &RespQueueKey,
    job: &str,
    worker: Option<&str>,
) -> FlowStep {
    let is_held_list = *queue == RespQueueKey::Processing;
    if task.state.name().has_ended() {
        // A worker that reported the end removes the job from the list afterwards.
        return FlowStep::Reply(Reply::Integer(i64::from(is_held_list)));
    }
    if let Some(holding) = task.state.holding() {
        return FlowStep::Reply(match is_held_list {
            true => super::jobs::held_by_other(worker, &holding.worker),
            false => Reply::Integer(0),
        });
    }
    if queue_name(queue).as_ref() != Some(&task.terms.queue) {
        return FlowStep::Reply(Reply::Integer(0));
    }
    let reason = Some(format!("{job} was removed from its queue").into_boxed_str());
    let cancel = Request::Command(Command::Cancel { task: task.id, reason });
    FlowStep::Last(cancel, LastReply::Done(Reply::Integer(1)))
}

fn stats(queue: &RespQueueKey) -> FlowStep {
    match open_queue(queue) {
        Ok(queue) => FlowStep::Last(Request::Query(Query::Queue { queue }), LastReply::Queue),
        Err(error) => FlowStep::Reply(error.reply()),
    }
}

pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
