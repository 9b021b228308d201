//! A feed: copies the events that a subscription wants into its stream. It runs as its own task, because it
//! may have to read results from disk. It waits for the stream; nothing waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tenure_engine::{Event, Name};
use tenure_topics::{
    Delivery, DeliveryKind, Gap, GapReason, Message, MessageId, Publish, ReplayComplete, Sequence,
    SubscriptionKey, Timestamp, TopicRefusal,
};

use super::Topics;
use super::event_json::{event_json, result_of};
use super::events::Interest;
use super::namespace::{NamespaceTopics, ReaderWaker};
use crate::handle::Session;
use crate::limits::SESSIONS_MAX;
use crate::principal::Principal;
use crate::request::{Ask, Delivery as Mail, Request, Watch};

/// How many events may wait in a stream before its feed waits.
pub(super) const EVENTS_READY_MAX: usize = 1_024;
/// How many results are read from disk at a time.
const READ_MAX: usize = 64;

impl Topics {
    /// Opens the watch of a feed. Every event decided after this call is included.
    pub(super) fn watch(&self, namespace: &Name, interest: &Interest) -> Result<Session, TopicRefusal> {
        let hub =
            self.shared.hub.get().and_then(crate::handle::WeakHub::upgrade).ok_or(TopicRefusal::Stopping)?;
        let session = hub
            .open(Principal::trusted("topics"), Arc::clone(namespace), Name::from("topics"))
            .map_err(|_| TopicRefusal::TooManySubscriptions { limit: SESSIONS_MAX })?;
        let watch = Watch { watch: 1, filter: interest.event_filter(), from: interest.from };
        session.send_now(Ask { token: 1, request: Request::Watch(watch) });
        Ok(session)
    }
}

/// Starts the task that feeds a stream until the stream ends.
pub(super) fn start(
    session: Session,
    interest: Interest,
    space: &Arc<NamespaceTopics>,
    key: SubscriptionKey,
    waker: &Arc<ReaderWaker>,
) {
    let replayed = interest.replay.then(HashMap::new);
    let feed = Feed { session, interest, space: Arc::clone(space), key, waker: Arc::clone(waker), replayed };
    tokio::spawn(feed.run());
}

struct Feed {
    session: Session,
    interest: Interest,
    space: Arc<NamespaceTopics>,
    key: SubscriptionKey,
    waker: Arc<ReaderWaker>,
    /// The number of replayed events per topic, until the feed has caught up.
    replayed: Option<HashMap<Arc<str>, u64>>,
}

impl Feed {
    async fn run(mut self) {
        let mut mails = Vec::new();
        loop {
            tokio::select! {
                () = self.session.mailbox().arrived() => {}
                () = self.waker.over() => return,
            }
            self.session.mailbox().take(&mut mails);
            if mails.is_empty() && self.session.mailbox().is_closed() {
                return;
            }
            while !mails.is_empty() {
                let some: Vec<Mail> = mails.drain(..mails.len().min(READ_MAX)).collect();
                let results = self.read_results(&some).await;
                let mut deliveries = Vec::new();
                let mut next = None;
                for (mail, result) in some.iter().zip(results) {
                    self.append_deliveries(mail, result.as_deref(), &mut next, &mut deliveries);
                }
                if !self.hand_over(deliveries, next).await {
                    return;
                }
            }
        }
    }

    /// The results of these events, each at the index of its event.
    async fn read_results(&self, mails: &[Mail]) -> Vec<Option<Bytes>> {
        let blob_of = |mail: &Mail| match mail {
            Mail::Event { event, .. } => result_of(event),
            _ => None,
        };
        let blobs: Vec<_> = mails.iter().filter_map(blob_of).collect();
        let mut read = self.session.hub().read_many(blobs).await.into_iter();
        // For an unreadable result the event has only the size.
        mails.iter().map(|mail| blob_of(mail).and_then(|_| read.next()?.ok())).collect()
    }

