//! A worker of the READY / PING / PONG door.

use std::sync::Arc;

use bytes::Bytes;
use tenure_door_kit::worker_actor::{Arrival, begun_by, refused};
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{Answer, Blob, Command, Held, Notice, Refusal, Wanted};
use tenure_hub::{ClockReading, Delivery, HubRefusal, Request, Response};

use super::orphaned_jobs::OrphanedJobs;
use super::requests_in_flight::RequestsInFlight;
use super::{PeerIdentity, PeerOutput, PeerSession};
use crate::body;
use crate::mdp::MdpAddress;
use crate::pingpong::{self, FromWorker};
use crate::settings::PingPongSettings;
use crate::translate;

/// One worker's session at the PING/PONG door.
#[derive(Debug)]
pub struct PingPongWorker {
    me: PeerIdentity,
    settings: Arc<PingPongSettings>,
    orphaned: Arc<OrphanedJobs>,
    pending: RequestsInFlight<PingPongReplyPurpose>,
    /// Set while the door asks the hub what this worker holds; its messages wait here.
    arrival: Option<Arrival<FromWorker>>,
    /// It has registered, as far as the door knows.
    joined: bool,
    /// It has said READY or sent a result on this connection, so the door knows whether it has a job.
    is_known: bool,
    job: Option<Held>,
    /// It is drained and gets EXIT when it has no job.
    is_leaving: bool,
}

#[derive(Debug)]
enum PingPongReplyPurpose {
    Nothing,
    /// A sign of life: if the hub no longer knows the worker, it joins again.
    Known,
    Started(Held),
    /// Whether tasks of this door were held when the first worker of the namespace connected.
    HeldInQueue,
    /// What a worker of this name held when the broker last heard of it.
    HeldBefore,
}

/// How many messages wait until the door knows what a worker holds.
const EARLY_MAX: usize = 100;

impl PingPongWorker {
    /// A session whose worker is not ready yet.
    pub fn new(
        me: PeerIdentity,
        settings: Arc<PingPongSettings>,
        orphaned: Arc<OrphanedJobs>,
    ) -> PingPongWorker {
        PingPongWorker {
            me,
            settings,
            orphaned,
            pending: RequestsInFlight::default(),
            arrival: None,
            joined: false,
            is_known: false,
            job: None,
            is_leaving: false,
        }
    }

    fn handle_message(&mut self, message: &FromWorker, out: &mut PeerOutput) {
        match message {
            FromWorker::Ready => {
                // The job may wait unread at the worker, and would be computed twice. Its two results would count as
                // those of two jobs, so the worker must start over on another connection.
                if self.job.is_some() {
                    self.settings.counters.count("ready_with_job");
                    return self.disconnect(out);
                }
                self.here(out);
            }
            // The worker may compute a job from another connection, and its next result would count as that of its
            // next job. Without an answer it opens a new socket and says READY.
            FromWorker::Ping if !self.is_known && self.may_have_orphaned() => {
                self.settings.counters.count("unknown_worker");
            }
            FromWorker::Ping if !self.me.check_work(out) => self.settings.counters.count("not-allowed"),
            FromWorker::Ping => {
                out.messages.push(pingpong::pong());
                self.here(out);
            }
            FromWorker::Result { address, body } => self.finished(address.as_ref(), body, out),
        }
    }

    fn may_have_orphaned(&self) -> bool {
        self.orphaned.is_marked(&self.me.namespace()).unwrap_or(true)
    }

    /// The first worker of its namespace has connected: everything held in the queue of this door dates from before.
    fn held_in_queue(&mut self, reply: Result<Response, HubRefusal>, out: &mut PeerOutput) {
        match &reply {
            Ok(Response::Answer(Answer::Tasks { tasks, .. })) if tasks.is_empty() => {
                self.orphaned.has_looked(self.me.namespace());
            }
            _ => self.orphaned.mark(self.me.namespace()),
        }
        if !self.me.is_chosen
            && let Some(arrival) = self.arrival.take()
        {
            let (_, early) = arrival.finish(reply);
            early.iter().for_each(|message| self.handle_message(message, out));
        }
    }

