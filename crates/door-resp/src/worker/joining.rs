//! Joining and leaving: registration, heartbeats, goodbye.

use bytes::Bytes;
use tenure_hub::words::{
    Answer, Command, ListQuery, OnClose, Query, Refusal, StateName, TaskId, Timestamp, UNSAID, Unnamed,
    WorkerAbout, WorkerSpec,
};
use tenure_hub::{Request, Response};

use super::claims::Claim;
use super::{CallAnswer, Caller, Kind, Output, Pending, Standing, Worker};
use crate::shapes::{Capabilities, Outputs, Registration, Statistics};

/// A process cannot have claimed a job before it started; its clock may be off by so much.
const UPTIME_SLACK_SECONDS: u64 = 5;
/// How many of its old claims are asked for at a time.
const PAGE: usize = 1000;
/// A nameless worker lives as long as its connection, however silent.
const NAMELESS_SILENCE: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 86_400);

impl Worker {
    /// Whether the worker is active and registered on another connection. The same process may have lost that one.
    pub(super) fn is_taken(&self, caller: Caller, registration: &Registration) -> bool {
        let elsewhere = self.registrar.is_some_and(|connection| connection != caller.connection);
        let known = self.registration.as_ref().and_then(|known| known.instance.as_ref());
        let same_process = known.is_some() && known == registration.instance.as_ref();
        elsewhere && self.standing == Standing::Active && !same_process
    }

    pub(super) fn register(
        &mut self,
        now: Timestamp,
        caller: Caller,
        registration: Box<Registration>,
        out: &mut Output,
    ) {
        self.kind = Kind::Registered;
        self.came_back = false;
        self.registrar = Some(caller.connection);
        self.slots = registration.slots;
        self.offers = registration.offers().into_iter().map(Into::into).collect();
        self.names_tools = registration.capabilities.all().next().is_some();
        self.survivors = Survivors::told(&registration, self.registration.as_deref());
        self.registration = Some(registration);
        if self.standing == Standing::Active {
            self.settle_survivors(out);
        }
        self.join(now, Some(caller), out);
    }

    pub(super) fn tools(&mut self, now: Timestamp, caller: Caller, tools: &Capabilities, out: &mut Output) {
        self.came_back = false;
        self.offers = tools.all().map(Into::into).collect();
        self.names_tools = !self.offers.is_empty();
        self.registrar.get_or_insert(caller.connection);
        self.join(now, Some(caller), out);
    }

    pub(super) fn beat(
        &mut self,
        now: Timestamp,
        caller: Caller,
        stats: Option<Box<Statistics>>,
        out: &mut Output,
    ) {
        // One that registers has to hear that it should do so again.
        if self.standing == Standing::Out || self.came_back {
            return out.answers.push((caller, CallAnswer::NotRegistered));
        }
        if let Some(stats) = &stats {
            self.forget_older_than(now, stats, out);
            if stats.active_jobs == Some(0) {
                self.doubt_recalled(now);
            }
        }
        let stats = stats.map(|stats| {
            self.stats = Some((now, stats));
            self.figures()
        });
        self.command(Command::Heartbeat { held: None, stats }, Pending::Beat { caller: Some(caller) }, out);
    }

    /// The worker is back with what it held, although it has not registered.
    pub(super) fn come_back(&mut self, now: Timestamp, caller: Caller, out: &mut Output) {
        if self.standing == Standing::Active || self.kind == Kind::Registered {
            return out.answers.push((caller, CallAnswer::Done));
        }
        self.came_back = true;
        self.join(now, Some(caller), out);
    }

    /// Whether nobody else speaks as this worker, so that a connection that is nobody yet may.
    pub(super) fn identify(&self, caller: Caller, out: &mut Output) {
        let elsewhere = self.connections.iter().any(|connection| *connection != caller.connection);
        let answer = if elsewhere { CallAnswer::Taken } else { CallAnswer::Done };
        out.answers.push((caller, answer));
    }

    /// Whether the connection that this worker was may get a name: what it works on would be lost.
    pub(super) fn retire(&self, caller: Caller, out: &mut Output) {
        let held = self.claims.values().find(|claim| claim.evidence.started && !claim.ending);
        let answer = held.map_or(CallAnswer::Done, |claim| CallAnswer::Held(claim.held.task));
        out.answers.push((caller, answer));
    }

