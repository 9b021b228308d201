//! What a door tells the connection loop about its protocol.

use std::future::{Future, pending, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_hub::limits::SESSION_REQUESTS_MAX;
use tenure_hub::topics::Topics;
use tenure_hub::words::{Blob, Name, Refusal, SessionId, Timestamp};
use tenure_hub::{Ask, Delivery, Grant, Principal};

use crate::authenticator::LoginError;

/// What comes out of one turn of a protocol: bytes for the peer, requests for the hub.
#[derive(Debug, Default)]
pub struct Turn {
    pub out: BytesMut,
    pub asks: Vec<Ask>,
    /// When `out` has been sent, the connection ends.
    pub close: bool,
    /// `out` is sent after this wait, and nothing is read meanwhile: a wrong key is answered slowly.
    pub hold: Option<Duration>,
}

/// One peer's side of a protocol, with time as an argument. Everything is pure but `happens`, `happened`, `prepare`,
/// `work` and `end`, which are for protocols that talk with more than the peer and the hub.
pub trait Protocol: Send {
    /// What happens elsewhere: on a topic, in a worker actor.
    type Event: Send;

    /// The peer has just connected.
    fn begin(&mut self, _turn: &mut Turn) {}

    /// Takes complete frames out of what has arrived. What it leaves is an unfinished frame, or frames that have to
    /// wait.
    fn receive(
        &mut self,
        now: Timestamp,
        arrived: &mut BytesMut,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    );

    /// Which bytes the loop has to bring along with this delivery.
    fn needs(&self, _delivery: &Delivery) -> Option<Blob> {
        None
    }

    /// Takes one delivery of the hub, with the bytes that it needs.
    fn deliver(
        &mut self,
        now: Timestamp,
        delivery: Delivery,
        bytes: Option<Result<Bytes, Refusal>>,
        turn: &mut Turn,
    );

    /// All that arrived together has been delivered: what was collected goes out.
    fn flush(&mut self, _turn: &mut Turn) {}

    /// Whether the peer has introduced itself. One that has not has little time.
    fn is_known(&self) -> bool;

    /// The peer has not introduced itself in time. It is told so, if the protocol has words for it, and the connection
    /// ends.
    fn login_is_late(&mut self, _turn: &mut Turn) {}

    /// Requests that the hub has not answered. Those that wait for other peers do not count.
    fn open_requests(&self) -> usize;

    /// Whether answers are still to be given.
    fn owes_answers(&self) -> bool {
        self.open_requests() > 0
    }

    /// Whether the peer waits for other peers, so that its answer is lost if it hangs up.
    fn is_blocked(&self) -> bool {
        false
    }

    /// Whether more should be read, with so many bytes that have arrived and so many that are unsent.
    fn may_read(&self, _arrived: usize, _unsent: usize) -> bool {
        self.open_requests() < SESSION_REQUESTS_MAX
    }

    /// Whether the peer has begun a frame and not finished it.
    fn is_halfway(&self, arrived: usize, _unsent: usize) -> bool {
        arrived > 0
    }

    /// Whether `receive` has something to do.
    fn may_receive(&self, arrived: usize) -> bool {
        arrived > 0
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Does what is due, and gives up what has taken too long.
    fn tick(&mut self, _now: Timestamp, _turn: &mut Turn) {}

    /// Waits for what happens elsewhere. The loop drops it whenever something else is ready first, so nothing may be
    /// lost with it. Without room, messages stay where they are, in the queue of their subscription with its policy.
    fn happens(&mut self, _has_room: bool) -> impl Future<Output = Self::Event> + Send {
        pending()
    }

    /// What has happened already. The loop asks in every round, because `happens` comes last: a peer that never stops
    /// talking gets its messages all the same.
    fn has_happened(&mut self, _has_room: bool) -> Option<Self::Event> {
        None
    }

    fn happened(
        &mut self,
        _now: Timestamp,
        _event: Self::Event,
        _turn: &mut Turn,
    ) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Comes before the requests of this turn go to the hub.
    fn prepare(
        &mut self,
        _access: &mut dyn ConnectionAccess,
        _turn: &mut Turn,
    ) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Comes after the requests of this turn have gone to the hub: what has to be done elsewhere. Says whether it led
    /// to anything.
    fn work(&mut self, _turn: &mut Turn) -> impl Future<Output = bool> + Send {
        ready(false)
    }

    /// The connection is over.
    fn end(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// Login and the session with the hub, as far as a protocol needs them.
pub trait ConnectionAccess: Send {
    /// Whether peers need a key at all.
    fn wants_keys(&self) -> bool;

    /// What a peer may do that shows this key.
    fn login(&mut self, now: Timestamp, key: Option<&[u8]>) -> Result<Principal, LoginError>;

    /// Begins the hub's session for this peer; one from before ends.
    fn open(&mut self, principal: Principal, namespace: Name, identity: Name) -> Result<SessionId, Refusal>;

    /// Whether a grant may use a worker id.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal>;

    fn topics(&self) -> Topics;

    /// A peer was refused before its session began: for the audit log.
    fn note_refusal(&self, _principal: &Principal, _act: &'static str, _no: &Refusal) {}
}
