//! Converts each kind of request to hub requests.

use tenure_hub::words::{Command, Held, Query, Refusal, Reply as HubReply};
use tenure_hub::{Ask, ClockReading, HubRefusal, Request as HubRequest, Response, Watch};
use tenure_wire::address::{Call, Hear};
use tenure_wire::envelope::NO_NUMBER;
use tenure_wire::reply::Pong;
use tenure_wire::request::{OneTask, Submit};
use tenure_wire::{Code, Reply, Request};

use super::expect::ReplyPlan;
use super::waits::OWN_WATCHES;
use super::{ConnectionAccess, Due, Session, Turn, answer, encode_reply, permission, refuse, submitted};
use crate::translate::{self, Template};

/// Maximum number of broadcast filters of one session.
const HEARS_MAX: usize = 1_024;

impl Session {
    pub(super) fn request(
        &mut self,
        now: ClockReading,
        number: u64,
        request: Request,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        let Some(peer) = &self.peer else {
            if let Request::Hello(hello) = request {
                return self.hello(now, number, *hello, access, turn);
            }
            let message = "send hello first";
            return send_refusal(number, tenure_wire::Refusal::new(Code::HelloFirst, message), turn);
        };
        if let Err((act, no)) = permission::check(access, peer, &request) {
            turn.asks.push(Ask::refused(act, &no));
            return refuse(number, &no, turn);
        }
        if let Err(no) = self.dispatch(now, number, request, turn) {
            refuse(number, &no, turn);
        }
    }

    /// Commands of clients; everything else goes on to a function of its own.
    fn dispatch(
        &mut self,
        now: ClockReading,
        number: u64,
        request: Request,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let command = match request {
            // Frequent requests.
            Request::Submit(submit) => {
                self.submit(number, submit, turn);
                return Ok(());
            }
            Request::Start(start) => Command::Start(start.held.into_iter().map(translate::held).collect()),
            Request::Complete(complete) => {
                let done = complete.done.into_iter().map(translate::about_end).collect::<Result<_, _>>()?;
                self.ask(number, ReplyPlan::Plain, HubRequest::Complete(done), turn);
                return Ok(());
            }

            // Clients: commands.
            Request::SubmitArray(submit) => {
                let submission = translate::array_submission(*submit)?;
                let request = HubRequest::SubmitArray(Box::new(submission));
                self.ask(number, ReplyPlan::Plain, request, turn);
                return Ok(());
            }
            Request::LimitArray(set) => {
                Command::LimitArray { array: translate::id(set.array), limit: set.limit }
            }
            Request::Release(OneTask { task }) => Command::Release { task: translate::id(task) },
            Request::Cancel(one) => Command::Cancel { task: translate::id(one.task), reason: one.reason },
            Request::Pause(pause) => Command::Pause {
                task: translate::id(pause.task),
                reason: pause.reason,
                terminate: pause.terminate,
            },
            Request::Resume(OneTask { task }) => Command::Resume { task: translate::id(task) },
            Request::Retry(OneTask { task }) => Command::Retry { task: translate::id(task) },
            Request::Move(to) => Command::Move { task: translate::id(to.task), to: translate::moved(to) },
            Request::SetLimit(set) => Command::SetLimit { tag: set.tag, limit: set.limit },
            Request::SetRate(set) => translate::set_rate(set)?,
            Request::SetShare(set) => Command::SetShare { share: set.share, weight: set.weight },
            Request::PauseQueue(one) => Command::PauseQueue { queue: one.queue },
            Request::ResumeQueue(one) => Command::ResumeQueue { queue: one.queue },
            Request::SetThresholds(set) => translate::set_thresholds(set),
            Request::SetSchedule(set) => translate::set_schedule(*set)?,
            Request::PauseSchedule(one) => Command::PauseSchedule { schedule: one.schedule },
            Request::ResumeSchedule(one) => Command::ResumeSchedule { schedule: one.schedule },
            Request::RemoveSchedule(one) => Command::RemoveSchedule { schedule: one.schedule },
            Request::RunSchedule(one) => Command::RunSchedule { schedule: one.schedule },
            Request::DrainWorker(one) => Command::DrainWorker { worker: one.worker },
            Request::ClearWorker(one) => Command::ClearWorker { worker: one.worker },

            topic @ (Request::Publish(_)
            | Request::Subscribe(_)
            | Request::Unsubscribe(_)
            | Request::PauseSubscription(_)
            | Request::Acknowledge(_)
            | Request::Request(_)
            | Request::Topics(_)
            | Request::Subscriptions(_)) => return self.topics(number, topic, turn),
            other => return self.dispatch_worker_request(now, number, other, turn),
        };
        self.ask(number, ReplyPlan::Plain, HubRequest::Command(command), turn);
        Ok(())
    }

