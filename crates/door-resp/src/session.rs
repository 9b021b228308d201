//! One connection's session. Pure: bytes and deliveries come in, requests and bytes go out, time is an argument.
//!
//! Replies leave in the order of the commands. A command that needs one request only ([`FlowStep::Last`]) does not
//! block the next one; a longer flow does, unless both are a worker's (`overlap.rs`).

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
use tenure_hub::words::{Name, Timestamp, Wanted};
use tenure_hub::{ClockReading, Delivery, Grant, HubRefusal};

use crate::codec::{Decoder, Reply, RespLimits, Version};
use crate::command::{Command, ConnectionCommand};
use crate::flow::{CommandFlow, FlowStep, Input};
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
use running::Later;
use subscribing::SessionSubscriptions;
use transaction::MultiTransaction;
use worker_calls::{Group, nameless};

/// Maximum number of pending replies before the session stops taking commands.
const REPLIES_MAX: usize = 1024;
/// Maximum number of bytes read ahead of a slow command.
const PIPELINED_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of bytes that are written and unsent, and of those in replies that wait. Beyond it the session takes
/// no commands.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// The error for a body that there is no memory for.
const NO_MEMORY: &str = "ERR full: the broker has no memory for a reply of this size now; try again later";

/// One connection, with its replies in order.
#[derive(Debug)]
pub struct Session {
    client: ClientInfo,
    identity: SessionIdentity,
    settings: Arc<Settings>,
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
    /// A flow that continues later.
    later: Option<Later>,
    subscriptions: SessionSubscriptions,
    keyspace: KeyspaceState,
    expected: Expected,
    elements: Elements,
    closing: bool,
}

