//! One connection in the kit's loop: the pure session, and what it uses beside the peer and the hub. While its peer
//! waits in a blocking command, a connection costs a sleeping task and no buffer.
//!
//! The connection takes the mail of its worker's actor itself, so an answer for this peer does not go through another
//! task.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::mem::{swap, take};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use tenure_door_kit::worker_actor::{self as actor, Actor, MailReceiver};
use tenure_door_kit::{Charge, ConnectionAccess, LoginError, Protocol, Turn};
use tenure_hub::keyspace::KeyspaceAnswer;
use tenure_hub::topics::Delivery as TopicDelivery;
use tenure_hub::words::{Name, Timestamp};
use tenure_hub::{ClockReading, Delivery, Grant, HubRefusal, KeyId, Principal, Right};
use tokio::sync::mpsc;

use super::Door;
use super::channels::{ChannelDeliveries, ChannelReceivers};
use super::stored::StoredKeys;
use crate::channel::ChannelAct;
use crate::session::{RespAdmission, RespAuthenticator, Session, SessionOutput};
use crate::worker::{Resp, RespNotice};

/// While a body becomes a reply, its bytes, its text as a value and the reply exist at the same time.
const COPIES: usize = 3;
/// Bodies up to this length are read at once, others in turn with those of other connections.
const LONG_BYTES: usize = 256 << 10;

pub(super) struct Connection {
    door: Arc<Door>,
    session: Session,
    address: IpAddr,
    /// The session's output. Between two calls, its bytes and requests are in the loop's turn.
    out: SessionOutput,
    /// The namespace and the key of its session with the hub, if it has one.
    opened_for: Option<(Name, KeyId)>,
    route: actor::Route<Resp>,
    notices: mpsc::UnboundedReceiver<RespNotice>,
    /// Notices of the current turn.
    told: Vec<RespNotice>,
    /// The worker actors it has called, and the last one, whose mail it takes.
    workers: HashMap<Name, Arc<Actor<Resp>>, RandomState>,
    mail: Option<MailReceiver<Resp>>,
    receivers: ChannelReceivers,
    keys: StoredKeys,
    /// What the bodies hold that become replies.
    reading: Charge,
}

/// An event that comes neither from the peer nor from the hub.
pub(super) enum ConnectionEvent {
    WorkerMail,
    Notice(RespNotice),
    Deliveries(ChannelDeliveries),
    /// Changes of stored keys are on disk.
    Stored(Vec<(u64, KeyspaceAnswer)>),
}

impl Connection {
    pub(super) fn new(door: Arc<Door>, id: u64, address: IpAddr) -> Self {
        let wants_keys = door.kit.authenticator.wants_keys();
        let session = Session::new(
            id,
            address,
            Arc::clone(&door.settings),
            Arc::clone(&door.namespace_timer),
            wants_keys,
        );
        let (sender, notices) = mpsc::unbounded_channel();
        let reading = door.kit.settings.budget.charge();
        let keys = StoredKeys::new(door.kit.hub.keyspaces().clone());
        let receivers = ChannelReceivers::new(door.kit.hub.topics().clone(), Arc::clone(&door.patterns));
        Self {
            door,
            session,
            address,
            out: SessionOutput::default(),
            opened_for: None,
            route: actor::Route { connection: id, sender },
            notices,
            reading,
            told: Vec::new(),
            workers: HashMap::default(),
            mail: None,
            receivers,
            keys,
        }
    }

    /// Makes the session write into the loop's turn.
    fn begin_turn(&mut self, turn: &mut Turn) {
        swap(&mut self.out.bytes, &mut turn.out);
        swap(&mut self.out.asks, &mut turn.asks);
    }

    fn end_turn(&mut self, turn: &mut Turn) {
        swap(&mut self.out.bytes, &mut turn.out);
        swap(&mut self.out.asks, &mut turn.asks);
        turn.close |= take(&mut self.out.close);
    }

    fn principal(&self) -> Principal {
        Principal {
            grant: self.session.grant(),
            door: self.door.kit.name,
            address: Some(self.address),
            is_broker: false,
        }
    }

