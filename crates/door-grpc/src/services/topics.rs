//! `tenure.v1.Topics`: what topics offer beyond the existing service.

use std::time::Duration;

use futures::StreamExt as _;
use tenure_hub::TopicAct;
use tenure_hub::topics::{PAGE_MAX, SubscriptionId, TopicFilter, TopicRefusal};
use tonic::{Request, Response, Streaming};

use super::{GrpcService, Reply, ReplyStream};
use crate::proto::sidecar::PublishRequest;
use crate::proto::tenure::v1 as pb;
use crate::session::{self, Listening, Publishing};
use crate::translate::{self, topic_status};

/// Default number of listed subscriptions.
const LISTED: usize = 100;
/// Default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

#[tonic::async_trait]
impl pb::topics_server::Topics for GrpcService {
    type PublishStream = ReplyStream<pb::PublishVerdict>;

    async fn publish(&self, mut request: Request<Streaming<PublishRequest>>) -> Reply<Self::PublishStream> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::Publish)?;
        let revoked = peer.revoked(&self.hub);
        let publishing = Publishing::new(self.hub.clone(), peer.namespace, request.into_inner(), revoked);
        Ok(Response::new(session::stream(publishing).boxed()))
    }

    async fn request(&self, mut request: Request<pb::TopicRequest>) -> Reply<pb::TopicAnswer> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::Request)?;
        let pb::TopicRequest { message, timeout_ms } = request.into_inner();
        let message = message.ok_or_else(|| topic_status(&TopicRefusal::NameEmpty))?;
        let timeout = if timeout_ms == 0 { TIMEOUT } else { Duration::from_millis(timeout_ms) };
        let publish = translate::publish(&message).map_err(|no| topic_status(&no))?;
        let answered = self.hub.topics().request(&peer.namespace, publish, timeout).await;
        Ok(Response::new(translate::answer(answered.map_err(|no| topic_status(&no))?)))
    }

    type SubscribeStream = Listening;

    async fn subscribe(&self, mut request: Request<pb::TopicSubscription>) -> Reply<Listening> {
        let peer = self.enter(&mut request)?;
        let subscribe = translate::subscribe_with(request.get_ref())?;
        peer.may(TopicAct::subscribe_to(subscribe.filters.iter().map(TopicFilter::as_str)))?;
        let subscribed = self.hub.topics().subscribe(&peer.namespace, subscribe);
        let (subscription, info) = subscribed.map_err(|no| topic_status(&no))?;
        let listening = Listening::begin(subscription, &info, self.heartbeat);
        Ok(Response::new(listening.until(peer.revoked(&self.hub))))
    }

    async fn acknowledge(
        &self,
        mut request: Request<pb::AcknowledgeRequest>,
    ) -> Reply<pb::AcknowledgeResponse> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::ChangeSubscription)?;
        let request = request.get_ref();
        let id = SubscriptionId::parse(&request.subscription_id).map_err(|no| topic_status(&no))?;
        let read = translate::last_seen(&request.last_sequence_per_topic);
        let acknowledged = self.hub.topics().acknowledge(&peer.namespace, &id, &read);
        acknowledged.map_err(|no| topic_status(&no))?;
        Ok(Response::new(pb::AcknowledgeResponse {}))
    }

    async fn subscriptions(
        &self,
        mut request: Request<pb::SubscriptionsRequest>,
    ) -> Reply<pb::SubscriptionList> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::List)?;
        let pb::SubscriptionsRequest { next, limit, subscription_id } = request.into_inner();
        let topics = self.hub.topics();
        if !subscription_id.is_empty() {
            let id = SubscriptionId::parse(&subscription_id).map_err(|no| topic_status(&no))?;
            let found = topics.subscription(&peer.namespace, &id);
            let found = found.ok_or_else(|| topic_status(&TopicRefusal::UnknownSubscription))?;
            let subscriptions = vec![translate::subscription_status(&found)];
            return Ok(Response::new(pb::SubscriptionList { subscriptions, next: None }));
        }
        let room = peer.flow.list_room().await?;
        let limit = if limit == 0 { LISTED } else { (limit as usize).min(PAGE_MAX) };
        let from = usize::try_from(next).unwrap_or(usize::MAX);
        let page = topics.subscriptions(&peer.namespace, from, limit);
        let subscriptions = page.items.iter().map(translate::subscription_status).collect();
        let next = page.next.map(|next| next as u64);
        peer.flow.reply(room, pb::SubscriptionList { subscriptions, next })
    }
}
