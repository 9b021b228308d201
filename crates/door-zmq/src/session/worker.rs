//! The worker side of a Majordomo session.

mod handing;
mod plugin;
mod replies;
mod results;

use std::time::Duration;

use bytes::Bytes;
use tenure_door_kit::worker_actor::{Arrival, begun_by, starts_on_assignment};
use tenure_hub::words::{Answer, Assignment, Blob, Command, Held, Name, Query, Refusal, TaskInfo, Timestamp};
use tenure_hub::{HubRefusal, Request, Response};

use super::client::FINISHED_SUBJECT;
use super::majordomo::{ReplyPurpose, SessionTurn};
use crate::lost_workers::Trait;
use crate::mdp::{MdpDialect, MdpRegistration, MdpStats, THREADS_MAX, ToWorker, WorkerMessage, is_mmi};
use crate::translate;
use plugin::{Plugin, Threads};

/// How many attempts of a returning worker the door asks for.
const RETURNED_MAX: usize = 1_000;

/// How many messages wait until the door knows what a worker holds.
const EARLY_MAX: usize = 1_000;

/// How long a job may run before its start is written separately. A worker that answers sooner has start and end
/// written together: one sync less for every quick request.
const START_AFTER: Duration = Duration::from_millis(10);

/// A job larger than this may take long to reach its worker, and the broker would take back an attempt that has not
/// started.
const START_AFTER_BYTES: usize = 64 << 10;

/// How many heartbeats a computing worker of MDP/0.1 or 0.2 gets without answering. It does not read, and when its
/// receive queue is full (a thousand messages, but some set it to two) its ZeroMQ library stops reading too and
/// answers no ping.
const BUSY_BEATS_MAX: u32 = 1;

/// Prefix of the note that stores the thread of a `_PL` job.
const THREAD_NOTE: &str = "thread ";

/// What the door knows of the peer as a worker.
#[derive(Debug, Default)]
pub(super) enum WorkerSession {
    /// It is a client, or has to say READY first.
    #[default]
    Unknown,
    /// The door asks the hub what this worker holds. Its messages wait meanwhile.
    Arriving(Arrival<(MdpDialect, WorkerMessage)>),
    /// It returned under a name that holds attempts; they continue, and it gets nothing new.
    Returned {
        jobs: Vec<Returning>,
        /// `_PL`: how many of its threads were free at its last heartbeat.
        free: Option<u32>,
    },
    /// An unknown `_PL` worker that was asked to register. The broker does not wait for what it computes.
    RequestsInFlight {
        jobs: Vec<Option<Running>>,
        free: Option<u32>,
    },
    Simple(Simple),
    Plugin(Plugin),
}

/// A worker of MDP/0.1 or 0.2.
#[derive(Debug)]
pub(super) struct Simple {
    dialect: MdpDialect,
    job: Option<Running>,
    /// When to write the start of its job, unless it is written.
    start_at: Option<Timestamp>,
    beat_at: Timestamp,
    /// Heartbeats sent to it since it was last heard.
    unheard_beats: u32,
}

/// A job of the worker. If the attempt is over and the worker still computes, the broker does not wait for it.
#[derive(Debug)]
pub(super) struct Running {
    held: Held,
    client: Name,
    is_over: bool,
    /// `_PL`: the message that waits for the start to be on disk.
    unsent: Option<Unsent>,
}

/// A job that the worker has not been sent yet.
#[derive(Debug)]
pub(super) struct Unsent {
    service: Name,
    body: Blob,
}

impl Running {
    fn new(held: Held, client: Name) -> Running {
        Running { held, client, is_over: false, unsent: None }
    }
}

/// A job that a worker had before its connection or the broker was gone.
#[derive(Debug)]
pub(super) struct Returning {
    job: Running,
    /// `_PL`: its thread, as noted when it started.
    thread: Option<usize>,
}

