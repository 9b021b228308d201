//! The worker's half of a Majordomo conversation.

use std::collections::HashMap;

use bytes::Bytes;
use tenure_hub::words::{
    Answer, Assignment, Command, Failure, Held, ListQuery, Name, Query, Refusal, Reply, StateName, StopWhy,
    TaskInfo, Timestamp,
};
use tenure_hub::{Done, Request, Response};

use super::client::{FINISHED_SUBJECT, partial_address};
use super::majordomo::{Turn, Waiting};
use crate::body;
use crate::mdp::{
    Address, Call, Dialect, Registration, Stats, THREADS_MAX, ToWorker, WorkerMessage, for_worker, is_mmi,
};
use crate::registry::Listing;
use crate::translate;

/// How many attempts a worker that comes back is asked about.
const RETURNED_MAX: usize = 1_000;

/// How many messages wait until it is known what a worker holds.
const EARLY_MAX: usize = 1_000;

/// How the thread of a `_PL` job is noted.
const THREAD_NOTE: &str = "thread ";

/// What the door knows of the peer as a worker.
#[derive(Debug, Default)]
pub(super) enum Worker {
    /// Nothing: it is a client, or has to say READY first.
    #[default]
    Unknown,
    /// The broker is asked what a worker of this name holds. What it says before that is known waits.
    Arriving {
        early: Vec<(Dialect, WorkerMessage)>,
    },
    /// It came back under a name that holds attempts; they go on, and nothing new is given to it.
    Returned {
        jobs: Vec<Returning>,
    },
    Simple(Simple),
    Plugin(Plugin),
}

/// A worker of MDP/0.1 or 0.2.
#[derive(Debug)]
pub(super) struct Simple {
    dialect: Dialect,
    job: Option<Running>,
    beat_at: Timestamp,
}

/// A `_PL` worker.
#[derive(Debug)]
pub(super) struct Plugin {
    _listing: Listing,
    /// By thread.
    jobs: Vec<Option<Running>>,
    /// The last reply for each client whose job is not finished yet.
    replies: HashMap<Bytes, Vec<Bytes>>,
    beat_at: Timestamp,
}

/// A job that the worker was given. When the attempt is over and the worker still computes, nobody waits for it.
#[derive(Debug)]
struct Running {
    held: Held,
    client: Name,
    is_over: bool,
}

/// A job that a worker had before its connection or the broker was gone.
#[derive(Debug)]
pub(super) struct Returning {
    job: Running,
    /// `_PL`: where it runs, as it was noted when it began.
    thread: Option<usize>,
}

impl Worker {
    /// A worker that chose its name may come back to what it holds: the connection or the broker was gone for a while.
    pub(super) fn begin(&mut self, turn: &mut Turn<'_>) {
        if !turn.me.is_chosen || !turn.me.grant.may_work {
            return;
        }
        let query = ListQuery {
            states: vec![StateName::Running],
            worker: Some(turn.me.name.clone()),
            limit: RETURNED_MAX,
            ..ListQuery::default()
        };
        turn.ask(Request::Query(Query::List(Box::new(query))), Waiting::HeldBefore);
        *self = Worker::Arriving { early: Vec::new() };
    }

    pub(super) fn held_before(&mut self, reply: Result<Response, Refusal>, turn: &mut Turn<'_>) {
        let Worker::Arriving { early } = std::mem::take(self) else { return };
        if let Ok(Response::Answer(Answer::Tasks { tasks, .. })) = reply
            && !tasks.is_empty()
        {
            let held = tasks.iter().map(|task| Held { task: task.id, attempt: task.attempt }).collect();
            let spec = translate::returned_worker(&turn.me.name, held, turn.settings);
            turn.command(Command::Register(Box::new(spec)), Waiting::Known);
            *self = Worker::Returned { jobs: tasks.iter().map(returning).collect() };
        }
        for (dialect, message) in early {
            self.receive(dialect, message, turn);
        }
    }

