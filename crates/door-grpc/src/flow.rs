//! What one connection may make the broker hold in its memory: so many calls are read at once. Whoever wants more waits,
//! and slows nobody but itself.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Extensions;
use tonic::transport::server::TlsConnectInfo;

/// How many calls of one connection may be read at the same time. The others are read when it is their turn.
pub(crate) const READ_AT_ONCE_MAX: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    turns: Arc<Semaphore>,
}

/// Held while the message of a call arrives.
#[derive(Clone, Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

impl Default for Flow {
    fn default() -> Flow {
        Flow { turns: Arc::new(Semaphore::new(READ_AT_ONCE_MAX)) }
    }
}

impl Flow {
    /// The one of the connection through which a call came.
    pub(crate) fn of(call: &Extensions) -> Option<Flow> {
        let behind_tls = || call.get::<TlsConnectInfo<Flow>>().map(TlsConnectInfo::get_ref);
        call.get::<Flow>().or_else(behind_tls).cloned()
    }

    pub(crate) async fn turn(&self) -> Turn {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        Turn(Arc::new(turn.expect("it is never closed")))
    }
}
