//! Publish: assigns a number, adds the message to the ring, and gives every subscriber a reference.

use std::sync::Arc;
use std::time::Duration;

use super::Shard;
use crate::buffer::BufferLimits;
use crate::deadlines::Owner;
use crate::message::{Message, Publish, Sequence, Stamp, TEXT_BYTES_MAX, Ttl};
use crate::name::check_name;
use crate::queue::Ticket;
use crate::refusal::TopicRefusal;
use crate::subscriptions::SubscriptionKey;
use crate::time::Timestamp;
use crate::topic::TopicIndex;

/// The result of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The number of the message.
    pub sequence: Sequence,
    /// Subscribers whose queue took the message.
    pub receivers: u32,
    /// Subscribers whose queue dropped something: this message or an older one.
    pub dropped: u32,
    /// Subscribers that the publisher waits for. The message is already waiting for them.
    pub blocked: Vec<SubscriptionKey>,
    /// Present if a subscriber blocks: released when the subscribers take messages, or given up after the
    /// timeout.
    pub ticket: Option<Ticket>,
}

/// The number and expiry that a message will get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The number of the message.
    pub sequence: Sequence,
    /// [`Timestamp::NEVER`] if it does not expire.
    pub expires_at: Timestamp,
}

impl Shard {
    /// Publishes a message. Adds subscribers that had nothing to take before to `wake`.
    pub fn publish(
        &mut self,
        publish: Publish<'_>,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Result<Published, TopicRefusal> {
        self.publish_with(publish, None, now, wake)
    }

    /// Returns the number and expiry that a message would get, without publishing it: for a runtime that
    /// writes it to disk first. No other message may be published to the topic until then. All refusals
    /// happen here, except that the limit of retained values may be reached meanwhile.
    pub fn prepare(&mut self, publish: &Publish<'_>, now: Timestamp) -> Result<Prepared, TopicRefusal> {
        self.check(publish)?;
        let index = self.open(publish.topic, now)?;
        Ok(Prepared { sequence: self.topics[index].sequence.next(), expires_at: self.expiry(publish, now) })
    }

    /// Sets the number of a topic's next message, if the topic has not reached it: for a message whose number
    /// is already on disk.
    pub fn number_next(
        &mut self,
        topic: &str,
        sequence: Sequence,
        now: Timestamp,
    ) -> Result<(), TopicRefusal> {
        let index = self.open(topic, now)?;
        let topic = &mut self.topics[index];
        topic.sequence = topic.sequence.max(sequence.previous());
        Ok(())
    }

    /// Publishes a request whose answer goes to `reply_to`. Refused at once if there is no subscriber. It
    /// expires with the requester's timeout.
    pub fn request(
        &mut self,
        mut publish: Publish<'_>,
        reply_to: Arc<str>,
        timeout: Duration,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Result<Published, TopicRefusal> {
        publish.ttl = Ttl::After(timeout);
        publish.retain = false;
        self.check(&publish)?;
        check_name(publish.topic)?;
        if !self.has_listener(publish.topic) {
            return Err(TopicRefusal::NoResponders);
        }
        self.publish_with(publish, Some(reply_to), now, wake)
    }

    fn publish_with(
        &mut self,
        publish: Publish<'_>,
        reply_to: Option<Arc<str>>,
        now: Timestamp,
        wake: &mut Vec<SubscriptionKey>,
    ) -> Result<Published, TopicRefusal> {
        self.check(&publish)?;
        let expires_at = self.expiry(&publish, now);
        let retain = publish.retain;
        let index = self.open(publish.topic, now)?;
        self.order += 1;
        let published_at = self.wall(now);
        let topic = &mut self.topics[index];
        topic.sequence = topic.sequence.next();
        let stamp = Stamp {
            topic: Arc::clone(&topic.name),
            sequence: topic.sequence,
            published_at,
            expires_at,
            reply_to,
            order: self.order,
        };
        let message = Arc::new(Message::new(publish, stamp));
        self.changes.counted(index, topic);
        self.keep(index, &message);
        if retain {
            self.retain(index, &message);
        }
        let published = self.fan_out(index, &message, now, wake);
        self.topics[index].release_buffers();
        Ok(published)
    }

    fn check(&self, publish: &Publish<'_>) -> Result<(), TopicRefusal> {
        let (length, limit) = (publish.payload.len(), self.settings.payload_bytes);
        if length > limit {
            return Err(TopicRefusal::PayloadTooLong { length, limit });
        }
        check_text("the content type", publish.content_type.as_deref())?;
        check_text("the correlation id", publish.correlation_id.as_deref())?;
        check_text("the source", publish.source.as_deref())?;
        if publish.ttl == Ttl::After(Duration::ZERO) {
            return Err(TopicRefusal::TtlZero);
        }
        if publish.retain && !publish.payload.is_empty() {
            let old = self.topics.find(publish.topic).and_then(|index| self.topics[index].active());
            let old = old.and_then(|active| active.retained.as_ref()).map_or(0, |message| message.cost());
            let limit = self.settings.retained_bytes;
            if self.retained_bytes - old + publish.cost() > limit {
                return Err(TopicRefusal::RetainedFull { limit });
            }
        }
        Ok(())
    }

    fn expiry(&self, publish: &Publish<'_>, now: Timestamp) -> Timestamp {
        let ttl = match publish.ttl {
            Ttl::Default => self.settings.default_ttl_of(publish.topic),
            Ttl::Never => None,
            Ttl::After(ttl) => Some(ttl),
        };
        ttl.map_or(Timestamp::NEVER, |ttl| now.after(ttl))
    }

    pub(super) fn keep(&mut self, index: TopicIndex, message: &Arc<Message>) {
        let ring_messages = self.settings.ring_messages_of(&message.topic);
        let limits = BufferLimits { ring_messages, ring_bytes: self.settings.ring_bytes };
        self.buffer.keep(&mut self.topics, index, message, limits);
        self.expect_expiry(index, message);
    }

    fn retain(&mut self, index: TopicIndex, message: &Arc<Message>) {
        self.clear_retained(index);
        if !message.payload.is_empty() {
            self.set_retained(index, message);
            self.expect_expiry(index, message);
        }
        self.changes.mark_changed(index, &mut self.topics[index]);
    }

    pub(super) fn set_retained(&mut self, index: TopicIndex, message: &Arc<Message>) {
        self.topics[index].activate().retained = Some(Arc::clone(message));
        self.retained_bytes += message.cost();
        self.retained.insert(Arc::clone(&message.topic), index);
    }

    pub(super) fn expect_expiry(&mut self, index: TopicIndex, message: &Message) {
        if let Some(active) = self.topics[index].active_mut() {
            self.deadlines.advance(&mut active.deadline, message.expires_at, Owner::Topic(index));
        }
    }

    fn has_listener(&mut self, topic: &str) -> bool {
        self.found.clear();
        self.patterns.find(topic, &mut self.found);
        let exact = self.topics.find(topic).map_or(&[][..], |index| self.topics[index].subscribers());
        let mut listeners = exact.iter().chain(&self.found);
        listeners.any(|&index| self.subscriptions[index].paused.is_none())
    }
}

pub(super) fn check_text(field: &'static str, text: Option<&str>) -> Result<(), TopicRefusal> {
    match text {
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            Err(TopicRefusal::TextTooLong { field, length: text.len(), limit: TEXT_BYTES_MAX })
        }
        _ => Ok(()),
    }
}