    pub(super) fn ping(&mut self, now: Timestamp, caller: Caller, out: &mut Output) {
        if self.standing == Standing::Out {
            if self.kind != Kind::Implied {
                return out.answers.push((caller, CallAnswer::NotRegistered));
            }
            // One that registers has to hear from its heartbeat that it should do so.
            self.came_back = true;
            return self.join(now, Some(caller), out);
        }
        self.command(
            Command::Heartbeat { held: None, stats: None },
            Pending::Beat { caller: Some(caller) },
            out,
        );
    }

    pub(super) fn unregister(&mut self, caller: Caller, out: &mut Output) {
        if self.standing == Standing::Out {
            return out.answers.push((caller, CallAnswer::NotRegistered));
        }
        self.command(Command::Leave, Pending::Leave { caller }, out);
    }

    pub(super) fn left(&mut self, caller: Caller, reply: Result<Response, Refusal>, out: &mut Output) {
        let answer = self.spoken(reply);
        self.registrar = None;
        self.registration = None;
        self.stats = None;
        self.kind = Kind::Registered;
        self.fall_out(out);
        out.answers.push((caller, answer));
    }

    /// Joins, or takes new terms. The first time the hub is asked what this worker held before: it may have been
    /// away, or the broker may have been.
    pub(super) fn join(&mut self, now: Timestamp, caller: Option<Caller>, out: &mut Output) {
        self.heard = now;
        if self.standing == Standing::Active {
            let spec = self.spec();
            self.enlist(spec, caller, out);
            // Its old pops are asked for again under the new terms.
            self.asked = None;
            return;
        }
        self.standing = Standing::Joining;
        if let Some(caller) = caller {
            // It is answered like the calls that come meanwhile: when it has joined.
            self.calls.insert(0, (caller, super::Call::Ping));
        }
        self.before = std::mem::take(&mut self.claims);
        if self.kind == Kind::Nameless {
            // Nobody was this connection before it.
            let spec = self.spec();
            return self.enlist(spec, None, out);
        }
        self.recall(self.recall_query(), out);
    }

    fn recall_query(&self) -> ListQuery {
        ListQuery {
            states: vec![StateName::Assigned, StateName::Running],
            worker: Some(self.name.clone()),
            limit: PAGE,
            ..ListQuery::default()
        }
    }

    fn recall(&mut self, query: ListQuery, out: &mut Output) {
        self.ask(Request::Query(Query::List(Box::new(query))), Pending::Recall, out);
    }

    pub(super) fn recalled(&mut self, reply: Result<Response, Refusal>, out: &mut Output) {
        if let Ok(Response::Answer(Answer::Tasks { tasks, next })) = reply {
            for task in tasks {
                let mut claim = Claim::recalled(&task);
                let before = self.before.remove(&task.id).filter(|before| before.held == claim.held);
                claim.list = before.and_then(|before| before.list);
                if let Some(blob) = Claim::put_aside(&task) {
                    let token = self.expect(Pending::Outputs { task: task.id });
                    out.reads.push((token, blob));
                }
                self.claims.insert(claim.held.task, claim);
            }
            if next.is_some() {
                return self.recall(ListQuery { cursor: next, ..self.recall_query() }, out);
            }
        }
        self.enlist_when_all_is_there(out);
    }

    /// What a job it holds has put aside before the break.
    pub(super) fn take_up(&mut self, task: TaskId, bytes: Result<Bytes, Refusal>, out: &mut Output) {
        let outputs = bytes.ok().and_then(|bytes| Outputs::taken_up(&bytes));
        if let (Some(claim), Some(outputs)) = (self.claims.get_mut(&task), outputs) {
            claim.outputs = outputs;
        }
        self.enlist_when_all_is_there(out);
    }

    fn enlist_when_all_is_there(&mut self, out: &mut Output) {
        let is_missing = |pending: &Pending| matches!(pending, Pending::Recall | Pending::Outputs { .. });
        if self.standing == Standing::Joining && !self.pending.values().any(is_missing) {
            self.before.clear();
            self.settle_survivors(out);
            let spec = self.spec();
            self.enlist(spec, None, out);
        }
    }

    /// What the worker said about the jobs it had before.
    fn settle_survivors(&mut self, out: &mut Output) {
        match std::mem::take(&mut self.survivors) {
            Survivors::Unknown => {}
            Survivors::All => {
                self.claims
                    .values_mut()
                    .filter(|claim| claim.evidence.started)
                    .for_each(|claim| claim.evidence.known = true);
            }
            Survivors::Named(jobs) => {
                let is_named = |claim: &Claim| jobs.iter().any(|job| claim.goes_by(job));
                // What it has just been handed it may not have read yet.
                let is_new = |claim: &Claim| claim.evidence.is_new();
                if self.standing == Standing::Active {
                    self.forget_claims(|claim| !is_named(claim) && !is_new(claim), out);
                } else {
                    // The hub hears of it by the registration.
                    self.claims.retain(|_, claim| is_named(claim));
                    self.names_all = true;
                }
                for claim in self.claims.values_mut().filter(|claim| is_named(claim)) {
                    (claim.evidence.started, claim.evidence.known) = (true, true);
                }
            }
        }
    }

