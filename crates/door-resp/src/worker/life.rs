//! Signs of life, and noticing that there have been none for too long.
//!
//! Whether a worker is dead is for the hub to say: it knows when nobody could be heard because the broker itself was
//! away. So the desk passes signs of life on, and asks when the last one it passed on is old.

use std::time::Duration;

use tenure_hub::words::{Answer, Command, PresenceName, Query, Refusal, Timestamp};
use tenure_hub::{Ask, Request, Response};

use super::{CallAnswer, Kind, Output, Pending, Standing, Worker};

/// The hub has at least so much patience with a worker.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// What the hub believes about the life of a worker, as far as its desk knows.
#[derive(Debug)]
pub(super) struct Belief {
    /// When the hub last heard something that the worker said.
    told: Timestamp,
    /// Until when it is surely believed to be alive.
    until: Timestamp,
    /// The hub has been asked and has not answered.
    asked: bool,
}

impl Belief {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { told: now, until: now, asked: false }
    }
}

impl Worker {
    /// The worker has said something. If nothing of it went to the hub, a heartbeat does, now and then.
    pub(super) fn pass_on(&mut self, now: Timestamp, asks_before: usize, out: &mut Output) {
        if self.standing != Standing::Active || self.kind == Kind::Nameless {
            return;
        }
        let is_command = |ask: &Ask| !matches!(ask.request, Request::Query(_));
        if !out.asks[asks_before..].iter().any(is_command) {
            if self.settings.is_fresh(now, self.belief.told) {
                return;
            }
            self.command(Command::Heartbeat { held: None, stats: None }, Pending::Nothing, out);
        }
        self.is_believed(now);
    }

    /// The hub hears of the worker at this moment.
    pub(super) fn is_believed(&mut self, now: Timestamp) {
        self.belief.told = now;
        self.belief.until = now + self.settings.dead_after();
    }

    /// When the hub is to be asked whether the worker is dead.
    pub(super) fn doubts_at(&self) -> Option<Timestamp> {
        let may_die = self.standing == Standing::Active && self.kind != Kind::Nameless;
        (may_die && !self.belief.asked).then_some(self.belief.until)
    }

    pub(super) fn ask_if_alive(&mut self, now: Timestamp, out: &mut Output) {
        if self.doubts_at().is_some_and(|at| at <= now) {
            self.belief.asked = true;
            let query = Query::Worker { worker: self.name.clone() };
            self.ask(Request::Query(query), Pending::Life, out);
        }
    }

    pub(super) fn life_told(&mut self, now: Timestamp, reply: Result<Response, Refusal>, out: &mut Output) {
        self.belief.asked = false;
        if self.standing != Standing::Active {
            return;
        }
        // The hub may be about to look at its own clock.
        let soon = now + self.settings.heartbeat / 10;
        self.belief.until = match reply {
            Ok(Response::Answer(Answer::Workers(workers))) => {
                let alive = workers.iter().find(|worker| worker.presence != PresenceName::Gone);
                let Some(worker) = alive else { return self.fall_out(out) };
                soon.max(worker.last_seen + worker.lost_after)
            }
            _ => soon,
        };
    }

    /// How much longer the worker may be silent. What is said on its behalf is not said by it, so it gets no more time
    /// than is left.
    pub(super) fn patience(&self) -> Duration {
        if self.settings.is_fresh(self.clock, self.heard) {
            return self.settings.dead_after();
        }
        (self.heard + self.settings.dead_after()).since(self.clock).max(PATIENCE_MIN)
    }

    /// The worker speaks again after something was said on its behalf: it has all the time again.
    pub(super) fn restore_terms(&mut self, now: Timestamp, out: &mut Output) {
        if self.on_short_terms && self.standing == Standing::Active {
            self.join(now, None, out);
        }
    }

    /// Whether the worker itself, and not somebody for it, was heard lately enough to be alive.
    pub(super) fn was_heard(&self, now: Timestamp) -> bool {
        self.standing == Standing::Active && now < self.heard + self.settings.dead_after()
    }

    /// Nobody speaks as this worker any more. The hub is told at once; what it holds is believed until its lease ends, so the
    /// worker may come back and go on.
    pub(super) fn leave_if_gone(&mut self, out: &mut Output) {
        let is_gone = self.connections.is_empty() && self.calls.is_empty() && self.kind != Kind::Nameless;
        let says_goodbye = self.pending.values().any(|pending| matches!(pending, Pending::Leave { .. }));
        if !is_gone || says_goodbye || self.standing != Standing::Active {
            return;
        }
        self.drop_challenges(out);
        self.standing = Standing::Away;
        self.pending.clear();
        self.asked = None;
        self.asking = 0;
        self.belief.asked = false;
        out.closes_session = true;
    }

    /// The hub does not know it as a worker any more: it was silent for too long, it left, or somebody took its place.
    /// Whoever waits is told: one that registered has to do so again, any other may just pop again.
    pub(super) fn fall_out(&mut self, out: &mut Output) {
        self.standing = Standing::Out;
        self.came_back = false;
        self.claims.clear();
        self.asked = None;
        let answer =
            if self.kind == Kind::Registered { CallAnswer::NotRegistered } else { CallAnswer::Nothing };
        self.send_away(&answer, out);
        self.drop_challenges(out);
    }
}
