//! The door's side of one worker, through whichever connections it speaks. Pure.
//!
//! A worker may heartbeat on one connection and pop on another, and may lose a connection without losing its jobs. So
//! what it holds, what it waits for and what it said of itself is kept here, once per worker, with a hub session of its
//! own; connections come and go. Calls come in with [`Worker::call`], the hub's deliveries with [`Worker::deliver`];
//! requests for the hub and answers for connections go out through [`Output`].

mod call;
mod challenges;
mod claims;
mod joining;
mod life;
mod pulls;
mod reports;

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use tenure_hub::words::{Blob, Command, Name, Notice, Refusal, TaskId, Timestamp, WorkerStats};
use tenure_hub::{Ask, Delivery, Request, Response};

pub use call::{Call, CallAnswer, Caller, KeyHolder, Pop};
use challenges::Challenge;
use claims::Claim;
use joining::Survivors;
use life::Belief;
use pulls::Waiting;

use crate::settings::Settings;
use crate::shapes::{Registration, Statistics};

/// Slots of a connection that pops without having said who it is.
pub(crate) const NAMELESS_SLOTS: u32 = 100;
/// Calls that may wait while a worker joins.
const CALLS_WAITING_MAX: usize = 1024;

#[derive(Debug)]
pub struct Worker {
    name: Name,
    /// The key that it belongs to while it is there or may come back.
    owner: Name,
    kind: Kind,
    settings: Settings,
    standing: Standing,
    offers: Vec<Name>,
    /// It says which tools it has.
    names_tools: bool,
    slots: u32,
    registration: Option<Box<Registration>>,
    stats: Option<(Timestamp, Box<Statistics>)>,
    /// Connections that spoke as this worker, and the one that registered it.
    connections: BTreeSet<u64>,
    registrar: Option<u64>,
    waiting: Vec<Waiting>,
    /// The queues the hub has been asked for by pops that wait, and has not given a task for.
    asked: Option<Vec<Name>>,
    /// How many of these questions the hub has not heard yet.
    asking: usize,
    claims: HashMap<TaskId, Claim>,
    /// What it held before it was away, until the hub has said what is left of it.
    before: HashMap<TaskId, Claim>,
    survivors: Survivors,
    /// Its claims are all it has: what it does not name is gone.
    names_all: bool,
    /// It goes on with a job from before, and the hub has not been told.
    has_returned: bool,
    challenges: Vec<Challenge>,
    next_challenge: u64,
    pending: HashMap<u64, Pending>,
    next_token: u64,
    /// The time of this turn.
    clock: Timestamp,
    /// When the worker itself last said something.
    heard: Timestamp,
    belief: Belief,
    /// The hub was told something on its behalf, and how little time it had left then.
    on_short_terms: bool,
    /// It is known because it holds jobs, and has neither registered nor popped since it was away.
    came_back: bool,
    /// Jobs that it did not finish within their limit.
    hung: u32,
    /// Calls that came while it joins.
    calls: Vec<(Caller, Call)>,
}

/// How a worker came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection without a name; it ends with the connection.
    Nameless,
    /// It pinged, popped or set its tools under an id.
    Implied,
    /// It registered.
    Registered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not known to the hub: not yet, not any more, or dead.
    Out,
    /// Nobody speaks as this worker. It has no session with the hub, which believes in its claims for a while.
    Away,
    /// Asking the hub what it held before, then registering.
    Joining,
    Active,
}

/// What an unanswered request was for.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// What the hub believes it holds.
    Recall,
    /// Outputs that it put aside for one of these.
    Outputs {
        task: TaskId,
    },
    /// Whether the hub believes that it is alive.
    Life,
    Join {
        caller: Option<Caller>,
    },
    Beat {
        caller: Option<Caller>,
    },
    Leave {
        caller: Caller,
    },
    /// A task for whoever waits.
    Ask,
    /// Marks when the hub has given what it had at once.
    Probe,
    Report {
        caller: Option<Caller>,
        task: TaskId,
        ends: bool,
    },
    Challenge {
        number: u64,
    },
    /// Nobody waits for the answer.
    Nothing,
}

