//! One peer's session, pure: frames and deliveries come in, frames and hub requests go out, time is an argument.
//! (Topics are the exception: they are shared memory, so the session publishes and takes itself, without ever
//! waiting.)
//!
//! A request of the peer becomes one or a few hub requests; the token of a reply finds the request again.
//! Everything from one read goes to the hub at once, and deliveries that arrive together go out in as few frames as
//! possible.

mod bulk;
mod expect;
pub(crate) mod group;
pub(crate) mod hello;
pub(crate) mod machine;
mod permission;
mod topics;
mod verbs;
mod waits;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use tenure_hub::topics::Topics;
use tenure_hub::words::{Answer, Blob, Name, Notice, Refusal, TaskId, Timestamp};
use tenure_hub::{Ask, ClockReading, Delivery, Grant, HubRefusal, Request, Response};
use tenure_wire::address::{Broadcast, CallGivenUp, Called, Hear};
use tenure_wire::envelope::NO_NUMBER;
use tenure_wire::notice::{Gap, Live, Replaced};
use tenure_wire::reply::{Submitted, WatchOpened};
use tenure_wire::{Code, Reply, ToBroker};

use crate::codec::{DecodeError, FRAME_BYTES_MAX, FrameError, decode_to_broker, encode_notice, encode_reply};
use crate::frames::{UNAUTHENTICATED_FRAME_BYTES_MAX, take_frames};
use crate::pending::{Pendings, Token};
use crate::settings::Settings;
use crate::translate;
use bulk::Bulk;
use expect::{PendingReply, ReplyPlan};
use topics::TopicSide;
use waits::Waits;

pub use tenure_door_kit::{ConnectionAccess, Protocol, Turn};

/// One peer's session of the native protocol.
#[derive(Debug)]
pub struct Session {
    settings: Arc<Settings>,
    /// The peer's identity, after its hello.
    peer: Option<Box<Known>>,
    pendings: Pendings<PendingReply>,
    bulk: Bulk,
    /// State that most peers never need.
    extras: Option<Box<Extras>>,
}

#[derive(Debug)]
struct Known {
    grant: Arc<Grant>,
    identity: Name,
    /// It has asked to be a worker: everything it sends is a sign of life.
    works: bool,
    namespace: Name,
    all_topics: Topics,
    /// Its topic state, once it uses topics.
    topics: Option<Box<TopicSide>>,
}

#[derive(Debug, Default)]
struct Extras {
    waits: Waits,
    /// Calls in flight, by the number of their request, and when each times out.
    calls: HashMap<u64, (Token, Option<Timestamp>), RandomState>,
    /// Watches that are open, by the numbers of their requests.
    watches: HashSet<u64, RandomState>,
    /// Requests with several hub requests of which one was refused, by their numbers.
    refused_parts: HashMap<u64, HubRefusal, RandomState>,
    /// What times out, and when.
    deadlines: BTreeSet<(Timestamp, Due)>,
    /// Which broadcasts it wants; empty means none.
    hears: Vec<Hear>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Wait { number: u64 },
    Call { number: u64 },
}

impl Session {
    /// A session whose peer has not said hello yet.
    pub fn new(settings: Arc<Settings>) -> Session {
        Session { settings, peer: None, pendings: Pendings::default(), bulk: Bulk::default(), extras: None }
    }
}

impl Protocol for Session {
    /// Something has happened on a topic.
    type Event = ();

    fn receive(
        &mut self,
        now: ClockReading,
        arrived: &mut BytesMut,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        let most = |session: &Session| {
            if session.peer.is_some() { FRAME_BYTES_MAX } else { UNAUTHENTICATED_FRAME_BYTES_MAX }
        };
        let taken =
            take_frames(self, arrived, turn, most, |session, frame, turn| match decode_to_broker(frame) {
                Ok(ToBroker { number, request }) => session.request(now, number, request, access, turn),
                Err(error) => session.malformed(&error, turn),
            });
        if let Err(error) = taken {
            let FrameError::TooLong { limit, .. } = error;
            let refusal = tenure_wire::Refusal {
                limit: Some(limit as u64),
                ..tenure_wire::Refusal::new(Code::TooLong, error.to_string())
            };
            close_with_refusal(refusal, turn);
        }
    }

    fn needs(&self, delivery: &Delivery) -> Option<Blob> {
        match delivery {
            Delivery::Notice(Notice::Assign(assignment)) => some(assignment.body),
            Delivery::Reply { token, reply: Ok(Response::Answer(Answer::Task(info))) } => {
                match &self.pendings.get(*token)?.expect {
                    ReplyPlan::Body => some(info.body),
                    ReplyPlan::Result => some(info.state.end()?.result),
                    ReplyPlan::Checkpoint => some(info.checkpoint?.blob),
                    ReplyPlan::Waited { task } if self.waits_for_result(*task) => {
                        some(info.state.end()?.result)
                    }
                    _ => None,
                }
            }
            Delivery::Event { watch, event } if waits::is_own_watch(*watch) => {
                let (_, result) = translate::ended_by(event)?;
                if self.waits_for_result(event.task()?) { some(result) } else { None }
            }
            _ => None,
        }
    }

