//! One connection's conversation. Pure: bytes and deliveries come in, requests and bytes go out, time is an argument.
//!
//! Answers leave in the order of the commands. A command whose answer needs one question only ([`FlowStep::Last`]) does
//! not keep the next one waiting; a longer flow does, unless both are a worker's (`overlap.rs`).

mod about;
mod authenticator;
mod client;
mod elements;
mod expecting;
mod following;
mod greeting;
mod identity;
mod keyspace;
mod output;
mod overlap;
mod ownership;
mod pending;
mod pushing;
mod replies;
mod running;
mod subscribing;
mod transaction;
mod understand;
mod worker_calls;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tenure_hub::words::{Name, Refusal, Timestamp, Wanted};
use tenure_hub::{Delivery, Grant};

use crate::codec::{Decoder, Reply, RespLimits, Version};
use crate::command::{Command, ConnectionCommand};
use crate::flow::Input;
use crate::namespace_timer::NamespaceTimer;
use crate::settings::Settings;
use crate::worker::RespCallReply;
pub(crate) use about::info;
pub use authenticator::{RespAdmission, RespAuthenticator};
use client::ClientInfo;
use elements::Elements;
use expecting::Expected;
use following::Following;
use identity::SessionIdentity;
use keyspace::KeyspaceState;
pub use output::SessionOutput;
use overlap::RunningFlows;
use pending::{Expectation, PendingReplies};
use pushing::Pushing;
use replies::{ReplyQueue, ReplySlot};
use subscribing::SessionSubscriptions;
use transaction::MultiTransaction;
use worker_calls::{Group, nameless};

/// Answers that may be under way before the next command is looked at.
const REPLIES_MAX: usize = 1024;
/// How much is read ahead of a command that takes its time.
const PIPELINED_BYTES_MAX: usize = 256 * 1024;
/// How much may be unsent before the next command is looked at.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub struct Session {
    client: ClientInfo,
    identity: SessionIdentity,
    settings: Settings,
    namespace_timer: Arc<NamespaceTimer>,
    decoder: Decoder,
    version: Version,
    replies: ReplyQueue,
    pending: PendingReplies,
    flows: RunningFlows,
    /// A command that has to wait for those before it.
    held_back: Option<Command>,
    transaction: MultiTransaction,
    group: Option<Group>,
    pushes: VecDeque<Pushing>,
    following: Option<Following>,
    subscriptions: SessionSubscriptions,
    keyspace: KeyspaceState,
    expected: Expected,
    elements: Elements,
    closing: bool,
}

impl Session {
    pub fn new(
        id: u64,
        address: IpAddr,
        settings: Settings,
        namespace_timer: Arc<NamespaceTimer>,
        wants_keys: bool,
    ) -> Self {
        let grant = (!wants_keys).then(|| Arc::new(Grant::everything()));
        let limits = if grant.is_some() { settings.limits() } else { RespLimits::unauthenticated() };
        Self {
            client: ClientInfo::new(id, address),
            identity: SessionIdentity::new(nameless(id), grant),
            settings,
            namespace_timer,
            decoder: Decoder::new(limits),
            version: Version::Resp2,
            replies: ReplyQueue::default(),
            pending: PendingReplies::default(),
            flows: RunningFlows::default(),
            held_back: None,
            transaction: MultiTransaction::default(),
            group: None,
            pushes: VecDeque::new(),
            following: None,
            subscriptions: SessionSubscriptions::default(),
            keyspace: KeyspaceState::default(),
            expected: Expected::default(),
            elements: Elements::default(),
            closing: false,
        }
    }

    /// What has arrived, while the session looks at it.
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

    /// Whether more should be read. Behind a command that takes its time, or a peer that does not read its answers,
    /// only so much is kept.
    pub fn is_hungry(&self, arrived: usize, unsent: usize) -> bool {
        !self.is_stuck(unsent) || arrived < PIPELINED_BYTES_MAX
    }

    /// Whether something keeps the next command waiting.
    fn is_stuck(&self, unsent: usize) -> bool {
        self.flows.keep_others_waiting()
            || self.held_back.is_some()
            || self.transaction.is_due()
            || self.replies.len() >= REPLIES_MAX
            || unsent >= UNSENT_BYTES_MAX
    }

    /// Whether the peer has begun a command and not finished it.
    pub fn is_halfway(&self, arrived: usize, unsent: usize) -> bool {
        arrived > 0 && !self.is_stuck(unsent)
    }

    /// Whether it has shown a key, if one is needed.
    pub fn is_known(&self) -> bool {
        self.identity.grant.is_some()
    }