impl WorkerSession {
    /// A worker with its own name may return to what it holds: the connection or the broker was gone for a while.
    pub(super) fn begin(&mut self, turn: &mut SessionTurn<'_>) {
        if !turn.me.is_chosen || !turn.me.may_work() {
            return;
        }
        let record = Query::Worker { worker: turn.me.name.clone() };
        turn.ask(Request::Query(record), ReplyPurpose::Record);
        turn.ask(begun_by(&turn.me.name, RETURNED_MAX), ReplyPurpose::HeldBefore);
        *self = WorkerSession::Arriving(Arrival::new(EARLY_MAX));
    }

    /// The broker's record of this worker. One that was lost with a job may still compute it.
    pub(super) fn recorded(&mut self, reply: &Result<Response, HubRefusal>, turn: &mut SessionTurn<'_>) {
        if let Ok(Response::Answer(Answer::Workers(workers))) = reply
            && workers.iter().any(|worker| worker.last_crash.is_some())
        {
            turn.registry.lost.add(&turn.me.namespace(), traits(turn, None));
        }
    }

    pub(super) fn held_before(&mut self, reply: Result<Response, HubRefusal>, turn: &mut SessionTurn<'_>) {
        let WorkerSession::Arriving(arrival) = std::mem::take(self) else { return };
        let (tasks, early) = arrival.finish(reply);
        if !tasks.is_empty() {
            let held = tasks.iter().map(|task| Held { task: task.id, attempt: task.attempt }).collect();
            let spec = translate::returned_worker(&turn.me.name, held, turn.settings);
            turn.command(Command::Register(Box::new(spec)), ReplyPurpose::Known);
            *self = WorkerSession::Returned { jobs: tasks.iter().map(returning).collect(), free: None };
        }
        for (dialect, message) in early {
            self.receive(dialect, message, turn);
        }
    }

    /// Whether to stop reading from it: the door does not know yet what it holds, and buffers its messages.
    pub(super) fn is_arriving(&self) -> bool {
        matches!(self, WorkerSession::Arriving(_))
    }

    /// Which bytes are needed to take an assignment.
    pub(super) fn body_of(&self, assignment: &Assignment) -> Option<Blob> {
        match self {
            WorkerSession::Plugin(_) if starts_on_assignment(assignment) => None,
            WorkerSession::Plugin(_)
            | WorkerSession::Simple(_)
            | WorkerSession::Unknown
            | WorkerSession::Arriving(_)
            | WorkerSession::Returned { .. }
            | WorkerSession::RequestsInFlight { .. } => Some(assignment.body),
        }
    }

    /// Which bytes are needed when the start of this job is on disk.
    pub(super) fn body_after_start(&self, held: Held) -> Option<Blob> {
        let WorkerSession::Plugin(plugin) = self else { return None };
        plugin.unsent(held).map(|unsent| unsent.body)
    }

    pub(super) fn receive(
        &mut self,
        dialect: MdpDialect,
        message: WorkerMessage,
        turn: &mut SessionTurn<'_>,
    ) {
        if let WorkerSession::Arriving(arrival) = self {
            if !arrival.keep((dialect, message)) {
                turn.drop("early");
            }
            return;
        }
        if let WorkerSession::Simple(simple) = self {
            simple.unheard_beats = 0;
        }
        match message {
            WorkerMessage::Ready { service } => self.ready(dialect, &service, turn),
            WorkerMessage::Reply { address, body } if dialect != MdpDialect::Pl => {
                self.reply(dialect, &address, &body, turn);
            }
            WorkerMessage::Reply { address, body } => match self {
                WorkerSession::Plugin(plugin) => {
                    if !plugin.replied(address, body, turn) {
                        self.disconnect(dialect, turn);
                    }
                }
                _ => self.start_again(dialect, turn),
            },
            WorkerMessage::Partial { address, body } => self.partial(dialect, &address, body, turn),
            WorkerMessage::Heartbeat { stats } => self.heartbeat(dialect, &stats, turn),
            WorkerMessage::Disconnect => self.leave(turn),
            WorkerMessage::Joining => {}
            WorkerMessage::Processes(registration) => self.register_plugin(registration, turn),
            WorkerMessage::Finished { client, thread, result } => {
                self.finished(&client, thread, &result, turn);
            }
        }
    }