    fn dispatch_worker_request(
        &mut self,
        now: ClockReading,
        number: u64,
        request: Request,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let command = match request {
            Request::Register(spec) => {
                let spec = translate::worker_spec(*spec)?;
                if let Some(peer) = &mut self.peer {
                    peer.works = true;
                }
                Command::Register(Box::new(spec))
            }
            Request::Heartbeat(beat) => Command::Heartbeat {
                held: beat.held.map(|held| held.into_iter().map(translate::held).collect()),
                stats: beat.stats.map(|stats| Box::new(translate::stats(*stats))),
            },
            Request::Progress(report) => {
                let held = Held { task: translate::id(report.task), attempt: report.attempt };
                Command::Progress { held, percent: report.percent, note: report.note }
            }
            Request::Suspend(suspend) => translate::suspend(suspend),
            Request::SaveCheckpoint(saved) => {
                let (held, checkpoint) = translate::save_checkpoint(saved)?;
                self.ask(number, ReplyPlan::Plain, HubRequest::Checkpoint { held, checkpoint }, turn);
                return Ok(());
            }
            Request::AppendLog(appended) => {
                let (held, piece) = translate::log_piece(appended)?;
                self.ask(number, ReplyPlan::Plain, HubRequest::AppendLog { held, piece }, turn);
                return Ok(());
            }
            Request::Fail(failed) => {
                let (failure, result) = translate::failure(*failed)?;
                self.ask(number, ReplyPlan::Plain, HubRequest::Fail { failure, result }, turn);
                return Ok(());
            }
            Request::Confirm(confirm) => {
                let (held, wanted) = translate::confirmed(&confirm)?;
                let request = HubRequest::Confirm { held, wanted, result: confirm.result };
                self.ask(number, ReplyPlan::Plain, request, turn);
                return Ok(());
            }
            Request::GiveBack(back) => {
                let held = Held { task: translate::id(back.task), attempt: back.attempt };
                Command::GiveBack { held, reason: back.reason }
            }
            Request::Ask(ask) => Command::Ask { queues: ask.queues },
            Request::Unask => Command::Unask,
            Request::Drain => Command::Drain,
            Request::Leave => Command::Leave,
            other => return self.dispatch_query(now, number, other, turn),
        };
        self.ask(number, ReplyPlan::Plain, HubRequest::Command(command), turn);
        Ok(())
    }

