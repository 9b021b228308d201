//! Workers: joining, heartbeats, leaving, and verification of capabilities.

use serde_json::{Value, json};
use tenure_hub::Request;
use tenure_hub::words::{Command, Name, PresenceName, TaskInfo, Timestamp, WorkerInfo};

use super::last::LastReply;
use super::lookup::{AfterFind, AfterWorker, AfterWorkers, LookupResult, find, worker, workers};
use super::refusals::call_refused;
use super::{CallerInfo, jobs, lists, render, views};
use crate::codec::Reply;
use crate::command::{PageOptions, WorkerCommand};
use crate::flow::{CommandFlow, FlowStep, Input, TargetWorker};
use crate::json::{Challenge, JobReport, check_worker_id};
use crate::key::RespQueueKey;
use crate::ranking::CapabilityIndex;
use crate::worker::{ChallengeVerdict, Question, RespCall, RespCallReply, VerifyCall, figures, introduction};

/// The state of a waiting command on workers.
#[derive(Debug)]
pub(crate) enum WorkerFlow {
    Saying {
        worker: String,
        done: Reply,
    },
    /// A connection that works without a name finishes what it holds before it gets one.
    Renaming(Box<CallWithReply>),
    /// A call about a job that the worker should hold.
    AboutHeld {
        then: AfterHeld,
        job: String,
        worker: Option<Name>,
        again: RespCall,
    },
    HeldAgain(AfterHeld),
    Returning(AfterReturn),
    Pinging {
        name: Name,
        reply: Reply,
    },
    Unregistering {
        worker: String,
    },
    Verifying,
    Challenging {
        capability: String,
        asked: Vec<Name>,
    },
}

impl WorkerFlow {
    fn call(self, whom: TargetWorker, call: RespCall) -> FlowStep {
        FlowStep::Call(whom, call, CommandFlow::Worker(self))
    }

    pub(crate) fn resume(self, input: Input) -> FlowStep {
        match self {
            Self::Saying { worker, done } => FlowStep::Reply(match input.call() {
                RespCallReply::Done | RespCallReply::Wanted(_) => done,
                other => call_refused(&other, &worker),
            }),
            Self::Renaming(saying) => match input.call() {
                RespCallReply::Held(task) => FlowStep::error(format!(
                    "ERR This connection holds job {task} as a worker without a name, finish it first"
                )),
                _ => saying.call(),
            },
            Self::AboutHeld { job, worker, again, then } => match (input.call(), worker) {
                (RespCallReply::NotHeld | RespCallReply::NotRegistered, Some(worker))
                    if check_worker_id(&worker).is_ok() =>
                {
                    find(&job, AfterFind::HeldAfterAll { worker, call: again, then })
                }
                (answer, _) => then.go(answer),
            },
            Self::HeldAgain(then) => then.go(input.call()),
            Self::Returning(then) => match then {
                AfterReturn::Pong(reply) => FlowStep::Reply(reply),
                AfterReturn::Again(call, then) => Self::HeldAgain(then).call(TargetWorker::Own, call),
            },
            Self::Pinging { name, reply } => match input.call() {
                RespCallReply::NotRegistered => worker(&name.clone(), AfterWorker::Pinged { name, reply }),
                _ => FlowStep::Reply(reply),
            },
            // The broker remembers a dead worker until it is unregistered.
            Self::Unregistering { worker: name } => match input.call() {
                RespCallReply::NotRegistered => worker(&name.clone(), AfterWorker::Forget { name }),
                RespCallReply::Done => FlowStep::Reply(Reply::OK),
                other => FlowStep::Reply(call_refused(&other, &name)),
            },
            Self::Verifying => FlowStep::Reply(match input.call() {
                RespCallReply::Done => Reply::OK,
                RespCallReply::NotHeld => {
                    call_refused(&RespCallReply::Own(ChallengeVerdict::NoChallenge), "")
                }
                other => call_refused(&other, ""),
            }),
            Self::Challenging { capability, asked } => {
                FlowStep::Reply(verdict(&capability, &asked, &input.calls()))
            }
        }
    }
}

/// What to do with the reply to a call about a job.
#[derive(Debug)]
pub(crate) enum AfterHeld {
    Report { job: String, report: Option<JobReport>, worker: Option<Name> },
    Set { job: String, report: Option<JobReport>, worker: Option<Name> },
    Remove { queue: RespQueueKey, job: String, worker: Option<Name> },
}