    fn ready(&mut self, dialect: MdpDialect, service: &str, turn: &mut SessionTurn<'_>) {
        let is_new = matches!(
            self,
            WorkerSession::Unknown | WorkerSession::Returned { .. } | WorkerSession::RequestsInFlight { .. }
        );
        if !is_new || is_mmi(service) || !may_work(turn) {
            return self.disconnect(dialect, turn);
        }
        // Without its old attempts: a worker that says READY has forgotten them.
        let spec = translate::simple_worker(&turn.me.name, service, turn.settings);
        turn.command(Command::Register(Box::new(spec)), ReplyPurpose::Known);
        let beat_at = turn.now.steady + turn.settings.heartbeat;
        *self =
            WorkerSession::Simple(Simple { dialect, job: None, start_at: None, beat_at, unheard_beats: 0 });
    }

    fn register_plugin(&mut self, registration: MdpRegistration, turn: &mut SessionTurn<'_>) {
        if matches!(self, WorkerSession::Simple(_)) || !may_work(turn) {
            return self.disconnect(MdpDialect::Pl, turn);
        }
        for _ in 0..registration.skipped {
            turn.drop("plugin");
        }
        if registration.plugins.is_empty() {
            return turn.drop("no_plugins");
        }
        let count = registration.threads;
        let mut name =
            Some(turn.me.name.clone()).filter(|_| turn.me.is_chosen || registration.name.is_empty());
        let traits = traits(turn, Some(&registration));
        let threads = match std::mem::take(self) {
            // It registers again and continues with its jobs.
            WorkerSession::Plugin(plugin) => {
                name = Some(plugin.listing.worker().clone());
                plugin.threads
            }
            WorkerSession::Returned { jobs, free } => Threads::returned(by_thread(jobs), free, count),
            WorkerSession::RequestsInFlight { jobs, free } => Threads::returned(jobs, free, count),
            WorkerSession::Unknown if !turn.registry.lost.may_include(&turn.me.namespace(), &traits) => {
                Threads::idle()
            }
            WorkerSession::Unknown | WorkerSession::Arriving(_) | WorkerSession::Simple(_) => {
                Threads::default()
            }
        };
        let listing = match name {
            Some(name) => turn.registry.enter(turn.me.namespace(), &name, registration),
            None => turn.registry.enter_by_server(&turn.me.namespace(), registration),
        };
        *self = WorkerSession::Plugin(Plugin::new(listing, threads, turn));
        turn.ask(Request::ReceiveBroadcasts { hear: true }, ReplyPurpose::Nothing);
    }

    fn heartbeat(&mut self, dialect: MdpDialect, stats: &MdpStats, turn: &mut SessionTurn<'_>) {
        match self {
            WorkerSession::Unknown | WorkerSession::Arriving(_) => {
                self.start_again(dialect, turn);
                if let WorkerSession::RequestsInFlight { free, .. } = self {
                    *free = stats.free_threads;
                }
            }
            // A simple worker that sends heartbeats does not compute: it has forgotten what it held. A plugin worker
            // may still.
            WorkerSession::Returned { free, .. } | WorkerSession::RequestsInFlight { free, .. }
                if dialect == MdpDialect::Pl =>
            {
                *free = stats.free_threads;
                send(&ToWorker::TellProcesses, dialect, turn);
            }
            WorkerSession::Returned { .. } | WorkerSession::RequestsInFlight { .. } => {
                self.disconnect(dialect, turn);
            }
            WorkerSession::Simple(_) => {
                turn.command(Command::Heartbeat { held: None, stats: None }, ReplyPurpose::Known);
            }
            WorkerSession::Plugin(plugin) => {
                if !plugin.beats(stats.free_threads, turn) {
                    return self.disconnect(dialect, turn);
                }
                let stats = Some(Box::new(translate::stats(stats)));
                turn.command(Command::Heartbeat { held: None, stats }, ReplyPurpose::Known);
            }
        }
    }

