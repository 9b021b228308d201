//! Views: keys that read jobs, plans, actions and workers, and the few that report.

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::Request;
use tenure_hub::keyspace::{Command as KeyCommand, KeyCommand as OnKey, Reply as KeyReply, StringCommand};
use tenure_hub::words::{Name, Query, TaskInfo, Timestamp, WorkerInfo};

use super::actions::{AfterAbout, AfterAction, find_action, with_action};
use super::jobs::explain_not_held;
use super::lookup::{
    AfterFind, AfterResult, AfterWhole, AfterWorker, AfterWorkers, LookupResult, find, find_readable,
    read_result, read_whole, worker, workers,
};
use super::names::{declared_offers, status, tag_offers, tags_of};
use super::plans::{AfterFindPlan, find_plan};
use super::refusals::call_refused;
use super::workers::{AfterHeld, CallWithReply, about_held, rename_worker};
use super::{CallerInfo, key_reply, keyspace, metadata, render, results};
use crate::codec::{Reply, Version};
use crate::command::{AskedKey, HashPart, ViewCommand};
use crate::flow::{CommandFlow, FlowStep, Input, TargetWorker};
use crate::json::{Capabilities, JobReport, JobUpdate, Outputs, check_worker_id};
use crate::key::{ActionField, JobField, RespKey, WorkerField};
use crate::rights::JobReader;
use crate::worker::{RespCall, RespCallReply};

/// How long a worker's statistics are shown.
const STATS_FOR: Duration = Duration::from_secs(120);

/// The state of a waiting view.
#[derive(Debug)]
pub(crate) enum ViewFlow {
    /// A reply that is not needed: it keeps the order of replies.
    Nothing(AfterValue),
    /// What clients keep beside a view, and then the view.
    Metadata {
        key: RespKey,
        part: HashPart,
        wanted: Option<Vec<Bytes>>,
        speaker: Box<CallerInfo>,
    },
    /// A stored string among views.
    Stored(AfterValue),
    /// Checks whether something is stored under one of several names; otherwise checks the view.
    StoredOr(Option<RespKey>, AfterIsThere),
    /// The last question.
    Answering,
    ReadingPlan(AfterValue),
    /// The connection's worker, if there is one, learns that the job was mentioned.
    Mentioning {
        job: String,
        field: JobField,
        then: AfterValue,
        reader: JobReader,
        worker: Option<Name>,
    },
}

impl ViewFlow {
    pub(crate) fn resume(self, input: Input) -> FlowStep {
        match self {
            Self::Nothing(then) => then.go(None),
            Self::Metadata { key, part, wanted, speaker } => match input.keys() {
                Ok(reply) => {
                    let kept = metadata::kept(wanted, reply);
                    value_for(&speaker, key, AfterValue::Hash { part, kept })
                }
                Err(reply) => FlowStep::Reply(reply),
            },
            Self::Stored(then) => match input.keys() {
                Ok(KeyReply::Array(mut values)) => then.go(match values.pop() {
                    Some(KeyReply::Bulk(value)) => Some(value),
                    _ => None,
                }),
                Ok(_) => then.go(None),
                Err(reply) => FlowStep::Reply(reply),
            },
            Self::StoredOr(view, then) => match (input.keys(), view) {
                (Ok(KeyReply::Integer(0)), Some(view)) => is_there(view, then),
                (Ok(count), _) => then.go(count != KeyReply::Integer(0)),
                (Err(reply), _) => FlowStep::Reply(reply),
            },
            Self::Answering => FlowStep::Reply(
                input.keys().map_or_else(|reply| reply, |reply| key_reply(reply, Version::Resp2)),
            ),
            Self::ReadingPlan(then) => then.go(input.read().ok()),
            Self::Mentioning { job, field, then, reader, worker } => {
                find_readable(&job, reader, worker, AfterFind::Field(field, then))
            }
        }
    }
}

