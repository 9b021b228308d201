//! The worker actor without its runner: calls and deliveries come in, requests and answers go out.

use tenure_hub::words::{Blob, Name, Notice, Refusal, Timestamp, Wanted};
use tenure_hub::{Ask, ClockReading, Delivery, HubRefusal, Response};

use super::claim_recovery::ClaimRecovery;
use super::claims::Claims;
use super::joining::done;
use super::presence::{Liveness, WorkerPresence};
use super::pulls::Pulls;
use super::requests::{PendingRequest, PendingRequests};
use super::terms::WorkerTerms;
use super::{ActorState, CallReply, Caller, Dialect, Heartbeats, KeyHolder, WorkerKind, WorkerRequest};

/// Calls that may wait while a worker joins.
const CALLS_WAITING_MAX: usize = 1024;

/// The door's side of one worker, over any number of connections.
#[derive(Debug)]
pub struct WorkerActor<D: Dialect> {
    pub(super) presence: WorkerPresence,
    pub(super) liveness: Liveness,
    /// What the worker offers.
    pub terms: WorkerTerms,
    pub(super) pulls: Pulls<D::List>,
    /// What the worker holds.
    pub claims: Claims<D>,
    pub(super) recovery: ClaimRecovery<D>,
    pub(super) requests: PendingRequests<D>,
    /// Calls that arrived while it joins.
    pub(super) early: Vec<(Caller, WorkerRequest<D>)>,
    /// The door's data about this worker.
    pub door: D::State,
}

/// The output of a turn.
#[derive(Debug)]
pub struct ActorOutput<D: Dialect> {
    /// Requests for the hub.
    pub asks: Vec<Ask>,
    /// Bytes to fetch, each under its own number.
    pub reads: Vec<(u64, Blob)>,
    /// Replies to calls.
    pub answers: Vec<(Caller, CallReply<D>)>,
    /// Notices for connections that support them: the task, and what a client wants.
    pub wishes: Vec<(u64, String, Wanted)>,
    /// Its session with the hub ends after these requests; the next request opens another.
    pub closes_session: bool,
    /// It has another owner, so these requests need a session of that key.
    pub changes_owner: bool,
}

impl<D: Dialect> Default for ActorOutput<D> {
    fn default() -> Self {
        ActorOutput {
            asks: Vec::new(),
            reads: Vec::new(),
            answers: Vec::new(),
            wishes: Vec::new(),
            closes_session: false,
            changes_owner: false,
        }
    }
}

impl<D: Dialect> WorkerActor<D> {
    /// The actor of a worker that has not joined yet.
    pub fn new(name: Name, owner: Name, kind: WorkerKind, heartbeats: Heartbeats, now: ClockReading) -> Self {
        Self {
            presence: WorkerPresence::new(name, owner, kind),
            liveness: Liveness::new(heartbeats, now),
            terms: WorkerTerms::new(kind),
            pulls: Pulls::default(),
            claims: Claims::default(),
            recovery: ClaimRecovery::default(),
            requests: PendingRequests::default(),
            early: Vec::new(),
            door: D::State::default(),
        }
    }

    /// The name of the worker.
    pub fn name(&self) -> &Name {
        &self.presence.name
    }

    /// Handles calls of one connection that arrive together. A worker accepts calls only from its owner.
    pub fn call_from(
        &mut self,
        now: ClockReading,
        from: &KeyHolder,
        calls: impl IntoIterator<Item = (Caller, WorkerRequest<D>)>,
        out: &mut ActorOutput<D>,
    ) {
        if self.presence.owner == from.name {
            return self.call_all(now, calls, out);
        }
        let mut allowed = Vec::new();
        for (caller, call) in calls {
            if call.may_others_call(from) || self.takes_owner(from, out) {
                allowed.push((caller, call));
            } else {
                let refusal = Refusal::NotAllowed { what: "use this worker id" };
                out.answers.push((caller, CallReply::Refused(refusal.into())));
            }
        }
        self.call_all(now, allowed, out);
    }

