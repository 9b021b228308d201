//! One connection's conversation. Pure: bytes and deliveries come in, requests and bytes go out, time is an argument.
//!
//! Answers leave in the order of the commands. A command whose answer needs one question only ([`Step::Last`]) does not
//! keep the next one waiting; a longer flow does, unless both are a worker's (`overlap.rs`).

mod about;
mod desk;
mod expecting;
mod following;
mod greeting;
mod output;
mod overlap;
mod ownership;
mod pushing;
mod subscribing;
mod transaction;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tenure_hub::words::{DEFAULT_NAMESPACE, Name, Refusal, Timestamp};
use tenure_hub::{Ask, Delivery, Grant, Request};

use crate::codec::{Decoder, Limits, Reply, Request as Words, Version, encode};
use crate::command::{ActionCommand, Command, CommandError, ConnectionCommand, Entry, EventsCommand};
use crate::flow::{CommandFlow, Input, Outcome, Step};
use crate::rights::{Need, Reader};
use crate::settings::Settings;
use crate::translate::{self, LastReply, Speaker, refusal};
use crate::upkeep::Upkeep;
use crate::worker::CallAnswer;
pub(crate) use about::info;
pub use desk::DeskCall;
use desk::{Group, nameless};
use expecting::Expected;
use following::Following;
pub use output::Output;
use overlap::RunningFlows;
use pushing::Pushing;
use subscribing::Subscriptions;
use transaction::Transaction;

/// Answers that may be under way before the next command is looked at.
const REPLIES_MAX: usize = 1024;
/// How much is read ahead of a command that takes its time.
const PIPELINED_BYTES_MAX: usize = 256 * 1024;
/// How much may be unsent before the next command is looked at.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub struct Session {
    id: u64,
    /// What it is called as long as it has not said its name.
    identity: Name,
    address: IpAddr,
    settings: Settings,
    upkeep: Arc<Upkeep>,
    decoder: Decoder,
    version: Version,
    /// What it may do; none before it has authenticated.
    grant: Option<Arc<Grant>>,
    namespace: Name,
    name: Option<String>,
    library: [Option<String>; 2],
    is_library: bool,
    /// The worker that speaks here, and the one that a ping named.
    worker: Option<Name>,
    hinted: Option<Name>,
    /// When the desk of its worker last heard of it for certain.
    showed_life: Timestamp,
    replies: VecDeque<Slot>,
    /// The number of the first reply that is not out.
    first_reply: u64,
    waiting: HashMap<u64, Expect>,
    next_token: u64,
    flows: RunningFlows,
    /// A command that has to wait for those before it.
    held_back: Option<Command>,
    transaction: Transaction,
    group: Option<Group>,
    pushes: VecDeque<Pushing>,
    following: Option<Following>,
    subscriptions: Subscriptions,
    expected: Expected,
    closing: bool,
}

/// The place of one answer.
#[derive(Debug)]
enum Slot {
    Ready(Reply),
    /// Several in one place, written already.
    Written(Bytes),
    /// The beginning of an array whose items are the next answers.
    Header {
        items: usize,
    },
    Open,
}

/// What an unanswered question was for.
#[derive(Debug)]
enum Expect {
    Last {
        reply: u64,
        last: LastReply,
    },
    /// An answer of the hub, or bytes that were read.
    Flow {
        reply: u64,
        flow: CommandFlow,
    },
    /// The answer of a desk.
    Call {
        reply: u64,
        flow: CommandFlow,
        /// The worker this connection speaks for if the answer is good.
        becomes: Option<Name>,
    },
    /// Pushes were decided upon; the length of their queue follows.
    Submitted,
    Counted,
    /// A watch of a flow or of a subscription was begun.
    Watch,
    /// Something was published.
    Published {
        reply: u64,
    },
    /// A channel of one job waits to know which task that is.
    Channel(Bytes),
    Nothing,
}

/// Who may come in. The session asks, the server knows.
pub trait Gate {
    fn wants_keys(&self) -> bool;
    /// Whether a key may speak as a worker.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal>;
    fn admit(&self, now: Timestamp, key: &[u8]) -> Admission;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Granted(Arc<Grant>),
    Wrong,
}

