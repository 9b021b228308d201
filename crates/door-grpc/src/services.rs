//! The services: which conversation each method is. What a key allows is asked here, before anything else.

mod broker;
mod sidecar;
mod tasks;
mod topics;
mod workers;

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use tenure_hub::HubHandle;
use tonic::{Request, Status};

use crate::authentication::AuthenticatedPeer;
use crate::flow::FlowTurn;
use crate::session::GrpcCall;
use crate::translate;

type Reply<T> = Result<tonic::Response<T>, Status>;
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What all services stand on.
#[derive(Clone)]
pub(crate) struct GrpcService {
    pub(crate) hub: HubHandle,
    /// After so long without anything else, a subscriber hears a heartbeat.
    pub(crate) heartbeat: Duration,
    /// How many topics one answer of `GetTopics` lists.
    pub(crate) listed_topics_max: usize,
}

impl GrpcService {
    /// Who calls: it was let in before its message was read. Now that it is, others are read.
    fn enter<T>(&self, request: &mut Request<T>) -> Result<AuthenticatedPeer, Status> {
        request.extensions_mut().remove::<FlowTurn>();
        request.extensions_mut().remove::<AuthenticatedPeer>().ok_or_else(translate::unexpected)
    }

    /// A call that only looks: allowed to everybody who may come in.
    fn look<T>(&self, request: &mut Request<T>) -> Result<GrpcCall, Status> {
        Ok(GrpcCall(self.enter(request)?.open(&self.hub)?))
    }

    /// A call that submits or steers tasks.
    fn steer<T>(&self, request: &mut Request<T>) -> Result<GrpcCall, Status> {
        let peer = self.enter(request)?;
        peer.may_submit()?;
        Ok(GrpcCall(peer.open(&self.hub)?))
    }

    /// A call that manages the broker.
    fn manage<T>(&self, request: &mut Request<T>) -> Result<GrpcCall, Status> {
        let peer = self.enter(request)?;
        peer.may_manage()?;
        Ok(GrpcCall(peer.open(&self.hub)?))
    }
}