    /// The reply to a registration or heartbeat. A worker that the hub does not know has to start again.
    pub(super) fn on_hub_reply(&mut self, reply: &Result<Response, HubRefusal>, turn: &mut SessionTurn<'_>) {
        let Err(refusal) = reply else { return };
        if let HubRefusal::Engine(Refusal::WorkerTaken { .. } | Refusal::NotAllowed { .. }) = refusal
            && let WorkerSession::Plugin(plugin) = self
            && *plugin.listing.worker() != turn.me.name
        {
            return plugin.rename(turn);
        }
        tracing::debug!(worker = %turn.me.name, code = refusal.code(), "the worker has to register again");
        let dialect = match self {
            WorkerSession::Unknown | WorkerSession::Arriving(_) | WorkerSession::RequestsInFlight { .. } => {
                return;
            }
            WorkerSession::Returned { .. } => {
                *self = WorkerSession::Unknown;
                return;
            }
            WorkerSession::Simple(simple) => simple.dialect,
            WorkerSession::Plugin(_) => MdpDialect::Pl,
        };
        self.start_again(dialect, turn);
    }

    pub(super) fn broadcast(&mut self, subject: Option<&str>, commit: &Bytes, turn: &mut SessionTurn<'_>) {
        if let (WorkerSession::Plugin(_), Some(FINISHED_SUBJECT)) = (&self, subject) {
            let commit = String::from_utf8_lossy(commit).into_owned();
            send(&ToWorker::Finished { commit }, MdpDialect::Pl, turn);
        }
    }

    pub(super) fn tick(&mut self, turn: &mut SessionTurn<'_>) {
        if let WorkerSession::Simple(simple) = self
            && simple.start_at.is_some_and(|at| at <= turn.now.steady)
        {
            simple.start(turn);
        }
        let (dialect, beat_at) = match self {
            WorkerSession::Unknown
            | WorkerSession::Arriving(_)
            | WorkerSession::Returned { .. }
            | WorkerSession::RequestsInFlight { .. } => {
                return;
            }
            WorkerSession::Simple(simple) if !simple.hears_beats() => return,
            WorkerSession::Simple(simple) => {
                if simple.beat_at <= turn.now.steady {
                    simple.unheard_beats += 1;
                }
                (simple.dialect, &mut simple.beat_at)
            }
            WorkerSession::Plugin(plugin) => (MdpDialect::Pl, &mut plugin.beat_at),
        };
        if *beat_at <= turn.now.steady {
            *beat_at = turn.now.steady + turn.settings.heartbeat;
            send(&ToWorker::Heartbeat, dialect, turn);
        }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match self {
            WorkerSession::Unknown
            | WorkerSession::Arriving(_)
            | WorkerSession::Returned { .. }
            | WorkerSession::RequestsInFlight { .. } => None,
            WorkerSession::Simple(simple) => {
                let beat_at = Some(simple.beat_at).filter(|_| simple.hears_beats());
                [simple.start_at, beat_at].into_iter().flatten().min()
            }
            WorkerSession::Plugin(plugin) => Some(plugin.beat_at),
        }
    }

    /// The connection is gone, and with it a job that had begun.
    pub(super) fn end(&mut self, turn: &mut SessionTurn<'_>) {
        if let WorkerSession::Simple(simple) = self {
            simple.start(turn);
        }
        self.note_orphaned(turn);
    }

    /// It leaves, possibly still computing: it must not count as new when it returns.
    fn note_orphaned(&self, turn: &SessionTurn<'_>) {
        let (may_compute, registration) = match self {
            WorkerSession::Unknown | WorkerSession::Arriving(_) | WorkerSession::Simple(_) => (false, None),
            WorkerSession::Returned { jobs, .. } => (!jobs.is_empty(), None),
            WorkerSession::RequestsInFlight { .. } => (true, None),
            WorkerSession::Plugin(plugin) => {
                (plugin.threads.may_compute(), Some(plugin.listing.registration()))
            }
        };
        if may_compute {
            turn.registry.lost.add(&turn.me.namespace(), traits(turn, registration));
        }
    }

