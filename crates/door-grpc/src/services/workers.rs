//! `tenure.v1.Workers`: for workers, and for operators who manage them.

use std::sync::Arc;

use futures::StreamExt as _;
use tenure_hub::words::{Answer, Command, Query};
use tonic::{Request, Response, Streaming};

use super::{GrpcService, Reply, ReplyStream};
use crate::proto::tenure::v1 as pb;
use crate::session::{self, Working};
use crate::translate;

#[tonic::async_trait]
impl pb::workers_server::Workers for GrpcService {
    type WorkStream = ReplyStream<pb::BrokerMessage>;

    async fn work(&self, mut request: Request<Streaming<pb::WorkerMessage>>) -> Reply<Self::WorkStream> {
        let peer = self.enter(&mut request)?;
        peer.may_work()?;
        let session = peer.open(&self.hub)?;
        let working =
            Working::new(session, request.into_inner(), Arc::clone(peer.grant()), peer.flow.clone());
        Ok(Response::new(session::stream(working).boxed()))
    }

    async fn list(&self, mut request: Request<pb::ListWorkersRequest>) -> Reply<pb::ListWorkersResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.query(Query::Workers).await? {
            Answer::Workers(workers) => call.flow.reply(room, translate::workers(workers)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn drain(&self, mut request: Request<pb::WorkerRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        call.command(Command::DrainWorker { worker: translate::name(request.into_inner().worker) }).await
    }

    async fn clear(&self, mut request: Request<pb::WorkerRequest>) -> Reply<pb::Done> {
        let call = self.manage(&mut request)?;
        call.command(Command::ClearWorker { worker: translate::name(request.into_inner().worker) }).await
    }
}