    fn dispatch_query(
        &mut self,
        now: ClockReading,
        number: u64,
        request: Request,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let mut expect = ReplyPlan::Plain;
        let asked = match request {
            Request::Show(OneTask { task }) => HubRequest::Query(Query::Show { task: translate::id(task) }),
            Request::Find(one) => HubRequest::Query(Query::Find { name: one.name }),
            Request::Array(one) => HubRequest::Query(Query::Array { array: translate::id(one.array) }),
            Request::FindArray(one) => HubRequest::Query(Query::FindArray { name: one.name }),
            Request::Arrays(query) => HubRequest::Query(translate::arrays_query(query)?),
            Request::Explain(OneTask { task }) => {
                HubRequest::Query(Query::Explain { task: translate::id(task) })
            }
            Request::List(query) => HubRequest::Query(Query::List(Box::new(translate::list_query(*query)?))),
            Request::Queues => HubRequest::Query(Query::Queues),
            Request::Workers => HubRequest::Query(Query::Workers),
            Request::Limits => HubRequest::Query(Query::Limits),
            Request::Reconcile(page) => HubRequest::Reconcile(Box::new(translate::reconciliation(*page)?)),
            Request::Schedules => HubRequest::Query(Query::Schedules),
            Request::Schedule(one) => HubRequest::Query(Query::Schedule { schedule: one.schedule }),
            Request::Hooks => HubRequest::Hooks,
            Request::Undelivered(one) => HubRequest::Undelivered { hook: one.hook },
            Request::Redeliver(again) => HubRequest::Redeliver { hook: again.hook, seq: again.event },
            Request::Shares => HubRequest::Query(Query::Shares),
            Request::Counts => HubRequest::Query(Query::Counts),
            Request::Stats => HubRequest::Stats,
            Request::Body(OneTask { task }) => {
                expect = ReplyPlan::Body;
                HubRequest::Query(Query::Show { task: translate::id(task) })
            }
            Request::Result(OneTask { task }) => {
                expect = ReplyPlan::Result;
                HubRequest::Query(Query::Show { task: translate::id(task) })
            }
            Request::Checkpoint(OneTask { task }) => {
                expect = ReplyPlan::Checkpoint;
                HubRequest::Query(Query::Show { task: translate::id(task) })
            }
            Request::Logs(query) => HubRequest::Logs { task: translate::id(query.task), after: query.after },
            Request::Backup(backup) => {
                HubRequest::Backup { directory: String::from(backup.directory).into() }
            }
            Request::Watch(watch) => {
                if let Some(unknown) = translate::unknown_kind(&watch.kinds) {
                    send_refusal(number, unknown, turn);
                    return Ok(());
                }
                let number = opening(number)?;
                if !self.extras().watches.insert(number) {
                    return Err(
                        Refusal::BadValue { what: "number", why: "is in use by an open watch" }.into()
                    );
                }
                let from = watch.from;
                expect = ReplyPlan::Watching { from };
                HubRequest::Watch(Watch { watch: number, filter: translate::filter(*watch), from })
            }
            Request::Unwatch(one) => {
                let watch = opening(one.number)?;
                self.extras().watches.remove(&watch);
                HubRequest::Unwatch { watch }
            }
            Request::Wait(wait) => return self.wait(now, opening(number)?, wait, turn),
            other => return self.dispatch_call(now, number, other, turn),
        };
        self.ask(number, expect, asked, turn);
        Ok(())
    }

    /// Calls and broadcasts between peers.
    fn dispatch_call(
        &mut self,
        now: ClockReading,
        number: u64,
        request: Request,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let asked = match request {
            Request::Answer(given) => {
                let answer = translate::call_answer(&given.outcome, given.body)?;
                HubRequest::CallAnswer { call: given.call, answer }
            }
            Request::Broadcast(broadcast) => HubRequest::Broadcast(tenure_hub::Broadcast {
                sender: broadcast.sender.or_else(|| self.peer.as_ref().map(|peer| peer.identity.clone())),
                subject: broadcast.subject,
                correlation: broadcast.correlation,
                body: broadcast.body,
            }),
            Request::Call(call) => return self.call(now, opening(number)?, call, turn),
            Request::DropCall(one) => {
                self.give_up_call(one.number, turn);
                answer(number, &Reply::Done, turn);
                return Ok(());
            }
            Request::Listen(listen) => {
                let asks = listen.addresses.into_iter().map(|address| HubRequest::Listen { address });
                self.ask_all(number, asks, turn);
                return Ok(());
            }
            Request::Unlisten(listen) => {
                let asks = listen.addresses.into_iter().map(|address| HubRequest::Unlisten { address });
                self.ask_all(number, asks, turn);
                return Ok(());
            }
            Request::Hear(hear) => {
                self.set_broadcasts(hear)?;
                HubRequest::ReceiveBroadcasts { hear: true }
            }
            Request::Unhear => {
                self.extras().hears.clear();
                HubRequest::ReceiveBroadcasts { hear: false }
            }
            other => {
                self.dispatch_session_request(now, number, other, turn);
                return Ok(());
            }
        };
        self.ask(number, ReplyPlan::Plain, asked, turn);
        Ok(())
    }