    /// The id of a worker that is gone is free.
    fn takes_owner(&mut self, from: &KeyHolder, out: &mut ActorOutput<D>) -> bool {
        if self.presence.state != ActorState::Out || !self.requests.is_empty() {
            return self.presence.owner == from.name;
        }
        self.presence.owner = from.name.clone();
        out.changes_owner = true;
        true
    }

    /// Several calls that come together.
    pub(super) fn call_all(
        &mut self,
        now: ClockReading,
        calls: impl IntoIterator<Item = (Caller, WorkerRequest<D>)>,
        out: &mut ActorOutput<D>,
    ) {
        self.liveness.clock = now;
        let now = now.steady;
        let asks_before = out.asks.len();
        let mut speaks = false;
        for (caller, call) in calls {
            if matches!(&call, WorkerRequest::Register(introduction) if self.is_taken(caller, introduction)) {
                // Another peer with the same id: its call is no sign of life of this worker.
                out.answers.push((caller, CallReply::Taken));
                continue;
            }
            speaks |= call.is_from_worker_itself();
            self.handle_call(now, caller, call, out);
        }
        if speaks {
            self.restore_terms(now, out);
        }
        if std::mem::take(&mut self.recovery.has_returned) && self.presence.is_active() {
            self.join(now, None, out);
        }
        self.request_tasks(out);
        if speaks {
            self.pass_on(now, asks_before, out);
        }
    }

    fn handle_call(
        &mut self,
        now: Timestamp,
        caller: Caller,
        call: WorkerRequest<D>,
        out: &mut ActorOutput<D>,
    ) {
        if call.is_from_worker_itself() {
            self.liveness.heard = now;
            self.presence.connections.insert(caller.connection);
        }
        if self.presence.state == ActorState::Away && call.needs_rejoin() {
            // The call continues when the worker has joined again.
            self.join(now, None, out);
        }
        if matches!(call, WorkerRequest::Sign) {
            return;
        }
        if self.presence.state == ActorState::Joining {
            if self.early.len() < CALLS_WAITING_MAX {
                self.early.push((caller, call));
            } else {
                let limit = CALLS_WAITING_MAX;
                let refusal = Refusal::TooMany { what: "calls while a worker joins", limit };
                out.answers.push((caller, CallReply::Refused(refusal.into())));
            }
            return;
        }
        match call {
            WorkerRequest::Register(introduction) => self.register(now, caller, introduction, out),
            WorkerRequest::Offer(capabilities) => self.offer(now, caller, capabilities, out),
            WorkerRequest::Label(labels) => self.label(now, caller, labels, out),
            WorkerRequest::Heartbeat(figures) => self.beat(now, caller, figures, out),
            WorkerRequest::Sign => {}
            WorkerRequest::Return => self.rejoin(now, caller, out),
            WorkerRequest::Identify => self.identify(caller, out),
            WorkerRequest::Retire => self.retire(caller, out),
            WorkerRequest::Ping => self.ping(now, caller, out),
            WorkerRequest::Unregister => self.unregister(caller, out),
            WorkerRequest::Pull(pull) => self.pull(now, caller, pull, out),
            WorkerRequest::Mention { task } => self.mention(caller, &task, out),
            WorkerRequest::Report { task, report } => self.report(caller, &task, *report, out),
            WorkerRequest::Output { task, outputs } => self.save_outputs(caller, &task, *outputs, out),
            WorkerRequest::Finish { task, list } => self.finish(caller, &task, &list, out),
            WorkerRequest::Own(call) => D::call(self, now, caller, call, out),
        }
    }