impl AfterHeld {
    fn go(self, answer: RespCallReply) -> FlowStep {
        match self {
            Self::Report { job, report, worker } => jobs::reported(job, report, worker, answer),
            Self::Set { job, report, worker } => views::was_set(job, report, worker, &answer),
            Self::Remove { queue, job, worker } => lists::removed(queue, job, worker, &answer),
        }
    }
}

/// What to do after a worker has returned.
#[derive(Debug)]
pub(crate) enum AfterReturn {
    Pong(Reply),
    Again(RespCall, AfterHeld),
}

/// One call to a worker, and the reply on success.
#[derive(Debug)]
pub(crate) struct CallWithReply {
    pub(super) worker: String,
    pub(super) whom: TargetWorker,
    pub(super) call: RespCall,
    pub(super) done: Reply,
}

impl CallWithReply {
    pub(super) fn call(self) -> FlowStep {
        let Self { worker, whom, call, done } = self;
        WorkerFlow::Saying { worker, done }.call(whom, call)
    }
}

pub(super) fn start(command: WorkerCommand, speaker: &CallerInfo) -> FlowStep {
    match command {
        WorkerCommand::Register(registration) => {
            let worker = registration.worker.clone();
            let seconds = speaker.settings.heartbeat.as_secs().max(1);
            let done = Reply::simple(format!("OK worker_id={worker} heartbeat_interval={seconds}"));
            let whom = TargetWorker::Become(worker.as_str().into());
            rename_worker(
                speaker,
                CallWithReply { worker, whom, call: RespCall::Register(introduction(&registration)), done },
            )
        }
        WorkerCommand::Heartbeat { worker, statistics } => {
            let call = RespCall::Heartbeat(statistics.as_ref().map(figures));
            let whom = TargetWorker::Known(worker.as_str().into());
            CallWithReply { worker, whom, call, done: Reply::OK }.call()
        }
        WorkerCommand::Unregister { worker } => {
            let whom = TargetWorker::Known(worker.as_str().into());
            WorkerFlow::Unregistering { worker }.call(whom, RespCall::Unregister)
        }
        WorkerCommand::Verify { capability, challenge } => match challenge {
            Challenge::Ask { command, arguments, worker, expect } => {
                let asking = Asking { capability, command, arguments, worker, expect };
                workers(AfterWorkers::Challenge(Box::new(asking)))
            }
            Challenge::Answer { output, exit_code } => {
                let answer = VerifyCall::Answer { capability, output, exit_code };
                WorkerFlow::Verifying.call(TargetWorker::Own, RespCall::Own(answer))
            }
        },
        WorkerCommand::List => workers(AfterWorkers::List),
        WorkerCommand::Search { words, page } => workers(AfterWorkers::Search { words, page }),
    }
}

/// What the live workers announce that they can do.
fn index(now: Timestamp, all: &[WorkerInfo]) -> CapabilityIndex {
    let mut index = CapabilityIndex::default();
    for worker in all.iter().filter(|worker| render::is_alive(worker, now)) {
        if let Ok(registration) = serde_json::from_str(&render::metadata(worker)) {
            index.add(&worker.worker, &registration);
        }
    }
    index
}

pub(super) fn search_reply(now: Timestamp, all: &[WorkerInfo], words: &str, page: PageOptions) -> Reply {
    let index = index(now, all);
    let found = index.search(words).into_iter().skip(page.offset).take(page.limit);
    Reply::array(found.map(|(score, found)| {
        let shown = json!({
            "capability": found.name, "score": (score * 1000.0).round() / 1000.0, "version": found.version,
            "description": found.description, "inputs": found.inputs, "outputs": found.outputs,
            "workers": found.workers,
        });
        Reply::bulk(shown.to_string())
    }))
}

/// The capability that a description fits best.
pub(super) fn best_match(now: Timestamp, all: &[WorkerInfo], words: &str) -> Option<String> {
    let index = index(now, all);
    index.search(words).first().map(|(_, found)| found.name.clone())
}

pub(super) fn list_reply(now: Timestamp, all: &[WorkerInfo]) -> Reply {
    let mut newest_first: Vec<&WorkerInfo> = all.iter().collect();
    newest_first.sort_by_key(|worker| std::cmp::Reverse(worker.last_seen));
    Reply::array(newest_first.into_iter().map(|worker| Reply::bulk(render::worker(worker, now).to_string())))
}

/// A connection that works without a name finishes what it holds before it gets one.
pub(super) fn rename_worker(speaker: &CallerInfo, saying: CallWithReply) -> FlowStep {
    if !speaker.is_nameless {
        return saying.call();
    }
    WorkerFlow::Renaming(Box::new(saying)).call(TargetWorker::Own, RespCall::Retire)
}