    /// A worker with its own name has returned, and this is what it holds.
    fn held_before(&mut self, reply: Result<Response, HubRefusal>, out: &mut PeerOutput) {
        let Some(arrival) = self.arrival.take() else { return };
        let (tasks, early) = arrival.finish(reply);
        if let [task] = &tasks[..] {
            let held = Held { task: task.id, attempt: task.attempt };
            let mut spec = translate::ping_pong_worker(&self.me.name, &self.settings);
            spec.held = vec![held];
            self.pending.ask(
                Request::Command(Command::Register(Box::new(spec))),
                PingPongReplyPurpose::Nothing,
                out,
            );
            (self.joined, self.is_known, self.job) = (true, true, Some(held));
        }
        for message in early {
            self.handle_message(&message, out);
        }
    }

    /// The worker is free. For a known worker this is also a sign of life.
    fn here(&mut self, out: &mut PeerOutput) {
        if !self.me.check_work(out) {
            return self.settings.counters.count("not-allowed");
        }
        self.is_known = true;
        let command = if self.joined {
            Command::Heartbeat { held: None, stats: None }
        } else {
            Command::Register(Box::new(translate::ping_pong_worker(&self.me.name, &self.settings)))
        };
        let then = if self.joined { PingPongReplyPurpose::Known } else { PingPongReplyPurpose::Nothing };
        self.joined = true;
        self.pending.ask(Request::Command(command), then, out);
    }

    fn finished(&mut self, address: Option<&Bytes>, result: &[Bytes], out: &mut PeerOutput) {
        // Most workers of the older form make up an address; one from this door identifies the attempt.
        let given = address.and_then(|address| MdpAddress::parse(address));
        if given.is_some_and(|given| Some(translate::held_of(&given)) != self.job) {
            return self.settings.counters.count("stale");
        }
        let Some(held) = self.job.take() else {
            self.settings.counters.count("stale");
            return self.here(out);
        };
        self.pending.ask(translate::report(held, result), PingPongReplyPurpose::Nothing, out);
        if self.is_leaving {
            self.exit(out);
        }
    }

    /// The worker is drained. The protocol has a command for it that not every worker knows.
    fn drained(&mut self, out: &mut PeerOutput) {
        if !self.settings.exit_on_drain {
            return;
        }
        self.is_leaving = true;
        if self.job.is_none() {
            self.exit(out);
        }
    }

    fn exit(&mut self, out: &mut PeerOutput) {
        out.messages.push(pingpong::exit());
        self.pending.ask(Request::Command(Command::Leave), PingPongReplyPurpose::Nothing, out);
        (self.joined, self.is_leaving) = (false, false);
    }

    fn assigned(&mut self, held: Held, task_body: Result<Bytes, HubRefusal>, out: &mut PeerOutput) {
        let task_body = match task_body {
            Ok(task_body) => body::unpack(&task_body),
            Err(refusal) => return self.give_up(held, &refusal, out),
        };
        if !pingpong::can_be_sent(&task_body) {
            let refusal = Refusal::BadValue {
                what: "the body",
                why: "is PONG, which a worker of this door takes for an answer",
            };
            return self.give_up(held, &refusal, out);
        }
        if self.settings.exit_on_drain && pingpong::is_exit(&task_body) {
            let refusal =
                Refusal::BadValue { what: "the body", why: "is EXIT, which ends a worker of this door" };
            return self.give_up(held, &refusal, out);
        }
        self.job = Some(held);
        out.messages.push(if self.settings.addressed_jobs {
            let address = translate::address_of(held, &self.me.name).to_frame();
            pingpong::addressed_job(address, &task_body)
        } else {
            pingpong::job(&task_body)
        });
        self.pending.ask(
            Request::Command(Command::Start(vec![held])),
            PingPongReplyPurpose::Started(held),
            out,
        );
    }

    fn give_up(&mut self, held: Held, refusal: &impl std::fmt::Display, out: &mut PeerOutput) {
        self.pending.ask(translate::given_up(held, refusal), PingPongReplyPurpose::Nothing, out);
    }

    /// The attempt is over and the protocol cannot tell the worker. Closing the connection makes it start over;
    /// otherwise its next job would wait behind this one.
    fn stopped(&mut self, held: Held, out: &mut PeerOutput) {
        if self.job == Some(held) {
            self.settings.counters.count("attempt_stale");
            out.close = true;
        }
    }

    /// It leaves, possibly still computing.
    fn note_orphaned(&self) {
        if self.job.is_some() {
            self.orphaned.mark(self.me.namespace());
        }
    }

