//! Topics: publishing happens at once, and messages of a subscription are taken when its waker has fired and the peer
//! has room. Slow operations (a publish that waits, a request without an answer) run here as futures.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use futures::stream::{FuturesUnordered, Stream};
use tenure_hub::HubRefusal;
use tenure_hub::topics::{
    self, Delivery, DeliveryKind, Message, PublishReceipt, RequestAnswer, SubscriptionHandle, Topics,
};
use tenure_hub::words::{Name, Refusal};
use tenure_wire::topic::{self, MessageKind, OneSubscription, TopicRequest, encode_messages};
use tenure_wire::{Reply, Request};

use super::{Session, Turn, answer, encode_notice, encode_reply};
use crate::translate;

/// How many subscriptions one connection may hold, and how many requests it may wait for.
const SUBSCRIPTIONS_MAX: usize = 10_000;
const REQUESTS_MAX: usize = 4_096;
/// How much is taken from a subscription at a time. Less would cost more turns, more would delay other work.
const TAKE_MESSAGES: usize = 512;
const TAKE_BYTES: usize = 128 << 10;
/// How many events are handled before the connection does something else.
const HAPPENED_MAX: usize = 64;
/// The slot under which the hub caches this door's encoding of a message.
const ENCODING: usize = 0;

type TopicFuture = Pin<Box<dyn Future<Output = TopicEvent> + Send>>;
type Outcome = Result<topics::PublishResult, topics::TopicRefusal>;

pub(super) struct TopicSide {
    topics: Topics,
    namespace: Name,
    /// By the numbers of the requests that opened them.
    subscriptions: HashMap<u64, SubscriptionHandle, RandomState>,
    under_way: FuturesUnordered<TopicFuture>,
    happened: Vec<TopicEvent>,
    /// Publishes that wait for slow subscribers: while there are many, the loop does not read from the peer.
    waiting: usize,
    /// Requests without an answer.
    asked: usize,
    taken: Vec<Delivery>,
}

impl std::fmt::Debug for TopicSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicSide").field("subscriptions", &self.subscriptions.len()).finish_non_exhaustive()
    }
}

enum TopicEvent {
    /// There may be something to take.
    Rung(u64),
    Settled {
        number: u64,
        results: Vec<Outcome>,
    },
    Answered {
        number: u64,
        result: Result<RequestAnswer, topics::TopicRefusal>,
    },
}

impl TopicSide {
    pub(super) fn new(topics: Topics, namespace: Name) -> TopicSide {
        TopicSide {
            topics,
            namespace,
            subscriptions: HashMap::default(),
            under_way: FuturesUnordered::new(),
            happened: Vec::new(),
            waiting: 0,
            asked: 0,
            taken: Vec::new(),
        }
    }