    pub(super) fn receive(&mut self, dialect: Dialect, message: WorkerMessage, turn: &mut Turn<'_>) {
        if let Worker::Arriving { early } = self {
            if early.len() < EARLY_MAX {
                early.push((dialect, message));
            } else {
                turn.drop("early");
            }
            return;
        }
        match message {
            WorkerMessage::Ready { service } => self.ready(dialect, &service, turn),
            WorkerMessage::Reply { address, body } if dialect != Dialect::Pl => {
                self.reply(dialect, &address, &body, turn);
            }
            WorkerMessage::Reply { address, body } => self.plugin_reply(address, body, turn),
            WorkerMessage::Partial { address, body } => self.partial(dialect, &address, body, turn),
            WorkerMessage::Heartbeat { stats } => self.heartbeat(dialect, &stats, turn),
            WorkerMessage::Disconnect => self.leave(turn),
            WorkerMessage::Joining => {}
            WorkerMessage::Processes(registration) => self.register_plugin(registration, turn),
            WorkerMessage::Finished { client, thread, result } => {
                self.finished(&client, thread, result, turn)
            }
        }
    }

    fn ready(&mut self, dialect: Dialect, service: &str, turn: &mut Turn<'_>) {
        let is_new = matches!(self, Worker::Unknown | Worker::Returned { .. });
        if !is_new || is_mmi(service) || !may_work(turn) {
            return self.dismiss(dialect, turn);
        }
        // Without its old attempts: a worker that says READY has forgotten them.
        let spec = translate::simple_worker(&turn.me.name, service, turn.settings);
        turn.command(Command::Register(Box::new(spec)), Waiting::Known);
        *self = Worker::Simple(Simple { dialect, job: None, beat_at: turn.now + turn.settings.heartbeat });
    }

    fn register_plugin(&mut self, registration: Registration, turn: &mut Turn<'_>) {
        if matches!(self, Worker::Simple(_)) || !may_work(turn) {
            return self.dismiss(Dialect::Pl, turn);
        }
        for _ in 0..registration.skipped {
            turn.drop("plugin");
        }
        if registration.plugins.is_empty() {
            return turn.drop("no_plugins");
        }
        let jobs = match std::mem::take(self) {
            // It tells again what it can do and goes on with what it does.
            Worker::Plugin(plugin) => plugin.jobs,
            Worker::Returned { jobs } => by_thread(jobs),
            Worker::Unknown | Worker::Arriving { .. } | Worker::Simple(_) => Vec::new(),
        };
        let held = jobs.iter().flatten().filter(|job| !job.is_over).map(|job| job.held).collect();
        let spec = translate::plugin_worker(&turn.me.name, &registration, held, turn.settings);
        turn.command(Command::Register(Box::new(spec)), Waiting::Known);
        turn.ask(Request::HearBroadcasts { hear: true }, Waiting::Nothing);
        *self = Worker::Plugin(Plugin {
            _listing: turn.registry.enter(&turn.me.name, registration),
            jobs,
            replies: HashMap::new(),
            beat_at: turn.now + turn.settings.heartbeat,
        });
    }

    fn reply(&mut self, dialect: Dialect, address: &Bytes, result: &[Bytes], turn: &mut Turn<'_>) {
        let Some(address) = Address::parse(address) else {
            return self.dismiss(dialect, turn);
        };
        let held = translate::held_of(&address);
        match self {
            Worker::Simple(simple) => match &simple.job {
                Some(job) if job.held == held => {
                    simple.job = None;
                    complete(held, result, turn);
                }
                Some(_) => self.dismiss(dialect, turn),
                None => turn.drop("stale"),
            },
            Worker::Returned { jobs } if jobs.iter().any(|known| known.job.held == held) => {
                complete(held, result, turn);
                self.dismiss(dialect, turn);
            }
            Worker::Unknown | Worker::Arriving { .. } | Worker::Returned { .. } => {
                self.late_reply(&address, held, result, turn);
                self.dismiss(dialect, turn);
            }
            Worker::Plugin(_) => self.dismiss(dialect, turn),
        }
    }

    /// A result from a connection that never said READY: the worker kept its socket while the broker was restarted. Its
    /// address says who it was and what it held, and the engine decides whether that still counts.
    fn late_reply(&mut self, address: &Address, held: Held, result: &[Bytes], turn: &mut Turn<'_>) {
        if !may_work(turn) || !matches!(self, Worker::Unknown) {
            return turn.drop("stale");
        }
        let worker: Name = address.worker.as_str().into();
        if turn.me.is_chosen && worker != turn.me.name {
            return turn.drop("stale");
        }
        let spec = translate::returned_worker(&worker, vec![held], turn.settings);
        turn.command(Command::Register(Box::new(spec)), Waiting::Nothing);
        complete(held, result, turn);
        turn.command(Command::Leave, Waiting::Nothing);
    }

