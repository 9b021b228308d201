//! Views: keys that look at jobs, plans, actions and workers, and the few that report.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tenure_hub::Request;
use tenure_hub::words::{Name, Query, TaskInfo, Timestamp, WorkerInfo};

use super::actions::{AfterAbout, AfterAction, find_action, with_action};
use super::jobs::explain_not_held;
use super::lookup::{
    AfterFind, AfterResult, AfterWhole, AfterWorker, AfterWorkers, Found, find, find_readable, read_result,
    read_whole, worker, workers,
};
use super::names::{said_offers, status, tag_offers, tags_of};
use super::plans::{AfterFindPlan, find_plan};
use super::refusals::call_refused;
use super::workers::{AfterHeld, Saying, about_held, named_anew};
use super::{Speaker, keyspace, render, results};
use crate::codec::Reply;
use crate::command::ViewCommand;
use crate::flow::{CommandFlow, Input, Step, Whom};
use crate::key::{ActionField, JobField, Key, WorkerField};
use crate::rights::Reader;
use crate::shapes::{Capabilities, JobUpdate, Outputs, Report, check_worker_id};
use crate::worker::{Call, CallAnswer};

/// How long a worker's statistics are shown.
const STATS_FOR: Duration = Duration::from_secs(120);

/// What a view waits for.
#[derive(Debug)]
pub(crate) enum ViewFlow {
    /// An answer that nobody needs: it keeps the order of answers.
    Nothing(AfterValue),
    ReadingPlan(AfterValue),
    /// The worker on this connection, if there is one, hears that the job was mentioned.
    Mentioning {
        job: String,
        field: JobField,
        then: AfterValue,
        reader: Reader,
        worker: Option<Name>,
    },
}

impl ViewFlow {
    pub(crate) fn resume(self, input: Input) -> Step {
        match self {
            Self::Nothing(then) => then.go(None),
            Self::ReadingPlan(then) => then.go(input.read().ok()),
            Self::Mentioning { job, field, then, reader, worker } => {
                find_readable(&job, reader, worker, AfterFind::Field(field, then))
            }
        }
    }
}

/// Where the value at a key leads.
#[derive(Debug)]
pub(crate) enum AfterValue {
    Get,
    /// MGET: the keys that are left, the last one first, and what was found before.
    GetMany {
        left: Vec<Key>,
        found: Vec<Reply>,
    },
    Hash,
    HashField(String),
    IsThere(AfterIsThere),
}

impl AfterValue {
    pub(super) fn go(self, value: Option<Bytes>) -> Step {
        match self {
            Self::Get => Step::Reply(value.map_or(Reply::Null, Reply::Bulk)),
            Self::GetMany { left, mut found } => {
                found.push(value.map_or(Reply::Null, Reply::Bulk));
                values(left, found)
            }
            Self::Hash => Step::Reply(hash(value.as_ref())),
            Self::HashField(field) => {
                let object = value.and_then(|json| serde_json::from_slice::<Map<String, Value>>(&json).ok());
                let text = object.and_then(|mut object| object.remove(&field)).map(text_of);
                Step::Reply(text.map_or(Reply::Null, Reply::bulk))
            }
            Self::IsThere(then) => then.go(value.is_some()),
        }
    }
}

