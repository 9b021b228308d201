//! Publishing. When the call returns, the message is in its subscribers' queues; the receipt says what is
//! still pending.

use std::sync::Arc;

use tenure_engine::Name;
use tenure_topics::{MessageId, Publish, Sequence, Ticket, Timestamp, TopicRefusal, is_reply};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::namespace::{NamespaceTopics, TopicsState};
use super::saver::TopicPlace;
use super::{Topics, events};

/// How many messages are published before the lock is released for others.
const SLICE: usize = 64;

/// The result of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishResult {
    /// The id of the message.
    pub id: MessageId,
    /// Zero for an answer to a request, which has no number.
    pub sequence: Sequence,
    /// Subscribers whose queue took the message, including those that blocked first.
    pub receivers: u32,
    /// Subscribers whose queue dropped something: this message or an older one.
    pub dropped: u32,
    /// Subscribers that made the publisher wait.
    pub blocked: u32,
}

/// A publish that is done, or waits for slow subscribers or the disk. Dropping it stops the waiting and does
/// not undo the publish.
#[derive(Debug)]
#[must_use = "a durable message is on disk only once the receipt is settled"]
pub struct PublishReceipt {
    published: PublishResult,
    blocked: Option<Blocked>,
    /// The message waits for the disk, and no subscriber has it yet.
    unwritten: Option<oneshot::Receiver<Result<PublishReceipt, TopicRefusal>>>,
}

#[derive(Debug)]
struct Blocked {
    space: Arc<NamespaceTopics>,
    ticket: Ticket,
    released: oneshot::Receiver<()>,
    deadline: Instant,
}

impl PublishReceipt {
    /// Whether nothing is pending.
    pub fn is_settled(&self) -> bool {
        self.blocked.is_none() && self.unwritten.is_none()
    }

    /// The result so far. For a message that waits for the disk it holds only the id.
    pub fn published(&self) -> &PublishResult {
        &self.published
    }

    /// Waits for blocking subscribers, up to the block timeout, and for the disk if the topic is durable.
    pub async fn settled(mut self) -> Result<PublishResult, TopicRefusal> {
        if let Some(unwritten) = self.unwritten.take() {
            self = unwritten.await.map_err(|_| TopicRefusal::NotWritten)??;
        }
        if let Some(blocked) = self.blocked.take() {
            self.published.dropped += blocked.wait().await;
        }
        Ok(self.published)
    }

    fn done(published: PublishResult) -> PublishReceipt {
        PublishReceipt { published, blocked: None, unwritten: None }
    }

    fn unwritten(
        id: MessageId,
        written: oneshot::Receiver<Result<PublishReceipt, TopicRefusal>>,
    ) -> PublishReceipt {
        let published = PublishResult { id, sequence: Sequence::ZERO, receivers: 0, dropped: 0, blocked: 0 };
        PublishReceipt { published, blocked: None, unwritten: Some(written) }
    }
}

impl Blocked {
    /// Returns how many subscribers had to drop something after the wait.
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
    /// Publishes and waits for blocking subscribers and the disk.
    pub async fn publish(
        &self,
        namespace: &Name,
        publish: Publish<'_>,
    ) -> Result<PublishResult, TopicRefusal> {
        let deadline = Instant::now() + self.shared.settings.topics.block_timeout;
        loop {
            let saved = self.shared.saved.notified();
            match self.publish_now(namespace, publish.clone()) {
                // The allowance is used up: try again after each save.
                Err(TopicRefusal::NotWritten) => {
                    tokio::time::timeout_at(deadline, saved).await.map_err(|_| TopicRefusal::NotWritten)?;
                }
                receipt => return receipt?.settled().await,
            }
        }
    }

    /// Publishes without waiting. Subscribers get the message at once, whatever the receipt still waits for;
    /// those of a durable topic get it when it is on disk.
    pub fn publish_now(
        &self,
        namespace: &Name,
        publish: Publish<'_>,
    ) -> Result<PublishReceipt, TopicRefusal> {
        let space = self.space(namespace)?;
        if is_reply(publish.topic) {
            return self.answer(namespace, publish).map(PublishReceipt::done);
        }
        if self.shared.settings.is_durable(publish.topic) {
            return self.publish_durable(&space, publish);
        }
        space.with(|state, now| self.publish_in(&space, state, publish, now))
    }

    /// Publishes many messages in order, each with its own result. Cheaper than one by one.
    pub fn publish_many(
        &self,
        namespace: &Name,
        messages: Vec<Publish<'_>>,
    ) -> Vec<Result<PublishReceipt, TopicRefusal>> {
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
                        self.answer(namespace, publish).map(PublishReceipt::done)
                    } else if self.shared.settings.is_durable(publish.topic) {
                        self.publish_durable(&space, publish)
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
        space: &Arc<NamespaceTopics>,
        state: &mut TopicsState,
        publish: Publish<'_>,
        now: Timestamp,
    ) -> Result<PublishReceipt, TopicRefusal> {
        events::refuse_read_only(publish.topic)?;
        if state.has_used_allowance() {
            return Err(TopicRefusal::NotWritten);
        }
        let id = publish.id;
        let published = state.shard.publish(publish, now, &mut state.wake)?;
        Ok(self.receipt(space, state, id, &published))
    }

    fn publish_durable(
        &self,
        space: &Arc<NamespaceTopics>,
        publish: Publish<'_>,
    ) -> Result<PublishReceipt, TopicRefusal> {
        events::refuse_read_only(publish.topic)?;
        let id = publish.id;
        Ok(PublishReceipt::unwritten(id, self.shared.saver.durable(space, publish)?))
    }

    /// Publishes a message that is on disk with its number.
    pub(super) fn publish_written(
        &self,
        space: &Arc<NamespaceTopics>,
        state: &mut TopicsState,
        mut publish: Publish<'_>,
        TopicPlace { sequence, place }: TopicPlace,
        at: Timestamp,
    ) -> Result<PublishReceipt, TopicRefusal> {
        let id = publish.id;
        state.durable.published = place;
        // With very many topics, this one may have been evicted since it was numbered.
        state.shard.number_next(publish.topic, sequence, at)?;
        let mut published = state.shard.publish(publish.clone(), at, &mut state.wake);
        if publish.retain && published.is_err() {
            // The limit of retained values was reached since the message was numbered. It is on disk and must
            // be published.
            publish.retain = false;
            published = state.shard.publish(publish, at, &mut state.wake);
        }
        let published = published?;
        if published.sequence != sequence {
            tracing::error!(
                written = sequence.0,
                given = published.sequence.0,
                "durable message written and published under different numbers; report this bug"
            );
        }
        Ok(self.receipt(space, state, id, &published))
    }

    fn receipt(
        &self,
        space: &Arc<NamespaceTopics>,
        state: &mut TopicsState,
        id: MessageId,
        published: &tenure_topics::Published,
    ) -> PublishReceipt {
        let blocked = published.ticket.map(|ticket| Blocked {
            space: Arc::clone(space),
            ticket,
            released: state.wait_for(ticket),
            deadline: Instant::now() + self.shared.settings.topics.block_timeout,
        });
        let blocked_count = published.blocked.len() as u32;
        let published = PublishResult {
            id,
            sequence: published.sequence,
            receivers: published.receivers + blocked_count,
            dropped: published.dropped,
            blocked: blocked_count,
        };
        PublishReceipt { published, blocked, unwritten: None }
    }
}