impl Session {
    pub fn new(id: u64, address: IpAddr, settings: Settings, upkeep: Arc<Upkeep>, gate: &dyn Gate) -> Self {
        let grant = (!gate.wants_keys()).then(|| Arc::new(Grant::everything()));
        let limits = if grant.is_some() { settings.limits() } else { Limits::stranger() };
        Self {
            id,
            identity: nameless(id),
            address,
            settings,
            upkeep,
            decoder: Decoder::new(limits),
            version: Version::Resp2,
            grant,
            namespace: DEFAULT_NAMESPACE.into(),
            name: None,
            library: [None, None],
            is_library: false,
            worker: None,
            hinted: None,
            showed_life: Timestamp::ZERO,
            replies: VecDeque::new(),
            first_reply: 0,
            waiting: HashMap::new(),
            next_token: 0,
            flows: RunningFlows::default(),
            held_back: None,
            transaction: Transaction::default(),
            group: None,
            pushes: VecDeque::new(),
            following: None,
            subscriptions: Subscriptions::default(),
            expected: Expected::default(),
            closing: false,
        }
    }

    /// Where the socket puts what arrives.
    pub fn input(&mut self) -> &mut BytesMut {
        self.decoder.buffer_mut()
    }

    /// Nothing is going on: the connection may hold as little memory as possible.
    pub fn rest(&mut self) {
        self.decoder.release_memory();
    }

    /// Whether a command is under way that takes as long as somebody else takes.
    pub fn is_blocked(&self) -> bool {
        self.flows.are_blocked() || self.following.is_some()
    }

    /// Whether answers are still to be given.
    pub fn owes_answers(&self) -> bool {
        !self.replies.is_empty() || self.held_back.is_some() || self.transaction.is_due()
    }

    /// Whether more should be read. Behind a command that takes its time, or a peer that does not read its answers, only
    /// so much is kept.
    pub fn is_hungry(&self, out: &Output) -> bool {
        !self.is_stuck(out) || self.decoder.pending_bytes() < PIPELINED_BYTES_MAX
    }

    /// Whether something keeps the next command waiting.
    fn is_stuck(&self, out: &Output) -> bool {
        self.flows.keep_others_waiting()
            || self.held_back.is_some()
            || self.transaction.is_due()
            || self.replies.len() >= REPLIES_MAX
            || out.bytes.len() >= UNSENT_BYTES_MAX
    }

    /// Whether the peer has begun a command and not finished it.
    pub fn is_halfway(&self, out: &Output) -> bool {
        self.decoder.pending_bytes() > 0 && !self.is_stuck(out)
    }

    /// Whether it has shown a key, if one is needed.
    pub fn is_known(&self) -> bool {
        self.grant.is_some()
    }

    /// Whether commands wait that may be looked at now.
    pub fn may_go_on(&self) -> bool {
        let waits = self.held_back.is_some() || self.transaction.is_due() || self.decoder.pending_bytes() > 0;
        waits && !self.flows.keep_others_waiting()
    }

    /// Where its tasks live.
    pub fn namespace(&self) -> &Name {
        &self.namespace
    }

    /// What the peer may do; everything that may be done without a key, as long as it has shown none.
    pub fn grant(&self) -> Arc<Grant> {
        self.grant.clone().unwrap_or_default()
    }

    /// How its session with the hub is called, and its worker if that has no name.
    pub fn identity(&self) -> &Name {
        &self.identity
    }

    /// Looks at what has arrived, as far as answers may be given.
    pub fn receive(&mut self, now: Timestamp, gate: &dyn Gate, out: &mut Output) {
        while !self.flows.keep_others_waiting() && !self.closing && self.has_room(out) {
            let (is_known, only_listens) = (self.grant.is_some(), self.subscribed_old());
            let command = match self.held_back.take().or_else(|| self.transaction.next()) {
                Some(command) => Ok(command),
                None => match self.decoder.next_request() {
                    Ok(None) => break,
                    Ok(Some(words)) => {
                        let understood = understand(&words, is_known, only_listens);
                        if self.transaction.is_open() {
                            let bytes = words.iter().map(<[u8]>::len).sum();
                            self.put_by(gate, understood, bytes)
                        } else {
                            understood
                        }
                    }
                    Err(error) => {
                        self.closing = true;
                        Err(error.reply())
                    }
                },
            };
            match command {
                Ok(command) if self.must_wait(&command, out) => {
                    self.held_back = Some(command);
                    break;
                }
                Ok(command) => {
                    let place = self.open_place();
                    self.flows.begin(place, &command);
                    self.begin(now, gate, place, command, out);
                }
                Err(reply) => {
                    let place = self.open_place();
                    self.fill(place, reply);
                }
            }
        }
        self.flush(out);
    }

    /// Whether one more answer may be under way.
    fn has_room(&mut self, out: &mut Output) -> bool {
        if self.replies.len() >= REPLIES_MAX {
            self.flush(out);
        }
        self.replies.len() < REPLIES_MAX && out.bytes.len() < UNSENT_BYTES_MAX
    }

