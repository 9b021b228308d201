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
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::entrance::Visitor;
use crate::session::Call;

type Reply<T> = Result<tonic::Response<T>, Status>;
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What all services stand on.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) hub: HubHandle,
    /// After so long without anything else, a subscriber hears a heartbeat.
    pub(crate) heartbeat: Duration,
}

impl Desk {
    fn enter(&self, metadata: &MetadataMap) -> Result<Visitor, Status> {
        Visitor::enter(&self.hub, metadata)
    }

    /// A call that only looks: allowed to everybody who may come in.
    fn look(&self, metadata: &MetadataMap) -> Result<Call, Status> {
        Ok(Call(self.enter(metadata)?.open(&self.hub)?))
    }

    /// A call that submits or steers tasks.
    fn steer(&self, metadata: &MetadataMap) -> Result<Call, Status> {
        let visitor = self.enter(metadata)?;
        visitor.may_submit()?;
        Ok(Call(visitor.open(&self.hub)?))
    }

    /// A call that manages the broker.
    fn manage(&self, metadata: &MetadataMap) -> Result<Call, Status> {
        let visitor = self.enter(metadata)?;
        visitor.may_manage()?;
        Ok(Call(visitor.open(&self.hub)?))
    }
}