impl Session {
    /// A session; if keys are wanted, its peer must authenticate first.
    pub fn new(
        id: u64,
        address: IpAddr,
        settings: Arc<Settings>,
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
            later: None,
            subscriptions: SessionSubscriptions::default(),
            keyspace: KeyspaceState::default(),
            expected: Expected::default(),
            elements: Elements::default(),
            closing: false,
        }
    }

    /// The received bytes.
    pub fn input(&mut self) -> &mut BytesMut {
        self.decoder.buffer_mut()
    }

    /// The session is idle: the connection may free its memory.
    pub fn rest(&mut self) {
        self.decoder.release_memory();
    }

    /// Whether a running command waits for another peer.
    pub fn is_blocked(&self) -> bool {
        self.flows.are_blocked() || self.following.is_some() || self.later.is_some()
    }

    /// Whether replies are pending.
    pub fn owes_answers(&self) -> bool {
        !self.replies.is_empty() || self.held_back.is_some() || self.transaction.is_due()
    }

    /// Whether to read more. Behind a slow command, or a peer that does not read its replies, only a limited amount is
    /// buffered.
    pub fn wants_input(&self, arrived: usize, unsent: usize) -> bool {
        !self.is_stuck(unsent) || arrived < PIPELINED_BYTES_MAX
    }

    /// Whether something blocks the next command.
    fn is_stuck(&self, unsent: usize) -> bool {
        self.flows.blocks_others()
            || self.held_back.is_some()
            || self.transaction.is_due()
            || self.replies.len() >= REPLIES_MAX
            || self.replies.bytes() >= UNSENT_BYTES_MAX
            || unsent >= UNSENT_BYTES_MAX
    }

    /// Whether the peer has sent an incomplete command.
    pub fn is_halfway(&self, arrived: usize, unsent: usize) -> bool {
        arrived > 0 && !self.is_stuck(unsent)
    }

    /// Whether it has authenticated, if that is required.
    pub fn is_known(&self) -> bool {
        self.identity.grant.is_some()
    }

    /// Whether buffered commands may run now.
    pub fn may_go_on(&self, arrived: usize) -> bool {
        let waits = self.held_back.is_some() || self.transaction.is_due() || arrived > 0;
        waits && !self.flows.blocks_others() && self.has_reply_room()
    }

    /// The namespace of its tasks.
    pub fn namespace(&self) -> &Name {
        &self.identity.namespace
    }

    /// The peer's rights; before authentication, those of a peer without a key.
    pub fn grant(&self) -> Arc<Grant> {
        self.identity.grant.clone().unwrap_or_default()
    }

    /// The name of its hub session, and of its worker if that has no name.
    pub fn identity(&self) -> &Name {
        &self.identity.unnamed
    }

    /// Processes received commands, as far as replies may be pending.
    pub fn receive(
        &mut self,
        now: ClockReading,
        authenticator: &dyn RespAuthenticator,
        out: &mut SessionOutput,
    ) {
        while !self.flows.blocks_others() && !self.closing && self.has_room(out) {
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
                            self.queue_in_transaction(authenticator, understood, bytes, out)
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

    /// Whether one more reply may be pending.
    fn has_room(&mut self, out: &mut SessionOutput) -> bool {
        if self.replies.len() >= REPLIES_MAX || self.replies.bytes() >= UNSENT_BYTES_MAX {
            self.flush(out);
        }
        self.replies.len() < REPLIES_MAX && self.has_reply_room() && out.bytes.len() < UNSENT_BYTES_MAX
    }

    /// The peer has read, so replies that waited may follow.
    pub fn continue_output(&mut self, out: &mut SessionOutput) {
        self.flush(out);
    }

    /// The bytes of replies that are ready and not sent.
    pub fn waiting_bytes(&self) -> usize {
        self.replies.bytes()
    }

    /// Whether another reply may become ready.
    pub fn has_reply_room(&self) -> bool {
        self.replies.bytes() < UNSENT_BYTES_MAX
    }

    /// Whether a body may be read for a reply, while this much of the earlier ones is unsent.
    pub fn has_body_room(&self, unsent: usize) -> bool {
        // Replies that wait for an earlier one must not hold that one up.
        unsent < UNSENT_BYTES_MAX && (self.has_reply_room() || !self.replies.is_ready())
    }

    /// Between MULTI and EXEC a command is checked and queued.
    fn queue_in_transaction(
        &mut self,
        authenticator: &dyn RespAuthenticator,
        understood: Result<Command, Reply>,
        bytes: usize,
        out: &mut SessionOutput,
    ) -> Result<Command, Reply> {
        let allowed = understood
            .and_then(|command| self.forbidden(authenticator, &command, out).map_or(Ok(command), Err));
        self.transaction.take_command(allowed, bytes)
    }

    /// A delivery of this connection's own hub session.
    pub fn deliver(&mut self, now: ClockReading, delivery: Delivery, out: &mut SessionOutput) {
        match delivery {
            Delivery::Reply { token, reply } => self.answered(now, token, reply, out),
            Delivery::Event { watch, event } => self.event(watch, &event, out),
            Delivery::Gap { watch, from, oldest } => self.gap(watch, from, oldest, out),
            Delivery::Live { watch, .. } => self.live(watch, out),
            Delivery::Goodbye | Delivery::Ended(_) => self.closing = true,
            // This session is not a worker, takes no calls and receives no broadcasts.
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
        now: ClockReading,
        token: u64,
        read: Vec<Result<Bytes, HubRefusal>>,
        out: &mut SessionOutput,
    ) {
        if let Some(Expectation::Flow { reply, flow }) = self.pending.take(token) {
            let step = flow.resume(now.wall, Input::Read(read));
            self.run(now, reply, step, out);
        }
        self.flush(out);
    }

    /// There is no memory for the bytes that a step asked for.
    pub fn cannot_read(&mut self, now: ClockReading, token: u64, out: &mut SessionOutput) {
        match self.pending.take(token) {
            // The worker holds a job of which it has heard nothing; it goes back when the connection ends.
            Some(Expectation::Flow { flow: CommandFlow::List(_), .. }) => out.close = true,
            Some(Expectation::Flow { reply, .. }) => self.run(now, reply, FlowStep::error(NO_MEMORY), out),
            _ => {}
        }
        self.flush(out);
    }

    /// The answer of a worker actor.
    pub fn worker_answered(
        &mut self,
        now: ClockReading,
        token: u64,
        answer: RespCallReply,
        out: &mut SessionOutput,
    ) {
        self.collect(now, token, answer, out);
        self.flush(out);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: ClockReading, out: &mut SessionOutput) {
        self.give_up_following(now, out);
        self.continue_later(now, out);
        self.give_up_keys(now, out);
        self.flush(out);
    }

    /// When to call [`Session::tick`] next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let following = self.following.as_ref().and_then(|following| following.until);
        let later = self.later.as_ref().map(|later| later.at);
        following.into_iter().chain(self.keyspace.until()).chain(later).min()
    }

    /// Tells a worker that supports it what a client wants of its job.
    pub fn send_intent(&mut self, job: &str, wanted: Wanted, out: &mut SessionOutput) {
        if self.version == Version::Resp3 {
            let wanted = Reply::word(crate::translate::wanted(wanted));
            let push = Reply::Push(vec![Reply::word("wanted"), Reply::bulk(job.to_owned()), wanted]);
            self.transaction.push(&push, self.version, out);
        }
    }

    /// A command must not overtake a flow, and one that changes identity or protocol must not overtake any reply.
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
            // Earlier requests must run with the earlier key.
            return !self.replies.is_empty() || !out.asks.is_empty();
        }
        !self.flows.may_start(command)
    }

    fn token(&mut self) -> u64 {
        self.pending.token()
    }
}