    fn partial(&mut self, dialect: Dialect, address: &Bytes, part: Vec<Bytes>, turn: &mut Turn<'_>) {
        let Worker::Simple(Simple { job: Some(job), .. }) = self else {
            return self.dismiss(dialect, turn);
        };
        if Address::parse(address).map(|address| translate::held_of(&address)) != Some(job.held) {
            return turn.drop("stale");
        }
        let mut frames = vec![address.clone()];
        frames.extend(part);
        let call = Request::Call { address: partial_address(&job.client), body: body::pack(&frames) };
        turn.ask(call, Waiting::Nothing);
        // A part of a result is a sign of life, whoever hears it.
        turn.command(Command::Heartbeat { held: None, stats: None }, Waiting::Known);
    }

    fn heartbeat(&mut self, dialect: Dialect, stats: &Stats, turn: &mut Turn<'_>) {
        match self {
            Worker::Unknown | Worker::Arriving { .. } => self.start_again(dialect, turn),
            // A simple worker that beats does not compute: it has forgotten what it held. A plugin worker may well.
            Worker::Returned { .. } if dialect == Dialect::Pl => say(&ToWorker::TellProcesses, dialect, turn),
            Worker::Returned { .. } => self.dismiss(dialect, turn),
            Worker::Simple(_) => {
                turn.command(Command::Heartbeat { held: None, stats: None }, Waiting::Known);
            }
            Worker::Plugin(_) => {
                let stats = Some(Box::new(translate::stats(stats)));
                turn.command(Command::Heartbeat { held: None, stats }, Waiting::Known);
            }
        }
    }

    /// `_PL`: kept until the job is finished, when it becomes its result.
    fn plugin_reply(&mut self, client: Bytes, reply: Vec<Bytes>, turn: &mut Turn<'_>) {
        let Worker::Plugin(plugin) = self else { return self.start_again(Dialect::Pl, turn) };
        let has_job = plugin.jobs.iter().flatten().any(|job| job.client.as_bytes() == client);
        if has_job {
            plugin.replies.insert(client, reply);
        } else {
            turn.drop("stale");
        }
    }

    fn finished(&mut self, client: &Bytes, thread: u32, result: Vec<Bytes>, turn: &mut Turn<'_>) {
        if let Worker::Returned { jobs } = self {
            let is_it = |known: &Returning| {
                known.thread == Some(thread as usize) && known.job.client.as_bytes() == client
            };
            match jobs.iter().position(is_it) {
                Some(place) => complete(jobs.swap_remove(place).job.held, &result, turn),
                None => turn.drop("stale"),
            }
            // It has not told yet what it can do.
            return say(&ToWorker::TellProcesses, Dialect::Pl, turn);
        }
        let Worker::Plugin(plugin) = self else { return self.start_again(Dialect::Pl, turn) };
        let place = plugin.jobs.get_mut(thread as usize);
        let Some(job) = place.and_then(|place| place.take_if(|job| job.client.as_bytes() == client)) else {
            return turn.drop("stale");
        };
        let reply = plugin.replies.remove(client).unwrap_or_default();
        if job.is_over {
            return turn.drop("stale");
        }
        complete(job.held, if result.is_empty() { &reply } else { &result }, turn);
    }

