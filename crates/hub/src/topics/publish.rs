//! Publishing. The message is with its subscribers when the call returns; a receipt says what is still awaited.

use std::sync::Arc;

use tenure_engine::Name;
use tenure_topics::{MessageId, Publish, Refusal, Sequence, Ticket, Timestamp, is_reply};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::space::{Space, State};
use super::{Topics, events};

/// How many messages are published before the lock is given back for others.
const SLICE: usize = 64;

/// What became of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub id: MessageId,
    /// Zero for an answer to a request, which has no number.
    pub sequence: Sequence,
    /// Subscribers whose queue took the message, those that it waited for included.
    pub receivers: u32,
    /// Subscribers whose queue dropped something: this message or an older one.
    pub dropped: u32,
    /// Subscribers the publisher had to wait for.
    pub blocked: u32,
}

/// A publish that is done, or waits for slow subscribers or the disk. Dropping it waits for nobody and takes nothing
/// back.
#[derive(Debug)]
#[must_use = "a durable message is safe, and a blocking subscriber heard, only once the receipt is settled"]
pub struct Receipt {
    published: Published,
    blocked: Option<Blocked>,
}

#[derive(Debug)]
struct Blocked {
    space: Arc<Space>,
    ticket: Ticket,
    released: oneshot::Receiver<()>,
    deadline: Instant,
}

impl Receipt {
    /// Nothing is awaited.
    pub fn is_settled(&self) -> bool {
        self.blocked.is_none()
    }

    /// What is known by now.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Waits for blocking subscribers, for the block timeout at most, and for the disk if the topic is durable.
    pub async fn settled(mut self) -> Result<Published, Refusal> {
        if let Some(blocked) = self.blocked.take() {
            self.published.dropped += blocked.wait().await;
        }
        Ok(self.published)
    }

    fn done(published: Published) -> Receipt {
        Receipt { published, blocked: None }
    }
}

impl Blocked {
    /// Returns how many subscribers had to drop something after all.
    async fn wait(self) -> u32 {
        let Blocked { space, ticket, released, deadline } = self;
        if tokio::time::timeout_at(deadline, released).await.is_ok() {
            return 0;
        }
        let dropped = space.with(|state, now| state.shard.give_up(ticket, now));
        u32::try_from(dropped).unwrap_or(u32::MAX)
    }
}

impl Topics {
    /// Publishes and waits for whoever has to be waited for.
    pub async fn publish(&self, namespace: &Name, publish: Publish<'_>) -> Result<Published, Refusal> {
        self.publish_now(namespace, publish)?.settled().await
    }

    /// Publishes without waiting. Subscribers get the message at once, whatever the receipt still waits for.
    pub fn publish_now(&self, namespace: &Name, publish: Publish<'_>) -> Result<Receipt, Refusal> {
        let space = self.space(namespace)?;
        if is_reply(publish.topic) {
            return self.answer(namespace, publish).map(Receipt::done);
        }
        space.with(|state, now| self.publish_in(&space, state, publish, now))
    }

    /// Publishes many messages in their order, each with a result of its own. Cheaper than one by one.
    pub fn publish_many(
        &self,
        namespace: &Name,
        messages: Vec<Publish<'_>>,
    ) -> Vec<Result<Receipt, Refusal>> {
        let space = match self.space(namespace) {
            Ok(space) => space,
            Err(refusal) => return messages.iter().map(|_| Err(refusal.clone())).collect(),
        };
        let mut results = Vec::with_capacity(messages.len());
        let mut messages = messages.into_iter();
        while messages.len() > 0 {
            space.with(|state, now| {
                for publish in messages.by_ref().take(SLICE) {
                    results.push(if is_reply(publish.topic) {
                        self.answer(namespace, publish).map(Receipt::done)
                    } else {
                        self.publish_in(&space, state, publish, now)
                    });
                }
            });
        }
        results
    }

    fn publish_in(
        &self,
        space: &Arc<Space>,
        state: &mut State,
        publish: Publish<'_>,
        now: Timestamp,
    ) -> Result<Receipt, Refusal> {
        events::refuse_read_only(publish.topic)?;
        let id = publish.id;
        let published = state.shard.publish(publish, now, &mut state.wake)?;
        let blocked = published.ticket.map(|ticket| Blocked {
            space: Arc::clone(space),
            ticket,
            released: state.wait_for(ticket),
            deadline: Instant::now() + self.shared.settings.topics.block_timeout,
        });
        let blocked_count = published.blocked.len() as u32;
        let published = Published {
            id,
            sequence: published.sequence,
            receivers: published.receivers + blocked_count,
            dropped: published.dropped,
            blocked: blocked_count,
        };
        Ok(Receipt { published, blocked })
    }
}