    /// Its job goes to another worker, without a crash on its record.
    fn disconnect(&mut self, out: &mut PeerOutput) {
        self.pending.ask(Request::Command(Command::Leave), PingPongReplyPurpose::Nothing, out);
        self.note_orphaned();
        (self.joined, self.job, out.close) = (false, None, true);
    }

    /// A client wants the job cancelled or paused. The protocol cannot ask the worker, so the attempt ends here.
    fn wanted(&mut self, held: Held, wanted: Wanted, out: &mut PeerOutput) {
        if self.job == Some(held) {
            let confirm = Request::Confirm { held, wanted, result: Bytes::new() };
            self.pending.ask(confirm, PingPongReplyPurpose::Nothing, out);
            self.disconnect(out);
        }
    }
}

impl Drop for PingPongWorker {
    fn drop(&mut self) {
        self.note_orphaned();
    }
}

impl PeerSession for PingPongWorker {
    fn begin(&mut self, _now: ClockReading, out: &mut PeerOutput) {
        if !self.me.may_work() {
            return;
        }
        if self.orphaned.is_marked(&self.me.namespace()).is_none() {
            self.pending.ask(
                translate::held_in(&self.settings.queue),
                PingPongReplyPurpose::HeldInQueue,
                out,
            );
            self.arrival = Some(Arrival::new(EARLY_MAX));
        }
        if !self.me.is_chosen {
            return;
        }
        // It runs one job at a time, so two would belong to another worker.
        self.pending.ask(begun_by(&self.me.name, 2), PingPongReplyPurpose::HeldBefore, out);
        self.arrival = Some(Arrival::new(EARLY_MAX));
    }

    fn receive(&mut self, _now: ClockReading, frames: Vec<Bytes>, out: &mut PeerOutput) {
        match (pingpong::parse_worker(frames), &mut self.arrival) {
            (Ok(message), None) => self.handle_message(&message, out),
            (Ok(message), Some(arrival)) => {
                if !arrival.keep(message) {
                    self.settings.counters.count("early");
                }
            }
            (Err(error), _) => self.settings.counters.count(error.kind()),
        }
    }

    fn needs(&self, delivery: &Delivery) -> Option<Blob> {
        match delivery {
            Delivery::Notice(Notice::Assign(assignment)) => Some(assignment.body),
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
            Delivery::Reply { token, reply } => match (self.pending.answered(token), reply) {
                (Some(PingPongReplyPurpose::Known), Err(HubRefusal::Engine(Refusal::NotAWorker))) => {
                    self.joined = false;
                    match self.job {
                        // It may still compute what another worker has now.
                        Some(held) => self.stopped(held, out),
                        None => self.here(out),
                    }
                }
                (Some(PingPongReplyPurpose::Started(held)), reply) => {
                    if refused(reply).is_err() {
                        self.stopped(held, out);
                    }
                }
                (Some(PingPongReplyPurpose::HeldInQueue), reply) => self.held_in_queue(reply, out),
                (Some(PingPongReplyPurpose::HeldBefore), reply) => self.held_before(reply, out),
                (Some(PingPongReplyPurpose::Known | PingPongReplyPurpose::Nothing) | None, _) => {}
            },
            Delivery::Notice(notice) => match notice {
                Notice::Assign(assignment) => {
                    let held = Held { task: assignment.task, attempt: assignment.attempt };
                    self.assigned(held, bytes, out);
                }
                Notice::Stop { task, attempt, .. } => self.stopped(Held { task, attempt }, out),
                Notice::Wanted { task, attempt, wanted, .. } => {
                    self.wanted(Held { task, attempt }, wanted, out);
                }
                // These workers do not say suspend.
                Notice::Continue { .. } => {}
                Notice::Drain => self.drained(out),
                Notice::Replaced { .. } => out.close = true,
            },
            Delivery::Goodbye | Delivery::Ended(_) => out.close = true,
            Delivery::Event { .. }
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

    fn is_held_back(&self) -> bool {
        self.arrival.is_some()
    }

    fn too_long(&mut self, _now: ClockReading, out: &mut PeerOutput) {
        if let Some(held) = self.job.take() {
            let refusal = Refusal::TooMany { what: "bytes in a result", limit: BODY_BYTES_MAX };
            self.give_up(held, &refusal, out);
        }
    }

    fn replaced(&mut self, _now: ClockReading, out: &mut PeerOutput) {
        if self.joined {
            self.disconnect(out);
        }
    }
}