    /// Takes one delivery of the hub.
    pub fn deliver(&mut self, now: ClockReading, delivery: Delivery, out: &mut ActorOutput<D>) {
        self.liveness.clock = now;
        let now = now.steady;
        match delivery {
            Delivery::Reply { token, reply } => {
                if let Some(pending) = self.requests.take(token) {
                    self.answered(now, pending, token, reply, out);
                }
            }
            Delivery::Notice(Notice::Assign(assignment)) => self.assigned(now, assignment, out),
            Delivery::Notice(Notice::Wanted { task, wanted, .. }) => self.wanted(task, wanted, out),
            // Workers that fetch do not say suspend.
            Delivery::Notice(Notice::Continue { .. }) => {}
            Delivery::Notice(Notice::Stop { task, attempt, why }) => self.stopped(task, attempt, why, out),
            Delivery::Notice(Notice::Replaced { .. }) => self.handle_unregistered(out),
            Delivery::Notice(Notice::Drain) | Delivery::Goodbye | Delivery::Ended(_) => {
                self.answer_all_pulls(&CallReply::Nothing, out);
            }
            // This session has no watches and takes no calls.
            Delivery::Event { .. }
            | Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::Broadcast(_) => {}
        }
    }

    /// A connection is gone. Unread tasks sent over it go back.
    pub fn detach(&mut self, connection: u64, out: &mut ActorOutput<D>) {
        self.presence.detach(connection);
        self.early.retain(|(caller, _)| caller.connection != connection);
        self.pulls.detach(connection);
        for task in self.claims.unread_of(connection) {
            self.give_back(task, "the connection closed before the worker had read the job", out);
        }
        self.request_tasks(out);
        self.leave_if_gone(out);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: ClockReading, out: &mut ActorOutput<D>) {
        self.liveness.clock = now;
        let now = now.steady;
        self.give_up_waiting(now, out);
        self.confirm_silently(now, out);
        self.drop_unmentioned(now, out);
        D::tick(self, now, out);
        self.ask_if_alive(now, out);
    }

    /// By the steady clock.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let lingers = !self.presence.is_nameless() && self.is_alone();
        let times = [
            self.pulls.next_deadline(),
            self.claims.next_deadline(),
            D::next_deadline(&self.door),
            lingers.then(|| self.liveness.dies_at()),
            self.doubts_at(),
        ];
        times.into_iter().flatten().min()
    }

    /// Whether the actor can end: its connection is gone, or the worker was silent for so long that it is dead.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.is_alone() && (self.presence.is_nameless() || self.liveness.dies_at() <= now)
    }

    /// No connection acts as this worker, and none waits for it.
    fn is_alone(&self) -> bool {
        self.presence.connections.is_empty() && self.early.is_empty() && !D::is_needed(&self.door)
    }

    fn answered(
        &mut self,
        now: Timestamp,
        pending: PendingRequest<D>,
        token: u64,
        reply: Result<Response, HubRefusal>,
        out: &mut ActorOutput<D>,
    ) {
        let is_joining = matches!(pending, PendingRequest::Join { .. } | PendingRequest::ListClaims);
        if matches!(reply, Err(HubRefusal::Engine(Refusal::NotAWorker))) && !is_joining {
            self.handle_unregistered(out);
        }
        match pending {
            PendingRequest::ListClaims => self.claims_listed(reply, out),
            // Its bytes arrive separately.
            PendingRequest::Outputs { .. } => {}
            PendingRequest::Liveness => self.apply_presence(now, reply, out),
            PendingRequest::Join { caller } => self.joined(caller, reply, out),
            PendingRequest::Beat { caller } | PendingRequest::Report { caller, ends: false, .. } => {
                if let Some(caller) = caller {
                    out.answers.push((caller, done(reply)));
                }
            }
            PendingRequest::Leave { caller } => self.left(caller, reply, out),
            PendingRequest::Ask => self.pulls.has_been_heard(),
            PendingRequest::Probe => self.probed(token, out),
            PendingRequest::Report { caller, task, ends: true } => self.reported(caller, task, reply, out),
            PendingRequest::Own(pending) => D::answered(self, pending, reply, out),
            PendingRequest::Nothing => {}
        }
    }
}