    /// Calls worker actors; calls for one worker that arrive together are sent together.
    async fn call(&mut self) {
        if self.out.calls.is_empty() {
            return;
        }
        let mut calls = VecDeque::from(take(&mut self.out.calls));
        let principal = self.principal();
        while let Some(call) = calls.front() {
            let namespace = self.session.namespace();
            let known = self.workers.get(&call.worker).filter(|actor| actor.namespace() == namespace);
            let actor = match known {
                Some(actor) => Arc::clone(actor),
                None => match self.door.workers.find(namespace, call, &self.route, &principal) {
                    Ok(actor) => actor,
                    Err(answer) => {
                        self.told.push(actor::WorkerNotice::Answer { token: call.token, answer }.into());
                        calls.pop_front();
                        continue;
                    }
                },
            };
            let worker = call.worker.clone();
            if actor.call(&mut calls, &self.route, &principal, &mut self.told).await {
                self.take_actor_mail(worker, actor).await;
            } else {
                // The actor has ended meanwhile, and the next round starts another.
                self.workers.remove(&worker);
            }
        }
    }

    /// This connection takes the mail of the actor that it called last.
    async fn take_actor_mail(&mut self, worker: Name, actor: Arc<Actor<Resp>>) {
        if self.mail.as_ref().is_some_and(|mail| Arc::ptr_eq(mail.actor(), &actor)) {
            return;
        }
        self.mail = Some(MailReceiver::new(Arc::clone(&actor)));
        let before = self.workers.insert(worker, Arc::clone(&actor));
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &actor)) {
            before.detach(&self.route).await;
        }
    }

    /// Takes the mail of the actor; notices for other connections go to them.
    async fn take_worker_mail(&mut self, now: ClockReading) {
        let Some(mail) = &self.mail else { return };
        mail.actor().take_mail(now, Some(self.route.connection), &mut self.told).await;
        self.hear_all(now);
    }

    async fn leave_workers(&mut self) {
        for worker in take(&mut self.out.leaves) {
            if let Some(actor) = self.workers.remove(&worker) {
                self.mail.take_if(|mail| Arc::ptr_eq(mail.actor(), &actor));
                actor.detach(&self.route).await;
            }
        }
    }

    /// Starts and ends subscriptions, and publishes. A reply that has to wait comes as an event.
    async fn run_channel_acts(&mut self) {
        if self.out.channels.is_empty() {
            return;
        }
        let (namespace, identity) = (self.session.namespace().clone(), self.session.identity().clone());
        for act in take(&mut self.out.channels) {
            match act {
                ChannelAct::Begin { listener, filter } => {
                    if let Err(refusal) = self.receivers.begin(namespace.clone(), listener, filter, &identity)
                    {
                        self.session.cannot_listen(&refusal.to_string(), &mut self.out);
                    }
                }
                ChannelAct::End(listener) => self.receivers.end(&listener),
                ChannelAct::Publish { token, channel, message } => {
                    let outcome = match self.receivers.publish(&namespace, &channel, message) {
                        Ok(sent) if sent.is_settled() => sent.heard_by().await,
                        Ok(sent) => {
                            let sender = self.route.sender.clone();
                            tokio::spawn(async move {
                                let outcome = sent.heard_by().await;
                                let _ = sender.send(RespNotice::Published { token, outcome });
                            });
                            continue;
                        }
                        Err(refusal) => Err(refusal.to_string()),
                    };
                    self.session.published(token, outcome, &mut self.out);
                }
            }
        }
    }

    /// Runs commands on stored keys. Replies come when the changes are on disk; reads may be answered at once. While the
    /// peer leaves much unread, the other commands wait here: their replies would wait in memory.
    async fn call_keys(&mut self) {
        while !self.out.keys.is_empty() && self.session.has_reply_room() {
            let waiting = self.out.keys.len();
            let answers = self.keys.call(self.session.namespace(), &mut self.out.keys).await;
            let is_stuck = answers.is_empty() && self.out.keys.len() == waiting;
            self.keys_answered(ClockReading::now(), answers);
            if is_stuck {
                // The answers of earlier calls are on their way to the disk, and hold as much as they may.
                return;
            }
        }
    }

    /// Reads the bodies that commands wait for, in order. While the peer leaves much unread, the others wait here: their
    /// replies would wait in memory. Memory is charged before a body is read, and then with the reply.
    async fn read_bodies(&mut self) {
        let mut held = 0;
        while self.session.has_body_room(self.out.bytes.len())
            && let Some((token, blobs)) = self.out.reads.pop_front()
        {
            let bytes: usize = blobs.iter().map(|blob| blob.bytes() as usize).sum();
            let door = Arc::clone(&self.door);
            let _turn = if bytes > LONG_BYTES { door.long_reads.acquire().await.ok() } else { None };
            match self.reading.set(held + COPIES * bytes) {
                Ok(()) => {
                    held += COPIES * bytes;
                    let read = door.kit.hub.read_many(blobs).await;
                    self.session.has_read(ClockReading::now(), token, read, &mut self.out);
                }
                Err(exhausted) => {
                    door.kit.counters.count("no_memory");
                    tracing::warn!(door = door.kit.name, %exhausted, "a body was not read: there is no memory for it");
                    self.session.cannot_read(ClockReading::now(), token, &mut self.out);
                }
            }
        }
        self.reading.set(0).expect("less always fits");
    }

    fn keys_answered(&mut self, now: ClockReading, answers: Vec<(u64, KeyspaceAnswer)>) {
        for (token, answer) in answers {
            self.session.keys_answered(now, token, answer, &mut self.out);
        }
    }

    /// The hub session for its requests: of its namespace and its key, which a login may change.
    fn open_session(&mut self, access: &mut dyn ConnectionAccess) {
        let namespace = self.session.namespace().clone();
        let whose = (namespace.clone(), self.session.grant().key);
        if self.out.asks.is_empty() || self.opened_for.as_ref() == Some(&whose) {
            return;
        }
        // A worker may read what it holds; the session makes sure that it reads no more.
        let principal = self.principal().with(Right::Read);
        match access.open(principal, namespace, self.session.identity().clone()) {
            Ok(_) => self.opened_for = Some(whose),
            Err(refusal) => {
                for ask in take(&mut self.out.asks) {
                    let reply = Err(refusal.clone());
                    let delivery = Delivery::Reply { token: ask.token, reply };
                    self.session.deliver(ClockReading::now(), delivery, &mut self.out);
                }
            }
        }
    }

    fn listen(&mut self, arrived: &ChannelDeliveries) {
        let ChannelDeliveries { listener, deliveries } = arrived;
        for delivery in deliveries {
            match delivery {
                TopicDelivery::Message { message, .. } => {
                    self.session.channel_message(listener, &message.topic, &message.payload, &mut self.out);
                }
                TopicDelivery::Gap(gap) => {
                    let (first, last) = (gap.first_missed.0, gap.last_missed.0);
                    self.session.missed(listener, &gap.topic, first, last, &mut self.out);
                }
                TopicDelivery::ReplayComplete(_) | TopicDelivery::Warning(_) => {}
            }
        }
    }

    fn hear_all(&mut self, now: ClockReading) {
        let mut told = take(&mut self.told);
        told.drain(..).for_each(|notices| self.receive(now, notices));
        self.told = told;
    }

    fn receive(&mut self, now: ClockReading, notices: RespNotice) {
        match notices {
            RespNotice::Worker(actor::WorkerNotice::Answer { token, answer }) => {
                self.session.worker_answered(now, token, answer, &mut self.out);
            }
            RespNotice::Published { token, outcome } => self.session.published(token, outcome, &mut self.out),
            RespNotice::Worker(actor::WorkerNotice::Wish { task, wanted }) => {
                self.session.send_intent(&task, wanted, &mut self.out);
            }
        }
    }
}

