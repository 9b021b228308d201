//! Workers: joining, living, leaving, and proving what they can do.

use serde_json::Value;
use tenure_hub::Request;
use tenure_hub::words::{Command, PresenceName, WorkerInfo};

use super::Speaker;
use super::pages::{worker, workers};
use super::refusals::{call_refused, refusal};
use super::render;
use crate::codec::Reply;
use crate::command::WorkerCommand;
use crate::errand::{Step, Whom};
use crate::shapes::Challenge;
use crate::worker::{Call, CallAnswer};

pub(super) fn start(command: WorkerCommand, speaker: &Speaker) -> Step {
    match command {
        WorkerCommand::Register(registration) => {
            let worker = registration.worker.clone();
            let seconds = speaker.settings.heartbeat.as_secs().max(1);
            let answer = format!("OK worker_id={worker} heartbeat_interval={seconds}");
            said(worker, Call::Register(registration), Whom::Become, Reply::simple(answer))
        }
        WorkerCommand::Heartbeat { worker, statistics } => {
            let call = Call::Heartbeat(statistics.map(Box::new));
            said(worker, call, Whom::Known, Reply::OK)
        }
        WorkerCommand::Unregister { worker } => unregister(worker),
        WorkerCommand::Verify { capability, challenge } => match challenge {
            Challenge::Ask { command, arguments, worker, expect } => {
                ask(capability, command, arguments, worker, expect)
            }
            Challenge::Answer { output, exit_code } => {
                let call = Call::Verified { capability, output, exit_code };
                Step::call(Whom::Own, call, |_, answer| {
                    Step::Reply(match answer {
                        CallAnswer::Done => Reply::OK,
                        CallAnswer::NotHeld => call_refused(&CallAnswer::NoChallenge, ""),
                        other => call_refused(&other, ""),
                    })
                })
            }
        },
        WorkerCommand::List => workers(|now, workers| {
            let shown = workers.iter().map(|worker| Reply::bulk(render::worker(worker, now).to_string()));
            Step::Reply(Reply::array(shown))
        }),
    }
}

fn unregister(worker: String) -> Step {
    Step::call(Whom::Known(worker.as_str().into()), Call::Unregister, move |_, answer| match answer {
        CallAnswer::NotRegistered => forget(worker),
        CallAnswer::Done => Step::Reply(Reply::OK),
        other => Step::Reply(call_refused(&other, &worker)),
    })
}

/// A dead worker is remembered until somebody says that it need not be.
fn forget(name: String) -> Step {
    worker(&name.clone(), move |_, found| match found {
        Some(WorkerInfo { worker, presence: PresenceName::Gone, .. }) => {
            let clear = Request::Command(Command::ClearWorker { worker });
            Step::last(clear, |_, outcome| outcome.map_or_else(|reason| refusal(&reason), |_| Reply::OK))
        }
        _ => Step::Reply(call_refused(&CallAnswer::NotRegistered, &name)),
    })
}

/// One word with the desk of a worker.
fn said(worker: String, call: Call, whom: impl FnOnce(tenure_hub::words::Name) -> Whom, done: Reply) -> Step {
    Step::call(whom(worker.as_str().into()), call, move |_, answer| {
        Step::Reply(match answer {
            CallAnswer::Done | CallAnswer::Wanted(_) => done,
            other => call_refused(&other, &worker),
        })
    })
}

fn ask(
    capability: String,
    command: String,
    arguments: Vec<String>,
    worker: Option<String>,
    expect: Option<String>,
) -> Step {
    workers(move |now, all| {
        let offers = |info: &&WorkerInfo| {
            info.capabilities.iter().any(|offer| **offer == *capability)
                && render::is_alive(info, now)
                && info.about.door == Some("resp")
                && worker.as_deref().is_none_or(|name| *info.worker == *name)
        };
        let asked: Vec<_> = all.iter().filter(offers).map(|info| info.worker.clone()).collect();
        if asked.is_empty() {
            return Step::error(format!("ERR No worker offers {capability}"));
        }
        let challenge = || Call::Challenge {
            capability: capability.clone(),
            command: command.clone(),
            arguments: arguments.clone(),
            expect: expect.clone(),
        };
        let calls = asked.iter().map(|name| (Whom::Known(name.clone()), challenge())).collect();
        Step::Calls(calls, Box::new(move |_, answers| Step::Reply(verdict(&capability, &asked, &answers))))
    })
}

/// One worker's output, or who passed and who did not.
fn verdict(capability: &str, asked: &[tenure_hub::words::Name], answers: &[CallAnswer]) -> Reply {
    let mut failed: Vec<&str> = Vec::new();
    let mut outputs = Vec::new();
    for (worker, answer) in asked.iter().zip(answers) {
        match answer {
            CallAnswer::Verified { output } => outputs.push(output),
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