/// Where it leads whether something lives at a key.
#[derive(Debug)]
pub(crate) enum AfterIsThere {
    Type(Option<&'static str>),
    /// EXISTS: the keys that are left, and how many were there before.
    Exists(Vec<Key>, i64),
    TimeToLive {
        milliseconds: bool,
    },
}

impl AfterIsThere {
    pub(super) fn go(self, there: bool) -> Step {
        match self {
            Self::Type(kind) => Step::Reply(Reply::simple(kind.filter(|_| there).unwrap_or("none"))),
            Self::Exists(keys, found) => exists(keys, found + i64::from(there)),
            Self::TimeToLive { milliseconds } => Step::Reply(time_left(None, there, milliseconds)),
        }
    }
}

/// Where the workers that offer a capability lead.
#[derive(Debug)]
pub(crate) enum AfterMembers {
    All,
    Has(String),
    Count,
    IsThere(AfterIsThere),
}

impl AfterMembers {
    pub(super) fn go(self, members: Vec<String>) -> Step {
        Step::Reply(match self {
            Self::All => Reply::Set(members.into_iter().map(Reply::bulk).collect()),
            Self::Has(member) => Reply::from(members.contains(&member)),
            Self::Count => Reply::count(members.len()),
            Self::IsThere(then) => return then.go(!members.is_empty()),
        })
    }
}

pub(super) fn start(command: ViewCommand, speaker: &Speaker) -> Step {
    match command {
        ViewCommand::Get(key) => value_for(speaker, key, AfterValue::Get),
        ViewCommand::GetMany(keys) => values(keys.into_iter().rev().collect(), Vec::new()),
        ViewCommand::Set { key, value } => set(key, value, speaker),
        ViewCommand::GetHash(key) => value_for(speaker, key, AfterValue::Hash),
        ViewCommand::GetHashField { key, field } => value_for(speaker, key, AfterValue::HashField(field)),
        ViewCommand::Keys { pattern } => keyspace::keys(pattern),
        ViewCommand::Scan(scan) => keyspace::scan(scan),
        ViewCommand::TimeToLive { key, milliseconds } => {
            time_to_live(key, milliseconds, speaker.settings.heartbeats().dead_after())
        }
        ViewCommand::Exists(keys) => exists(keys, 0),
        ViewCommand::Type(key) => {
            let kind = key.redis_type();
            is_there(key, AfterIsThere::Type(kind))
        }
        ViewCommand::Members(key) => members(key, AfterMembers::All),
        ViewCommand::IsMember { key, member } => members(key, AfterMembers::Has(member)),
        ViewCommand::MemberCount(key) => members(key, AfterMembers::Count),
    }
}

/// Whether something lives at a key.
fn is_there(key: Key, then: AfterIsThere) -> Step {
    match key {
        Key::Queue(queue) => keyspace::queue_exists(&queue, then),
        Key::Capability { .. } => members(key, AfterMembers::IsThere(then)),
        Key::Events(_) => then.go(true),
        Key::Unknown => then.go(false),
        Key::Action { id, field: ActionField::Jobs } => find_action(&id, AfterAction::IsThere(then)),
        Key::Job { id, field: JobField::Whole } => find(&id, AfterFind::IsThere(then)),
        other => value(other, Reader::Everyone, None, AfterValue::IsThere(then)),
    }
}

/// What GET answers to this reader.
fn value_for(speaker: &Speaker, key: Key, then: AfterValue) -> Step {
    value(key, speaker.reader, speaker.worker.clone(), then)
}

fn value(key: Key, reader: Reader, worker_here: Option<Name>, then: AfterValue) -> Step {
    match key {
        Key::Job { id, field } => {
            let call = Call::Mention { task: id.clone() };
            let flow = ViewFlow::Mentioning { job: id, field, then, reader, worker: worker_here };
            Step::Call(Whom::Own, call, CommandFlow::View(flow))
        }
        Key::Plan { id } => find_plan(&id, AfterFindPlan::Value(then)),
        Key::Action { id, field: ActionField::Whole } => with_action(&id, AfterAbout::Value(then)),
        Key::Worker { id, field } => worker(&id, AfterWorker::Field(field, then)),
        Key::Action { .. } | Key::Queue(_) | Key::Capability { .. } | Key::Events(_) | Key::Unknown => {
            Step::Ask(Request::Query(Query::Counts), CommandFlow::View(ViewFlow::Nothing(then)))
        }
    }
}

fn values(mut left: Vec<Key>, found: Vec<Reply>) -> Step {
    match left.pop() {
        None => Step::Reply(Reply::Array(found)),
        Some(key) => {
            let key = if key.redis_type() == Some("string") { key } else { Key::Unknown };
            value(key, Reader::Everyone, None, AfterValue::GetMany { left, found })
        }
    }
}

/// One field of a job.
pub(super) fn job_field_of(field: JobField, then: AfterValue, found: Found) -> Step {
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
        _ => return Some(results::lone(result)),
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
            Some(Bytes::from(said_offers(&worker.capabilities).collect::<Vec<_>>().join(",")))
        }
    }
}

fn stats_until(worker: &WorkerInfo) -> Option<Timestamp> {
    let at = render::figure(worker, "stats_at")?.parse().ok()?;
    Some(Timestamp(at) + STATS_FOR)
}