    /// Publishes that the peer has to wait for.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Resolves when there is something for `happened` to handle.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.happened.len() < HAPPENED_MAX {
            match Pin::new(&mut self.under_way).poll_next(context) {
                Poll::Ready(Some(happened)) => self.happened.push(happened),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if self.happened.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    pub(super) fn happened(&mut self, turn: &mut Turn) {
        for happened in std::mem::take(&mut self.happened) {
            match happened {
                TopicEvent::Rung(number) => self.take(number, turn),
                TopicEvent::Settled { number, results } => {
                    self.waiting -= 1;
                    published(number, results, turn);
                }
                TopicEvent::Answered { number, result } => {
                    self.asked -= 1;
                    responded(number, result, turn);
                }
            }
        }
    }

    fn take(&mut self, number: u64, turn: &mut Turn) {
        // The peer may have unsubscribed since.
        let Some(subscription) = self.subscriptions.get_mut(&number) else { return };
        if let Err(why) = subscription.try_take(TAKE_MESSAGES, TAKE_BYTES, &mut self.taken) {
            self.subscriptions.remove(&number);
            return encode_notice(&mut turn.out, &translate::subscription_ended(number, why));
        }
        // Fires at once if something is left.
        self.under_way.push(wait_for_mail(number, subscription));
        encode(number, &self.taken, turn);
        self.taken.clear();
    }

    fn listen(&mut self, number: u64, subscription: SubscriptionHandle) {
        self.under_way.push(wait_for_mail(number, &subscription));
        self.subscriptions.insert(number, subscription);
    }

    fn publish(&mut self, number: u64, publish: &topic::Publish, identity: &Name, turn: &mut Turn) {
        let messages = publish.messages.iter().map(|message| translate::publish(message, identity)).collect();
        let results = self.topics.publish_many(&self.namespace, messages);
        if results.iter().all(|result| result.as_ref().map_or(true, PublishReceipt::is_settled)) {
            let known = results.into_iter().map(|result| result.map(|receipt| *receipt.published()));
            return published(number, known, turn);
        }
        self.waiting += 1;
        self.under_way.push(Box::pin(async move {
            let mut settled = Vec::with_capacity(results.len());
            for result in results {
                settled.push(match result {
                    Ok(receipt) => receipt.settled().await,
                    Err(refusal) => Err(refusal),
                });
            }
            TopicEvent::Settled { number, results: settled }
        }));
    }

    fn subscribe(
        &mut self,
        number: u64,
        subscribe: topic::Subscribe,
        how: translate::SubscriptionOptions,
        identity: &Name,
    ) -> Result<Reply, topics::TopicRefusal> {
        let namespace = &self.namespace;
        let (subscription, reply) = match translate::subscription(subscribe, how, identity)? {
            translate::SubscriptionStart::New(subscribe) => {
                let (subscription, info) = self.topics.subscribe(namespace, subscribe)?;
                (subscription, translate::subscribed(&info))
            }
            translate::SubscriptionStart::Again(resume) => {
                let (subscription, resumed) = self.topics.resume(namespace, &resume)?;
                (subscription, translate::resumed(&resume.id, &resumed))
            }
        };
        self.listen(number, subscription);
        Ok(reply)
    }

    /// Which subscription is meant.
    fn find(&self, one: &OneSubscription) -> Result<topics::SubscriptionId, topics::TopicRefusal> {
        match (&one.id, one.number) {
            (Some(id), _) => topics::SubscriptionId::parse(id),
            (None, Some(number)) => {
                let known = self.subscriptions.get(&number);
                known.map(|known| known.id().clone()).ok_or(topics::TopicRefusal::UnknownSubscription)
            }
            (None, None) => Err(topics::TopicRefusal::UnknownSubscription),
        }
    }

    fn acknowledge(&self, acknowledge: topic::Acknowledge) -> Result<Reply, topics::TopicRefusal> {
        let topic::Acknowledge { number, id, last_seen } = acknowledge;
        let id = self.find(&OneSubscription { number, id })?;
        self.topics.acknowledge(&self.namespace, &id, &translate::last_seen(last_seen))?;
        Ok(Reply::Done)
    }

    /// Forgets the stream of this subscription, without a notice to the peer.
    fn forget(&mut self, id: &topics::SubscriptionId) {
        self.subscriptions.retain(|_, subscription| subscription.id() != id);
    }

    fn request(&mut self, number: u64, request: TopicRequest, identity: Name, turn: &mut Turn) {
        let (topics, namespace) = (self.topics.clone(), self.namespace.clone());
        let mut asking: TopicFuture = Box::pin(async move {
            let timeout = Duration::from_millis(request.timeout_ms);
            let publish = translate::request(&request, &identity);
            let result = topics.request(&namespace, publish, timeout).await;
            TopicEvent::Answered { number, result }
        });
        // Polled at once, so that it keeps its order among what the peer publishes.
        match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(TopicEvent::Answered { result, .. }) => responded(number, result, turn),
            Poll::Ready(_) | Poll::Pending => {
                self.asked += 1;
                self.under_way.push(asking);
            }
        }
    }
}

/// Waits until there may be something to take.
fn wait_for_mail(number: u64, subscription: &SubscriptionHandle) -> TopicFuture {
    let ringing = subscription.ringing();
    Box::pin(async move {
        ringing.await;
        TopicEvent::Rung(number)
    })
}

