//! One peer's conversation: what it says becomes requests to the hub, what the hub delivers becomes messages to it.
//!
//! Everything here is pure. Time comes in as an argument, bytes of bodies and results are handed in, and what is to be
//! done goes into [`PeerOutput`]: the server does it.

mod asked;
mod client;
mod inquiry;
mod jobs;
mod majordomo;
mod ping_pong_client;
mod ping_pong_worker;
mod telling;
mod unseen;
mod worker;

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::words::{Blob, DEFAULT_NAMESPACE, Name, Refusal, Timestamp};
use tenure_hub::{Ask, Delivery, Grant};

use crate::rights::{self, Verb};

pub use majordomo::Majordomo;
pub use ping_pong_client::PingPongClient;
pub use ping_pong_worker::PingPongWorker;
pub use unseen::Unseen;

/// What a turn of a conversation asks for.
#[derive(Debug, Default)]
pub struct PeerOutput {
    /// Messages to the peer.
    pub messages: Vec<Vec<Bytes>>,
    /// Requests to the hub.
    pub asks: Vec<Ask>,
    /// The connection is to be closed when the messages are written.
    pub close: bool,
}

impl PeerOutput {
    /// Tells the audit log what this door has refused.
    pub(crate) fn note_refusal(&mut self, act: &'static str, no: &Refusal) {
        self.asks.push(Ask::refused(act, no));
    }
}

/// Who the peer is.
#[derive(Clone, Debug)]
pub struct Me {
    /// Its name in the broker.
    pub name: Name,
    /// Whether it chose its identity and may come back under it.
    pub is_chosen: bool,
    /// Whether its key has used this identity since the broker was started.
    pub is_known: bool,
    pub grant: Arc<Grant>,
}

impl Me {
    /// Where everything it says belongs.
    pub(crate) fn namespace(&self) -> Name {
        namespace(&self.grant)
    }

    /// Whether it may be a worker under its name.
    pub(crate) fn may_work(&self) -> bool {
        self.may(Verb::Work) && self.grant.worker.as_ref().is_none_or(|only| *only == self.name)
    }

    /// Whether it may be told of what was submitted under its identity on other connections.
    pub(crate) fn may_hear_earlier_replies(&self) -> bool {
        self.is_chosen && self.may(Verb::Submit) && (self.is_known || self.may(Verb::EarlierReplies))
    }

    /// Whether it may be a worker. What is refused is told to the audit log.
    pub(crate) fn check_work(&self, out: &mut PeerOutput) -> bool {
        let is_its_own = self.grant.worker.as_ref().is_none_or(|only| *only == self.name);
        let allowed = rights::check(self.grant.rights, Verb::Work);
        let no = match allowed {
            Ok(()) if is_its_own => return true,
            Ok(()) => Refusal::NotAllowed { what: "use this worker id" },
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
    ) -> Result<(), Refusal> {
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

/// A conversation, whatever the protocol.
pub trait PeerSession: Send {
    /// The connection is open.
    fn begin(&mut self, _now: Timestamp, _out: &mut PeerOutput) {}

    /// The peer sent a message.
    fn receive(&mut self, now: Timestamp, frames: Vec<Bytes>, out: &mut PeerOutput);

    /// Which bytes are needed to take this delivery.
    fn needs(&self, delivery: &Delivery) -> Option<Blob>;

    /// The hub delivered something, here with the bytes that were needed.
    fn deliver(
        &mut self,
        now: Timestamp,
        delivery: Delivery,
        bytes: Result<Bytes, Refusal>,
        out: &mut PeerOutput,
    );

    /// Everything that has arrived was delivered.
    fn settle(&mut self, _now: Timestamp, _out: &mut PeerOutput) {}

    /// Time has passed.
    fn tick(&mut self, _now: Timestamp, _out: &mut PeerOutput) {}

    /// When [`PeerSession::tick`] has something to do.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// How many requests the hub has not answered.
    fn unanswered(&self) -> usize;

    /// Whether nothing more is to be read from the peer until others have taken what it sent.
    fn is_held_back(&self) -> bool {
        false
    }

    /// The peer began a message that is longer than one may be; the connection is closed for it.
    fn too_long(&mut self, _now: Timestamp, _out: &mut PeerOutput) {}

    /// Another connection has taken the identity; this one is closed for it.
    fn replaced(&mut self, _now: Timestamp, _out: &mut PeerOutput) {}

    /// Whether it leaves jobs under its identity that have not ended.
    fn has_jobs(&self) -> bool {
        false
    }

    /// The connection is gone. What is to be asked of the hub before it hears of that goes into `out`.
    fn end(&mut self, _now: Timestamp, _out: &mut PeerOutput) {}
}
