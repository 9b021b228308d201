//! Messages of a subscription, across lost connections and restarts of the broker.
//!
//! Each subscriber has its own connection, so that a slow one delays nothing else. If the program is slower than its
//! topics, messages wait in the subscription's queue at the broker, where the queue policy applies.

mod acknowledgement;
mod leave;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tenure_wire::hello::FEATURE_ACKNOWLEDGE;
use tenure_wire::topic::{
    Acknowledge as WireAcknowledge, EndedWhy, Message, MessageKind, ReplayComplete,
    Subscribe as SubscribeRequest, Subscribed, TopicGap, Warning,
};
use tenure_wire::{Code, FromBroker, Name, Notice, Reply, Request};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::client::{Client, unexpected};
use crate::connection::{Connection, DIAL_TIMEOUT};
use crate::dialer::{is_temporary, random};
use crate::error::Error;
use crate::keepalive::Keepalive;
use crate::members::go_to_leader;
use crate::peer::PeerOptions;
use crate::seen::LastSequences;
use crate::subscribe::{ConnectionState, Subscribe};
use acknowledgement::Acknowledgement;

/// Maximum delay before the subscriber acknowledges messages that the program has taken.
const ACKNOWLEDGED_AFTER: Duration = Duration::from_millis(200);
/// Maximum number of message frames that wait to be taken.
const FRAMES_WAITING_MAX: usize = 16;

/// A message or a change of state that a subscriber receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A message of one of the topics.
    Message {
        /// Live, retained or replayed.
        kind: MessageKind,
        /// The message itself, with its topic and sequence number.
        message: Message,
    },
    /// Messages that the broker will not deliver.
    Gap(TopicGap),
    /// The replay of a topic is complete.
    ReplayComplete(ReplayComplete),
    /// The subscriber does not keep up; the broker may have dropped or expired messages.
    Warning(Warning),
    /// The subscriber has reconnected. `missed` messages were published meanwhile, if that is known; the recovery
    /// setting decides whether they are replayed.
    Back {
        /// How many messages were published meanwhile; `None` if the broker does not know.
        missed: Option<u64>,
        /// Messages may be lost because the broker restarted.
        restarted: bool,
    },
    /// The end of the subscription: another subscriber has taken it over, or it was unsubscribed or paused.
    Ended(EndedWhy),
}

/// The counters of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriberStats {
    /// State of the connection now.
    pub state: ConnectionState,
    /// Successful reconnections so far.
    pub reconnections: u64,
    /// Gaps that the broker or this client has reported.
    pub gaps: u64,
    /// Messages received so far.
    pub messages: u64,
}

impl Client {
    /// Subscribes. When this returns, the subscription is active: the subscriber receives everything published from
    /// then on.
    pub async fn subscribe(&self, subscribe: Subscribe) -> Result<Subscriber, Error> {
        let mut peer = self.shared().peer.clone();
        peer.identity = Some(self.identity());
        let (state, seen_state) = watch::channel(ConnectionState::Connecting);
        let counters = Arc::new(Counters::default());
        let mut subscribing = Subscribing {
            peer,
            next: subscribe.first(),
            wanted: subscribe,
            seen: LastSequences::default(),
            undelivered: Vec::new(),
            number: 0,
            counters: Arc::clone(&counters),
            state,
            acknowledgement: Acknowledgement::default(),
        };
        let taken_frames = subscribing.acknowledgement.taken();
        let deadline = Instant::now() + self.shared().connect_timeout;
        let (connection, subscribed) = match subscribing.establish(Some(deadline)).await {
            Ok(standing) => standing,
            Err(error) => return Err(error),
        };
        let (frames, taken) = mpsc::channel(FRAMES_WAITING_MAX);
        let id = subscribed.id.clone();
        subscribing.keep(&subscribed);
        let leaving = Arc::new(Notify::new());
        let task = tokio::spawn(subscribing.run(connection, frames, Arc::clone(&leaving)));
        Ok(Subscriber {
            id,
            received: 0,
            taken: taken_frames,
            leaving,
            task,
            frames: taken,
            ready: VecDeque::new(),
            missed: subscribed.missed,
            state: seen_state,
            counters,
        })
    }
}

#[derive(Debug, Default)]
struct Counters {
    reconnections: AtomicU64,
    gaps: AtomicU64,
    messages: AtomicU64,
}

/// Messages as they are published; also a [`Stream`]. Reconnects and continues where it stopped.
#[derive(Debug)]
pub struct Subscriber {
    id: Name,
    frames: mpsc::Receiver<Result<Vec<Received>, Error>>,
    /// Frames received, and how many of these the program has taken, for the task to acknowledge.
    received: u64,
    taken: Arc<AtomicU64>,
    /// Notified when the program leaves.
    leaving: Arc<Notify>,
    task: JoinHandle<Option<(Subscribing, Connection)>>,
    ready: VecDeque<Received>,
    missed: Option<u64>,
    state: watch::Receiver<ConnectionState>,
    counters: Arc<Counters>,
}