    fn deliver(
        &mut self,
        _now: ClockReading,
        delivery: Delivery,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        match delivery {
            Delivery::Reply { token, reply } => self.reply(token, reply, bytes, turn),
            Delivery::Notice(notice) => self.notice(notice, bytes, turn),
            Delivery::Event { watch, event } if waits::is_own_watch(watch) => {
                self.handle_end(&event, bytes, turn);
            }
            Delivery::Event { watch, event } => {
                self.bulk.event(watch, translate::event(&event), &mut turn.out);
            }
            Delivery::Gap { watch, .. } if waits::is_own_watch(watch) => self.look_again(turn),
            Delivery::Gap { watch, from, oldest } => {
                self.bulk.flush(&mut turn.out);
                let gap = Gap { watch, from, to: oldest.saturating_sub(1) };
                encode_notice(&mut turn.out, &tenure_wire::Notice::Gap(gap));
            }
            Delivery::Live { watch, .. } if waits::is_own_watch(watch) => {}
            Delivery::Live { watch, next } => {
                self.bulk.flush(&mut turn.out);
                encode_notice(&mut turn.out, &tenure_wire::Notice::Live(Live { watch, next }));
            }
            Delivery::Call { call, from, address, body } => {
                let called = Called { call, to: address, from, body };
                encode_notice(&mut turn.out, &tenure_wire::Notice::Call(called));
            }
            Delivery::CallGivenUp { call } => {
                encode_notice(&mut turn.out, &tenure_wire::Notice::CallGivenUp(CallGivenUp { call }));
            }
            Delivery::CallAnswered { token, answer } => {
                let Some(pending) = self.pendings.get(token) else { return };
                let number = pending.number;
                let answered = translate::call_answered(answer);
                if answered.outcome != tenure_wire::words::CallOutcome::Pending {
                    self.forget_call(number);
                }
                encode_reply(&mut turn.out, number, &Reply::Answered(answered));
            }
            Delivery::Broadcast(tenure_hub::Broadcast { sender, subject, correlation, body }) => {
                let broadcast = Broadcast { subject, body, sender, correlation };
                if self.hears(&broadcast) {
                    encode_notice(&mut turn.out, &tenure_wire::Notice::Broadcast(broadcast));
                }
            }
            Delivery::Goodbye => {
                self.bulk.flush(&mut turn.out);
                let refusal = translate::refusal(&HubRefusal::Draining);
                encode_notice(&mut turn.out, &tenure_wire::Notice::Bye(Box::new(refusal)));
            }
            Delivery::Ended(why) => {
                self.bulk.flush(&mut turn.out);
                let refusal = self.closing_refusal(&why);
                encode_notice(&mut turn.out, &tenure_wire::Notice::Bye(Box::new(refusal)));
                turn.close = true;
            }
        }
    }

    fn flush(&mut self, turn: &mut Turn) {
        self.bulk.flush(&mut turn.out);
    }

    fn open_requests(&self) -> usize {
        let calls = self.extras.as_ref().map_or(0, |extras| extras.calls.len());
        self.pendings.len() - calls + self.topic_side().map_or(0, TopicSide::waiting)
    }

    fn is_known(&self) -> bool {
        self.peer.is_some()
    }

    fn login_is_late(&mut self, turn: &mut Turn) {
        close_with_refusal(tenure_wire::Refusal::new(Code::TooSlow, "no hello arrived in time"), turn);
    }

    async fn happens(&mut self, has_room: bool) {
        poll_fn(|context| self.poll_topics(has_room, context)).await;
    }

    fn has_happened(&mut self, has_room: bool) -> Option<()> {
        let mut context = Context::from_waker(Waker::noop());
        self.poll_topics(has_room, &mut context).is_ready().then_some(())
    }

    async fn happened(&mut self, _now: ClockReading, (): (), turn: &mut Turn) {
        if let Some(side) = self.peer.as_mut().and_then(|peer| peer.topics.as_mut()) {
            side.happened(turn);
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let extras = self.extras.as_ref()?;
        extras.deadlines.first().map(|(at, _)| *at)
    }

    fn tick(&mut self, now: ClockReading, turn: &mut Turn) {
        while let Some((at, due)) = self.pop_due(now) {
            match due {
                Due::Wait { number } => self.wait_is_over(number, turn),
                Due::Call { number } => {
                    self.give_up_call(number, turn);
                    refuse(number, &Refusal::TooLate { deadline: at }, turn);
                }
            }
        }
    }
}

impl Session {
    fn poll_topics(&mut self, has_room: bool, context: &mut Context<'_>) -> Poll<()> {
        match self.peer.as_mut().and_then(|peer| peer.topics.as_mut()) {
            Some(side) if has_room => side.poll(context),
            Some(_) | None => Poll::Pending,
        }
    }

