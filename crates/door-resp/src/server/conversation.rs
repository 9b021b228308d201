//! One connection. It reads whatever has arrived, hands all questions to the hub at once, and writes all answers at
//! once. While its peer waits in a blocking command it costs a task that sleeps and no buffer.
//!
//! The worker that speaks here has an actor, whose mail the connection takes itself: an answer for this peer does not go
//! through another task.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_door_kit::worker_actor::{self as actor, Actor, MailTaker};
use tenure_door_kit::{Charge, ReadSizer, Stream, is_flushed, read_into, send};
use tenure_hub::topics::Delivery as TopicDelivery;
use tenure_hub::words::{Name, Timestamp};
use tenure_hub::{Delivery, Principal, Right, wall_clock};
use tokio::io::{AsyncWrite as _, AsyncWriteExt as _, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::channels::{Ears, Heard};
use super::{Door, HubGate};
use crate::channel::ChannelAct;
use crate::session::{Gate as _, Output, Session};
use crate::worker::{News, Resp};

/// What is read at once: little for single commands, more for a peer that fills it.
const READ_BYTES_MIN: usize = 1024;
const READ_BYTES_MAX: usize = 16 * 1024;
/// How much may be unsent before nothing more is read or taken.
const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a connection lives on after the broker has said goodbye.
const GOODBYE: Duration = Duration::from_millis(500);

pub(super) struct Conversation {
    door: Arc<Door>,
    session: Session,
    gate: HubGate,
    /// Its session with the hub, and the namespace that is for.
    inside: Option<(Name, tenure_hub::Session)>,
    out: Output,
    route: actor::Route<Resp>,
    news: mpsc::UnboundedReceiver<News>,
    /// News of this very turn.
    told: Vec<News>,
    /// The worker actors it has called, and the one whose mail it takes: the last.
    workers: HashMap<Name, Arc<Actor<Resp>>>,
    mail: Option<MailTaker<Resp>>,
    ears: Ears,
    deliveries: Vec<Delivery>,
    /// What its buffers hold of the broker's budget.
    charge: Charge,
    sizer: ReadSizer,
    /// The stream holds bytes that it has not passed on.
    unflushed: bool,
    /// Nothing is sent or read before this: a wrong key is answered slowly.
    hold_until: Option<Timestamp>,
    /// Until when a key has to be shown, if one is needed.
    login_by: Option<Timestamp>,
    /// When the peer last said something.
    heard_at: Timestamp,
    heard_all: bool,
    until: Option<Timestamp>,
    read_at: Timestamp,
}

impl Conversation {
    pub(super) fn new(door: Arc<Door>, id: u64, address: IpAddr) -> Self {
        let gate = HubGate { door: Arc::clone(&door.kit), address, hold: Cell::default() };
        let login_by = gate.wants_keys().then(|| wall_clock() + door.settings.door.login_within);
        let session = Session::new(id, address, door.settings.clone(), Arc::clone(&door.upkeep), &gate);
        let charge = door.settings.door.budget.charge();
        let (sender, news) = mpsc::unbounded_channel();
        let ears = Ears::new(door.hub.topics().clone(), Arc::clone(&door.patterns));
        Self {
            door,
            session,
            gate,
            inside: None,
            out: Output::default(),
            route: actor::Route { connection: id, sender },
            news,
            told: Vec::new(),
            workers: HashMap::new(),
            mail: None,
            ears,
            deliveries: Vec::new(),
            charge,
            sizer: ReadSizer::between(READ_BYTES_MIN, READ_BYTES_MAX),
            unflushed: false,
            hold_until: None,
            login_by,
            heard_at: wall_clock(),
            heard_all: false,
            until: None,
            read_at: wall_clock(),
        }
    }

    pub(super) async fn run(mut self, stream: Stream) -> io::Result<()> {
        let ended = self.converse(stream).await;
        self.mail = None;
        for actor in std::mem::take(&mut self.workers).into_values() {
            actor.detach(&self.route).await;
        }
        ended
    }

    async fn converse(&mut self, stream: Stream) -> io::Result<()> {
        let (mut read, mut write) = tokio::io::split(stream);
        let mut alarm = pin!(sleep_until(Instant::now()));
        let mut alarm_at = None;
        loop {
            self.work(&mut write).await?;
            if self.is_over() {
                return write.shutdown().await;
            }
            let deadline = self.deadline();
            if deadline != alarm_at {
                alarm_at = deadline;
                if let Some(deadline) = deadline {
                    alarm.as_mut().reset(Instant::now() + deadline.since(wall_clock()));
                }
            }
            let is_slow = self.has_unsent() && self.hold_until.is_none();
            let may_take = self.out.bytes.len() < UNSENT_BYTES_MAX;
            let may_read = !self.heard_all
                && !self.out.close
                && may_take
                && self.hold_until.is_none()
                && self.session.is_hungry(&self.out);
            self.session.rest();
            let grant = self.session.grant();
            tokio::select! {
                biased;
                sent = send(&mut write, &mut self.out.bytes, &mut self.unflushed), if is_slow => {
                    sent?;
                    self.read_at = wall_clock();
                }
                () = worker_mail(self.mail.as_ref()) => self.take_worker_mail().await,
                () = mail(self.inside.as_ref()), if may_take => self.take_mail(),
                // A connection without a session of the hub, which only listens to topics for example.
                () = self.door.hub.revoked(&grant), if self.inside.is_none() => self.out.close = true,
                Some(news) = self.news.recv() => self.hear(news),
                heard = self.ears.hear(), if may_take => self.listen(&heard),
                count = read_into(&mut read, self.session.input(), self.sizer.bytes()), if may_read => {
                    self.has_read(count?);
                }
                () = &mut alarm, if alarm_at.is_some() => {
                    alarm_at = None;
                    self.ring()?;
                }
            }
        }
    }

    /// Everything has been said, or nothing more can be.
    fn is_over(&self) -> bool {
        let nothing_left = !self.has_unsent();
        let hub_is_gone = self.inside.as_ref().is_some_and(|(_, inside)| inside.mailbox().is_closed());
        if self.heard_all && (self.session.is_blocked() || !self.session.owes_answers()) {
            return nothing_left || self.session.is_blocked();
        }
        nothing_left && (self.out.close || hub_is_gone)
    }

    /// Goes on until somebody else has to say something.
    async fn work(&mut self, write: &mut WriteHalf<Stream>) -> io::Result<()> {
        loop {
            self.session.receive(wall_clock(), &self.gate, &mut self.out);
            self.settle()?;
            self.leave_workers().await;
            self.attend_channels().await;
            if self.out.asks.is_empty() && self.out.calls.is_empty() && self.out.reads.is_empty() {
                // Commands may have waited for room, or for the answers before them.
                if self.write(write)? && self.session.may_go_on() {
                    continue;
                }
                return Ok(());
            }
            self.ask().await;
            for (token, blobs) in std::mem::take(&mut self.out.reads) {
                let read = self.door.hub.read_many(blobs).await;
                self.session.has_read(wall_clock(), token, read, &mut self.out);
            }
            self.call().await;
            self.hear_all();
        }
    }

    fn has_read(&mut self, count: usize) {
        self.heard_at = wall_clock();
        match count {
            0 => self.heard_all = true,
            _ => self.sizer.has_read(count),
        }
    }

    fn has_unsent(&self) -> bool {
        !self.out.bytes.is_empty() || self.unflushed
    }

    /// Keeps the account of what the session has changed.
    fn settle(&mut self) -> io::Result<()> {
        let hold = self.gate.hold.take();
        if !hold.is_zero() {
            self.hold_until = Some(wall_clock() + hold);
        }
        let bytes = self.session.input().capacity() + self.out.bytes.capacity();
        self.charge.set(bytes).map_err(|exhausted| {
            self.door.kit.counters.count("no_memory");
            tracing::warn!(door = "resp", %exhausted, "a connection is closed to free memory");
            io::Error::from(io::ErrorKind::OutOfMemory)
        })
    }

    /// Writes as much as the stream takes at once. Says whether something was written and nothing is left.
    fn write(&mut self, to: &mut WriteHalf<Stream>) -> io::Result<bool> {
        let unsent = self.out.bytes.len();
        if unsent == 0 || self.hold_until.is_some() {
            return Ok(false);
        }
        let mut context = Context::from_waker(Waker::noop());
        while !self.out.bytes.is_empty() {
            match Pin::new(&mut *to).poll_write(&mut context, &self.out.bytes) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => self.out.bytes.advance(count?),
                Poll::Pending => {
                    if self.out.bytes.len() < unsent {
                        self.read_at = wall_clock();
                    }
                    return Ok(false);
                }
            }
        }
        self.out.bytes = BytesMut::new();
        self.unflushed = !is_flushed(to)?;
        Ok(!self.unflushed)
    }

    /// Calls worker actors; what is for one worker and comes together is said together.
    async fn call(&mut self) {
        let mut calls = VecDeque::from(std::mem::take(&mut self.out.calls));
        if calls.is_empty() {
            return;
        }
        let principal = self.principal();
        while let Some(call) = calls.front() {
            let namespace = self.session.namespace();
            let known = self.workers.get(&call.worker).filter(|actor| actor.namespace() == namespace);
            let actor = match known {
                Some(actor) => Arc::clone(actor),
                None => match self.door.workers.find(namespace, call, &self.route, &principal) {
                    Ok(actor) => actor,
                    Err(answer) => {
                        self.told.push(actor::News::Answer { token: call.token, answer }.into());
                        calls.pop_front();
                        continue;
                    }
                },
            };
            let worker = call.worker.clone();
            if actor.call(&mut calls, &self.route, &principal, &mut self.told).await {
                self.has_called(worker, actor).await;
            } else {
                // It has ended meanwhile, and the next round starts another.
                self.workers.remove(&worker);
            }
        }
    }

    fn principal(&self) -> Principal {
        Principal { grant: self.session.grant(), door: "resp", address: Some(self.gate.address) }
    }

    /// The mail of the actor that was called last is taken here.
    async fn has_called(&mut self, worker: Name, actor: Arc<Actor<Resp>>) {
        if self.mail.as_ref().is_some_and(|mail| Arc::ptr_eq(mail.actor(), &actor)) {
            return;
        }
        self.mail = Some(MailTaker::new(Arc::clone(&actor)));
        let before = self.workers.insert(worker, Arc::clone(&actor));
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &actor)) {
            before.detach(&self.route).await;
        }
    }

    /// Takes the mail of the actor; what is for others goes to them.
    async fn take_worker_mail(&mut self) {
        let Some(mail) = &self.mail else { return };
        mail.actor().take_mail(Some(self.route.connection), &mut self.told).await;
        self.hear_all();
    }

    async fn leave_workers(&mut self) {
        for worker in std::mem::take(&mut self.out.leaves) {
            if let Some(actor) = self.workers.remove(&worker) {
                self.mail.take_if(|mail| Arc::ptr_eq(mail.actor(), &actor));
                actor.detach(&self.route).await;
            }
        }
    }

    /// Begins and ends listening, and publishes. An answer that has to wait comes as news.
    async fn attend_channels(&mut self) {
        if self.out.channels.is_empty() {
            return;
        }
        let (namespace, identity) = (self.session.namespace().clone(), self.session.identity().clone());
        for act in std::mem::take(&mut self.out.channels) {
            match act {
                ChannelAct::Begin { listener, filter } => {
                    if let Err(refusal) = self.ears.begin(namespace.clone(), listener, filter, &identity) {
                        self.session.cannot_listen(&refusal.to_string(), &mut self.out);
                    }
                }
                ChannelAct::End(listener) => self.ears.end(&listener),
                ChannelAct::Publish { token, channel, message } => {
                    let outcome = match self.ears.publish(&namespace, &channel, message) {
                        Ok(sent) if sent.is_settled() => sent.heard_by().await,
                        Ok(sent) => {
                            let sender = self.route.sender.clone();
                            tokio::spawn(async move {
                                let outcome = sent.heard_by().await;
                                let _ = sender.send(News::Published { token, outcome });
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

    fn listen(&mut self, heard: &Heard) {
        let Heard { listener, deliveries } = heard;
        for delivery in deliveries {
            match delivery {
                TopicDelivery::Message { message, .. } => {
                    self.session.heard(listener, &message.topic, &message.payload, &mut self.out);
                }
                TopicDelivery::Gap(gap) => {
                    let (first, last) = (gap.first_missed.0, gap.last_missed.0);
                    self.session.missed(listener, &gap.topic, first, last, &mut self.out);
                }
                TopicDelivery::ReplayComplete(_) | TopicDelivery::Warning(_) => {}
            }
        }
    }

    /// Hands all questions to the hub, which may take its time.
    async fn ask(&mut self) {
        if self.out.asks.is_empty() {
            return;
        }
        let asks = std::mem::take(&mut self.out.asks);
        let (namespace, identity) = (self.session.namespace(), self.session.identity());
        if self.inside.as_ref().is_none_or(|(known, _)| known != namespace) {
            // A worker may read what it holds; the session sees to it that it reads no more.
            let principal = self.principal();
            match self.door.hub.open(principal.with(Right::Read), namespace.clone(), identity.clone()) {
                Ok(inside) => self.inside = Some((namespace.clone(), inside)),
                Err(refusal) => {
                    for ask in asks {
                        let reply = Err(refusal.clone());
                        let delivery = Delivery::Reply { token: ask.token, reply };
                        self.session.deliver(wall_clock(), delivery, &mut self.out);
                    }
                    return;
                }
            }
        }
        let Some((_, inside)) = &self.inside else { return };
        if inside.send(asks).await.is_err() {
            self.out.close = true;
        }
    }

    fn take_mail(&mut self) {
        let Some((_, inside)) = &self.inside else { return };
        let mut deliveries = std::mem::take(&mut self.deliveries);
        inside.mailbox().take(&mut deliveries);
        let now = wall_clock();
        for delivery in deliveries.drain(..) {
            if matches!(delivery, Delivery::Goodbye | Delivery::Ended(_)) {
                self.until = Some(now + GOODBYE);
            }
            self.session.deliver(now, delivery, &mut self.out);
        }
        self.deliveries = deliveries;
    }

    fn hear_all(&mut self) {
        let mut told = std::mem::take(&mut self.told);
        told.drain(..).for_each(|news| self.hear(news));
        self.told = told;
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Worker(actor::News::Answer { token, answer }) => {
                self.session.worker_answered(wall_clock(), token, answer, &mut self.out);
            }
            News::Published { token, outcome } => self.session.published(token, outcome, &mut self.out),
            News::Worker(actor::News::Wish { task, wanted }) => {
                self.session.wish(&task, wanted, &mut self.out);
            }
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let settings = &self.door.settings.door;
        let slow = self.has_unsent().then(|| self.read_at + settings.read_within);
        let unfinished = self.session.is_halfway(&self.out).then(|| self.heard_at + settings.frame_within);
        let login = self.login_by.filter(|_| !self.session.is_known());
        let times = [self.session.next_deadline(), slow, unfinished, login, self.hold_until, self.until];
        times.into_iter().flatten().min()
    }

    /// Something is due, or has taken too long.
    fn ring(&mut self) -> io::Result<()> {
        let now = wall_clock();
        let settings = &self.door.settings.door;
        let is_slow = self.has_unsent() && self.read_at + settings.read_within <= now;
        let is_unfinished =
            self.session.is_halfway(&self.out) && self.heard_at + settings.frame_within <= now;
        let is_late = !self.session.is_known() && self.login_by.is_some_and(|login_by| login_by <= now);
        if is_slow || is_unfinished || is_late || self.until.is_some_and(|until| until <= now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.hold_until.is_some_and(|until| until <= now) {
            self.hold_until = None;
            self.read_at = now;
        }
        self.session.tick(now, &mut self.out);
        Ok(())
    }
}

async fn worker_mail(mail: Option<&MailTaker<Resp>>) {
    match mail {
        Some(mail) => mail.actor().mail_arrived().await,
        None => pending().await,
    }
}

async fn mail(inside: Option<&(Name, tenure_hub::Session)>) {
    match inside {
        Some((_, inside)) => inside.mailbox().arrived().await,
        None => pending().await,
    }
}