    /// Appends the deliveries for the subscriber, and sets the number of the first event after them.
    fn append_deliveries(
        &mut self,
        mail: &Mail,
        result: Option<&[u8]>,
        next: &mut Option<u64>,
        to: &mut Vec<Delivery>,
    ) {
        match mail {
            Mail::Event { event, .. } => {
                self.event(event, result, to);
                *next = Some(event.seq + 1);
            }
            Mail::Gap { from, oldest, .. } => {
                // A log that begins again has none of the events that the client knows: all of them count as missed.
                let begins_again = oldest < from;
                if begins_again {
                    self.interest.forget_seen();
                }
                let (from, reason) =
                    if begins_again { (&1, GapReason::Restarted) } else { (from, GapReason::NotKept) };
                if oldest == from {
                    *next = Some(*oldest);
                    return;
                }
                for filter in &self.interest.filters {
                    to.push(Delivery::Gap(Box::new(Gap {
                        topic: Arc::from(filter.as_str()),
                        first_missed: Sequence(*from),
                        last_missed: Sequence(oldest - 1),
                        oldest_kept: Sequence(*oldest),
                        reason,
                    })));
                }
                *next = Some(*oldest);
            }
            Mail::Live { next: live, .. } => {
                if let Some(replayed) = self.replayed.take() {
                    self.complete(&replayed, live - 1, to);
                }
                *next = Some(*live);
            }
            // The watch was accepted, or the broker stops, which ends the stream anyway.
            Mail::Reply { .. }
            | Mail::Notice(_)
            | Mail::Call { .. }
            | Mail::CallAnswered { .. }
            | Mail::CallGivenUp { .. }
            | Mail::Broadcast(_)
            | Mail::Goodbye
            | Mail::Ended(_) => {}
        }
    }

    fn event(&mut self, event: &Event, result: Option<&[u8]>, to: &mut Vec<Delivery>) {
        let topics = self.interest.topics_of(event);
        if topics.is_empty() {
            return;
        }
        let payload = Bytes::from(event_json(event, result));
        for topic in topics {
            let kind = match &mut self.replayed {
                Some(replayed) => {
                    *replayed.entry(Arc::clone(&topic)).or_default() += 1;
                    DeliveryKind::Replay
                }
                None => DeliveryKind::Live,
            };
            let mut publish = Publish::new(&topic, id_of(event), payload.clone());
            publish.content_type = Some(Arc::from("application/json"));
            let message = Message::numbered(publish, Sequence(event.seq), Timestamp(event.at.millis()));
            to.push(Delivery::Message { kind, message: Arc::new(message) });
        }
    }

    /// Ends the replay of every named topic, and of every other topic that was replayed.
    fn complete(&self, replayed: &HashMap<Arc<str>, u64>, latest: u64, to: &mut Vec<Delivery>) {
        let mut topics: Vec<Arc<str>> = replayed.keys().cloned().collect();
        let named = self.interest.filters.iter().filter(|filter| !filter.is_wild());
        topics.extend(named.map(|filter| Arc::from(filter.as_str())));
        topics.sort_unstable();
        topics.dedup();
        for topic in topics {
            let replayed = replayed.get(&topic).copied().unwrap_or_default();
            let complete = ReplayComplete { topic, replayed, latest: Sequence(latest) };
            to.push(Delivery::ReplayComplete(Box::new(complete)));
        }
    }

    /// Adds deliveries to the stream when there is room. Returns whether the stream continues.
    async fn hand_over(&self, deliveries: Vec<Delivery>, next: Option<u64>) -> bool {
        loop {
            let room = self.waker.room.notified();
            let has_room = self.space.with(|state, _| {
                if self.waker.ended().is_some() {
                    return None;
                }
                state.reader(self.key).map(|reader| reader.events.len() < EVENTS_READY_MAX)
            });
            match has_room {
                None => return false,
                Some(true) => break,
                Some(false) => tokio::select! {
                    () = room => {}
                    () = self.waker.over() => return false,
                },
            }
        }
        self.space.with(|state, _| {
            if self.waker.ended().is_some() {
                return false;
            }
            state.fed(self.key, deliveries, next)
        }) && {
            self.waker.woken.notify_one();
            true
        }
    }
}

/// The same event has the same message id for every subscriber and in every topic.
fn id_of(event: &Event) -> MessageId {
    MessageId(u128::from(event.seq))
}