    pub(super) fn joined(
        &mut self,
        now: Timestamp,
        caller: Option<Caller>,
        reply: Result<Response, Refusal>,
        out: &mut Output,
    ) {
        let calls = std::mem::take(&mut self.calls);
        match reply {
            Ok(_) => {
                self.standing = Standing::Active;
                self.is_believed(self.heard);
                if self.registration.is_some() {
                    let stats = Some(self.figures());
                    self.command(Command::Heartbeat { held: None, stats }, Pending::Nothing, out);
                }
                if let Some(caller) = caller {
                    out.answers.push((caller, CallAnswer::Done));
                }
                self.call_all(now, calls, out);
                self.leave_if_gone(out);
            }
            Err(refusal) => {
                self.standing = Standing::Out;
                self.registrar = None;
                let answer = match refusal {
                    Refusal::WorkerTaken { .. } => CallAnswer::Taken,
                    other => CallAnswer::Refused(other),
                };
                for caller in caller.into_iter().chain(calls.into_iter().map(|(caller, _)| caller)) {
                    out.answers.push((caller, answer.clone()));
                }
            }
        }
    }

    fn enlist(&mut self, spec: WorkerSpec, caller: Option<Caller>, out: &mut Output) {
        self.names_all = false;
        self.on_short_terms = self.kind != Kind::Nameless && spec.lost_after < self.settings.dead_after();
        self.command(Command::Register(Box::new(spec)), Pending::Join { caller }, out);
    }

    fn spec(&self) -> WorkerSpec {
        let nameless = self.kind == Kind::Nameless;
        let silence = if nameless { NAMELESS_SILENCE } else { self.patience() };
        let mut capabilities = self.offers.clone();
        // One that names no tools, as most old workers do, may have any.
        if !self.names_tools {
            capabilities.push(UNSAID.into());
        }
        // What only it offers is for challenges. Otherwise workers that offer the same are alike to the engine, however
        // many there are.
        if self.is_put_to_the_test() {
            capabilities.push(crate::translate::itself(&self.name));
        }
        let text = |text: &str| Some(Box::<str>::from(text));
        let about = self.registration.as_ref();
        WorkerSpec {
            capabilities,
            pulls: true,
            heartbeat: self.settings.heartbeat.min(silence),
            lost_after: silence,
            lease: silence,
            on_close: if nameless { OnClose::TasksDie } else { OnClose::MayStillRun },
            remembered: !nameless,
            starts_on_assign: true,
            held: self.claims.values().filter(|claim| claim.evidence.known).map(|claim| claim.held).collect(),
            unnamed: if self.names_all { Unnamed::Gone } else { Unnamed::Open },
            about: WorkerAbout {
                host: about.and_then(|about| text(&about.hostname)),
                platform: about.and_then(|about| about.platform.as_deref().and_then(text)),
                version: about.and_then(|about| text(&about.version)),
                door: Some("resp"),
            },
            ..WorkerSpec::new(self.name.clone(), Vec::new(), self.slots)
        }
    }

    /// If the worker's process is younger than one of its claims, that claim died with the process before.
    fn forget_older_than(&mut self, now: Timestamp, stats: &Statistics, out: &mut Output) {
        let Some(uptime) = stats.uptime_seconds else { return };
        let uptime = uptime.saturating_add(UPTIME_SLACK_SECONDS).saturating_mul(1000);
        let born = Timestamp(now.millis().saturating_sub(uptime));
        self.forget_claims(|claim| claim.evidence.since < born, out);
    }
}

/// What a registration says about the jobs that the worker had before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Survivors {
    /// Nothing: it may be the same process or another one.
    #[default]
    Unknown,
    /// It is the same process.
    All,
    Named(Vec<String>),
}

impl Survivors {
    fn told(registration: &Registration, before: Option<&Registration>) -> Survivors {
        if let Some(jobs) = &registration.jobs {
            return Survivors::Named(jobs.clone());
        }
        let before = before.and_then(|before| before.instance.as_ref());
        match (&registration.instance, before) {
            (Some(now), Some(before)) if now == before => Survivors::All,
            (Some(_), Some(_)) => Survivors::Named(Vec::new()),
            (None, _) | (_, None) => Survivors::Unknown,
        }
    }
}