    fn malformed(&mut self, error: &DecodeError, turn: &mut Turn) {
        let refusal = tenure_wire::Refusal {
            kind: error.kind.clone(),
            what: Some(error.problem.at()).filter(|place| !place.is_empty()).map(Box::from),
            ..tenure_wire::Refusal::new(Code::Malformed, error.to_string())
        };
        encode_reply(&mut turn.out, error.number, &Reply::Refused(Box::new(refusal)));
    }

    fn reply(
        &mut self,
        token: u64,
        reply: Result<Response, HubRefusal>,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        let Some(pending) = self.pendings.get(token) else { return };
        let number = pending.number;
        // The receiver answers a call; the hub itself replies only if there is none.
        if let ReplyPlan::Call { to } = &pending.expect {
            let no_listener = HubRefusal::NoListener { address: to.clone() };
            if let Err(no) = reply {
                self.forget_call(number);
                let no = if matches!(no, HubRefusal::NoListener { .. }) { no_listener } else { no };
                refuse(number, &no, turn);
            }
            return;
        }
        let Some(pending) = self.pendings.take(token) else { return };
        match (pending.expect, reply) {
            (ReplyPlan::Nothing | ReplyPlan::Call { .. }, _) => {}
            (ReplyPlan::Waited { task }, reply) => self.looked(task, reply, bytes, turn),
            (ReplyPlan::Part, Ok(_)) => {}
            (ReplyPlan::Part, Err(no)) => {
                self.extras().refused_parts.entry(number).or_insert(no);
            }
            (ReplyPlan::LastPart, last) => {
                let refused = self.extras().refused_parts.remove(&number);
                match refused.map_or(last, Err) {
                    Ok(response) => answer(number, &translate::response(response), turn),
                    Err(no) => refuse(number, &no, turn),
                }
            }
            (ReplyPlan::Watching { .. }, Err(no)) => {
                self.extras().watches.remove(&number);
                refuse(number, &no, turn);
            }
            (_, Err(no)) => refuse(number, &no, turn),
            (ReplyPlan::Submitted { refused }, Ok(response)) => submitted(number, &refused, response, turn),
            (ReplyPlan::Watching { from }, Ok(_)) => {
                answer(number, &Reply::Watching(WatchOpened { from }), turn);
            }
            (ReplyPlan::Pong { now }, Ok(_)) => answer(number, &verbs::pong(now), turn),
            (ReplyPlan::Result, Ok(Response::Answer(Answer::Task(info)))) if info.state.end().is_none() => {
                let (task, state) = (info.id, info.state.name());
                refuse(number, &Refusal::WrongState { task, state, verb: "fetch the result of" }, turn);
            }
            (
                ReplyPlan::Body | ReplyPlan::Result | ReplyPlan::Checkpoint,
                Ok(Response::Answer(Answer::Task(_))),
            ) => match bytes {
                Some(Ok(bytes)) => answer(number, &translate::bytes(bytes), turn),
                Some(Err(no)) => refuse(number, &no, turn),
                None => answer(number, &translate::bytes(Bytes::new()), turn),
            },
            (
                ReplyPlan::Plain | ReplyPlan::Body | ReplyPlan::Result | ReplyPlan::Checkpoint,
                Ok(response),
            ) => {
                let mut reply = translate::response(response);
                if let Reply::BackedUp(written) = &mut reply {
                    written.member =
                        self.settings.door.group.as_ref().map(|group| group.name.as_str().into());
                }
                answer(number, &reply, turn);
            }
        }
    }

    fn notice(&mut self, notice: Notice, bytes: Option<Result<Bytes, HubRefusal>>, turn: &mut Turn) {
        let told = match notice {
            Notice::Assign(assignment) => {
                match bytes.unwrap_or(Ok(Bytes::new())) {
                    Ok(body) => self.bulk.assign(*assignment, body, &mut turn.out),
                    Err(no) => {
                        let token =
                            self.pendings.put(PendingReply { number: NO_NUMBER, expect: ReplyPlan::Nothing });
                        turn.asks.push(Ask { token, request: Request::cannot_be_run(&assignment, &no) });
                    }
                }
                return;
            }
            Notice::Wanted { task, attempt, wanted, in_place, reason } => {
                translate::wanted(task, attempt, wanted, in_place, reason)
            }
            Notice::Continue { task, attempt, ends } => translate::continued(task, attempt, &ends),
            Notice::Stop { task, attempt, why } => translate::stop(task, attempt, why),
            Notice::Drain => tenure_wire::Notice::Drain,
            Notice::Replaced { worker } => tenure_wire::Notice::Replaced(Replaced { worker }),
        };
        // A notice about a task must not overtake the task.
        self.bulk.flush(&mut turn.out);
        encode_notice(&mut turn.out, &told);
    }