/// What to do with the value of a key.
#[derive(Debug)]
pub(crate) enum AfterValue {
    Get,
    /// MGET: the keys that are left, the last one first, and what was found before.
    GetMany {
        left: Vec<AskedKey>,
        found: Vec<Reply>,
    },
    Hash {
        part: HashPart,
        kept: Vec<(Bytes, Bytes)>,
    },
    IsThere(AfterIsThere),
}

impl AfterValue {
    pub(super) fn go(self, value: Option<Bytes>) -> FlowStep {
        match self {
            Self::Get => FlowStep::Reply(value.map_or(Reply::Null, Reply::Bulk)),
            Self::GetMany { left, mut found } => {
                found.push(value.map_or(Reply::Null, Reply::Bulk));
                values(left, found)
            }
            Self::Hash { part, kept } => FlowStep::Reply(metadata::part_of(part, value.as_ref(), kept)),
            Self::IsThere(then) => then.go(value.is_some()),
        }
    }
}

/// What to do with whether a key exists.
#[derive(Debug)]
pub(crate) enum AfterIsThere {
    Type(Option<&'static str>),
    /// EXISTS: the keys that are left, and how many were there before.
    Exists(Vec<AskedKey>, i64),
    TimeToLive {
        milliseconds: bool,
    },
    /// The view may have metadata: if the view does not exist, this decides.
    OrStored(Box<AfterIsThere>, OnKey),
}

impl AfterIsThere {
    pub(super) fn go(self, there: bool) -> FlowStep {
        match self {
            Self::Type(kind) => FlowStep::Reply(Reply::simple(kind.filter(|_| there).unwrap_or("none"))),
            Self::Exists(keys, found) => exists(keys, found + i64::from(there)),
            Self::TimeToLive { milliseconds } => FlowStep::Reply(time_left(None, there, milliseconds)),
            Self::OrStored(then, _) if there => then.go(true),
            Self::OrStored(_, question) => {
                FlowStep::Keys(KeyCommand::Key(question), CommandFlow::View(ViewFlow::Answering))
            }
        }
    }
}

/// What to do with the workers that offer a capability.
#[derive(Debug)]
pub(crate) enum AfterMembers {
    All,
    Has(String),
    Count,
    IsThere(AfterIsThere),
}

impl AfterMembers {
    pub(super) fn go(self, members: Vec<String>) -> FlowStep {
        FlowStep::Reply(match self {
            Self::All => Reply::Set(members.into_iter().map(Reply::bulk).collect()),
            Self::Has(member) => Reply::from(members.contains(&member)),
            Self::Count => Reply::count(members.len()),
            Self::IsThere(then) => return then.go(!members.is_empty()),
        })
    }
}

pub(super) fn start(command: ViewCommand, speaker: &CallerInfo) -> FlowStep {
    match command {
        ViewCommand::Get(key) => value_for(speaker, key, AfterValue::Get),
        ViewCommand::GetMany(keys) => values(keys.into_iter().rev().collect(), Vec::new()),
        ViewCommand::Set { key, value } => set(key, value, speaker),
        ViewCommand::Hash { key, part } => metadata::read(key, part, speaker),
        ViewCommand::Keys { pattern } => keyspace::keys(pattern),
        ViewCommand::Scan(scan) => keyspace::scan(scan),
        ViewCommand::TimeToLive { key, milliseconds } => {
            time_to_live(key, milliseconds, speaker.settings.heartbeats().dead_after())
        }
        ViewCommand::Exists(keys) => exists(keys, 0),
        ViewCommand::Type(key) => {
            let (kind, metadata) = (key.redis_type(), key.metadata());
            is_there(key, or_stored(AfterIsThere::Type(kind), metadata, |key| OnKey::Type { key }))
        }
        ViewCommand::Members(key) => members(key, AfterMembers::All),
        ViewCommand::IsMember { key, member } => members(key, AfterMembers::Has(member)),
        ViewCommand::MemberCount(key) => members(key, AfterMembers::Count),
    }
}

/// Whether something lives at a key.
fn is_there(key: RespKey, then: AfterIsThere) -> FlowStep {
    match key {
        RespKey::Queue(queue) => keyspace::queue_exists(&queue, then),
        RespKey::Capability { .. } => members(key, AfterMembers::IsThere(then)),
        RespKey::Events(_) => then.go(true),
        RespKey::Unknown => then.go(false),
        RespKey::Action { id, field: ActionField::Jobs } => find_action(&id, AfterAction::IsThere(then)),
        RespKey::Job { id, field: JobField::Whole } => find(&id, AfterFind::IsThere(then)),
        other => value(other, JobReader::Everyone, None, AfterValue::IsThere(then)),
    }
}

fn or_stored(
    then: AfterIsThere,
    metadata: Option<Bytes>,
    question: impl FnOnce(Bytes) -> OnKey,
) -> AfterIsThere {
    match metadata {
        Some(name) => AfterIsThere::OrStored(Box::new(then), question(name)),
        None => then,
    }
}

/// The reply to GET for this reader.
pub(super) fn value_for(speaker: &CallerInfo, key: RespKey, then: AfterValue) -> FlowStep {
    value(key, speaker.reader, speaker.worker.clone(), then)
}

fn value(key: RespKey, reader: JobReader, worker_here: Option<Name>, then: AfterValue) -> FlowStep {
    match key {
        RespKey::Job { id, field } => {
            let call = RespCall::Mention { task: id.clone() };
            let flow = ViewFlow::Mentioning { job: id, field, then, reader, worker: worker_here };
            FlowStep::Call(TargetWorker::Own, call, CommandFlow::View(flow))
        }
        RespKey::Plan { id } => find_plan(&id, AfterFindPlan::Value(then)),
        RespKey::Action { id, field: ActionField::Whole } => with_action(&id, AfterAbout::Value(then)),
        RespKey::Worker { id, field } => worker(&id, AfterWorker::Field(field, then)),
        RespKey::Action { .. }
        | RespKey::Queue(_)
        | RespKey::Capability { .. }
        | RespKey::Events(_)
        | RespKey::Unknown => {
            FlowStep::Ask(Request::Query(Query::Counts), CommandFlow::View(ViewFlow::Nothing(then)))
        }
    }
}

fn values(mut left: Vec<AskedKey>, found: Vec<Reply>) -> FlowStep {
    match left.pop() {
        None => FlowStep::Reply(Reply::Array(found)),
        Some(AskedKey::Stored(name)) => {
            let question = StringCommand::GetMany { keys: vec![name] };
            let flow = ViewFlow::Stored(AfterValue::GetMany { left, found });
            FlowStep::Keys(KeyCommand::String(question), CommandFlow::View(flow))
        }
        Some(AskedKey::View(key)) => {
            let key = if key.redis_type() == Some("string") { key } else { RespKey::Unknown };
            value(key, JobReader::Everyone, None, AfterValue::GetMany { left, found })
        }
    }
}

/// One field of a job.
pub(super) fn job_field_of(field: JobField, then: AfterValue, found: LookupResult) -> FlowStep {
    let Ok(task) = found else { return then.go(None) };
    match field {
        JobField::Whole => read_whole(task, AfterWhole::Value(then)),
        JobField::Status => then.go(Some(Bytes::from(status(&task.state).word()))),
        JobField::Worker => {
            then.go(task.state.holding().map(|holding| Bytes::from(holding.worker.to_string())))
        }
        JobField::Progress => {
            let progress = task.state.holding().and_then(|holding| holding.progress.as_ref());
            let percent = progress.and_then(|progress| progress.percent);
            then.go(percent.map(|percent| Bytes::from(percent.to_string())))
        }
        JobField::Error => {
            let message = task.state.end().and_then(|end| end.message.as_deref());
            then.go(message.map(|message| Bytes::from(message.to_owned())))
        }
        JobField::Result | JobField::Stdout | JobField::Stderr => {
            read_result(task, AfterResult::Field(field, then))
        }
    }
}

pub(super) fn result_field(task: &TaskInfo, field: JobField, result: Bytes) -> Option<Bytes> {
    task.state.end()?;
    let name = match field {
        JobField::Stdout => "stdout",
        JobField::Stderr => "stderr",
        _ => return Some(results::result_only(result)),
    };
    results::output(&result, name)
}

pub(super) fn of_worker(worker: &WorkerInfo, field: WorkerField, now: Timestamp) -> Option<Bytes> {
    match field {
        WorkerField::Metadata => Some(Bytes::from(render::metadata(worker))),
        WorkerField::Stats => {
            stats_until(worker).filter(|until| *until > now)?;
            render::figure(worker, "stats").map(|json| Bytes::from(json.to_owned()))
        }
        WorkerField::Alive => {
            render::is_alive(worker, now).then(|| Bytes::from((worker.last_seen.millis() / 1000).to_string()))
        }
        WorkerField::Tags => {
            let tags = tags_of(&worker.capabilities).collect::<Vec<_>>().join(",");
            (!tags.is_empty()).then(|| Bytes::from(tags))
        }
        WorkerField::Tools => {
            Some(Bytes::from(declared_offers(&worker.capabilities).collect::<Vec<_>>().join(",")))
        }
    }
}

fn stats_until(worker: &WorkerInfo) -> Option<Timestamp> {
    let at = render::figure(worker, "stats_at")?.parse().ok()?;
    Some(Timestamp(at) + STATS_FOR)
}

fn set(key: RespKey, value: Bytes, speaker: &CallerInfo) -> FlowStep {
    let worker = speaker.worker.clone();
    match key {
        RespKey::Worker { id, field } => {
            if let Err(error) = check_worker_id(&id) {
                return FlowStep::error(format!("ERR {error}"));
            }
            let name = Name::from(id.as_str());
            let (whom, call) = match field {
                WorkerField::Tools | WorkerField::Tags => match Capabilities::from_list(&value) {
                    Ok(tags) if field == WorkerField::Tags => {
                        (TargetWorker::Become(name), RespCall::Label(tag_offers(&tags.tools)))
                    }
                    Ok(tools) => {
                        (TargetWorker::Become(name), RespCall::Offer(tools.all().map(Into::into).collect()))
                    }
                    Err(error) => return FlowStep::error(format!("ERR {error}")),
                },
                WorkerField::Metadata | WorkerField::Stats | WorkerField::Alive => {
                    (TargetWorker::Opened(name), RespCall::Ping)
                }
            };
            let saying = CallWithReply { worker: id, whom, call, done: Reply::OK };
            if matches!(field, WorkerField::Tools | WorkerField::Tags) {
                rename_worker(speaker, saying)
            } else {
                saying.call()
            }
        }
        RespKey::Job { id, field: JobField::Status } => {
            let Some(report) = JobReport::parse(&value) else {
                let shown: String = String::from_utf8_lossy(&value).chars().take(64).collect();
                return FlowStep::error(format!("ERR Invalid status: {shown}"));
            };
            let update = JobUpdate::of(report);
            let call = RespCall::Report { task: id.clone(), report: crate::worker::report(update) };
            reported(id, call, Some(report), worker)
        }
        RespKey::Job { id, field } => {
            let mut outputs = Box::<Outputs>::default();
            match field {
                JobField::Stdout => outputs.stdout = Some(value),
                JobField::Stderr => outputs.stderr = Some(value),
                _ => outputs.result = Some(value),
            }
            reported(id.clone(), RespCall::Output { task: id, outputs }, None, worker)
        }
        _ => FlowStep::Reply(crate::command::CommandError::WrongType.reply()),
    }
}

fn reported(job: String, call: RespCall, report: Option<JobReport>, worker: Option<Name>) -> FlowStep {
    let then = AfterHeld::Set { job: job.clone(), report, worker: worker.clone() };
    about_held(TargetWorker::Own, job, worker, call, then)
}

/// The worker actor's reply to a view that was set.
pub(super) fn was_set(
    job: String,
    report: Option<JobReport>,
    worker: Option<Name>,
    answer: &RespCallReply,
) -> FlowStep {
    match answer {
        RespCallReply::Done | RespCallReply::Wanted(_) => FlowStep::Reply(Reply::OK),
        RespCallReply::NotHeld | RespCallReply::NotRegistered => explain_not_held(job, report, worker),
        other => FlowStep::Reply(call_refused(other, worker.as_deref().unwrap_or_default())),
    }
}

fn time_to_live(key: RespKey, milliseconds: bool, dead_after: Duration) -> FlowStep {
    match key {
        RespKey::Worker { id, field } => {
            worker(&id, AfterWorker::TimeToLive { field, milliseconds, dead_after })
        }
        RespKey::Job { id, field: JobField::Worker } => find(&id, AfterFind::TimeToLive { milliseconds }),
        other => {
            let metadata = other.metadata();
            let millis_per_unit = if milliseconds { 1 } else { 1000 };
            let then = or_stored(AfterIsThere::TimeToLive { milliseconds }, metadata, |key| {
                OnKey::TimeToLive { key, millis_per_unit }
            });
            is_there(other, then)
        }
    }
}

/// How long a view of a worker stays.
pub(super) fn time_alive(
    now: Timestamp,
    field: WorkerField,
    milliseconds: bool,
    dead_after: Duration,
    found: Option<&WorkerInfo>,
) -> FlowStep {
    let there = found.is_some_and(|worker| of_worker(worker, field, now).is_some());
    let until = found.filter(|_| there).and_then(|worker| match field {
        WorkerField::Alive => Some(worker.last_seen + worker.lost_after.min(dead_after)),
        WorkerField::Stats => stats_until(worker),
        WorkerField::Metadata | WorkerField::Tools | WorkerField::Tags => None,
    });
    FlowStep::Reply(time_left(until.map(|until| until.since(now)), there, milliseconds))
}

/// How long the holder of a job may still run it.
pub(super) fn time_held(now: Timestamp, milliseconds: bool, found: LookupResult) -> FlowStep {
    let Ok(task) = found else { return FlowStep::Reply(time_left(None, false, milliseconds)) };
    let Some(holding) = task.state.holding() else {
        return FlowStep::Reply(time_left(None, false, milliseconds));
    };
    let left = task.terms.run_limit.map(|limit| (holding.started_at.unwrap_or(now) + limit).since(now));
    FlowStep::Reply(time_left(left, true, milliseconds))
}

/// As TTL and PTTL write it: -1 for a key without a time to live, -2 for one that does not exist.
fn time_left(left: Option<Duration>, there: bool, milliseconds: bool) -> Reply {
    let whole = |left: Duration| {
        let millis = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
        if milliseconds { millis } else { millis.saturating_add(999) / 1000 }
    };
    Reply::Integer(match left {
        Some(left) => whole(left),
        None if there => -1,
        None => -2,
    })
}

fn exists(mut keys: Vec<AskedKey>, found: i64) -> FlowStep {
    let Some(key) = keys.pop() else { return FlowStep::Reply(Reply::Integer(found)) };
    let (name, view) = match key {
        AskedKey::Stored(name) => (name, None),
        AskedKey::View(view) => match view.metadata() {
            Some(name) => (name, Some(view)),
            None => return is_there(view, AfterIsThere::Exists(keys, found)),
        },
    };
    let flow = ViewFlow::StoredOr(view, AfterIsThere::Exists(keys, found));
    FlowStep::Keys(KeyCommand::Key(OnKey::Exists { keys: vec![name] }), CommandFlow::View(flow))
}

fn members(key: RespKey, then: AfterMembers) -> FlowStep {
    match key {
        RespKey::Capability { name } => workers(AfterWorkers::Members { capability: name, then }),
        _ => then.go(Vec::new()),
    }
}

/// The workers that offer a capability and are alive.
pub(super) fn members_of(now: Timestamp, capability: &str, all: &[WorkerInfo]) -> Vec<String> {
    let offers = |worker: &&WorkerInfo| {
        render::is_alive(worker, now) && worker.capabilities.iter().any(|offer| **offer == *capability)
    };
    all.iter().filter(offers).map(|worker| worker.worker.to_string()).collect()
}
