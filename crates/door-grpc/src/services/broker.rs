//! `tenure.v1.Broker`: for operators of the broker.

use std::time::Duration;

use tenure_hub::words::{Answer, Command, Query, Refusal, Thresholds};
use tonic::{Request, Response};

use super::{GrpcService, Reply};
use crate::proto::tenure::v1 as pb;
use crate::translate;

#[tonic::async_trait]
impl pb::broker_server::Broker for GrpcService {
    async fn queues(&self, mut request: Request<pb::QueuesRequest>) -> Reply<pb::QueuesResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.query(Query::Queues).await? {
            Answer::Queues(queues) => call.flow.reply(room, translate::queues(queues)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn pause_queue(&self, mut request: Request<pb::QueueRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        call.command(Command::PauseQueue { queue: translate::name(request.into_inner().queue) }).await
    }

    async fn resume_queue(&self, mut request: Request<pb::QueueRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        call.command(Command::ResumeQueue { queue: translate::name(request.into_inner().queue) }).await
    }

    async fn set_thresholds(&self, mut request: Request<pb::SetThresholdsRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        let pb::SetThresholdsRequest { queue, thresholds } = request.into_inner();
        let thresholds =
            thresholds.map(|own| Thresholds { depth: own.depth, age: own.age_ms.map(Duration::from_millis) });
        call.command(Command::SetThresholds { queue: translate::name(queue), thresholds }).await
    }

    async fn limits(&self, mut request: Request<pb::LimitsRequest>) -> Reply<pb::LimitsResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.query(Query::Limits).await? {
            Answer::Limits(limits) => call.flow.reply(room, translate::limits(limits)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn set_limit(&self, mut request: Request<pb::SetLimitRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        let pb::SetLimitRequest { tag, limit } = request.into_inner();
        call.command(Command::SetLimit { tag: translate::name(tag), limit }).await
    }

    async fn set_rate(&self, mut request: Request<pb::SetRateRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        let pb::SetRateRequest { of, rate } = request.into_inner();
        let rate = rate.as_ref().map(translate::rate);
        let command = match of {
            Some(pb::set_rate_request::Of::Tag(tag)) => {
                Command::SetTagRate { tag: translate::name(tag), rate }
            }
            Some(pb::set_rate_request::Of::Queue(queue)) => {
                Command::SetQueueRate { queue: translate::name(queue), rate }
            }
            None => {
                let why = "is for a tag or a queue: name one of them";
                return Err(translate::status(&Refusal::BadValue { what: "rate", why }));
            }
        };
        call.command(command).await
    }

    async fn shares(&self, mut request: Request<pb::SharesRequest>) -> Reply<pb::SharesResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.query(Query::Shares).await? {
            Answer::Shares(shares) => call.flow.reply(room, translate::shares(shares)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn set_share(&self, mut request: Request<pb::SetShareRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        let pb::SetShareRequest { share, weight } = request.into_inner();
        call.command(Command::SetShare { share: translate::name(share), weight }).await
    }

    async fn counts(&self, mut request: Request<pb::CountsRequest>) -> Reply<pb::CountsResponse> {
        let call = self.query_call(&mut request)?;
        match call.query(Query::Counts).await? {
            Answer::Counts(counts) => Ok(Response::new(translate::counts(&counts))),
            _ => Err(translate::unexpected()),
        }
    }

    async fn stats(&self, mut request: Request<pb::StatsRequest>) -> Reply<pb::StatsResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.ask(tenure_hub::Request::Stats).await? {
            tenure_hub::Response::Stats(stats) => call.flow.reply(room, translate::stats(&stats)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn hooks(&self, mut request: Request<pb::HooksRequest>) -> Reply<pb::HooksResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.ask(tenure_hub::Request::Hooks).await? {
            tenure_hub::Response::Hooks(hooks) => call.flow.reply(room, translate::hooks(hooks)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn undelivered(
        &self,
        mut request: Request<pb::UndeliveredRequest>,
    ) -> Reply<pb::UndeliveredResponse> {
        let call = self.query_call(&mut request)?;
        let hook = translate::name(request.into_inner().hook);
        let room = call.flow.list_room().await?;
        match call.ask(tenure_hub::Request::Undelivered { hook }).await? {
            tenure_hub::Response::Undelivered(events) => {
                call.flow.reply(room, translate::undelivered(events))
            }
            _ => Err(translate::unexpected()),
        }
    }

    async fn redeliver(&self, mut request: Request<pb::RedeliverRequest>) -> Reply<pb::RedeliverResponse> {
        let call = self.manage(&mut request)?;
        let pb::RedeliverRequest { hook, event: seq } = request.into_inner();
        match call.ask(tenure_hub::Request::Redeliver { hook: translate::name(hook), seq }).await? {
            tenure_hub::Response::Redelivered(events) => {
                Ok(Response::new(pb::RedeliverResponse { events: events as u64 }))
            }
            _ => Err(translate::unexpected()),
        }
    }
}
