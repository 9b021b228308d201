//! `nexusd.sidecar.SidecarService`: pub/sub with gap recovery, for existing clients.

use tenure_hub::TopicAct;
use tenure_hub::topics::{PAGE_MAX, Recovery, SubscriptionId, TopicFilter, TopicRefusal};
use tonic::{Request, Response};

use super::{GrpcService, Reply};
use crate::proto::sidecar as pb;
use crate::session::Listening;
use crate::translate::{self, topic_status};

#[tonic::async_trait]
impl pb::sidecar_service_server::SidecarService for GrpcService {
    async fn publish(&self, mut request: Request<pb::PublishRequest>) -> Reply<pb::PublishResponse> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::Publish)?;
        let publish = translate::publish(request.get_ref()).map_err(|no| topic_status(&no))?;
        let published = self.hub.topics().publish(&peer.namespace, publish).await;
        Ok(Response::new(translate::published(&published.map_err(|no| topic_status(&no))?)))
    }

    type SubscribeStream = Listening;

    async fn subscribe(&self, mut request: Request<pb::SubscribeRequest>) -> Reply<Listening> {
        let peer = self.enter(&mut request)?;
        let subscribe = translate::subscribe(request.get_ref()).map_err(|no| topic_status(&no))?;
        peer.may(TopicAct::subscribe_to(subscribe.filters.iter().map(TopicFilter::as_str)))?;
        let subscribed = self.hub.topics().subscribe(&peer.namespace, subscribe);
        let (subscription, info) = subscribed.map_err(|no| topic_status(&no))?;
        let listening = Listening::begin(subscription, &info, self.heartbeat);
        Ok(Response::new(listening.until(peer.revoked(&self.hub))))
    }

    type ResumeSubscribeStream = Listening;

    async fn resume_subscribe(&self, mut request: Request<pb::ResumeSubscribeRequest>) -> Reply<Listening> {
        let peer = self.enter(&mut request)?;
        let resume = translate::resume(request.get_ref())?;
        peer.may(match &resume.filters[..] {
            [] => self.hub.topics().resume_act(&peer.namespace, &resume.id),
            filters => TopicAct::subscribe_to(filters.iter().map(TopicFilter::as_str)),
        })?;
        let resumed = self.hub.topics().resume(&peer.namespace, &resume);
        let (subscription, resumed) = resumed.map_err(|no| topic_status(&no))?;
        let replays = resume.recovery == Recovery::Replay;
        let listening = Listening::resume(subscription, &resumed, replays, self.heartbeat);
        Ok(Response::new(listening.until(peer.revoked(&self.hub))))
    }

    async fn unsubscribe(
        &self,
        mut request: Request<pb::UnsubscribeRequest>,
    ) -> Reply<pb::UnsubscribeResponse> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::ChangeSubscription)?;
        let pb::UnsubscribeRequest { subscription_id, pause } = request.into_inner();
        let id = SubscriptionId::parse(&subscription_id).map_err(|no| topic_status(&no))?;
        let topics = self.hub.topics();
        let done = if pause {
            topics.pause(&peer.namespace, &id).map(|kept_for| kept_for.as_millis() as i64)
        } else {
            topics.unsubscribe(&peer.namespace, &id).map(|()| 0)
        };
        // Ending a subscription that has already ended is not an error; the reply says so.
        match done {
            Ok(pause_ttl_ms) => {
                let error_message = String::new();
                Ok(Response::new(pb::UnsubscribeResponse { success: true, error_message, pause_ttl_ms }))
            }
            Err(no @ TopicRefusal::UnknownSubscription) => {
                let error_message = no.to_string();
                Ok(Response::new(pb::UnsubscribeResponse { success: false, error_message, pause_ttl_ms: 0 }))
            }
            Err(no) => Err(topic_status(&no)),
        }
    }

    async fn get_topics(&self, mut request: Request<pb::GetTopicsRequest>) -> Reply<pb::GetTopicsResponse> {
        let peer = self.enter(&mut request)?;
        peer.may(TopicAct::List)?;
        let room = peer.flow.list_room().await?;
        let mut topics = Vec::new();
        let mut from = Some(0);
        while let Some(next) = from
            && topics.len() < self.listed_topics_max
        {
            let page = self.hub.topics().topics(&peer.namespace, next, PAGE_MAX, None);
            topics.extend(page.items.iter().map(translate::topic_info));
            from = page.next;
            // Other tasks get a turn between two pages.
            tokio::task::yield_now().await;
        }
        let truncated = from.is_some() || topics.len() > self.listed_topics_max;
        topics.truncate(self.listed_topics_max);
        peer.flow.reply(room, pb::GetTopicsResponse { topics, truncated })
    }

    /// This broker has no peers.
    async fn get_peers(&self, mut request: Request<pb::GetPeersRequest>) -> Reply<pb::GetPeersResponse> {
        self.enter(&mut request)?;
        Ok(Response::new(pb::GetPeersResponse { peers: Vec::new() }))
    }
}
