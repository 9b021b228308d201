//! A worker of the READY / PING / PONG door.

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::words::{Answer, Blob, Command, Held, Notice, Refusal, Reply, Timestamp};
use tenure_hub::{Delivery, Request, Response};

use super::asked::Asked;
use super::{Conversation, Me, Out};
use crate::body;
use crate::pingpong::{self, FromWorker};
use crate::settings::PingPongSettings;
use crate::translate;

#[derive(Debug)]
pub struct PingPongWorker {
    me: Me,
    settings: Arc<PingPongSettings>,
    asked: Asked<Waiting>,
    /// The broker is asked what a worker of this name holds; what it says before that is known waits here.
    early: Option<Vec<FromWorker>>,
    /// It has registered, as far as the door knows.
    joined: bool,
    job: Option<Held>,
}

#[derive(Debug)]
enum Waiting {
    Nothing,
    /// A sign of life: if the hub does not know the worker any more, it joins again.
    Known,
    Started(Held),
    /// What a worker of this name held when the broker last heard of it.
    HeldBefore,
}

/// How many messages wait until it is known what a worker holds.
const EARLY_MAX: usize = 100;

impl PingPongWorker {
    pub fn new(me: Me, settings: Arc<PingPongSettings>) -> PingPongWorker {
        PingPongWorker { me, settings, asked: Asked::default(), early: None, joined: false, job: None }
    }

    fn hear(&mut self, message: &FromWorker, out: &mut Out) {
        match message {
            FromWorker::Ready => {
                // A worker that is ready has no job, whatever became of the one it had.
                if self.job.take().is_some() {
                    self.asked.ask(Request::Command(Command::Leave), Waiting::Nothing, out);
                    self.joined = false;
                }
                self.here(out);
            }
            FromWorker::Ping => {
                out.messages.push(pingpong::pong());
                self.here(out);
            }
            FromWorker::Result { body } => self.finished(body, out),
        }
    }

    /// A worker that chose its name has come back, and this is what it holds.
    fn held_before(&mut self, reply: Result<Response, Refusal>, out: &mut Out) {
        if let Ok(Response::Answer(Answer::Tasks { tasks, .. })) = reply
            && let [task] = &tasks[..]
        {
            let held = Held { task: task.id, attempt: task.attempt };
            let mut spec = translate::ping_pong_worker(&self.me.name, &self.settings);
            spec.held = vec![held];
            self.asked.ask(Request::Command(Command::Register(Box::new(spec))), Waiting::Nothing, out);
            (self.joined, self.job) = (true, Some(held));
        }
        for message in self.early.take().unwrap_or_default() {
            self.hear(&message, out);
        }
    }

    /// The worker has a free hand. One that is known gives a sign of life with it.
    fn here(&mut self, out: &mut Out) {
        let grant = &self.me.grant;
        if !grant.may_work || grant.worker.as_ref().is_some_and(|only| *only != self.me.name) {
            return self.settings.counters.count("not-allowed");
        }
        let command = if self.joined {
            Command::Heartbeat { held: None, stats: None }
        } else {
            Command::Register(Box::new(translate::ping_pong_worker(&self.me.name, &self.settings)))
        };
        let then = if self.joined { Waiting::Known } else { Waiting::Nothing };
        self.joined = true;
        self.asked.ask(Request::Command(command), then, out);
    }

    fn finished(&mut self, result: &[Bytes], out: &mut Out) {
        let Some(held) = self.job.take() else {
            self.settings.counters.count("stale");
            return self.here(out);
        };
        self.asked.ask(translate::report(held, result), Waiting::Nothing, out);
    }

    fn assigned(&mut self, held: Held, task_body: Result<Bytes, Refusal>, out: &mut Out) {
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
        self.job = Some(held);
        out.messages.push(pingpong::job(&task_body));
        self.asked.ask(Request::Command(Command::Start(vec![held])), Waiting::Started(held), out);
    }

    fn give_up(&mut self, held: Held, refusal: &Refusal, out: &mut Out) {
        self.asked.ask(translate::given_up(held, refusal), Waiting::Nothing, out);
    }

    /// The attempt is over and the worker cannot be told. Closing the connection makes it start afresh, or its next job
    /// would wait behind this one.
    fn stopped(&mut self, held: Held, out: &mut Out) {
        if self.job == Some(held) {
            self.settings.counters.count("attempt_stale");
            out.close = true;
        }
    }
}

impl Conversation for PingPongWorker {
    fn begin(&mut self, _now: Timestamp, out: &mut Out) {
        if !self.me.is_chosen || !self.me.grant.may_work {
            return;
        }
        self.asked.ask(translate::held_by(&self.me.name, 2), Waiting::HeldBefore, out);
        self.early = Some(Vec::new());
    }

    fn receive(&mut self, _now: Timestamp, frames: Vec<Bytes>, out: &mut Out) {
        match (pingpong::parse_worker(frames), &mut self.early) {
            (Ok(message), None) => self.hear(&message, out),
            (Ok(message), Some(early)) if early.len() < EARLY_MAX => early.push(message),
            (Ok(_), Some(_)) => self.settings.counters.count("early"),
            (Err(error), _) => self.settings.counters.count(error.kind()),
        }
    }

    fn needs(&self, delivery: &Delivery) -> Option<Blob> {
        match delivery {
            Delivery::Notice(Notice::Assign(assignment)) => Some(assignment.body),
            _ => None,
        }
    }

    fn deliver(&mut self, _now: Timestamp, delivery: Delivery, bytes: Result<Bytes, Refusal>, out: &mut Out) {
        match delivery {
            Delivery::Reply { token, reply } => match (self.asked.answered(token), reply) {
                (Some(Waiting::Known), Err(Refusal::NotAWorker)) => {
                    self.joined = false;
                    self.job = None;
                    self.here(out);
                }
                (Some(Waiting::Started(held)), Ok(Response::Command(Reply::Held(each))))
                    if each.iter().any(Result::is_err) =>
                {
                    self.stopped(held, out);
                }
                (Some(Waiting::HeldBefore), reply) => self.held_before(reply, out),
                (Some(Waiting::Started(held)), Err(_)) => self.stopped(held, out),
                _ => {}
            },
            Delivery::Notice(notice) => match notice {
                Notice::Assign(assignment) => {
                    let held = Held { task: assignment.task, attempt: assignment.attempt };
                    self.assigned(held, bytes, out);
                }
                Notice::Stop { task, attempt, .. } => self.stopped(Held { task, attempt }, out),
                // The dialogue has no words for these.
                Notice::Wanted { .. } | Notice::Drain => {}
                Notice::Replaced { .. } => out.close = true,
            },
            Delivery::Goodbye => out.close = true,
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
        self.asked.len()
    }
}