    /// Whether commands wait that may be looked at now.
    pub fn may_go_on(&self, arrived: usize) -> bool {
        let waits = self.held_back.is_some() || self.transaction.is_due() || arrived > 0;
        waits && !self.flows.keep_others_waiting()
    }

    /// Where its tasks live.
    pub fn namespace(&self) -> &Name {
        &self.identity.namespace
    }

    /// What the peer may do; everything that may be done without a key, as long as it has shown none.
    pub fn grant(&self) -> Arc<Grant> {
        self.identity.grant.clone().unwrap_or_default()
    }

    /// How its session with the hub is called, and its worker if that has no name.
    pub fn identity(&self) -> &Name {
        &self.identity.unnamed
    }

    /// Looks at what has arrived, as far as answers may be given.
    pub fn receive(
        &mut self,
        now: Timestamp,
        authenticator: &dyn RespAuthenticator,
        out: &mut SessionOutput,
    ) {
        while !self.flows.keep_others_waiting() && !self.closing && self.has_room(out) {
            let (is_known, only_listens) = (self.identity.grant.is_some(), self.subscribed_old());
            let command = match self.held_back.take().map(Ok).or_else(|| self.transaction.next()) {
                Some(command) => command,
                None => match self.decoder.next_request() {
                    Ok(None) => break,
                    Ok(Some(words)) => {
                        let understood = understand::understand(&words, is_known, only_listens);
                        if !is_known && understood == Err(Reply::error(understand::NO_AUTH)) {
                            authenticator.note_no_key(now);
                        }
                        if self.transaction.is_open() {
                            let bytes = words.iter().map(<[u8]>::len).sum();
                            self.put_by(authenticator, understood, bytes, out)
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
                    let place = self.replies.open();
                    self.flows.begin(place, &command);
                    self.begin(now, authenticator, place, command, out);
                }
                Err(reply) => {
                    let place = self.replies.open();
                    self.fill(place, reply);
                }
            }
        }
        self.flush(out);
    }

    /// Whether one more answer may be under way.
    fn has_room(&mut self, out: &mut SessionOutput) -> bool {
        if self.replies.len() >= REPLIES_MAX {
            self.flush(out);
        }
        self.replies.len() < REPLIES_MAX && out.bytes.len() < UNSENT_BYTES_MAX
    }

    /// Between MULTI and EXEC a command is looked at and put by.
    fn put_by(
        &mut self,
        authenticator: &dyn RespAuthenticator,
        understood: Result<Command, Reply>,
        bytes: usize,
        out: &mut SessionOutput,
    ) -> Result<Command, Reply> {
        let allowed = understood
            .and_then(|command| self.forbidden(authenticator, &command, out).map_or(Ok(command), Err));
        self.transaction.put_by(allowed, bytes)
    }

    /// A delivery of this connection's own hub session.
    pub fn deliver(&mut self, now: Timestamp, delivery: Delivery, out: &mut SessionOutput) {
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
        out: &mut SessionOutput,
    ) {
        if let Some(Expectation::Flow { reply, flow }) = self.pending.take(token) {
            let step = flow.resume(now, Input::Read(read));
            self.run(now, reply, step, out);
        }
        self.flush(out);
    }

    /// The answer of a worker actor.
    pub fn worker_answered(
        &mut self,
        now: Timestamp,
        token: u64,
        answer: RespCallReply,
        out: &mut SessionOutput,
    ) {
        self.collect(now, token, answer, out);
        self.flush(out);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp, out: &mut SessionOutput) {
        self.give_up_following(now, out);
        self.give_up_keys(now, out);
        self.flush(out);
    }

    pub fn next_deadline(&self) -> Option<Timestamp> {
        let following = self.following.as_ref().and_then(|following| following.until);
        following.into_iter().chain(self.keyspace.until()).min()
    }

    /// Tells a worker that can hear it what is wanted of its job.
    pub fn wish(&mut self, job: &str, wanted: Wanted, out: &mut SessionOutput) {
        if self.version == Version::Resp3 {
            let wanted = Reply::word(crate::translate::wanted(wanted));
            let push = Reply::Push(vec![Reply::word("wanted"), Reply::bulk(job.to_owned()), wanted]);
            self.transaction.tell(&push, self.version, out);
        }
    }

    /// A command must not overtake a flow, and one that changes who speaks or how must not overtake any answer.
    fn must_wait(&mut self, command: &Command, out: &mut SessionOutput) -> bool {
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
            // What was asked before is asked by the key that asked it.
            return !self.replies.is_empty() || !out.asks.is_empty();
        }
        !self.flows.let_begin(command)
    }

    fn token(&mut self) -> u64 {
        self.pending.token()
    }
}