/// A call about a job that the connection's worker holds. After a restart of the broker the actor does not know the
/// job until the worker returns: then this call counts as the return.
pub(super) fn about_held(
    whom: TargetWorker,
    job: String,
    worker: Option<Name>,
    call: RespCall,
    then: AfterHeld,
) -> FlowStep {
    WorkerFlow::AboutHeld { job, worker, again: call.clone(), then }.call(whom, call)
}

pub(super) fn retry_if_held(worker: Name, call: RespCall, then: AfterHeld, found: &LookupResult) -> FlowStep {
    let holds = |task: &TaskInfo| task.state.holding().is_some_and(|holding| holding.worker == worker);
    if !found.as_ref().is_ok_and(|task| holds(task)) {
        return then.go(RespCallReply::NotHeld);
    }
    rejoin(worker, AfterReturn::Again(call, then))
}

/// A ping makes a worker known, and each later one is a sign of life.
pub(crate) fn pinged(name: Name, reply: Reply) -> FlowStep {
    WorkerFlow::Pinging { name: name.clone(), reply }.call(TargetWorker::Opened(name), RespCall::Ping)
}

pub(super) fn pinged_found(name: Name, reply: Reply, found: Option<&WorkerInfo>) -> FlowStep {
    match found {
        Some(info) if info.presence == PresenceName::Lost && !info.held.is_empty() => {
            rejoin(name, AfterReturn::Pong(reply))
        }
        _ => FlowStep::Reply(reply),
    }
}

fn rejoin(worker: Name, then: AfterReturn) -> FlowStep {
    WorkerFlow::Returning(then).call(TargetWorker::Become(worker), RespCall::Return)
}

pub(super) fn forget_found(name: &str, found: Option<WorkerInfo>) -> FlowStep {
    match found {
        Some(WorkerInfo { worker, presence: PresenceName::Gone, .. }) => {
            let clear = Request::Command(Command::ClearWorker { worker });
            FlowStep::Last(clear, LastReply::Done(Reply::OK))
        }
        _ => FlowStep::Reply(call_refused(&RespCallReply::NotRegistered, name)),
    }
}

/// A challenge, for one worker or for all that offer the capability.
#[derive(Debug)]
pub(crate) struct Asking {
    capability: String,
    command: String,
    arguments: Vec<String>,
    worker: Option<String>,
    expect: Option<String>,
}

impl Asking {
    pub(super) fn ask(self, now: Timestamp, all: &[WorkerInfo]) -> FlowStep {
        let Self { capability, command, arguments, worker, expect } = self;
        if let Some(name) = &worker
            && !all.iter().any(|info| *info.worker == **name && render::is_alive(info, now))
        {
            return FlowStep::Reply(call_refused(&RespCallReply::NotRegistered, name));
        }
        let offers = |info: &&WorkerInfo| {
            info.capabilities.iter().any(|offer| **offer == *capability)
                && render::is_alive(info, now)
                && info.about.door == Some("resp")
                && worker.as_deref().is_none_or(|name| *info.worker == *name)
        };
        let asked: Vec<_> = all.iter().filter(offers).map(|info| info.worker.clone()).collect();
        if asked.is_empty() {
            return FlowStep::error(match &worker {
                Some(worker) => format!("ERR Worker {worker} does not offer {capability}"),
                None => format!("ERR No worker offers {capability}"),
            });
        }
        let question = Question { capability: capability.clone(), command, arguments, expect };
        let challenge = || RespCall::Own(VerifyCall::Challenge(question.clone()));
        let calls = asked.iter().map(|name| (TargetWorker::Known(name.clone()), challenge())).collect();
        FlowStep::Calls(calls, CommandFlow::Worker(WorkerFlow::Challenging { capability, asked }))
    }
}

/// One worker's output, or who passed and who did not.
fn verdict(capability: &str, asked: &[Name], answers: &[RespCallReply]) -> Reply {
    let mut failed: Vec<&str> = Vec::new();
    let mut outputs = Vec::new();
    for (worker, answer) in asked.iter().zip(answers) {
        match answer {
            RespCallReply::Own(ChallengeVerdict::Passed { output }) => outputs.push(output),
            _ => failed.push(worker),
        }
    }
    if !failed.is_empty() {
        return Reply::error(format!("ERR Capability {capability} not verified: {}", failed.join(", ")));
    }
    match outputs.as_slice() {
        [output] => Reply::simple(format!("OK output={}", Value::from(output.trim_end()))),
        many => Reply::simple(format!("OK verified={}", many.len())),
    }
}