    fn dispatch_session_request(
        &mut self,
        now: ClockReading,
        number: u64,
        request: Request,
        turn: &mut Turn,
    ) {
        match request {
            // A worker's ping is a sign of life, so the engine must learn of it.
            Request::Ping if self.peer.as_ref().is_some_and(|peer| peer.works) => {
                let heartbeat = HubRequest::Command(Command::Heartbeat { held: None, stats: None });
                self.ask(number, ReplyPlan::Pong { now }, heartbeat, turn);
            }
            Request::Ping => answer(number, &pong(now), turn),
            Request::Hello(_) => {
                let refusal = tenure_wire::Refusal::new(Code::HelloAgain, "hello was already sent");
                send_refusal(number, refusal, turn);
            }
            Request::Unknown { kind } => {
                let message = format!("unknown kind of request: {kind}");
                let refusal = tenure_wire::Refusal {
                    kind: Some(kind),
                    ..tenure_wire::Refusal::new(Code::UnknownKind, message)
                };
                send_refusal(number, refusal, turn);
            }
            other => unreachable!("{} has its own function", other.kind()),
        }
    }

    fn submit(&mut self, number: u64, submit: Submit, turn: &mut Turn) {
        let templates: Vec<Template> = submit.terms.into_iter().map(Template::new).collect();
        let mut submissions = Vec::with_capacity(submit.tasks.len());
        let mut refused = Vec::new();
        for (index, task) in submit.tasks.into_iter().enumerate() {
            match Template::submission(&templates, task) {
                Ok(submission) => submissions.push(submission),
                Err(no) => {
                    refused.push((index, no));
                    continue;
                }
            }
            // It is checked in its place, because a move of a submission is a large copy.
            if let Some(Err(no)) = submissions.last_mut().map(|last| last.skip_refused(&refused)) {
                submissions.pop();
                refused.push((index, no));
            }
        }
        let refused = refused.into_boxed_slice();
        if submissions.is_empty() {
            return submitted(number, &refused, Response::Command(HubReply::Submitted(Vec::new())), turn);
        }
        self.ask(number, ReplyPlan::Submitted { refused }, HubRequest::Submit(submissions), turn);
    }

    fn call(
        &mut self,
        now: ClockReading,
        number: u64,
        call: Call,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        if self.extras().calls.contains_key(&number) {
            return Err(Refusal::BadValue { what: "number", why: "is in use by a call in flight" }.into());
        }
        let request = HubRequest::Call { address: call.to.clone(), body: call.body };
        let token = self.ask(number, ReplyPlan::Call { to: call.to }, request, turn);
        let extras = self.extras();
        let deadline = extras.set_deadline(now, call.timeout_ms, Due::Call { number });
        extras.calls.insert(number, (token, deadline));
        Ok(())
    }

    fn set_broadcasts(&mut self, hear: Hear) -> Result<(), HubRefusal> {
        let hears = &mut self.extras().hears;
        if hears.contains(&hear) {
            return Ok(());
        }
        if hears.len() >= HEARS_MAX {
            return Err(Refusal::TooMany { what: "kinds of broadcasts", limit: HEARS_MAX }.into());
        }
        hears.push(hear);
        Ok(())
    }

    /// Several hub requests for one request: the last one triggers the reply.
    fn ask_all(&mut self, number: u64, asks: impl ExactSizeIterator<Item = HubRequest>, turn: &mut Turn) {
        let last = asks.len();
        if last == 0 {
            return answer(number, &Reply::Done, turn);
        }
        for (index, request) in asks.enumerate() {
            let expect = if index + 1 == last { ReplyPlan::LastPart } else { ReplyPlan::Part };
            self.ask(number, expect, request, turn);
        }
    }
}

pub(super) fn pong(now: ClockReading) -> Reply {
    Reply::Pong(Pong { now: translate::time(now.wall) })
}

/// The number of a watch, wait or call: it is required, and the highest are reserved for the door.
pub(super) fn opening(number: u64) -> Result<u64, HubRefusal> {
    match number {
        NO_NUMBER => {
            Err(Refusal::BadValue { what: "number", why: "is 0: this request needs a number of its own" }
                .into())
        }
        OWN_WATCHES.. => {
            Err(Refusal::BadValue { what: "number", why: "is 2 to the power of 63 or more" }.into())
        }
        _ => Ok(number),
    }
}

fn send_refusal(number: u64, refusal: tenure_wire::Refusal, turn: &mut Turn) {
    encode_reply(&mut turn.out, number, &Reply::Refused(Box::new(refusal)));
}
