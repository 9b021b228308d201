//! Views: keys that look at jobs, plans, actions and workers, and the few that report.

use bytes::Bytes;
use serde_json::{Map, Value};
use tenure_hub::words::{Name, TaskInfo, Timestamp, WorkerInfo};

use super::actions::{action_status, find_action, with_action};
use super::jobs::explain_not_held;
use super::names::status;
use super::pages::{find, read_result, read_whole, worker, workers};
use super::plans::find_plan;
use super::refusals::call_refused;
use super::workers::{about_held, named_anew};
use super::{Speaker, keyspace, render, results};
use crate::codec::Reply;
use crate::command::ViewCommand;
use crate::errand::{Step, Whom};
use crate::key::{ActionField, JobField, Key, WorkerField};
use crate::shapes::{Capabilities, JobUpdate, Outputs, Report, check_worker_id};
use crate::worker::{Call, CallAnswer};

/// How long a worker's statistics are shown.
const STATS_FOR: std::time::Duration = std::time::Duration::from_secs(120);

pub(super) fn start(command: ViewCommand, speaker: &Speaker) -> Step {
    match command {
        ViewCommand::Get(key) => value(key, |_, found| Step::Reply(found.map_or(Reply::Null, Reply::Bulk))),
        ViewCommand::GetMany(keys) => values(keys.into_iter().rev().collect(), Vec::new()),
        ViewCommand::Set { key, value } => set(key, value, speaker),
        ViewCommand::GetHash(key) => value(key, |_, found| Step::Reply(hash(found.as_ref()))),
        ViewCommand::GetHashField { key, field } => value(key, move |_, found| {
            let object = found.and_then(|json| serde_json::from_slice::<Map<String, Value>>(&json).ok());
            let text = object.and_then(|mut object| object.remove(&field)).map(text_of);
            Step::Reply(text.map_or(Reply::Null, Reply::bulk))
        }),
        ViewCommand::Keys { pattern } => keyspace::keys(pattern),
        ViewCommand::Scan(scan) => keyspace::scan(scan),
        ViewCommand::TimeToLive { key, milliseconds } => {
            time_to_live(key, milliseconds, speaker.settings.dead_after())
        }
        ViewCommand::Exists(keys) => exists(keys, 0),
        ViewCommand::Type(key) => {
            let kind = key.redis_type();
            is_there(key, move |there| Step::Reply(Reply::simple(kind.filter(|_| there).unwrap_or("none"))))
        }
        ViewCommand::Members(key) => {
            members(key, |members| Reply::Set(members.into_iter().map(Reply::bulk).collect()))
        }
        ViewCommand::IsMember { key, member } => {
            members(key, move |members| Reply::from(members.contains(&member)))
        }
        ViewCommand::MemberCount(key) => members(key, |members| Reply::count(members.len())),
    }
}

/// Whether something lives at a key.
pub(super) fn is_there(key: Key, then: impl FnOnce(bool) -> Step + Send + 'static) -> Step {
    match key {
        Key::Queue(queue) => keyspace::queue_exists(&queue, then),
        Key::Capability { .. } => members_then(key, move |members| then(!members.is_empty())),
        Key::Events(_) => then(true),
        Key::Unknown => then(false),
        Key::Action { id, field: ActionField::Jobs } => {
            find_action(&id, move |_, found| then(found.is_some()))
        }
        Key::Job { id, field: JobField::Whole } => find(&id, move |_, found| then(found.is_ok())),
        other => value(other, move |_, found| then(found.is_some())),
    }
}

/// What GET answers.
fn value(key: Key, then: impl FnOnce(Timestamp, Option<Bytes>) -> Step + Send + 'static) -> Step {
    match key {
        Key::Job { id, field } => job_field(id, field, then),
        Key::Plan { id } => find_plan(&id, move |now, found| match found {
            None => then(now, None),
            Some(task) => Step::read(task.body, move |now, body| then(now, body.ok())),
        }),
        Key::Action { id, field: ActionField::Whole } => with_action(&id, move |now, found| {
            let shown = found.map(|(about, jobs)| Value::Object(action_status(&about, &jobs)).to_string());
            then(now, shown.map(Bytes::from))
        }),
        Key::Worker { id, field } => worker_field(&id, field, then),
        Key::Action { .. } | Key::Queue(_) | Key::Capability { .. } | Key::Events(_) | Key::Unknown => {
            Step::ask(nothing(), move |now, _| then(now, None))
        }
    }
}

