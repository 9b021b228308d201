//! Leaving a subscription that a later subscriber resumes: exactly what the program has taken counts as taken.
//!
//! The broker does not know which of its messages the program has read. So the subscriber first pauses the
//! subscription; when the reply comes, everything the broker wrote has arrived. Then it acknowledges what was
//! taken. If some messages were not taken, it subscribes again from the sequences before them and pauses again
//! before the replay starts.

use std::collections::HashMap;

use tenure_wire::topic::{
    Acknowledge, LastSeen, MessageKind, OneSubscription, Recovery, Subscribe as SubscribeRequest,
};
use tenure_wire::{FromBroker, Name, Notice, Reply, Request};

use super::{Received, Subscriber, Subscribing, takes_acknowledgements};
use crate::client::unexpected;
use crate::connection::{Connection, DIAL_TIMEOUT};
use crate::error::Error;
use crate::seen::TOPICS_MAX;

/// How often the subscriber retries if messages arrive in between.
const TRIES_MAX: usize = 10;

impl Subscriber {
    /// Leaves the subscription so that a later subscriber can resume it by its id. What [`next`](Subscriber::next) has
    /// returned counts as taken; the broker delivers everything after it again, as far as it is kept. A dropped
    /// subscriber leaves as well, but then the broker repeats messages that were taken and not yet acknowledged.
    pub async fn leave(mut self) -> Result<(), Error> {
        let mut untaken = FirstUnread::default();
        for received in self.ready.drain(..) {
            untaken.received(&received);
        }
        self.leaving.notify_one();
        while let Some(frame) = self.frames.recv().await {
            for received in frame.iter().flatten() {
                untaken.received(received);
            }
        }
        let Ok(Some((subscribing, connection))) = self.task.await else {
            return Err(Error::lost("the connection was already closed"));
        };
        let leaving = subscribing.leave(connection, untaken);
        let left = tokio::time::timeout(DIAL_TIMEOUT, leaving).await;
        left.unwrap_or_else(|_| Err(Error::lost("the broker did not confirm the end of the subscription")))
    }
}

impl Subscribing {
    async fn leave(self, mut connection: Connection, mut untaken: FirstUnread) -> Result<(), Error> {
        for received in &self.undelivered {
            untaken.received(received);
        }
        if self.next.group.is_some() && takes_acknowledgements(&connection) {
            // When the member is paused, the broker gives what it has not acknowledged to the other members.
            let last_seen = untaken.finished(self.seen.last_seen());
            let acknowledge = Acknowledge { number: None, id: self.next.id.clone(), last_seen };
            connection.send_without_reply(&Request::Acknowledge(acknowledge));
        }
        let pause = Request::PauseSubscription(OneSubscription { number: None, id: self.next.id.clone() });
        let asked = connection.ask(&pause);
        untaken.read_until_reply(&mut connection, self.number, asked).await?;
        // A group shares messages among its members, and a member replays nothing.
        if self.next.group.is_some() {
            return Ok(());
        }
        if takes_acknowledgements(&connection) {
            let last_seen = untaken.taken(self.seen.last_seen());
            let acknowledge = Acknowledge { number: None, id: self.next.id.clone(), last_seen };
            connection.send_without_reply(&Request::Acknowledge(acknowledge));
            connection.flush().await?;
        }
        if untaken.first.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES_MAX {
            let again = SubscribeRequest {
                recovery: Some(Recovery::Replay),
                retained: false,
                last: None,
                last_seen: untaken.last_seen(),
                ..self.next.clone()
            };
            // The broker nearly always reads both requests before it delivers anything.
            let number = connection.ask(&Request::Subscribe(Box::new(again)));
            let asked = connection.ask(&pause);
            if untaken.read_until_reply(&mut connection, number, asked).await? == 0 {
                return Ok(());
            }
        }
        Err(Error::lost("the subscription could not end: messages kept arriving"))
    }
}

/// The first sequence of each topic that has arrived and was not taken.
#[derive(Debug, Default)]
struct FirstUnread {
    first: HashMap<Name, u64>,
}

impl FirstUnread {
    fn received(&mut self, received: &Received) {
        match received {
            Received::Message { kind, message } => self.message(kind, &message.topic, message.sequence),
            Received::Gap(gap) => self.add(&gap.topic, gap.first_missed),
            Received::ReplayComplete(_)
            | Received::Warning(_)
            | Received::Back { .. }
            | Received::Ended(_) => {}
        }
    }

    /// Reads everything up to the reply to a request. Returns how many messages came for the subscription.
    async fn read_until_reply(
        &mut self,
        connection: &mut Connection,
        number: u64,
        asked: u64,
    ) -> Result<usize, Error> {
        let mut arrived = Vec::new();
        let mut count = 0;
        loop {
            connection.turn(&mut arrived).await?;
            for message in arrived.drain(..) {
                match message {
                    FromBroker::Notice(Notice::Messages(messages)) if messages.subscription == number => {
                        count += messages.messages.len();
                        for message in &messages.messages {
                            self.message(&messages.kind, &message.topic, message.sequence);
                        }
                    }
                    FromBroker::Notice(Notice::TopicGap(gap)) if gap.subscription == number => {
                        count += 1;
                        self.add(&gap.topic, gap.first_missed);
                    }
                    FromBroker::Notice(Notice::Bye(refusal))
                    | FromBroker::Reply { reply: Reply::Refused(refusal), .. } => return Err(refusal.into()),
                    FromBroker::Reply { number, reply } if number == asked => match reply {
                        Reply::SubscriptionPaused(_) => return Ok(count),
                        other => return Err(unexpected("pause-subscription", &other)),
                    },
                    FromBroker::Reply { .. } | FromBroker::Notice(_) => {}
                }
            }
        }
    }

    fn message(&mut self, kind: &MessageKind, topic: &Name, sequence: u64) {
        // A retained value says nothing about what came before or after it.
        if *kind != MessageKind::Retained {
            self.add(topic, sequence);
        }
    }

    fn add(&mut self, topic: &Name, sequence: u64) {
        let first = self.first.entry(topic.clone()).or_insert(sequence);
        *first = sequence.min(*first);
    }

    /// Of the topics seen, those of which everything was taken. A member of a group gets sequences out of order, so
    /// for the others the last one taken is unknown.
    fn finished(&self, mut seen: Vec<LastSeen>) -> Vec<LastSeen> {
        seen.retain(|row| !self.first.contains_key(&row.topic));
        seen
    }

    /// The last taken sequence of each topic seen.
    fn taken(&self, mut seen: Vec<LastSeen>) -> Vec<LastSeen> {
        for row in &mut seen {
            if let Some(first) = self.first.get(&row.topic) {
                row.sequence = row.sequence.min(first.saturating_sub(1));
            }
        }
        seen
    }

    fn last_seen(&self) -> Vec<LastSeen> {
        let row = |(topic, first): (&Name, &u64)| LastSeen {
            topic: topic.clone(),
            sequence: first.saturating_sub(1),
        };
        self.first.iter().take(TOPICS_MAX).map(row).collect()
    }
}