impl Session {
    /// Requests about topics. They never reach the engine.
    pub(super) fn topics(
        &mut self,
        number: u64,
        request: Request,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let Some(peer) = &mut self.peer else { return Ok(()) };
        let identity = peer.identity.clone();
        let side = peer
            .topics
            .get_or_insert_with(|| Box::new(TopicSide::new(peer.all_topics.clone(), peer.namespace.clone())));
        let outcome = match request {
            Request::Publish(publish) => {
                side.publish(number, &publish, &identity, turn);
                return Ok(());
            }
            Request::Subscribe(subscribe) => {
                let number = super::verbs::opening(number)?;
                if side.subscriptions.contains_key(&number) {
                    return Err(Refusal::BadValue {
                        what: "number",
                        why: "is in use by an open subscription",
                    }
                    .into());
                }
                if side.subscriptions.len() >= SUBSCRIPTIONS_MAX {
                    return Err(Refusal::TooMany { what: "subscriptions", limit: SUBSCRIPTIONS_MAX }.into());
                }
                let how = translate::subscription_options(&subscribe)?;
                side.subscribe(number, *subscribe, how, &identity)
            }
            Request::Unsubscribe(one) => side.find(&one).and_then(|id| {
                side.topics.unsubscribe(&side.namespace, &id)?;
                side.forget(&id);
                Ok(Reply::Done)
            }),
            Request::PauseSubscription(one) => side.find(&one).and_then(|id| {
                let kept = side.topics.pause(&side.namespace, &id)?;
                side.forget(&id);
                Ok(translate::subscription_paused(kept))
            }),
            Request::Acknowledge(acknowledge) => side.acknowledge(acknowledge),
            Request::Request(request) => {
                if side.asked >= REQUESTS_MAX {
                    return Err(Refusal::TooMany { what: "requests on topics", limit: REQUESTS_MAX }.into());
                }
                side.request(number, *request, identity, turn);
                return Ok(());
            }
            Request::Topics(query) => translate::topics_query(&query).map(|(from, max, filter)| {
                translate::topic_list(side.topics.topics(&side.namespace, from, max, filter.as_ref()))
            }),
            Request::Subscriptions(query) => {
                let (from, max) = (query.from as usize, query.limit as usize);
                Ok(translate::subscription_list(side.topics.subscriptions(&side.namespace, from, max)))
            }
            other => unreachable!("{} is not about topics", other.kind()),
        };
        match outcome {
            Ok(reply) => answer(number, &reply, turn),
            Err(no) => refuse(number, &no, turn),
        }
        Ok(())
    }
}

/// Consecutive messages of one kind share a frame; other deliveries keep their place in between.
fn encode(number: u64, deliveries: &[Delivery], turn: &mut Turn) {
    let mut rows: Vec<Bytes> = Vec::with_capacity(deliveries.len());
    let mut of_kind = DeliveryKind::Live;
    let flush = |rows: &mut Vec<Bytes>, kind: DeliveryKind, turn: &mut Turn| {
        if !rows.is_empty() {
            let kind = message_kind(kind);
            encode_messages(&mut turn.out, number, &kind, rows.iter().map(|row| &row[..]));
            rows.clear();
        }
    };
    for delivery in deliveries {
        match delivery {
            Delivery::Message { kind, message } => {
                if *kind != of_kind {
                    flush(&mut rows, of_kind, turn);
                    of_kind = *kind;
                }
                rows.push(message.encoded(ENCODING, row));
            }
            Delivery::Gap(gap) => {
                flush(&mut rows, of_kind, turn);
                encode_notice(&mut turn.out, &translate::topic_gap(number, gap));
            }
            Delivery::ReplayComplete(complete) => {
                flush(&mut rows, of_kind, turn);
                encode_notice(&mut turn.out, &translate::replay_complete(number, complete));
            }
            Delivery::Warning(warning) => {
                flush(&mut rows, of_kind, turn);
                encode_notice(&mut turn.out, &translate::warning(number, warning));
            }
        }
    }
    flush(&mut rows, of_kind, turn);
}

fn row(message: &Message) -> Bytes {
    translate::message(message).row()
}

fn message_kind(kind: DeliveryKind) -> MessageKind {
    match kind {
        DeliveryKind::Live => MessageKind::Live,
        DeliveryKind::Retained => MessageKind::Retained,
        DeliveryKind::Replay => MessageKind::Replay,
    }
}

fn published(number: u64, results: impl IntoIterator<Item = Outcome>, turn: &mut Turn) {
    answer(number, &translate::published(results), turn);
}

fn responded(number: u64, result: Result<RequestAnswer, topics::TopicRefusal>, turn: &mut Turn) {
    match result {
        Ok(response) => answer(number, &translate::responded(response), turn),
        Err(no) => refuse(number, &no, turn),
    }
}

fn refuse(number: u64, no: &topics::TopicRefusal, turn: &mut Turn) {
    encode_reply(&mut turn.out, number, &Reply::Refused(Box::new(translate::topic_refusal(no))));
}
