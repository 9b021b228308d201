//! Joining and leaving: registration, heartbeats, goodbye.

use std::time::Duration;

use tenure_hub::words::{Command, Name, OnClose, Refusal, Timestamp, UNDECLARED, Unnamed, WorkerSpec};
use tenure_hub::{HubRefusal, Response};

use super::claim_recovery::PriorTasks;
use super::requests::{PendingRequest, refused};
use super::{
    ActorOutput, ActorState, CallReply, Caller, Dialect, Figures, Introduction, WorkerActor, WorkerKind,
    WorkerRequest,
};

/// A process cannot have claimed a task before it started; this allows for clock differences.
const UPTIME_SLACK: Duration = Duration::from_secs(5);
/// A nameless worker lives as long as its connection, however silent.
const NAMELESS_SILENCE: Duration = Duration::from_secs(10 * 365 * 86_400);

impl<D: Dialect> WorkerActor<D> {
    /// Whether the worker is active and registered on another connection. The same process may have lost that one.
    pub(super) fn is_taken(&self, caller: Caller, introduction: &Introduction) -> bool {
        let elsewhere = self.presence.registrar.is_some_and(|connection| connection != caller.connection);
        let known = self.terms.instance();
        let same_process = known.is_some() && known == introduction.instance.as_ref();
        elsewhere && self.presence.is_active() && !same_process
    }

    pub(super) fn register(
        &mut self,
        now: Timestamp,
        caller: Caller,
        introduction: Box<Introduction>,
        out: &mut ActorOutput<D>,
    ) {
        self.presence.kind = WorkerKind::Registered;
        self.presence.came_back = false;
        self.presence.registrar = Some(caller.connection);
        self.recovery.prior_tasks = PriorTasks::from_introduction(&introduction, self.terms.instance());
        self.terms.introduce(introduction);
        if self.presence.is_active() {
            self.apply_prior_tasks(out);
        }
        self.join(now, Some(caller), out);
    }

    pub(super) fn offer(
        &mut self,
        now: Timestamp,
        caller: Caller,
        capabilities: Vec<Name>,
        out: &mut ActorOutput<D>,
    ) {
        self.presence.came_back = false;
        self.terms.is_specific = !capabilities.is_empty();
        self.terms.capabilities = capabilities;
        self.presence.registrar.get_or_insert(caller.connection);
        self.join(now, Some(caller), out);
    }

    pub(super) fn label(
        &mut self,
        now: Timestamp,
        caller: Caller,
        labels: Vec<Name>,
        out: &mut ActorOutput<D>,
    ) {
        self.presence.came_back = false;
        self.terms.labels = labels;
        self.presence.registrar.get_or_insert(caller.connection);
        self.join(now, Some(caller), out);
    }

    pub(super) fn beat(
        &mut self,
        now: Timestamp,
        caller: Caller,
        figures: Option<Box<Figures>>,
        out: &mut ActorOutput<D>,
    ) {
        // A registered worker must learn that it should register again.
        if self.presence.state == ActorState::Out || self.presence.came_back {
            return out.answers.push((caller, CallReply::NotRegistered));
        }
        self.claims.heartbeat(caller.connection);
        if let Some(figures) = &figures {
            self.forget_older_than(now, figures, out);
            if figures.tasks == Some(0) {
                self.doubt_recovered(now);
            }
        }
        let stats = figures.map(|figures| {
            self.terms.has_figures(self.liveness.clock.wall, figures);
            self.terms.figures()
        });
        self.command(
            Command::Heartbeat { held: None, stats },
            PendingRequest::Beat { caller: Some(caller) },
            out,
        );
    }

    /// The worker has returned with what it held, without registering.
    pub(super) fn rejoin(&mut self, now: Timestamp, caller: Caller, out: &mut ActorOutput<D>) {
        if self.presence.is_active() || self.presence.kind == WorkerKind::Registered {
            return out.answers.push((caller, CallReply::Done));
        }
        self.presence.came_back = true;
        self.join(now, Some(caller), out);
    }

    /// Whether no other connection acts as this worker, so that a connection without a name may.
    pub(super) fn identify(&self, caller: Caller, out: &mut ActorOutput<D>) {
        let elsewhere = self.presence.connections.iter().any(|connection| *connection != caller.connection);
        out.answers.push((caller, if elsewhere { CallReply::Taken } else { CallReply::Done }));
    }

    /// Whether the connection may get a name: the tasks of its nameless worker would be lost.
    pub(super) fn retire(&self, caller: Caller, out: &mut ActorOutput<D>) {
        let held = self.claims.iter().find(|claim| claim.evidence.started && !claim.ending);
        let answer = held.map_or(CallReply::Done, |claim| CallReply::Held(claim.held.task));
        out.answers.push((caller, answer));
    }

    pub(super) fn ping(&mut self, now: Timestamp, caller: Caller, out: &mut ActorOutput<D>) {
        if self.presence.state == ActorState::Out {
            if self.presence.kind != WorkerKind::Implied {
                return out.answers.push((caller, CallReply::NotRegistered));
            }
            // A registered worker must learn from its heartbeat that it should register again.
            self.presence.came_back = true;
            return self.join(now, Some(caller), out);
        }
        self.claims.heartbeat(caller.connection);
        let heartbeat = Command::Heartbeat { held: None, stats: None };
        self.command(heartbeat, PendingRequest::Beat { caller: Some(caller) }, out);
    }

    pub(super) fn unregister(&mut self, caller: Caller, out: &mut ActorOutput<D>) {
        if self.presence.state == ActorState::Out {
            return out.answers.push((caller, CallReply::NotRegistered));
        }
        self.command(Command::Leave, PendingRequest::Leave { caller }, out);
    }

