//! The interface between a door's protocol and the connection loop.

use std::future::{Future, pending, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_hub::limits::SESSION_REQUESTS_MAX;
use tenure_hub::topics::Topics;
use tenure_hub::words::{Blob, Name, SessionId, Timestamp};
use tenure_hub::{Ask, ClockReading, Delivery, Grant, HubRefusal, Principal};

use crate::authenticator::LoginError;
use crate::stream::StreamEnds;

/// The output of one turn: bytes for the peer, requests for the hub.
#[derive(Debug, Default)]
pub struct Turn {
    /// Bytes for the peer.
    pub out: BytesMut,
    /// Requests for the hub.
    pub asks: Vec<Ask>,
    /// The connection ends when `out` has been sent.
    pub close: bool,
    /// `out` is sent after this delay, and nothing is read meanwhile: a wrong key is answered slowly.
    pub hold: Option<Duration>,
}

/// One peer's side of a protocol, with time as an argument. All methods are pure except `happens`, `happened`,
/// `prepare`, `work` and `end`, which are for protocols that use more than the peer and the hub.
pub trait Protocol: Send {
    /// An event from elsewhere: from a topic or a worker actor.
    type Event: Send;
    /// The broker speaks first: [`Protocol::begin`] has something to say.
    const SPEAKS_FIRST: bool = false;

    /// The peer has just connected.
    fn begin(&mut self, _turn: &mut Turn) {}

    /// Takes complete frames out of the received bytes. The rest is an unfinished frame, or frames that have to wait.
    fn receive(
        &mut self,
        now: ClockReading,
        arrived: &mut BytesMut,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    );

    /// Which bytes the loop must fetch for this delivery.
    fn needs(&self, _delivery: &Delivery) -> Option<Blob> {
        None
    }

    /// Takes one delivery of the hub, with the bytes that it needs.
    fn deliver(
        &mut self,
        now: ClockReading,
        delivery: Delivery,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    );

    /// The whole batch has been delivered: collected output goes out.
    fn flush(&mut self, _turn: &mut Turn) {}

    /// The peer has read: output that waited for room follows. Called before the loop decides what to wait for.
    fn continue_output(&mut self, _turn: &mut Turn) {}

    /// How many bytes of output wait for room. They count against the byte budget.
    fn waiting_bytes(&self) -> usize {
        0
    }

    /// Whether the peer has logged in. A peer that has not gets little time.
    fn is_known(&self) -> bool;

    /// The peer has not logged in in time. The protocol may send it a message before the connection ends.
    fn login_is_late(&mut self, _turn: &mut Turn) {}

    /// Requests that the hub has not answered. Those that wait for other peers do not count.
    fn open_requests(&self) -> usize;

    /// Whether replies are outstanding.
    fn owes_answers(&self) -> bool {
        self.open_requests() > 0
    }

    /// Whether the peer waits for other peers, so that its reply is lost if it disconnects.
    fn is_blocked(&self) -> bool {
        false
    }

    /// Whether to read more, given the number of unprocessed and of unsent bytes.
    fn may_read(&self, _arrived: usize, _unsent: usize) -> bool {
        self.open_requests() < SESSION_REQUESTS_MAX
    }

    /// Whether the peer has sent an incomplete frame.
    fn is_halfway(&self, arrived: usize, _unsent: usize) -> bool {
        arrived > 0
    }

    /// Whether `receive` has something to do.
    fn may_receive(&self, arrived: usize) -> bool {
        arrived > 0
    }

    /// By the steady clock.
    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Does what is due, and gives up what has taken too long.
    fn tick(&mut self, _now: ClockReading, _turn: &mut Turn) {}

    /// Waits for an event from elsewhere. Must be cancel-safe: the loop drops it whenever something else is ready
    /// first. Without room, messages stay in the queue of their subscription, where its policy applies.
    fn happens(&mut self, _has_room: bool) -> impl Future<Output = Self::Event> + Send {
        pending()
    }

    /// Returns an event that has already happened. The loop asks in every round, because `happens` has the lowest
    /// priority: a peer that sends without pause still gets its messages.
    fn has_happened(&mut self, _has_room: bool) -> Option<Self::Event> {
        None
    }

    /// Handles an event of its own.
    fn happened(
        &mut self,
        _now: ClockReading,
        _event: Self::Event,
        _turn: &mut Turn,
    ) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Called before the requests of this turn go to the hub.
    fn prepare(
        &mut self,
        _access: &mut dyn ConnectionAccess,
        _turn: &mut Turn,
    ) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Called after the requests of this turn have gone to the hub, for work elsewhere. Returns whether it produced
    /// anything.
    fn work(&mut self, _turn: &mut Turn) -> impl Future<Output = bool> + Send {
        ready(false)
    }

    /// The connection is over.
    fn end(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// Login and the session with the hub, for protocols.
pub trait ConnectionAccess: Send {
    /// Whether peers need a key.
    fn wants_keys(&self) -> bool;

    /// Returns the principal for this key.
    fn login(&mut self, now: ClockReading, key: Option<&[u8]>) -> Result<Principal, LoginError>;

    /// Opens the hub session for this peer, and ends an earlier one.
    fn open(
        &mut self,
        principal: Principal,
        namespace: Name,
        identity: Name,
    ) -> Result<SessionId, HubRefusal>;

    /// Whether a grant may use a worker id.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal>;

    /// Refuses a namespace that another group serves, for a peer without a session.
    fn check_placement(&self, _namespace: &Name) -> Result<(), HubRefusal> {
        Ok(())
    }

    /// The topics of the broker.
    fn topics(&self) -> Topics;

    /// The ends of the TCP connection, if the door tells them.
    fn ends(&self) -> Option<StreamEnds> {
        None
    }

    /// Records in the audit log that a peer was refused before its session began.
    fn note_refusal(&self, _principal: &Principal, _act: &'static str, _no: &HubRefusal) {}
}