/// What a turn leads to.
#[derive(Debug, Default)]
pub struct Output {
    pub asks: Vec<Ask>,
    /// Bytes it wants to see, each under a number of its own.
    pub reads: Vec<(u64, Blob)>,
    pub answers: Vec<(Caller, CallAnswer)>,
    /// News for connections that can take them: the job, and what is wanted.
    pub wishes: Vec<(u64, String, &'static str)>,
    /// Its session with the hub ends after these requests; the next request begins another.
    pub closes_session: bool,
    /// It has another owner, so these requests need a session of that key.
    pub changes_owner: bool,
}

impl Worker {
    pub fn new(name: Name, owner: Name, kind: Kind, settings: Settings, now: Timestamp) -> Self {
        Self {
            name,
            owner,
            kind,
            settings,
            standing: Standing::Out,
            offers: Vec::new(),
            names_tools: false,
            slots: if kind == Kind::Nameless { NAMELESS_SLOTS } else { 1 },
            registration: None,
            stats: None,
            connections: BTreeSet::new(),
            registrar: None,
            waiting: Vec::new(),
            asked: None,
            asking: 0,
            claims: HashMap::new(),
            before: HashMap::new(),
            survivors: Survivors::Unknown,
            names_all: false,
            has_returned: false,
            challenges: Vec::new(),
            next_challenge: 0,
            pending: HashMap::new(),
            next_token: 0,
            clock: now,
            heard: now,
            belief: Belief::new(now),
            on_short_terms: false,
            came_back: false,
            hung: 0,
            calls: Vec::new(),
        }
    }

    pub fn call(&mut self, now: Timestamp, caller: Caller, call: Call, out: &mut Output) {
        self.call_all(now, [(caller, call)], out);
    }

    /// Calls of one connection that come together. A worker listens to its owner only.
    pub fn call_from(
        &mut self,
        now: Timestamp,
        from: &KeyHolder,
        calls: impl IntoIterator<Item = (Caller, Call)>,
        out: &mut Output,
    ) {
        if self.owner == from.name {
            return self.call_all(now, calls, out);
        }
        let mut allowed = Vec::new();
        for (caller, call) in calls {
            if call.is_allowed_to_others(from) || self.takes_owner(from, out) {
                allowed.push((caller, call));
            } else {
                let refusal = Refusal::NotAllowed { what: "use this worker id" };
                out.answers.push((caller, CallAnswer::Refused(refusal)));
            }
        }
        self.call_all(now, allowed, out);
    }

    /// The id of a worker that is gone is free.
    fn takes_owner(&mut self, from: &KeyHolder, out: &mut Output) -> bool {
        if self.standing != Standing::Out || !self.pending.is_empty() {
            return self.owner == from.name;
        }
        self.owner = from.name.clone();
        out.changes_owner = true;
        true
    }

    /// Several calls that come together.
    pub fn call_all(
        &mut self,
        now: Timestamp,
        calls: impl IntoIterator<Item = (Caller, Call)>,
        out: &mut Output,
    ) {
        self.clock = now;
        let asks_before = out.asks.len();
        let mut speaks = false;
        for (caller, call) in calls {
            if matches!(&call, Call::Register(registration) if self.is_taken(caller, registration)) {
                // Somebody else under the same id: what it says is no sign of this worker's life.
                out.answers.push((caller, CallAnswer::Taken));
                continue;
            }
            speaks |= call.is_its_own();
            self.hear(now, caller, call, out);
        }
        if speaks {
            self.restore_terms(now, out);
        }
        if std::mem::take(&mut self.has_returned) && self.standing == Standing::Active {
            self.join(now, None, out);
        }
        self.settle(out);
        if speaks {
            self.pass_on(now, asks_before, out);
        }
    }