    pub(super) fn left(
        &mut self,
        caller: Caller,
        reply: Result<Response, HubRefusal>,
        out: &mut ActorOutput<D>,
    ) {
        self.presence.registrar = None;
        self.presence.kind = WorkerKind::Registered;
        self.terms.forget();
        self.handle_unregistered(out);
        out.answers.push((caller, done(reply)));
    }

    /// Joins, or changes the terms. At the first join the door asks the hub what this worker held before, because the
    /// worker or the broker may have been away.
    pub(super) fn join(&mut self, now: Timestamp, caller: Option<Caller>, out: &mut ActorOutput<D>) {
        self.liveness.heard = now;
        if self.presence.is_active() {
            self.register_with_hub(caller, out);
            // Its pending pulls are repeated under the new terms.
            self.pulls.forget_questions();
            return;
        }
        self.presence.state = ActorState::Joining;
        if let Some(caller) = caller {
            // It gets its reply with the other early calls, when it has joined.
            self.early.insert(0, (caller, WorkerRequest::Ping));
        }
        if self.presence.is_nameless() {
            // This connection had no worker before.
            self.claims.clear();
            return self.register_with_hub(None, out);
        }
        self.begin_claim_recovery(out);
    }

    pub(super) fn joined(
        &mut self,
        caller: Option<Caller>,
        reply: Result<Response, HubRefusal>,
        out: &mut ActorOutput<D>,
    ) {
        let early = std::mem::take(&mut self.early);
        match reply {
            Ok(_) => {
                self.presence.state = ActorState::Active;
                self.liveness.is_believed(self.liveness.heard);
                if self.terms.has_registered() {
                    let stats = Some(self.terms.figures());
                    self.command(Command::Heartbeat { held: None, stats }, PendingRequest::Nothing, out);
                }
                if let Some(caller) = caller {
                    out.answers.push((caller, CallReply::Done));
                }
                self.call_all(self.liveness.clock, early, out);
                self.leave_if_gone(out);
            }
            Err(refusal) => {
                self.presence.state = ActorState::Out;
                self.presence.registrar = None;
                let answer = match refusal {
                    HubRefusal::Engine(Refusal::WorkerTaken { .. }) => CallReply::Taken,
                    other => CallReply::Refused(other),
                };
                for caller in caller.into_iter().chain(early.into_iter().map(|(caller, _)| caller)) {
                    out.answers.push((caller, answer.clone()));
                }
            }
        }
    }

    /// Reports to the hub what the worker offers now. Skipped if the worker may be dead, because it would count as a
    /// sign of life; a returning worker announces its offer again.
    pub fn offer_again(&mut self, out: &mut ActorOutput<D>) {
        if self.was_heard(self.liveness.clock.steady) {
            self.join(self.liveness.heard, None, out);
        }
    }

    pub(super) fn register_with_hub(&mut self, caller: Option<Caller>, out: &mut ActorOutput<D>) {
        let spec = self.spec();
        self.recovery.names_all = false;
        let all_the_time = self.liveness.heartbeats.dead_after();
        self.liveness.on_short_terms = !self.presence.is_nameless() && spec.lost_after < all_the_time;
        self.command(Command::Register(Box::new(spec)), PendingRequest::Join { caller }, out);
    }

    fn spec(&self) -> WorkerSpec {
        let nameless = self.presence.is_nameless();
        let silence = if nameless { NAMELESS_SILENCE } else { self.liveness.lost_after() };
        let mut capabilities = self.terms.capabilities.clone();
        capabilities.extend(self.terms.labels.iter().cloned());
        // A worker that does not name its capabilities, like most old ones, may be able to do anything.
        if !self.terms.is_specific {
            capabilities.push(UNDECLARED.into());
        }
        capabilities.extend(D::more_capabilities(self));
        WorkerSpec {
            capabilities,
            pulls: true,
            heartbeat: self.liveness.heartbeats.0.min(silence),
            lost_after: silence,
            lease: silence,
            on_close: if nameless { OnClose::TasksDie } else { OnClose::MayStillRun },
            remembered: !nameless,
            resources: self.terms.resources(),
            profile: self.terms.profile(),
            starts_on_assign: true,
            held: self.claims.confirmed_attempts(),
            unnamed: if self.recovery.names_all { Unnamed::Gone } else { Unnamed::Open },
            about: self.terms.about(D::DOOR),
            ..WorkerSpec::new(self.presence.name.clone(), Vec::new(), self.terms.slots)
        }
    }

    /// If the worker's process is younger than one of its claims, that claim died with the previous process.
    fn forget_older_than(&mut self, now: Timestamp, figures: &Figures, out: &mut ActorOutput<D>) {
        let Some(uptime) = figures.uptime else { return };
        let uptime = uptime.saturating_add(UPTIME_SLACK).as_millis();
        let uptime = u64::try_from(uptime).unwrap_or(u64::MAX);
        let born = Timestamp(now.millis().saturating_sub(uptime));
        self.forget_claims(|claim| claim.evidence.since < born, out);
    }
}

/// Converts the hub's reply for a connection.
pub(super) fn done<D: Dialect>(reply: Result<Response, HubRefusal>) -> CallReply<D> {
    match refused(reply) {
        Ok(_) => CallReply::Done,
        Err(HubRefusal::Engine(Refusal::NotAWorker)) => CallReply::NotRegistered,
        Err(refusal) => CallReply::Refused(refusal),
    }
}