fn set(key: Key, value: Bytes, speaker: &Speaker) -> Step {
    let worker = speaker.worker.clone();
    match key {
        Key::Worker { id, field } => {
            if let Err(error) = check_worker_id(&id) {
                return Step::error(format!("ERR {error}"));
            }
            let name = Name::from(id.as_str());
            let (whom, call) = match field {
                WorkerField::Tools | WorkerField::Tags => match Capabilities::from_list(&value) {
                    Ok(tags) if field == WorkerField::Tags => {
                        (Whom::Become(name), Call::Label(tag_offers(&tags.tools)))
                    }
                    Ok(tools) => (Whom::Become(name), Call::Offer(tools.all().map(Into::into).collect())),
                    Err(error) => return Step::error(format!("ERR {error}")),
                },
                WorkerField::Metadata | WorkerField::Stats | WorkerField::Alive => {
                    (Whom::Opened(name), Call::Ping)
                }
            };
            let saying = Saying { worker: id, whom, call, done: Reply::OK };
            if matches!(field, WorkerField::Tools | WorkerField::Tags) {
                named_anew(speaker, saying)
            } else {
                saying.say()
            }
        }
        Key::Job { id, field: JobField::Status } => {
            let Some(report) = Report::parse(&value) else {
                let shown: String = String::from_utf8_lossy(&value).chars().take(64).collect();
                return Step::error(format!("ERR Invalid status: {shown}"));
            };
            let update = JobUpdate::of(report);
            let call = Call::Report { task: id.clone(), report: crate::worker::report(update) };
            reported(id, call, Some(report), worker)
        }
        Key::Job { id, field } => {
            let mut outputs = Box::<Outputs>::default();
            match field {
                JobField::Stdout => outputs.stdout = Some(value),
                JobField::Stderr => outputs.stderr = Some(value),
                _ => outputs.result = Some(value),
            }
            reported(id.clone(), Call::Output { task: id, outputs }, None, worker)
        }
        _ => Step::Reply(crate::command::CommandError::WrongType.reply()),
    }
}

fn reported(job: String, call: Call, report: Option<Report>, worker: Option<Name>) -> Step {
    let then = AfterHeld::Set { job: job.clone(), report, worker: worker.clone() };
    about_held(Whom::Own, job, worker, call, then)
}

/// What the worker's side says to a view that was set.
pub(super) fn was_set(
    job: String,
    report: Option<Report>,
    worker: Option<Name>,
    answer: &CallAnswer,
) -> Step {
    match answer {
        CallAnswer::Done | CallAnswer::Wanted(_) => Step::Reply(Reply::OK),
        CallAnswer::NotHeld | CallAnswer::NotRegistered => explain_not_held(job, report, worker),
        other => Step::Reply(call_refused(other, worker.as_deref().unwrap_or_default())),
    }
}

/// A view's JSON object as a map of texts.
fn hash(json: Option<&Bytes>) -> Reply {
    let object =
        json.and_then(|json| serde_json::from_slice::<Map<String, Value>>(json).ok()).unwrap_or_default();
    Reply::Map(
        object.into_iter().map(|(field, value)| (Reply::bulk(field), Reply::bulk(text_of(value)))).collect(),
    )
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn time_to_live(key: Key, milliseconds: bool, dead_after: Duration) -> Step {
    match key {
        Key::Worker { id, field } => worker(&id, AfterWorker::TimeToLive { field, milliseconds, dead_after }),
        Key::Job { id, field: JobField::Worker } => find(&id, AfterFind::TimeToLive { milliseconds }),
        other => is_there(other, AfterIsThere::TimeToLive { milliseconds }),
    }
}

/// How long a view of a worker stays.
pub(super) fn time_alive(
    now: Timestamp,
    field: WorkerField,
    milliseconds: bool,
    dead_after: Duration,
    found: Option<&WorkerInfo>,
) -> Step {
    let there = found.is_some_and(|worker| of_worker(worker, field, now).is_some());
    let until = found.filter(|_| there).and_then(|worker| match field {
        WorkerField::Alive => Some(worker.last_seen + worker.lost_after.min(dead_after)),
        WorkerField::Stats => stats_until(worker),
        WorkerField::Metadata | WorkerField::Tools | WorkerField::Tags => None,
    });
    Step::Reply(time_left(until.map(|until| until.since(now)), there, milliseconds))
}

/// How long the holder of a job may still run it.
pub(super) fn time_held(now: Timestamp, milliseconds: bool, found: Found) -> Step {
    let Ok(task) = found else { return Step::Reply(time_left(None, false, milliseconds)) };
    let Some(holding) = task.state.holding() else {
        return Step::Reply(time_left(None, false, milliseconds));
    };
    let left = task.terms.run_limit.map(|limit| (holding.started_at.unwrap_or(now) + limit).since(now));
    Step::Reply(time_left(left, true, milliseconds))
}

/// As TTL and PTTL write it: -1 for what stays, -2 for what is not there.
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

fn exists(mut keys: Vec<Key>, found: i64) -> Step {
    match keys.pop() {
        None => Step::Reply(Reply::Integer(found)),
        Some(key) => is_there(key, AfterIsThere::Exists(keys, found)),
    }
}

fn members(key: Key, then: AfterMembers) -> Step {
    match key {
        Key::Capability { name } => workers(AfterWorkers::Members { capability: name, then }),
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
