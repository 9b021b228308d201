//! One peer's session: its messages become requests to the hub, and the hub's deliveries become messages to it.
//!
//! Everything here is pure. Time and the bytes of bodies and results are arguments, and the output goes into
//! [`PeerOutput`], which the server carries out.

mod client;
mod jobs;
mod majordomo;
mod mmi_request;
mod orphaned_jobs;
mod pending_notices;
mod ping_pong_client;
mod ping_pong_worker;
mod requests_in_flight;
mod worker;

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::words::{Blob, DEFAULT_NAMESPACE, Name, Refusal, Timestamp};
use tenure_hub::{Ask, ClockReading, Delivery, Grant, HubRefusal};

use crate::codec::is_random;
use crate::rights::{self, Verb};

pub use majordomo::Majordomo;
pub use orphaned_jobs::OrphanedJobs;
pub use ping_pong_client::PingPongClient;
pub use ping_pong_worker::PingPongWorker;

/// The output of one turn of a session.
#[derive(Debug, Default)]
pub struct PeerOutput {
    /// Messages to the peer.
    pub messages: Vec<Vec<Bytes>>,
    /// Requests to the hub.
    pub asks: Vec<Ask>,
    /// Close the connection when the messages are written.
    pub close: bool,
}

impl PeerOutput {
    /// Records in the audit log what this door has refused.
    pub(crate) fn note_refusal(&mut self, act: &'static str, no: &HubRefusal) {
        self.asks.push(Ask::refused(act, no));
    }
}

/// The identity of the peer.
#[derive(Clone, Debug)]
pub struct PeerIdentity {
    /// Its name in the broker.
    pub name: Name,
    /// Whether it chose its identity and may return under it.
    pub is_chosen: bool,
    /// Whether its key has used this identity since the broker was started.
    pub is_known: bool,
    /// The rights of its key.
    pub grant: Arc<Grant>,
}

impl PeerIdentity {
    /// Whether it can come back for the replies to its requests.
    pub(crate) fn may_return(&self) -> bool {
        self.is_chosen && !is_random(&self.name)
    }

    /// The namespace of all its requests.
    pub(crate) fn namespace(&self) -> Name {
        namespace(&self.grant)
    }

    /// Whether it may be a worker under its name.
    pub(crate) fn may_work(&self) -> bool {
        self.may(Verb::Work) && self.grant.worker.as_ref().is_none_or(|only| *only == self.name)
    }

    /// Whether it may receive the outcome of what was submitted under its identity on other connections.
    pub(crate) fn may_hear_earlier_replies(&self) -> bool {
        self.is_chosen && self.may(Verb::Submit) && (self.is_known || self.may(Verb::EarlierReplies))
    }

    /// Whether it may be a worker. Records a refusal in the audit log.
    pub(crate) fn check_work(&self, out: &mut PeerOutput) -> bool {
        let is_its_own = self.grant.worker.as_ref().is_none_or(|only| *only == self.name);
        let allowed = rights::check(self.grant.rights, Verb::Work);
        let no = match allowed {
            Ok(()) if is_its_own => return true,
            Ok(()) => Refusal::NotAllowed { what: "use this worker id" }.into(),
            Err(no) => no,
        };
        out.note_refusal("work", &no);
        false
    }

    /// The same for everything else.
    pub(crate) fn check(
        &self,
        act: &'static str,
        verb: Verb<'_>,
        out: &mut PeerOutput,
    ) -> Result<(), HubRefusal> {
        rights::check(self.grant.rights, verb).inspect_err(|no| out.note_refusal(act, no))
    }

    pub(crate) fn may(&self, verb: Verb<'_>) -> bool {
        rights::allow(self.grant.rights, verb)
    }
}

/// The namespace that a grant is for.
pub(crate) fn namespace(grant: &Grant) -> Name {
    grant.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.into())
}

/// A session, whatever the protocol.
pub trait PeerSession: Send {
    /// The connection is open.
    fn begin(&mut self, _now: ClockReading, _out: &mut PeerOutput) {}

    /// The peer sent a message.
    fn receive(&mut self, now: ClockReading, frames: Vec<Bytes>, out: &mut PeerOutput);

    /// Which bytes are needed to take this delivery.
    fn needs(&self, delivery: &Delivery) -> Option<Blob>;

    /// The hub delivered something, here with the bytes that were needed.
    fn deliver(
        &mut self,
        now: ClockReading,
        delivery: Delivery,
        bytes: Result<Bytes, HubRefusal>,
        out: &mut PeerOutput,
    );

    /// Everything that has arrived was delivered.
    fn all_delivered(&mut self, _now: ClockReading, _out: &mut PeerOutput) {}

    /// Time has passed.
    fn tick(&mut self, _now: ClockReading, _out: &mut PeerOutput) {}

    /// When [`PeerSession::tick`] has something to do.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// How many requests the hub has not answered.
    fn unanswered(&self) -> usize;

    /// Whether to stop reading from the peer until others have taken what it sent.
    fn is_held_back(&self) -> bool {
        false
    }

    /// The peer began a message above the limit, so the connection is closed.
    fn too_long(&mut self, _now: ClockReading, _out: &mut PeerOutput) {}

    /// Another connection has taken the identity, so this one is closed.
    fn replaced(&mut self, _now: ClockReading, _out: &mut PeerOutput) {}

    /// Whether it leaves unfinished jobs under its identity.
    fn has_jobs(&self) -> bool {
        false
    }

    /// The connection is gone. Requests that the hub must get before it learns of that go into `out`.
    fn end(&mut self, _now: ClockReading, _out: &mut PeerOutput) {}
}