impl Protocol for Connection {
    type Event = ConnectionEvent;

    fn receive(
        &mut self,
        now: ClockReading,
        arrived: &mut BytesMut,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        self.begin_turn(turn);
        let keys =
            DoorAuthenticator { access: RefCell::new(access), hold: Cell::default(), ends: Cell::default() };
        swap(self.session.input(), arrived);
        self.session.receive(now, &keys, &mut self.out);
        self.session.rest();
        swap(self.session.input(), arrived);
        let hold = keys.hold.get().unwrap_or_default().max(take(&mut self.out.hold));
        turn.hold = Some(hold).filter(|wait| !wait.is_zero());
        turn.close |= keys.ends.get();
        self.end_turn(turn);
    }

    fn deliver(
        &mut self,
        now: ClockReading,
        delivery: Delivery,
        _bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        self.begin_turn(turn);
        self.session.deliver(now, delivery, &mut self.out);
        self.end_turn(turn);
    }

    fn continue_output(&mut self, turn: &mut Turn) {
        self.begin_turn(turn);
        self.session.continue_output(&mut self.out);
        self.end_turn(turn);
    }

    fn waiting_bytes(&self) -> usize {
        self.session.waiting_bytes()
    }

    fn is_known(&self) -> bool {
        self.session.is_known()
    }

    /// The session limits its replies, and those wait for the hub.
    fn open_requests(&self) -> usize {
        usize::from(self.session.owes_answers())
    }

    fn is_blocked(&self) -> bool {
        self.session.is_blocked()
    }

    fn may_read(&self, arrived: usize, unsent: usize) -> bool {
        self.session.wants_input(arrived, unsent)
    }

    fn is_halfway(&self, arrived: usize, unsent: usize) -> bool {
        self.session.is_halfway(arrived, unsent)
    }

