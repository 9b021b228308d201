//! Publishing, requests on topics, and lists of topics and subscriptions. Subscribing is in `subscriber.rs`.

use std::time::Duration;

use bytes::Bytes;
use tenure_wire::limits::ENTRIES_MAX;
use tenure_wire::time::millis;
use tenure_wire::topic::{
    NewMessage, OneSubscription, Publish, Published, SubscriptionInfo, SubscriptionsQuery, TopicAnswer,
    TopicInfo, TopicRequest, TopicsQuery,
};
use tenure_wire::{Name, Refusal, Reply, Request};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;

/// How many entries one request asks for.
const PAGE: u32 = 1_000;
/// A frame of messages is closed at this size; a larger message gets its own frame.
const FRAME_BYTES: usize = 4 << 20;
/// Upper bound of a message's size beyond its payload and topic, unless its texts are very long.
const ROW_BYTES: usize = 128;

impl Client {
    /// Publishes one message. Returns its sequence and how many subscribers get it.
    pub async fn publish(
        &self,
        topic: impl Into<Name>,
        payload: impl Into<Bytes>,
    ) -> Result<Published, Error> {
        self.publish_message(NewMessage::new(topic, payload)).await
    }

    /// Publishes one message with all options.
    pub async fn publish_message(&self, message: NewMessage) -> Result<Published, Error> {
        let published = self.publish_many(vec![message]).await?.pop();
        let published = published.ok_or_else(|| Error::protocol("the reply has no entry for a message"))?;
        published.map_err(Error::from)
    }

    /// Publishes many messages in order, in as few frames as the limits allow. Each has its own answer.
    pub async fn publish_many(
        &self,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Result<Published, Box<Refusal>>>, Error> {
        let mut verdicts = Vec::with_capacity(messages.len());
        let (mut frame, mut bytes) = (Vec::new(), 0);
        for message in messages {
            let size = message.payload.len() + message.topic.len() + ROW_BYTES;
            if !frame.is_empty() && (bytes + size > FRAME_BYTES || frame.len() >= ENTRIES_MAX) {
                verdicts.append(&mut self.publish_frame(std::mem::take(&mut frame)).await?);
                bytes = 0;
            }
            bytes += size;
            frame.push(message);
        }
        if !frame.is_empty() {
            verdicts.append(&mut self.publish_frame(frame).await?);
        }
        Ok(verdicts)
    }

    async fn publish_frame(
        &self,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Result<Published, Box<Refusal>>>, Error> {
        match self.ask("publish", Request::Publish(Publish { messages }), Repeat::Unsafe).await? {
            Reply::Published(published) => {
                Ok(published.messages.into_iter().map(|verdict| verdict.0.map_err(Box::new)).collect())
            }
            other => Err(unexpected("publish", &other)),
        }
    }

    /// Sends a request to the subscribers of a topic, and waits for the first answer. If there are none, the broker
    /// refuses at once with `no-responders`. To answer, a subscriber publishes to the `reply_to` of the message.
    pub async fn request(
        &self,
        topic: impl Into<Name>,
        payload: impl Into<Bytes>,
        timeout: Duration,
    ) -> Result<TopicAnswer, Error> {
        let request = TopicRequest {
            topic: topic.into(),
            payload: payload.into(),
            timeout_ms: millis(timeout),
            content_type: None,
            correlation: None,
            source: None,
        };
        match self.ask("request", Request::Request(Box::new(request)), Repeat::Unsafe).await? {
            Reply::Response(response) => Ok(*response),
            other => Err(unexpected("request", &other)),
        }
    }

    /// Returns the topics that match a name or pattern, or all, ordered by name.
    pub async fn topics(&self, pattern: Option<&str>) -> Result<Vec<TopicInfo>, Error> {
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let query = TopicsQuery { pattern: pattern.map(Into::into), from, limit: PAGE };
            match self.ask("topics", Request::Topics(query), Repeat::Safe).await? {
                Reply::Topics(page) => {
                    all.extend(page.topics);
                    next = page.next.filter(|next| *next > from);
                }
                other => return Err(unexpected("topics", &other)),
            }
        }
        all.sort_by(|one, other| one.topic.cmp(&other.topic));
        Ok(all)
    }

    /// Returns all subscriptions of the namespace with their figures, including paused ones.
    pub async fn subscriptions(&self) -> Result<Vec<SubscriptionInfo>, Error> {
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let query = SubscriptionsQuery { from, limit: PAGE };
            match self.ask("subscriptions", Request::Subscriptions(query), Repeat::Safe).await? {
                Reply::Subscriptions(page) => {
                    all.extend(page.subscriptions);
                    next = page.next.filter(|next| *next > from);
                }
                other => return Err(unexpected("subscriptions", &other)),
            }
        }
        all.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(all)
    }

    /// Ends a subscription by its id, whichever subscriber holds it.
    pub async fn unsubscribe(&self, id: impl Into<Name>) -> Result<(), Error> {
        self.command("unsubscribe", Request::Unsubscribe(by_id(id.into()))).await
    }

    /// Pauses a subscription by its id, whichever subscriber holds it. Returns how long the broker keeps it.
    pub async fn pause_subscription(&self, id: impl Into<Name>) -> Result<Duration, Error> {
        let request = Request::PauseSubscription(by_id(id.into()));
        match self.ask("pause-subscription", request, Repeat::Safe).await? {
            Reply::SubscriptionPaused(paused) => Ok(Duration::from_millis(paused.kept_ms)),
            other => Err(unexpected("pause-subscription", &other)),
        }
    }
}

fn by_id(id: Name) -> OneSubscription {
    OneSubscription { number: None, id: Some(id) }
}