    fn hears(&self, broadcast: &Broadcast) -> bool {
        let same = |wanted: &Option<Name>, said: &Option<Name>| wanted.is_none() || wanted == said;
        self.extras.as_ref().is_some_and(|extras| {
            let mut hears = extras.hears.iter();
            hears.any(|hear| same(&hear.subject, &broadcast.subject) && same(&hear.sender, &broadcast.sender))
        })
    }

    /// The call is over. Returns its token at the hub.
    fn forget_call(&mut self, number: u64) -> Option<Token> {
        let extras = self.extras.as_mut()?;
        let (token, deadline) = extras.calls.remove(&number)?;
        extras.forget_deadline(deadline, Due::Call { number });
        self.pendings.take(token);
        Some(token)
    }

    /// The caller no longer waits, so the receiver need not answer.
    fn give_up_call(&mut self, number: u64, turn: &mut Turn) {
        if let Some(token) = self.forget_call(number) {
            self.ask(NO_NUMBER, ReplyPlan::Nothing, Request::GiveUpCall { token }, turn);
        }
    }

    fn pop_due(&mut self, now: ClockReading) -> Option<(Timestamp, Due)> {
        let deadlines = &mut self.extras.as_mut()?.deadlines;
        let (at, _) = deadlines.first()?;
        if *at > now.steady {
            return None;
        }
        deadlines.pop_first()
    }

    fn topic_side(&self) -> Option<&TopicSide> {
        self.peer.as_ref()?.topics.as_deref()
    }

    fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    fn ask(&mut self, number: u64, expect: ReplyPlan, request: Request, turn: &mut Turn) -> Token {
        let token = self.pendings.put(PendingReply { number, expect });
        turn.asks.push(Ask { token, request });
        token
    }

    fn waits_for_result(&self, task: TaskId) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.waits.wants_result(task))
    }
}

impl Extras {
    fn set_deadline(&mut self, now: ClockReading, timeout_ms: Option<u64>, due: Due) -> Option<Timestamp> {
        let at = Timestamp(now.steady.0.saturating_add(timeout_ms?));
        self.deadlines.insert((at, due));
        Some(at)
    }

    fn forget_deadline(&mut self, at: Option<Timestamp>, due: Due) {
        if let Some(at) = at {
            self.deadlines.remove(&(at, due));
        }
    }
}

/// Sends a reply, unless none is wanted.
fn answer(number: u64, reply: &Reply, turn: &mut Turn) {
    if number != NO_NUMBER {
        return encode_reply(&mut turn.out, number, reply);
    }
    // Refused entries are reported even if no reply is wanted.
    if let Reply::Held(held) = reply {
        refuse_each(held.refused.iter().map(|entry| &entry.refusal), turn);
    } else if let Reply::Submitted(submitted) = reply {
        refuse_each(submitted.tasks.iter().filter_map(|verdict| verdict.0.as_ref().err()), turn);
    } else if let Reply::Published(published) = reply {
        refuse_each(published.messages.iter().filter_map(|verdict| verdict.0.as_ref().err()), turn);
    }
}

fn refuse_each<'a>(refusals: impl Iterator<Item = &'a tenure_wire::Refusal>, turn: &mut Turn) {
    for refusal in refusals {
        encode_reply(&mut turn.out, NO_NUMBER, &Reply::Refused(Box::new(refusal.clone())));
    }
}

fn refuse(number: u64, no: &(impl Clone + Into<HubRefusal>), turn: &mut Turn) {
    encode_reply(&mut turn.out, number, &Reply::Refused(Box::new(translate::refusal(no))));
}

fn close_with_refusal(refusal: tenure_wire::Refusal, turn: &mut Turn) {
    encode_notice(&mut turn.out, &tenure_wire::Notice::Bye(Box::new(refusal)));
    turn.close = true;
}

/// The reply to a submission, with the door's own refusals inserted at their index.
fn submitted(number: u64, refused: &[(usize, Refusal)], response: Response, turn: &mut Turn) {
    let mut reply = translate::response(response);
    if let Reply::Submitted(Submitted { tasks }) = &mut reply {
        for (index, no) in refused {
            tasks.insert((*index).min(tasks.len()), translate::accepted(&Err(no.clone())));
        }
    }
    answer(number, &reply, turn);
}

fn some(blob: Blob) -> Option<Blob> {
    (!blob.is_empty()).then_some(blob)
}