    fn hear(&mut self, now: Timestamp, caller: Caller, call: Call, out: &mut Output) {
        if call.is_its_own() {
            self.heard = now;
            self.connections.insert(caller.connection);
        }
        if self.standing == Standing::Away && call.brings_back() {
            // It goes on when the worker has joined again.
            self.join(now, None, out);
        }
        if call == Call::Sign {
            return;
        }
        if self.standing == Standing::Joining {
            if self.calls.len() < CALLS_WAITING_MAX {
                self.calls.push((caller, call));
            } else {
                let limit = CALLS_WAITING_MAX;
                let refusal = Refusal::TooMany { what: "calls while a worker joins", limit };
                out.answers.push((caller, CallAnswer::Refused(refusal)));
            }
            return;
        }
        match call {
            Call::Register(registration) => self.register(now, caller, registration, out),
            Call::Tools(tools) => self.tools(now, caller, &tools, out),
            Call::Heartbeat(stats) => self.beat(now, caller, stats, out),
            Call::Sign => {}
            Call::Return => self.come_back(now, caller, out),
            Call::Identify => self.identify(caller, out),
            Call::Retire => self.retire(caller, out),
            Call::Ping => self.ping(now, caller, out),
            Call::Unregister => self.unregister(caller, out),
            Call::Pop(pop) => self.pop(now, caller, pop, out),
            Call::Mention { job } => self.mention(caller, &job, out),
            Call::Report { job, update } => self.report(caller, &job, *update, out),
            Call::Output { job, outputs } => self.put_aside(caller, &job, *outputs, out),
            Call::Finish { job, list } => self.finish(caller, &job, &list, out),
            Call::Challenge { capability, command, arguments, expect } => {
                self.challenge(now, caller, capability, &command, &arguments, expect, out);
            }
            Call::Verified { capability, output, exit_code } => {
                self.verified(caller, &capability, output, exit_code, out);
            }
        }
    }

    pub fn deliver(&mut self, now: Timestamp, delivery: Delivery, out: &mut Output) {
        self.clock = now;
        match delivery {
            Delivery::Reply { token, reply } => {
                if let Some(pending) = self.pending.remove(&token) {
                    self.answered(now, pending, token, reply, out);
                }
            }
            Delivery::Notice(Notice::Assign(assignment)) => self.assigned(now, assignment, out),
            Delivery::Notice(Notice::Wanted { task, wanted, .. }) => self.wanted(task, wanted, out),
            Delivery::Notice(Notice::Stop { task, attempt, why }) => self.stopped(task, attempt, why, out),
            Delivery::Notice(Notice::Replaced { .. }) => self.fall_out(out),
            Delivery::Notice(Notice::Drain) | Delivery::Goodbye | Delivery::Ended(_) => {
                self.send_away(&CallAnswer::Nothing, out);
            }
            // This session watches nothing and takes no calls.
            Delivery::Event { .. }
            | Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::Broadcast(_) => {}
        }
    }

    /// Bytes it wanted to see.
    pub fn has_read(&mut self, token: u64, bytes: Result<Bytes, Refusal>, out: &mut Output) {
        if let Some(Pending::Outputs { task }) = self.pending.remove(&token) {
            self.take_up(task, bytes, out);
        }
    }

    /// A connection is gone. What went out through it and was not read goes back.
    pub fn detach(&mut self, connection: u64, out: &mut Output) {
        self.connections.remove(&connection);
        self.calls.retain(|(caller, _)| caller.connection != connection);
        self.waiting.retain(|waiting| waiting.caller.connection != connection);
        if self.registrar == Some(connection) {
            self.registrar = None;
        }
        let unread: Vec<TaskId> = self
            .claims
            .values()
            .filter(|claim| {
                claim.connection == connection && claim.evidence.is_unread() && claim.evidence.is_new()
            })
            .map(|claim| claim.held.task)
            .collect();
        for task in unread {
            self.give_back(task, "the client was gone before it had read the job", out);
        }
        self.settle(out);
        self.leave_if_gone(out);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp, out: &mut Output) {
        self.clock = now;
        self.give_up_waiting(now, out);
        self.confirm_silently(now, out);
        self.disown(now, out);
        self.end_challenges(now, out);
        self.ask_if_alive(now, out);
    }

    pub fn next_deadline(&self) -> Option<Timestamp> {
        let lingers = self.kind != Kind::Nameless && self.is_alone();
        let linger = lingers.then(|| self.heard + self.settings.dead_after());
        let waits = self.waiting.iter().filter_map(|waiting| waiting.until);
        let unread = self.claims.values().filter_map(|claim| claim.evidence.silent_until());
        let disowned = self.claims.values().filter_map(|claim| claim.evidence.disowned_at());
        let challenges = self.challenges.iter().map(|challenge| challenge.until);
        waits.chain(unread).chain(disowned).chain(challenges).chain(linger).chain(self.doubts_at()).min()
    }