    /// A job has come for this worker.
    pub(super) fn assigned(
        &mut self,
        assignment: &Assignment,
        task_body: Result<Bytes, Refusal>,
        turn: &mut Turn<'_>,
    ) {
        let held = Held { task: assignment.task, attempt: assignment.attempt };
        let client = assignment.terms.submitter.clone();
        if !matches!(self, Worker::Simple(_) | Worker::Plugin(_)) {
            // It left in the meantime, and the task went back with it.
            return;
        }
        let task_body = match task_body {
            Ok(task_body) => task_body,
            Err(refusal) => return fail(held, &refusal, turn),
        };
        let job = Running { held, client: client.clone(), is_over: false };
        turn.command(Command::Start(vec![held]), Waiting::Started(held));
        match self {
            Worker::Unknown | Worker::Arriving { .. } | Worker::Returned { .. } => {}
            Worker::Simple(simple) => {
                let address = translate::address_of(held, &turn.me.name).to_frame();
                let request = ToWorker::Request { address, body: body::unpack(&task_body) };
                say(&request, simple.dialect, turn);
                simple.job = Some(job);
            }
            Worker::Plugin(plugin) => {
                let free = plugin.jobs.iter().position(Option::is_none);
                let thread = free.unwrap_or_else(|| {
                    plugin.jobs.push(None);
                    plugin.jobs.len() - 1
                });
                let id = held.task.to_string();
                let call = Call { thread: thread as u32, client: &client, job: &id, attempt: held.attempt };
                let parameters = for_worker(&task_body, &call);
                say(
                    &ToWorker::Call { service: assignment.terms.queue.to_string(), parameters },
                    Dialect::Pl,
                    turn,
                );
                plugin.jobs[thread] = Some(job);
                // Durable, so that the job finds its thread again after a restart of the broker.
                let note = Some(format!("{THREAD_NOTE}{thread}").into());
                turn.command(Command::Progress { held, percent: None, note }, Waiting::Nothing);
            }
        }
    }

    /// Whether the hub accepted that the worker has begun.
    pub(super) fn started(&mut self, held: Held, reply: &Result<Response, Refusal>, turn: &mut Turn<'_>) {
        let went_on = match reply {
            Ok(Response::Command(Reply::Held(each))) => each.iter().all(Result::is_ok),
            _ => false,
        };
        if !went_on {
            self.stopped(held, StopWhy::Stale, turn);
        }
    }

    /// An attempt is over, and Majordomo has no word to stop a worker. A simple worker is sent away, or its next job would
    /// wait behind the old one; a plugin worker's thread stays taken until it reports.
    pub(super) fn stopped(&mut self, held: Held, why: StopWhy, turn: &mut Turn<'_>) {
        turn.drop(match why {
            StopWhy::Stale => "attempt_stale",
            StopWhy::TakenBack => "attempt_taken_back",
            StopWhy::Cancelled => "attempt_cancelled",
            StopWhy::Paused => "attempt_paused",
            StopWhy::RunLimit => "attempt_run_limit",
            StopWhy::Expired => "attempt_expired",
        });
        match self {
            Worker::Simple(simple) if simple.job.as_ref().is_some_and(|job| job.held == held) => {
                let dialect = simple.dialect;
                self.dismiss(dialect, turn);
            }
            Worker::Plugin(plugin) => {
                for job in plugin.jobs.iter_mut().flatten().filter(|job| job.held == held) {
                    job.is_over = true;
                }
            }
            Worker::Returned { jobs } => jobs.retain(|known| known.job.held != held),
            Worker::Simple(_) | Worker::Arriving { .. } | Worker::Unknown => {}
        }
    }

    /// The answer to a registration or heartbeat. A worker that the hub does not know has to start again.
    pub(super) fn known(&mut self, reply: &Result<Response, Refusal>, turn: &mut Turn<'_>) {
        let Err(refusal) = reply else { return };
        tracing::debug!(worker = %turn.me.name, code = refusal.code(), "worker has to start again");
        let dialect = match self {
            Worker::Unknown | Worker::Arriving { .. } => return,
            Worker::Returned { .. } => {
                *self = Worker::Unknown;
                return;
            }
            Worker::Simple(simple) => simple.dialect,
            Worker::Plugin(_) => Dialect::Pl,
        };
        self.start_again(dialect, turn);
    }

    pub(super) fn broadcast(&mut self, subject: Option<&str>, commit: &Bytes, turn: &mut Turn<'_>) {
        if let (Worker::Plugin(_), Some(FINISHED_SUBJECT)) = (&self, subject) {
            let commit = String::from_utf8_lossy(commit).into_owned();
            say(&ToWorker::Finished { commit }, Dialect::Pl, turn);
        }
    }

