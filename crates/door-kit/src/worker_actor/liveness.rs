//! Signs of life, and detecting their absence.
//!
//! The hub decides whether a worker is dead: it knows when the broker itself was away and could not receive any. So
//! the actor forwards signs of life, and asks the hub when the last forwarded one is old.

use tenure_hub::words::{Answer as HubAnswer, Command, PresenceName, Query, Timestamp};
use tenure_hub::{Ask, HubRefusal, Request, Response};

use super::requests::PendingRequest;
use super::{ActorOutput, ActorState, CallReply, Dialect, WorkerActor, WorkerKind};

impl<D: Dialect> WorkerActor<D> {
    /// The worker has sent something. If none of it went to the hub, the actor sends a heartbeat from time to time.
    pub(super) fn pass_on(&mut self, now: Timestamp, asks_before: usize, out: &mut ActorOutput<D>) {
        if !self.presence.is_active() || self.presence.is_nameless() {
            return;
        }
        let is_command = |ask: &Ask| !matches!(ask.request, Request::Query(_));
        if !out.asks[asks_before..].iter().any(is_command) {
            if self.liveness.is_fresh(now) {
                return;
            }
            self.command(Command::Heartbeat { held: None, stats: None }, PendingRequest::Nothing, out);
        }
        self.liveness.is_believed(now);
    }

    /// When to ask the hub whether the worker is dead.
    pub(super) fn doubts_at(&self) -> Option<Timestamp> {
        let may_die = self.presence.is_active() && !self.presence.is_nameless();
        (may_die && !self.liveness.asked).then_some(self.liveness.believed_until)
    }

    pub(super) fn ask_if_alive(&mut self, now: Timestamp, out: &mut ActorOutput<D>) {
        if self.doubts_at().is_some_and(|at| at <= now) {
            self.liveness.asked = true;
            let query = Query::Worker { worker: self.presence.name.clone() };
            self.ask(Request::Query(query), PendingRequest::Liveness, out);
        }
    }

    pub(super) fn apply_presence(
        &mut self,
        now: Timestamp,
        reply: Result<Response, HubRefusal>,
        out: &mut ActorOutput<D>,
    ) {
        self.liveness.asked = false;
        if !self.presence.is_active() {
            return;
        }
        // The hub may be about to check its own clock.
        let soon = now + self.liveness.heartbeats.0 / 10;
        self.liveness.believed_until = match reply {
            Ok(Response::Answer(HubAnswer::Workers(workers))) => {
                let alive = workers.iter().find(|worker| worker.presence != PresenceName::Gone);
                let Some(worker) = alive else { return self.handle_unregistered(out) };
                soon.max(self.liveness.clock.steady_at(worker.last_seen) + worker.lost_after)
            }
            _ => soon,
        };
    }

    /// The worker speaks again after a request on its behalf: restores its full timeout.
    pub(super) fn restore_terms(&mut self, now: Timestamp, out: &mut ActorOutput<D>) {
        if self.liveness.on_short_terms && self.presence.is_active() {
            self.join(now, None, out);
        }
    }

    /// Whether the worker itself, and not a peer on its behalf, was heard recently enough to be alive.
    pub fn was_heard(&self, now: Timestamp) -> bool {
        self.presence.is_active() && now < self.liveness.dies_at()
    }

    /// No connection acts as this worker any more. Closes the hub session at once. The worker's attempts stay valid
    /// until the lease ends, so it may return and continue.
    pub(super) fn leave_if_gone(&mut self, out: &mut ActorOutput<D>) {
        let has_connections = !self.presence.connections.is_empty() || !self.early.is_empty();
        let says_goodbye = self.requests.any(|pending| matches!(pending, PendingRequest::Leave { .. }));
        if has_connections || says_goodbye || self.presence.is_nameless() || !self.presence.is_active() {
            return;
        }
        D::is_gone(self, out);
        self.presence.state = ActorState::Away;
        self.requests.clear();
        self.pulls.end_session();
        self.liveness.asked = false;
        out.closes_session = true;
    }

    /// The hub no longer knows the worker: it was silent for too long, it left, or another took its place. Answers the
    /// waiting pulls: a registered worker must register again, any other may just pull again.
    pub(super) fn handle_unregistered(&mut self, out: &mut ActorOutput<D>) {
        self.presence.state = ActorState::Out;
        self.presence.came_back = false;
        self.claims.clear();
        self.pulls.forget_questions();
        let registered = self.presence.kind == WorkerKind::Registered;
        let answer = if registered { CallReply::NotRegistered } else { CallReply::Nothing };
        self.answer_all_pulls(&answer, out);
        D::is_gone(self, out);
    }
}