    fn may_receive(&self, arrived: usize) -> bool {
        self.session.may_go_on(arrived)
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.session.next_deadline()
    }

    fn tick(&mut self, now: ClockReading, turn: &mut Turn) {
        self.begin_turn(turn);
        self.session.tick(now, &mut self.out);
        self.end_turn(turn);
    }

    async fn happens(&mut self, has_room: bool) -> ConnectionEvent {
        tokio::select! {
            biased;
            () = worker_mail(self.mail.as_ref()) => ConnectionEvent::WorkerMail,
            Some(notices) = self.notices.recv() => ConnectionEvent::Notice(notices),
            arrived = self.receivers.receive(), if has_room => ConnectionEvent::Deliveries(arrived),
            answers = self.keys.answered() => ConnectionEvent::Stored(answers),
        }
    }

    fn has_happened(&mut self, has_room: bool) -> Option<ConnectionEvent> {
        if self.mail.as_ref().is_some_and(|mail| mail.actor().has_mail()) {
            return Some(ConnectionEvent::WorkerMail);
        }
        if let Ok(notices) = self.notices.try_recv() {
            return Some(ConnectionEvent::Notice(notices));
        }
        let arrived = if has_room { self.receivers.try_receive() } else { None };
        arrived
            .map(ConnectionEvent::Deliveries)
            .or_else(|| self.keys.take_answered().map(ConnectionEvent::Stored))
    }

    async fn happened(&mut self, now: ClockReading, event: ConnectionEvent, turn: &mut Turn) {
        self.begin_turn(turn);
        match event {
            ConnectionEvent::WorkerMail => self.take_worker_mail(now).await,
            ConnectionEvent::Notice(notices) => self.receive(now, notices),
            ConnectionEvent::Deliveries(arrived) => self.listen(&arrived),
            ConnectionEvent::Stored(answers) => self.keys_answered(now, answers),
        }
        self.end_turn(turn);
    }

    async fn prepare(&mut self, access: &mut dyn ConnectionAccess, turn: &mut Turn) {
        let SessionOutput { leaves, channels, keys, .. } = &self.out;
        if turn.asks.is_empty() && leaves.is_empty() && channels.is_empty() && keys.is_empty() {
            return;
        }
        self.begin_turn(turn);
        self.leave_workers().await;
        self.run_channel_acts().await;
        self.call_keys().await;
        self.open_session(access);
        self.end_turn(turn);
    }

    async fn work(&mut self, turn: &mut Turn) -> bool {
        let may_read = !self.out.reads.is_empty() && self.session.has_body_room(turn.out.len());
        if self.out.calls.is_empty() && !may_read {
            return false;
        }
        self.begin_turn(turn);
        self.read_bodies().await;
        self.call().await;
        if !self.told.is_empty() {
            self.hear_all(ClockReading::now());
        }
        self.end_turn(turn);
        true
    }

    async fn end(&mut self) {
        self.mail = None;
        for actor in take(&mut self.workers).into_values() {
            actor.detach(&self.route).await;
        }
    }
}

/// The keys of the door, as the session asks for them.
struct DoorAuthenticator<'a> {
    access: RefCell<&'a mut dyn ConnectionAccess>,
    /// Delay of the reply to a wrong key.
    hold: Cell<Option<Duration>>,
    /// The connection ends with the reply.
    ends: Cell<bool>,
}

impl RespAuthenticator for DoorAuthenticator<'_> {
    fn wants_keys(&self) -> bool {
        self.access.borrow().wants_keys()
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal> {
        self.access.borrow().may_work_as(grant, worker)
    }

    fn check_placement(&self, namespace: &Name) -> Result<(), HubRefusal> {
        self.access.borrow().check_placement(namespace)
    }

    fn note_no_key(&self, now: ClockReading) {
        // This login fails; it counts and logs the refusal.
        let _ = self.access.borrow_mut().login(now, None);
    }

    fn admit(&self, now: ClockReading, key: &[u8]) -> RespAdmission {
        match self.access.borrow_mut().login(now, Some(key)) {
            Ok(principal) => RespAdmission::Granted(principal.grant),
            Err(LoginError::NoKey) => RespAdmission::Wrong,
            Err(LoginError::WrongKey { wait, ends }) => {
                self.hold.set(Some(wait));
                self.ends.set(self.ends.get() | ends);
                RespAdmission::Wrong
            }
        }
    }
}

async fn worker_mail(mail: Option<&MailReceiver<Resp>>) {
    match mail {
        Some(mail) => mail.actor().mail_arrived().await,
        None => pending().await,
    }
}