impl Subscriber {
    /// Returns the next item. After an error or [`Ended`](Received::Ended) there is nothing more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Received, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the next item together with those that have arrived with it, at most `limit`. As with
    /// [`next`](Subscriber::next), asking for more marks the returned items as taken. Cancel-safe.
    pub async fn next_batch(&mut self, limit: usize) -> Option<Result<Vec<Received>, Error>> {
        let first = match self.next().await? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let more = self.ready.len().min(limit.saturating_sub(1));
        let mut batch = Vec::with_capacity(more + 1);
        batch.push(first);
        batch.extend(self.ready.drain(..more));
        Some(Ok(batch))
    }

    /// Returns the subscription's id, under which it can be resumed.
    pub fn id(&self) -> &Name {
        &self.id
    }

    /// Returns how many messages were published while an earlier subscription with this id was away; `None` if
    /// unknown.
    pub fn missed(&self) -> Option<u64> {
        self.missed
    }

    /// Counters of this subscription since it was made.
    pub fn stats(&self) -> SubscriberStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SubscriberStats {
            state: *self.state.borrow(),
            reconnections: get(&self.counters.reconnections),
            gaps: get(&self.counters.gaps),
            messages: get(&self.counters.messages),
        }
    }
}

impl Stream for Subscriber {
    type Item = Result<Received, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(received)));
            }
            // A program that asks for more has taken what it got.
            self.taken.store(self.received, Ordering::Release);
            match ready!(self.frames.poll_recv(context)) {
                Some(Ok(frame)) => {
                    self.received += 1;
                    self.ready = frame.into();
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

type Frames = mpsc::Sender<Result<Vec<Received>, Error>>;

/// The task behind a subscriber.
#[derive(Debug)]
struct Subscribing {
    peer: PeerOptions,
    wanted: Subscribe,
    /// The request for the next connection.
    next: SubscribeRequest,
    seen: LastSequences,
    /// Received, not yet passed to the program.
    undelivered: Vec<Received>,
    /// The number under which messages arrive.
    number: u64,
    counters: Arc<Counters>,
    state: watch::Sender<ConnectionState>,
    acknowledgement: Acknowledgement,
}

/// Why the task stops following the subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndReason {
    /// The subscription has ended, or the program has dropped the subscriber.
    Ended,
    /// The program leaves.
    Left,
}

impl Subscribing {
    /// Runs until the program drops the subscriber, the subscription ends, or reconnecting fails for good. Returns the
    /// connection if the program leaves, because leaving needs it.
    async fn run(
        mut self,
        mut connection: Connection,
        frames: Frames,
        leaving: Arc<Notify>,
    ) -> Option<(Subscribing, Connection)> {
        loop {
            let error = match self.follow(&mut connection, &frames, &leaving).await {
                Ok(end) => {
                    self.become_state(ConnectionState::Disconnected, None);
                    return (end == EndReason::Left).then_some((self, connection));
                }
                Err(error) => error,
            };
            if is_transient(&error) {
                self.become_state(ConnectionState::Reconnecting, Some(&error));
                self.next.last_seen = self.seen.last_seen();
                let standing = tokio::select! {
                    standing = self.establish(None) => standing,
                    () = frames.closed() => return None,
                    () = leaving.notified() => return None,
                };
                match standing {
                    Ok((next, subscribed)) => {
                        connection = next;
                        // The subscribe request already contained the last seen sequences.
                        self.acknowledgement.begin();
                        self.is_back(&subscribed);
                        continue;
                    }
                    Err(error) => {
                        self.give_up(error, &frames).await;
                        return None;
                    }
                }
            }
            self.give_up(error, &frames).await;
            return None;
        }
    }

    async fn give_up(&mut self, error: Error, frames: &Frames) {
        tracing::error!(
            subscription_id = self.id(),
            topics = ?self.next.topics,
            last_sequence_number = self.seen.highest(),
            %error,
            "subscription ended: reconnecting failed"
        );
        self.become_state(ConnectionState::Disconnected, Some(&error));
        // Sending fails only if the program has dropped the subscriber.
        let _ = frames.send(Ok(self.next_frame())).await;
        let _ = frames.send(Err(error)).await;
    }

    /// Connects until the subscription is active. The first time a deadline applies, later the reconnection policy.
    async fn establish(&mut self, deadline: Option<Instant>) -> Result<(Connection, Subscribed), Error> {
        let begun = Instant::now();
        let mut failed = 0;
        let is_first = deadline.is_some();
        let mut last = Error::lost("not tried yet");
        loop {
            // After a lost connection there is a delay before the first attempt too, because all other peers reconnect
            // at the same time.
            if !is_first || failed > 0 {
                let delay = self.wanted.policy.delay(failed - u32::from(is_first), random_share());
                tracing::warn!(
                    subscription_id = self.id(),
                    attempt = failed + 1,
                    delay_ms = delay.as_millis() as u64,
                    error = %last,
                    "reconnecting the subscription"
                );
                if deadline.is_some_and(|deadline| Instant::now() + delay >= deadline) {
                    return Err(self.unreachable(begun, &last));
                }
                tokio::time::sleep(delay).await;
            }
            match self.try_all().await {
                Ok(standing) => {
                    self.become_state(ConnectionState::Connected, None);
                    return Ok(standing);
                }
                Err(error) if is_transient(&error) => last = error,
                Err(error) => return Err(error),
            }
            failed += 1;
            if self.wanted.policy.is_over(failed) {
                return Err(self.unreachable(begun, &last));
            }
        }
    }

    /// Tries every address once.
    async fn try_all(&mut self) -> Result<(Connection, Subscribed), Error> {
        let mut last = Error::lost("there is no address");
        for address in self.peer.addresses.clone() {
            match Connection::open(&address, self.peer.hello()).await {
                Ok(connection) => {
                    let (mut connection, _) = go_to_leader(&mut self.peer, connection, &address).await;
                    let asked = tokio::time::timeout(DIAL_TIMEOUT, self.ask(&mut connection)).await;
                    match asked
                        .unwrap_or_else(|_| Err(Error::lost("the broker did not answer the subscription")))
                    {
                        Ok(subscribed) => return Ok((connection, subscribed)),
                        Err(error) => last = error,
                    }
                }
                Err(error) => last = error,
            }
            if !is_transient(&last) {
                break;
            }
        }
        Err(last)
    }

    async fn ask(&mut self, connection: &mut Connection) -> Result<Subscribed, Error> {
        self.number = connection.ask(&Request::Subscribe(Box::new(self.next.clone())));
        if self.next.group.is_some() && takes_acknowledgements(connection) {
            // From the first message on, the broker gives what this member has not acknowledged to another member.
            let number = Some(self.number);
            let acknowledge = WireAcknowledge { number, id: None, last_seen: Vec::new() };
            connection.send_without_reply(&Request::Acknowledge(acknowledge));
        }
        let mut arrived = Vec::new();
        let mut answer = None;
        while answer.is_none() {
            connection.turn(&mut arrived).await?;
            for message in arrived.drain(..) {
                match message {
                    FromBroker::Reply { number, reply } if number == self.number => match reply {
                        Reply::Subscribed(subscribed) => answer = Some(*subscribed),
                        Reply::Refused(refusal) => return Err(refusal.into()),
                        other => return Err(unexpected("subscribe", &other)),
                    },
                    FromBroker::Reply { .. } => {}
                    FromBroker::Notice(notice) => {
                        self.understand(notice)?;
                    }
                }
            }
        }
        answer.ok_or_else(|| Error::lost("the broker did not answer the subscription"))
    }

    /// Later requests resume this subscription.
    fn keep(&mut self, subscribed: &Subscribed) {
        tracing::info!(
            subscription_id = %subscribed.id,
            topics = ?subscribed.topics,
            last_sequence_number = self.seen.highest(),
            "subscribed"
        );
        self.next.id = Some(subscribed.id.clone());
        self.next.recovery = Some(self.wanted.recovery.clone());
        self.next.retained = false;
        self.next.last = None;
    }

    fn is_back(&mut self, subscribed: &Subscribed) {
        self.counters.reconnections.fetch_add(1, Ordering::Relaxed);
        self.keep(subscribed);
        self.seen.is_back(subscribed.replays);
        if subscribed.missed != Some(0) {
            tracing::warn!(
                subscription_id = %subscribed.id,
                gap = subscribed.missed,
                lost = subscribed.lost,
                broker_restarted = subscribed.restarted,
                last_sequence_number = self.seen.highest(),
                "messages were missed"
            );
        }
        // Precedes what has arrived with the reply.
        self.undelivered
            .insert(0, Received::Back { missed: subscribed.missed, restarted: subscribed.restarted });
    }

    /// Passes items to the program until the connection breaks, the subscription ends, or the program drops the
    /// subscriber.
    async fn follow(
        &mut self,
        connection: &mut Connection,
        frames: &Frames,
        leaving: &Notify,
    ) -> Result<EndReason, Error> {
        let mut arrived = Vec::new();
        let mut keepalive = Keepalive::default();
        let mut ended = false;
        loop {
            if !self.undelivered.is_empty() && frames.send(Ok(self.next_frame())).await.is_err() {
                return Ok(EndReason::Ended);
            }
            if ended {
                return Ok(EndReason::Ended);
            }
            self.acknowledge(connection);
            tokio::select! {
                turned = keepalive.turn(connection, &mut arrived) => turned?,
                () = tokio::time::sleep(ACKNOWLEDGED_AFTER), if !self.acknowledgement.is_empty() => {}
                () = frames.closed() => return Ok(EndReason::Ended),
                () = leaving.notified() => return Ok(EndReason::Left),
            }
            for message in arrived.drain(..) {
                if let FromBroker::Notice(notice) = message {
                    ended |= self.understand(notice)?;
                }
            }
        }
    }

    /// The next frame for the program, recorded until the program has taken it.
    fn next_frame(&mut self) -> Vec<Received> {
        let frame = std::mem::take(&mut self.undelivered);
        self.acknowledgement.hand_over_frame(&frame);
        frame
    }

    /// Acknowledges what the program has taken, if the broker supports it.
    fn acknowledge(&mut self, connection: &mut Connection) {
        let read = self.acknowledgement.read();
        if !read.is_empty() && takes_acknowledgements(connection) {
            let (number, last_seen) = (None, read);
            let acknowledge = WireAcknowledge { number, id: self.next.id.clone(), last_seen };
            connection.send_without_reply(&Request::Acknowledge(acknowledge));
        }
    }

    /// Returns whether the subscription has ended.
    fn understand(&mut self, notice: Notice) -> Result<bool, Error> {
        match notice {
            Notice::Messages(messages) if messages.subscription == self.number => {
                self.counters.messages.fetch_add(messages.messages.len() as u64, Ordering::Relaxed);
                for message in messages.messages {
                    tracing::debug!(topic = %message.topic, sequence = message.sequence, "message received");
                    if let Some(gap) = self.seen.message(&message, &messages.kind) {
                        self.gap(gap);
                    }
                    self.undelivered.push(Received::Message { kind: messages.kind.clone(), message });
                }
            }
            Notice::TopicGap(gap) if gap.subscription == self.number => {
                self.seen.note_gap(&gap);
                self.gap(gap);
            }
            Notice::ReplayComplete(complete) if complete.subscription == self.number => {
                self.seen.complete(&complete.topic, complete.latest);
                self.undelivered.push(Received::ReplayComplete(complete));
            }
            Notice::Warning(warning) if warning.subscription == self.number => {
                self.undelivered.push(Received::Warning(warning));
            }
            Notice::SubscriptionEnded(ended) if ended.subscription == self.number => {
                if ended.why == EndedWhy::Stopping {
                    return Err(Error::lost("the broker is stopping"));
                }
                tracing::info!(subscription_id = self.id(), why = %ended.why, "the subscription has ended");
                self.undelivered.push(Received::Ended(ended.why));
                return Ok(true);
            }
            Notice::Bye(refusal) => return Err(refusal.into()),
            _ => {}
        }
        Ok(false)
    }

    fn gap(&mut self, gap: TopicGap) {
        self.counters.gaps.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            subscription_id = self.id(),
            topic = %gap.topic,
            gap = gap.last_missed + 1 - gap.first_missed,
            last_sequence_number = gap.last_missed,
            "messages lost"
        );
        if let Some(told) = &self.wanted.on_gap {
            told(&gap);
        }
        self.undelivered.push(Received::Gap(gap));
    }

    fn become_state(&self, state: ConnectionState, error: Option<&Error>) {
        if self.state.send_replace(state) == state {
            return;
        }
        tracing::info!(subscription_id = self.id(), ?state, "the subscription's connection changed state");
        if let Some(told) = &self.wanted.on_state {
            told(state, error);
        }
    }

    fn unreachable(&self, begun: Instant, last: &Error) -> Error {
        Error::Unreachable {
            addresses: self.peer.names().into(),
            waited: begun.elapsed(),
            last: last.to_string().into(),
        }
    }

    fn id(&self) -> &str {
        self.next.id.as_deref().unwrap_or("new")
    }
}

/// Whether a retry can succeed: no broker answered, or it refused for now. A refusal of this request is final.
fn is_transient(error: &Error) -> bool {
    let is_temporary_code = |code: &Code| matches!(code.as_str(), "stopping" | "not-written");
    is_temporary(error) || error.code().is_some_and(is_temporary_code)
}

fn takes_acknowledgements(connection: &Connection) -> bool {
    connection.welcome().features.iter().any(|name| &**name == FEATURE_ACKNOWLEDGE)
}

/// From 0 to 1.
fn random_share() -> f64 {
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}