    /// The worker leaves; its jobs go to other workers, without a crash on its record.
    pub(super) fn leave(&mut self, turn: &mut SessionTurn<'_>) {
        self.note_orphaned(turn);
        if !matches!(self, WorkerSession::Unknown | WorkerSession::RequestsInFlight { .. }) {
            turn.command(Command::Leave, ReplyPurpose::Nothing);
        }
        *self = WorkerSession::Unknown;
    }

    /// The worker sent an invalid message. It opens a new socket and starts again.
    fn disconnect(&mut self, dialect: MdpDialect, turn: &mut SessionTurn<'_>) {
        turn.drop("dismissed");
        self.leave(turn);
        send(&ToWorker::Disconnect, dialect, turn);
    }

    /// The broker does not know this worker. A simple one must open a new socket, a plugin worker must register; the
    /// jobs in its threads continue.
    fn start_again(&mut self, dialect: MdpDialect, turn: &mut SessionTurn<'_>) {
        turn.drop("unknown_worker");
        let before = std::mem::take(self);
        let word = match dialect {
            MdpDialect::V1 | MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered => {
                ToWorker::Disconnect
            }
            MdpDialect::Pl => {
                *self = match before {
                    WorkerSession::Plugin(plugin) => {
                        WorkerSession::RequestsInFlight { jobs: plugin.threads.give_up(), free: None }
                    }
                    WorkerSession::RequestsInFlight { .. } | WorkerSession::Returned { .. } => before,
                    _ => WorkerSession::RequestsInFlight { jobs: Vec::new(), free: None },
                };
                ToWorker::TellProcesses
            }
        };
        send(&word, dialect, turn);
    }
}

impl Simple {
    /// Whether heartbeats are useful: a worker that computes silently does not read them.
    fn hears_beats(&self) -> bool {
        self.job.is_none() || self.unheard_beats < BUSY_BEATS_MAX
    }

    /// Writes the start of its job, if it is not written yet.
    fn start(&mut self, turn: &mut SessionTurn<'_>) {
        if let (Some(_), Some(job)) = (self.start_at.take(), &self.job) {
            turn.command(Command::Start(vec![job.held]), ReplyPurpose::Started(job.held));
        }
    }
}

/// A task that the worker holds, according to the broker.
fn returning(task: &TaskInfo) -> Returning {
    let held = Held { task: task.id, attempt: task.attempt };
    let progress = task.state.holding().and_then(|holding| holding.progress.as_ref());
    let note = progress.and_then(|progress| progress.note.as_deref());
    let thread = note.and_then(|note| note.strip_prefix(THREAD_NOTE)).and_then(|thread| thread.parse().ok());
    Returning { job: Running::new(held, task.terms.submitter.clone()), thread }
}

/// Assigns jobs to their threads. A job whose thread is unknown cannot be distinguished from others and is left out.
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

/// What identifies this worker when it returns.
fn traits(turn: &SessionTurn<'_>, registration: Option<&MdpRegistration>) -> Vec<Trait> {
    let identity = turn.me.is_chosen.then(|| Trait::Identity(turn.me.name.clone()));
    let server = registration.filter(|known| !known.name.is_empty());
    let server = server.map(|known| Trait::Server(known.name.as_str().into()));
    identity.into_iter().chain(server).collect()
}

fn may_work(turn: &mut SessionTurn<'_>) -> bool {
    let may = turn.me.check_work(turn.out);
    if !may {
        turn.drop("not-allowed");
    }
    may
}

fn send(word: &ToWorker, dialect: MdpDialect, turn: &mut SessionTurn<'_>) {
    if let Some(frames) = word.frames(dialect) {
        turn.send(frames);
    }
}
