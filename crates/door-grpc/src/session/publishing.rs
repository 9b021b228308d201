//! A stream of messages to publish: each is published as it arrives, and the outcomes come in order.

use futures::future::{BoxFuture, ready};
use futures::stream::FuturesOrdered;
use futures::{FutureExt as _, StreamExt as _};
use tenure_hub::HubHandle;
use tenure_hub::topics::{PublishResult, TopicRefusal};
use tenure_hub::words::Name;
use tonic::{Status, Streaming};

use super::GrpcSession;
use crate::proto::sidecar::PublishRequest;
use crate::proto::tenure::v1 as pb;
use crate::translate;

/// How many messages may wait for slow subscribers or the disk before reading stops.
const UNSETTLED_MAX: usize = 256;

pub(crate) struct Publishing {
    hub: HubHandle,
    namespace: Name,
    requests: Streaming<PublishRequest>,
    unsettled: FuturesOrdered<BoxFuture<'static, Result<PublishResult, TopicRefusal>>>,
    heard_all: bool,
    /// Resolves when the publisher's key is revoked.
    revoked: BoxFuture<'static, ()>,
}

impl GrpcSession for Publishing {
    type Message = pb::PublishVerdict;

    async fn next(&mut self) -> Result<Option<pb::PublishVerdict>, Status> {
        loop {
            if self.heard_all && self.unsettled.is_empty() {
                return Ok(None);
            }
            let may_read = !self.heard_all && self.unsettled.len() < UNSETTLED_MAX;
            tokio::select! {
                biased;
                () = &mut self.revoked => return Err(translate::unknown_key()),
                Some(settled) = self.unsettled.next() => return Ok(Some(translate::verdict(&settled))),
                request = self.requests.message(), if may_read => match request? {
                    Some(request) => self.publish(&request),
                    None => self.heard_all = true,
                },
            }
        }
    }
}

impl Publishing {
    pub(crate) fn new(
        hub: HubHandle,
        namespace: Name,
        requests: Streaming<PublishRequest>,
        revoked: BoxFuture<'static, ()>,
    ) -> Publishing {
        Publishing { hub, namespace, requests, unsettled: FuturesOrdered::new(), heard_all: false, revoked }
    }

    fn publish(&mut self, request: &PublishRequest) {
        let publish = translate::publish(request);
        let receipt = publish.and_then(|publish| self.hub.topics().publish_now(&self.namespace, publish));
        self.unsettled.push_back(match receipt {
            Ok(receipt) => receipt.settled().boxed(),
            Err(no) => ready(Err(no)).boxed(),
        });
    }
}
