//! Workers: joining, living, leaving, and proving what they can do.

use serde_json::Value;
use tenure_hub::Request;
use tenure_hub::words::{Command, Name, PresenceName, TaskInfo, WorkerInfo};

use super::Speaker;
use super::pages::{find, worker, workers};
use super::refusals::{call_refused, refusal};
use super::render;
use crate::codec::Reply;
use crate::command::WorkerCommand;
use crate::errand::{Step, Whom};
use crate::shapes::{Challenge, check_worker_id};
use crate::worker::{Call, CallAnswer};

pub(super) fn start(command: WorkerCommand, speaker: &Speaker) -> Step {
    match command {
        WorkerCommand::Register(registration) => {
            let worker = registration.worker.clone();
            let seconds = speaker.settings.heartbeat.as_secs().max(1);
            let answer = format!("OK worker_id={worker} heartbeat_interval={seconds}");
            named_anew(speaker, move || {
                said(worker, Call::Register(registration), Whom::Become, Reply::simple(answer))
            })
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

/// A connection that works without a name finishes what it holds before it gets one.
pub(super) fn named_anew(speaker: &Speaker, step: impl FnOnce() -> Step + Send + 'static) -> Step {
    if !speaker.is_nameless {
        return step();
    }
    Step::call(Whom::Own, Call::Retire, move |_, answer| match answer {
        CallAnswer::Held(task) => Step::error(format!(
            "ERR This connection holds job {task} as a worker without a name, finish it first"
        )),
        _ => step(),
    })
}

/// A word to the speaker's desk about a job it holds. The desk does not know of the job if the broker was restarted
/// and the worker has not come back yet: then it does now.
pub(super) fn about_held(
    whom: Whom,
    job: String,
    worker: Option<Name>,
    call: Call,
    then: impl FnOnce(CallAnswer) -> Step + Send + 'static,
) -> Step {
    let again = call.clone();
    Step::call(whom, call, move |_, answer| match (answer, worker) {
        (CallAnswer::NotHeld | CallAnswer::NotRegistered, Some(worker))
            if check_worker_id(&worker).is_ok() =>
        {
            find(&job, move |_, found| {
                let holds =
                    |task: &TaskInfo| task.state.holding().is_some_and(|holding| holding.worker == worker);
                if !found.as_ref().is_ok_and(|task| holds(task)) {
                    return then(CallAnswer::NotHeld);
                }
                come_back(worker, move || Step::call(Whom::Own, again, move |_, answer| then(answer)))
            })
        }
        (answer, _) => then(answer),
    })
}

/// A ping of a worker that nobody has heard of since the broker was restarted: if it holds jobs, it is back.
pub(crate) fn pinged(name: Name, reply: Reply) -> Step {
    Step::call(Whom::Known(name.clone()), Call::Ping, move |_, answer| match answer {
        CallAnswer::NotRegistered => worker(&name.clone(), move |_, found| match found {
            Some(info) if info.presence == PresenceName::Lost && !info.held.is_empty() => {
                come_back(name, move || Step::Reply(reply))
            }
            _ => Step::Reply(reply),
        }),
        _ => Step::Reply(reply),
    })
}

fn come_back(worker: Name, then: impl FnOnce() -> Step + Send + 'static) -> Step {
    Step::call(Whom::Become(worker), Call::Return, move |_, _| then())
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
fn said(worker: String, call: Call, whom: impl FnOnce(Name) -> Whom, done: Reply) -> Step {
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
        if let Some(name) = &worker
            && !all.iter().any(|info| *info.worker == **name && render::is_alive(info, now))
        {
            return Step::Reply(call_refused(&CallAnswer::NotRegistered, name));
        }
        let offers = |info: &&WorkerInfo| {
            info.capabilities.iter().any(|offer| **offer == *capability)
                && render::is_alive(info, now)
                && info.about.door == Some("resp")
                && worker.as_deref().is_none_or(|name| *info.worker == *name)
        };
        let asked: Vec<_> = all.iter().filter(offers).map(|info| info.worker.clone()).collect();
        if asked.is_empty() {
            return Step::error(match &worker {
                Some(worker) => format!("ERR Worker {worker} does not offer {capability}"),
                None => format!("ERR No worker offers {capability}"),
            });
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
fn verdict(capability: &str, asked: &[Name], answers: &[CallAnswer]) -> Reply {
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