/// A question whose answer nobody needs: it keeps the order of answers.
fn nothing() -> tenure_hub::Request {
    tenure_hub::Request::Query(tenure_hub::words::Query::Counts)
}

fn values(mut left: Vec<Key>, mut found: Vec<Reply>) -> Step {
    match left.pop() {
        None => Step::Reply(Reply::Array(found)),
        Some(key) => {
            let key = if key.redis_type() == Some("string") { key } else { Key::Unknown };
            value(key, move |_, bytes| {
                found.push(bytes.map_or(Reply::Null, Reply::Bulk));
                values(left, found)
            })
        }
    }
}

fn job_field(
    id: String,
    field: JobField,
    then: impl FnOnce(Timestamp, Option<Bytes>) -> Step + Send + 'static,
) -> Step {
    Step::call(Whom::Own, Call::Mention { job: id.clone() }, move |_, _| {
        find(&id, move |now, found| match found {
            Err(_) => then(now, None),
            Ok(task) => match field {
                JobField::Whole => read_whole(task, move |now, task, body, result| {
                    then(now, Some(render::whole(&task, &body, &result).to_string().into()))
                }),
                JobField::Status => then(now, Some(Bytes::from(status(&task.state).word()))),
                JobField::Worker => {
                    let holder = task.state.holding().map(|holding| Bytes::from(holding.worker.to_string()));
                    then(now, holder)
                }
                JobField::Progress => {
                    let progress = task.state.holding().and_then(|holding| holding.progress.as_ref());
                    let percent = progress.and_then(|progress| progress.percent);
                    then(now, percent.map(|percent| Bytes::from(percent.to_string())))
                }
                JobField::Error => {
                    let message = task.state.end().and_then(|end| end.message.as_deref());
                    then(now, message.map(|message| Bytes::from(message.to_owned())))
                }
                JobField::Result | JobField::Stdout | JobField::Stderr => {
                    read_result(task, move |now, task, result| then(now, result_field(&task, field, result)))
                }
            },
        })
    })
}

fn result_field(task: &TaskInfo, field: JobField, result: Bytes) -> Option<Bytes> {
    task.state.end()?;
    let name = match field {
        JobField::Stdout => "stdout",
        JobField::Stderr => "stderr",
        _ => return Some(results::lone(result)),
    };
    results::output(&result, name)
}

fn worker_field(
    id: &str,
    field: WorkerField,
    then: impl FnOnce(Timestamp, Option<Bytes>) -> Step + Send + 'static,
) -> Step {
    worker(id, move |now, found| then(now, found.and_then(|worker| of_worker(&worker, field, now))))
}