    pub(super) fn tick(&mut self, turn: &mut Turn<'_>) {
        let (dialect, beat_at) = match self {
            Worker::Unknown | Worker::Arriving { .. } | Worker::Returned { .. } => return,
            Worker::Simple(simple) => (simple.dialect, &mut simple.beat_at),
            Worker::Plugin(plugin) => (Dialect::Pl, &mut plugin.beat_at),
        };
        if *beat_at <= turn.now {
            *beat_at = turn.now + turn.settings.heartbeat;
            say(&ToWorker::Heartbeat, dialect, turn);
        }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match self {
            Worker::Unknown | Worker::Arriving { .. } | Worker::Returned { .. } => None,
            Worker::Simple(simple) => Some(simple.beat_at),
            Worker::Plugin(plugin) => Some(plugin.beat_at),
        }
    }

    /// The worker goes; what it holds goes to others, without blame.
    fn leave(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self, Worker::Unknown) {
            turn.command(Command::Leave, Waiting::Nothing);
        }
        *self = Worker::Unknown;
    }

    /// The worker said something it should not have said. It opens a new socket and starts again.
    fn dismiss(&mut self, dialect: Dialect, turn: &mut Turn<'_>) {
        turn.drop("dismissed");
        self.leave(turn);
        say(&ToWorker::Disconnect, dialect, turn);
    }

    /// The broker does not know this worker. A simple one opens a new socket, a plugin worker tells what it can do.
    fn start_again(&mut self, dialect: Dialect, turn: &mut Turn<'_>) {
        turn.drop("unknown_worker");
        *self = Worker::Unknown;
        let word = match dialect {
            Dialect::V1 | Dialect::V2 => ToWorker::Disconnect,
            Dialect::Pl => ToWorker::TellProcesses,
        };
        say(&word, dialect, turn);
    }
}

/// A task that the worker holds, as the broker remembers it.
fn returning(task: &TaskInfo) -> Returning {
    let held = Held { task: task.id, attempt: task.attempt };
    let progress = task.state.holding().and_then(|holding| holding.progress.as_ref());
    let note = progress.and_then(|progress| progress.note.as_deref());
    let thread = note.and_then(|note| note.strip_prefix(THREAD_NOTE)).and_then(|thread| thread.parse().ok());
    Returning { job: Running { held, client: task.terms.submitter.clone(), is_over: false }, thread }
}

/// Puts jobs back where they run. One whose thread is unknown cannot be told from others and is left out.
fn by_thread(returned: Vec<Returning>) -> Vec<Option<Running>> {
    let mut jobs: Vec<Option<Running>> = Vec::new();
    for Returning { job, thread } in returned {
        let Some(thread) = thread.filter(|thread| *thread < THREADS_MAX as usize) else { continue };
        if jobs.len() <= thread {
            jobs.resize_with(thread + 1, || None);
        }
        jobs[thread] = Some(job);
    }
    jobs
}

fn may_work(turn: &Turn<'_>) -> bool {
    let grant = &turn.me.grant;
    grant.may_work && grant.worker.as_ref().is_none_or(|only| *only == turn.me.name)
}

fn say(word: &ToWorker, dialect: Dialect, turn: &mut Turn<'_>) {
    if let Some(frames) = word.frames(dialect) {
        turn.say(frames);
    }
}

fn complete(held: Held, result: &[Bytes], turn: &mut Turn<'_>) {
    let result = if result.is_empty() { Bytes::new() } else { body::pack(result) };
    if result.len() > tenure_hub::limits::BODY_BYTES_MAX {
        let limit = tenure_hub::limits::BODY_BYTES_MAX;
        return fail(held, &Refusal::TooMany { what: "bytes in a result", limit }, turn);
    }
    turn.ask(Request::Complete(vec![Done { held, result }]), Waiting::Nothing);
}

/// The job cannot be given to a worker, or its result cannot be kept; trying again would not help.
fn fail(held: Held, refusal: &Refusal, turn: &mut Turn<'_>) {
    let failure = Failure {
        held,
        exit_code: 1,
        message: Some(refusal.to_string().into()),
        result: tenure_hub::words::Blob::EMPTY,
        crashed: false,
        is_final: true,
    };
    turn.ask(Request::Fail { failure, result: Bytes::new() }, Waiting::Nothing);
}