    /// Whether nobody needs this desk any more: its connection is gone, or it was silent for so long that it is dead.
    pub fn is_over(&self, now: Timestamp) -> bool {
        match self.kind {
            Kind::Nameless => self.is_alone(),
            Kind::Implied | Kind::Registered => {
                self.is_alone() && self.heard + self.settings.dead_after() <= now
            }
        }
    }

    /// Nobody speaks as this worker, and nobody waits for it.
    fn is_alone(&self) -> bool {
        self.connections.is_empty() && self.calls.is_empty() && self.challenges.is_empty()
    }

    fn answered(
        &mut self,
        now: Timestamp,
        pending: Pending,
        token: u64,
        reply: Result<Response, Refusal>,
        out: &mut Output,
    ) {
        if matches!(reply, Err(Refusal::NotAWorker))
            && !matches!(pending, Pending::Join { .. } | Pending::Recall)
        {
            self.fall_out(out);
        }
        match pending {
            Pending::Recall => self.recalled(reply, out),
            // Its bytes come by another way.
            Pending::Outputs { .. } => {}
            Pending::Life => self.life_told(now, reply, out),
            Pending::Join { caller } => self.joined(now, caller, reply, out),
            Pending::Beat { caller } | Pending::Report { caller, ends: false, .. } => {
                if let Some(caller) = caller {
                    out.answers.push((caller, self.spoken(reply)));
                }
            }
            Pending::Leave { caller } => self.left(caller, reply, out),
            Pending::Ask => self.asking -= 1,
            Pending::Probe => self.probed(token, out),
            Pending::Report { caller, task, ends: true } => self.reported(caller, task, reply, out),
            Pending::Challenge { number } => self.challenge_submitted(number, reply, out),
            Pending::Nothing => {}
        }
    }

    /// The hub's answer in the words of a connection.
    fn spoken(&self, reply: Result<Response, Refusal>) -> CallAnswer {
        match crate::translate::refused(reply) {
            Ok(_) => CallAnswer::Done,
            Err(Refusal::NotAWorker) => CallAnswer::NotRegistered,
            Err(refusal) => CallAnswer::Refused(refusal),
        }
    }

    /// Nothing will come: whoever waits is told.
    fn send_away(&mut self, answer: &CallAnswer, out: &mut Output) {
        for waiting in std::mem::take(&mut self.waiting) {
            out.answers.push((waiting.caller, answer.clone()));
        }
    }

    fn ask(&mut self, request: Request, pending: Pending, out: &mut Output) -> u64 {
        let token = self.expect(pending);
        out.asks.push(Ask { token, request });
        token
    }

    /// The number of something that is about to be asked for.
    fn expect(&mut self, pending: Pending) -> u64 {
        self.next_token += 1;
        self.pending.insert(self.next_token, pending);
        self.next_token
    }

    fn command(&mut self, command: Command, pending: Pending, out: &mut Output) -> u64 {
        self.ask(Request::Command(command), pending, out)
    }

    /// What a worker said of itself travels with its figures, so that the views are the hub's.
    fn figures(&self) -> Box<WorkerStats> {
        let mut more: Vec<(Box<str>, Box<str>)> = Vec::new();
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
        if let Some(registration) = &self.registration {
            more.push(("registration".into(), text(&registration.json)));
        }
        if self.hung > 0 {
            more.push(("hung".into(), self.hung.to_string().into_boxed_str()));
        }
        let mut figures = WorkerStats::default();
        if let Some((at, stats)) = &self.stats {
            more.push(("stats".into(), text(&stats.json)));
            more.push(("stats_at".into(), at.millis().to_string().into_boxed_str()));
            figures.cpu_percent = stats.cpu_percent.map(|percent| percent as f32);
            figures.memory_used = stats.memory_mb.map(|megabytes| (megabytes * 1_048_576.0) as u64);
        }
        figures.more = more;
        Box::new(figures)
    }
}