fn of_worker(worker: &WorkerInfo, field: WorkerField, now: Timestamp) -> Option<Bytes> {
    match field {
        WorkerField::Metadata => Some(Bytes::from(render::metadata(worker))),
        WorkerField::Stats => {
            stats_until(worker).filter(|until| *until > now)?;
            render::figure(worker, "stats").map(|json| Bytes::from(json.to_owned()))
        }
        WorkerField::Alive => {
            render::is_alive(worker, now).then(|| Bytes::from((worker.last_seen.millis() / 1000).to_string()))
        }
        WorkerField::Tools => {
            let offers = worker.capabilities.iter().filter(|name| !name.starts_with("worker="));
            Some(Bytes::from(offers.map(|name| &**name).collect::<Vec<_>>().join(",")))
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
                WorkerField::Tools => match Capabilities::from_list(&value) {
                    Ok(tools) => (Whom::Become(name), Call::Tools(tools)),
                    Err(error) => return Step::error(format!("ERR {error}")),
                },
                WorkerField::Metadata | WorkerField::Stats | WorkerField::Alive => {
                    (Whom::Known(name), Call::Heartbeat(None))
                }
            };
            let said = move || {
                Step::call(whom, call, move |_, answer| {
                    Step::Reply(match answer {
                        CallAnswer::Done => Reply::OK,
                        other => call_refused(&other, &id),
                    })
                })
            };
            if field == WorkerField::Tools { named_anew(speaker, said) } else { said() }
        }
        Key::Job { id, field: JobField::Status } => {
            let Some(report) = Report::parse(&value) else {
                let shown: String = String::from_utf8_lossy(&value).chars().take(64).collect();
                return Step::error(format!("ERR Invalid status: {shown}"));
            };
            let update = JobUpdate::of(report);
            let call = Call::Report { job: id.clone(), update: Box::new(update) };
            reported(id, call, Some(report), worker)
        }
        Key::Job { id, field } => {
            let mut outputs = Box::<Outputs>::default();
            match field {
                JobField::Stdout => outputs.stdout = Some(value),
                JobField::Stderr => outputs.stderr = Some(value),
                _ => outputs.result = Some(value),
            }
            reported(id.clone(), Call::Output { job: id, outputs }, None, worker)
        }
        _ => Step::Reply(crate::command::CommandError::WrongType.reply()),
    }
}

fn reported(job: String, call: Call, report: Option<Report>, worker: Option<Name>) -> Step {
    about_held(Whom::Own, job.clone(), worker.clone(), call, move |answer| match answer {
        CallAnswer::Done | CallAnswer::Wanted(_) => Step::Reply(Reply::OK),
        CallAnswer::NotHeld | CallAnswer::NotRegistered => explain_not_held(job, report, worker),
        other => Step::Reply(call_refused(&other, worker.as_deref().unwrap_or_default())),
    })
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

fn time_to_live(key: Key, milliseconds: bool, dead_after: std::time::Duration) -> Step {
    let answer = move |left: Option<std::time::Duration>, there: bool| {
        let whole = |left: std::time::Duration| {
            let millis = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
            if milliseconds { millis } else { millis.saturating_add(999) / 1000 }
        };
        Reply::Integer(match left {
            Some(left) => whole(left),
            None if there => -1,
            None => -2,
        })
    };
    match key {
        Key::Worker { id, field } => worker(&id, move |now, found| {
            let found = found.as_ref();
            let there = found.is_some_and(|worker| of_worker(worker, field, now).is_some());
            let until = found.filter(|_| there).and_then(|worker| match field {
                WorkerField::Alive => Some(worker.last_seen + worker.lost_after.min(dead_after)),
                WorkerField::Stats => stats_until(worker),
                WorkerField::Metadata | WorkerField::Tools => None,
            });
            Step::Reply(answer(until.map(|until| until.since(now)), there))
        }),
        Key::Job { id, field: JobField::Worker } => find(&id, move |now, found| {
            let Ok(task) = found else { return Step::Reply(answer(None, false)) };
            let Some(holding) = task.state.holding() else { return Step::Reply(answer(None, false)) };
            let left =
                task.terms.run_limit.map(|limit| (holding.started_at.unwrap_or(now) + limit).since(now));
            Step::Reply(answer(left, true))
        }),
        other => is_there(other, move |there| Step::Reply(answer(None, there))),
    }
}

fn exists(mut keys: Vec<Key>, found: i64) -> Step {
    match keys.pop() {
        None => Step::Reply(Reply::Integer(found)),
        Some(key) => is_there(key, move |there| exists(keys, found + i64::from(there))),
    }
}

fn members(key: Key, reply: impl FnOnce(Vec<String>) -> Reply + Send + 'static) -> Step {
    members_then(key, move |members| Step::Reply(reply(members)))
}

fn members_then(key: Key, then: impl FnOnce(Vec<String>) -> Step + Send + 'static) -> Step {
    let Key::Capability { name } = key else { return then(Vec::new()) };
    workers(move |now, all| {
        let offers = |worker: &&WorkerInfo| {
            render::is_alive(worker, now) && worker.capabilities.iter().any(|offer| **offer == *name)
        };
        then(all.iter().filter(offers).map(|worker| worker.worker.to_string()).collect())
    })
}