    /// Between MULTI and EXEC a command is looked at and put by.
    fn put_by(
        &mut self,
        gate: &dyn Gate,
        understood: Result<Command, Reply>,
        bytes: usize,
    ) -> Result<Command, Reply> {
        let allowed = understood.and_then(|command| self.forbidden(gate, &command).map_or(Ok(command), Err));
        self.transaction.put_by(allowed, bytes)
    }

    /// A delivery of this connection's own hub session.
    pub fn deliver(&mut self, now: Timestamp, delivery: Delivery, out: &mut Output) {
        match delivery {
            Delivery::Reply { token, reply } => self.answered(now, token, reply, out),
            Delivery::Event { watch, event } => self.event(watch, &event, out),
            Delivery::Gap { watch, from, oldest } => self.gap(watch, from, oldest, out),
            Delivery::Live { watch, .. } => self.live(watch, out),
            Delivery::Goodbye | Delivery::Ended(_) => self.closing = true,
            // This session is no worker, takes no calls and hears no broadcasts.
            Delivery::Notice(_)
            | Delivery::Broadcast(_)
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. } => {}
        }
        self.flush(out);
    }

    /// Bytes that a step asked for.
    pub fn has_read(
        &mut self,
        now: Timestamp,
        token: u64,
        read: Vec<Result<Bytes, Refusal>>,
        out: &mut Output,
    ) {
        if let Some(Expect::Flow { reply, flow }) = self.waiting.remove(&token) {
            let step = flow.resume(now, Input::Read(read));
            self.run(now, reply, step, out);
        }
        self.flush(out);
    }

    /// The answer of a worker's desk.
    pub fn desk_answered(&mut self, now: Timestamp, token: u64, answer: CallAnswer, out: &mut Output) {
        self.collect(now, token, answer, out);
        self.flush(out);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp, out: &mut Output) {
        self.give_up_following(now, out);
        self.flush(out);
    }

    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.following.as_ref().and_then(|following| following.until)
    }

    /// Tells a worker that can hear it what is wanted of its job.
    pub fn wish(&mut self, job: &str, wanted: &'static str, out: &mut Output) {
        if self.version == Version::Resp3 {
            let push =
                Reply::Push(vec![Reply::word("wanted"), Reply::bulk(job.to_owned()), Reply::word(wanted)]);
            self.transaction.tell(&push, self.version, out);
        }
    }

    /// A command must not overtake a flow, and one that changes who speaks or how must not overtake any answer.
    fn must_wait(&mut self, command: &Command, out: &mut Output) -> bool {
        let changes = matches!(
            command,
            Command::Connection(
                ConnectionCommand::Hello(_)
                    | ConnectionCommand::Auth(_)
                    | ConnectionCommand::Reset
                    | ConnectionCommand::Quit
            )
        );
        if changes {
            self.flush(out);
            return !self.replies.is_empty();
        }
        !self.flows.let_begin(command)
    }

    fn begin(&mut self, now: Timestamp, gate: &dyn Gate, place: u64, command: Command, out: &mut Output) {
        self.show_life(now, out);
        if let Some(reply) = self.forbidden(gate, &command) {
            return self.fill(place, reply);
        }
        match command {
            Command::Connection(command) => self.connection(now, gate, place, command, out),
            Command::Events(
                command @ (EventsCommand::Subscribe(_)
                | EventsCommand::Unsubscribe(_)
                | EventsCommand::SubscribePattern(_)
                | EventsCommand::UnsubscribePattern(_)
                | EventsCommand::Publish { .. }),
            ) => self.subscription(place, command, out),
            command => {
                let speaker = Speaker {
                    now,
                    version: self.version,
                    is_library: self.is_library,
                    worker: self.worker.as_ref().or(self.hinted.as_ref()).cloned(),
                    is_nameless: self.worker.as_ref() == Some(&self.identity),
                    may_claim: !gate.wants_keys(),
                    settings: self.settings.clone(),
                    reader: Reader::of(self.grant.as_deref()),
                    tidies: matches!(command, Command::Action(ActionCommand::Submit(_)))
                        && self.upkeep.is_due(now, &self.namespace),
                };
                let step = translate::start(command, &speaker);
                self.run(now, place, step, out);
            }
        }
    }

    /// What the key does not allow.
    fn forbidden(&self, gate: &dyn Gate, command: &Command) -> Option<Reply> {
        let grant = self.grant.as_ref()?;
        match Need::of(command, self.worker.as_deref()).check(grant.rights) {
            Ok(()) => self.not_its_key(gate, command),
            Err(reason) => Some(refusal(&reason)),
        }
    }

    /// Runs a flow as far as it goes without waiting.
    fn run(&mut self, now: Timestamp, place: u64, step: Step, out: &mut Output) {
        match step {
            Step::Reply(reply) => self.fill(place, reply),
            Step::Last(request, last) => {
                self.flows.end(place);
                self.ask(request, Expect::Last { reply: place, last }, out);
            }
            Step::Push { queue, submissions } => {
                self.flows.end(place);
                self.push(place, queue, submissions, out);
            }
            Step::Ask(request, flow) => {
                self.ask(request, Expect::Flow { reply: place, flow }, out);
            }
            Step::Read(blobs, flow) => {
                let token = self.token();
                self.waiting.insert(token, Expect::Flow { reply: place, flow });
                out.reads.push((token, blobs));
            }
            Step::Call(whom, call, flow) => {
                self.speak_with(now, place, whom, call, flow, out);
            }
            Step::Calls(calls, flow) => {
                self.speak_with_all(now, place, calls, flow, out);
            }
            Step::Follow(follow) => {
                self.follow(now, place, follow, out);
            }
        }
    }

    fn answered(&mut self, now: Timestamp, token: u64, outcome: Outcome, out: &mut Output) {
        match self.waiting.remove(&token) {
            Some(Expect::Last { reply, last }) => self.fill(reply, last.reply(now, outcome)),
            Some(Expect::Flow { reply, flow }) => {
                let step = flow.resume(now, Input::Answer(outcome));
                self.run(now, reply, step, out);
            }
            Some(Expect::Submitted) => self.submitted(token, outcome),
            Some(Expect::Counted) => self.counted(token, outcome),
            Some(Expect::Watch) => {
                if let Err(reason) = outcome {
                    self.cannot_watch(&reason, out);
                }
            }
            Some(Expect::Channel(channel)) => self.looked_for(&channel, &outcome, out),
            Some(Expect::Call { .. } | Expect::Published { .. } | Expect::Nothing) | None => {}
        }
    }

    fn ask(&mut self, request: Request, expect: Expect, out: &mut Output) -> u64 {
        let token = self.token();
        self.waiting.insert(token, expect);
        out.asks.push(Ask { token, request });
        token
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn open_place(&mut self) -> u64 {
        self.replies.push_back(Slot::Open);
        self.first_reply + self.replies.len() as u64 - 1
    }

    fn place(&mut self, place: u64) -> &mut Slot {
        let index = usize::try_from(place - self.first_reply).expect("a place that is not out yet");
        &mut self.replies[index]
    }

    fn fill(&mut self, place: u64, reply: Reply) {
        self.fill_slot(place, Slot::Ready(reply));
    }

    fn fill_slot(&mut self, place: u64, slot: Slot) {
        self.flows.end(place);
        *self.place(place) = slot;
    }

    /// Sends what is ready, in order.
    fn flush(&mut self, out: &mut Output) {
        while let Some(slot) = self.replies.front() {
            match slot {
                Slot::Ready(reply) => {
                    encode(reply, self.version, &mut out.bytes);
                    self.transaction.has_answered(out);
                }
                Slot::Written(bytes) => {
                    out.bytes.extend_from_slice(bytes);
                    self.transaction.has_answered(out);
                }
                Slot::Header { items } => self.transaction.begin_array(*items, self.version, out),
                Slot::Open => break,
            }
            self.replies.pop_front();
            self.first_reply += 1;
        }
        if self.closing && (self.replies.is_empty() || self.flows.are_under_way()) {
            out.close = true;
        }
    }
}

/// From words to a command, or to the error that answers them.
fn understand(words: &Words<'_>, is_known: bool, only_listens: bool) -> Result<Command, Reply> {
    let entry = Entry::find(words.name());
    if !is_known && !entry.as_ref().is_ok_and(|entry| entry.before_auth) {
        return Err(Reply::error("NOAUTH Authentication required"));
    }
    let entry = entry.map_err(|error| error.reply())?;
    let command = entry.parse(words).map_err(|error: CommandError| error.reply())?;
    if !is_known && !greeting::before_auth(&command) {
        return Err(Reply::error("NOAUTH Authentication required"));
    }
    if only_listens && !subscribing::allowed(&command) {
        return Err(Reply::error(format!(
            "ERR Can't execute '{}': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            entry.name
        )));
    }
    Ok(command)
}
