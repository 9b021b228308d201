//! A client of the READY / PING / PONG door.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::words::{Blob, EventData, Refusal, Reply, TaskId};
use tenure_hub::{ClockReading, Delivery, HubRefusal, Request, Response, Submission};

use super::jobs::JOBS_MAX;
use super::requests_in_flight::RequestsInFlight;
use super::{PeerIdentity, PeerOutput, PeerSession};
use crate::body;
use crate::pingpong;
use crate::rights::Verb;
use crate::settings::PingPongSettings;
use crate::translate;

const ENDS: u64 = 1;

/// One client's session at the PING/PONG door.
#[derive(Debug)]
pub struct PingPongClient {
    me: PeerIdentity,
    settings: Arc<PingPongSettings>,
    pending: RequestsInFlight<Option<TaskId>>,
    watches_ends: bool,
    /// The return path of each job.
    routes: HashMap<TaskId, Vec<Bytes>>,
}

impl PingPongClient {
    /// A session without work.
    pub fn new(me: PeerIdentity, settings: Arc<PingPongSettings>) -> PingPongClient {
        PingPongClient {
            me,
            settings,
            pending: RequestsInFlight::default(),
            watches_ends: false,
            routes: HashMap::new(),
        }
    }

    fn submit(&mut self, now: ClockReading, work: pingpong::Work, out: &mut PeerOutput) {
        let allowed = self.me.check("submit", Verb::Submit, out);
        let submission = match allowed.and_then(|()| self.submission(now, &work)) {
            Ok(submission) => submission,
            Err(refusal) => return self.settings.counters.count(refusal.code()),
        };
        if !self.watches_ends {
            self.watches_ends = true;
            self.pending.ask(translate::watch_ends(ENDS, &self.me.name), None, out);
        }
        let task = submission.task.id;
        self.routes.insert(task, work.route);
        self.pending.ask(Request::Submit(vec![submission]), Some(task), out);
    }

    fn submission(&self, now: ClockReading, work: &pingpong::Work) -> Result<Submission, HubRefusal> {
        if self.routes.len() >= JOBS_MAX {
            return Err(Refusal::TooMany { what: "jobs of one connection", limit: JOBS_MAX }.into());
        }
        let task = translate::work(now.wall, self.me.may_return(), &self.settings);
        Ok(translate::submission(task, body::pack(&work.body))?)
    }

    fn refused(&mut self, task: TaskId, code: &'static str) {
        self.settings.counters.count(code);
        self.routes.remove(&task);
    }
}

impl PeerSession for PingPongClient {
    fn receive(&mut self, now: ClockReading, frames: Vec<Bytes>, out: &mut PeerOutput) {
        match pingpong::parse_client(frames) {
            Ok(work) => self.submit(now, work, out),
            Err(error) => self.settings.counters.count(error.kind()),
        }
    }

    fn needs(&self, delivery: &Delivery) -> Option<Blob> {
        let Delivery::Event { event, .. } = delivery else { return None };
        match event.kind {
            EventData::Completed { result, .. } => Some(result),
            _ => None,
        }
    }

    fn deliver(
        &mut self,
        _now: ClockReading,
        delivery: Delivery,
        bytes: Result<Bytes, HubRefusal>,
        out: &mut PeerOutput,
    ) {
        match delivery {
            Delivery::Reply { token, reply } => match (self.pending.answered(token).flatten(), reply) {
                (Some(task), Err(refusal)) => self.refused(task, refusal.code()),
                (Some(task), Ok(Response::Command(Reply::Submitted(each)))) => {
                    if let Some(Err(refusal)) = each.first() {
                        self.refused(task, refusal.code());
                    }
                }
                _ => {}
            },
            Delivery::Event { event, .. } if event.kind.is_end() => {
                let route = event.task().and_then(|task| self.routes.remove(&task));
                let (Some(route), EventData::Completed { .. }) = (route, &event.kind) else { return };
                match bytes {
                    Ok(result) => out.messages.push(pingpong::result(&route, &body::unpack(&result))),
                    Err(refusal) => self.settings.counters.count(refusal.code()),
                }
            }
            Delivery::Goodbye | Delivery::Ended(_) => out.close = true,
            Delivery::Event { .. }
            | Delivery::Notice(_)
            | Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::Broadcast(_) => {}
        }
    }

    fn unanswered(&self) -> usize {
        self.pending.len()
    }

    fn has_jobs(&self) -> bool {
        !self.routes.is_empty()
    }

    fn end(&mut self, _now: ClockReading, out: &mut PeerOutput) {
        if !self.me.may_return() {
            for request in translate::abandon(self.routes.keys().copied()) {
                self.pending.ask(request, None, out);
            }
        }
        for _ in 0..self.routes.len() {
            self.settings.counters.count("client_gone");
        }
    }
}
