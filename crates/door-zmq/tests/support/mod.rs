//! A ZMTP peer written by hand, byte by byte, so that the codec is not tested against itself.
#![allow(dead_code, reason = "every test uses its own part")]

pub(crate) mod broker;
pub(crate) mod cbor;
pub(crate) mod majordomo;
pub(crate) mod native;
pub(crate) mod plugin;
pub(crate) mod python;
pub(crate) mod transcript;
pub(crate) mod wire;
pub(crate) mod world;
mod zmtp;

use bytes::BytesMut;
use tenure_door_zmq::codec::{Admission, CodecError, Event, Limits, Peer};

pub(crate) use zmtp::*;

/// A connection under test with what it wrote.
pub(crate) struct Conversation {
    pub(crate) peer: Peer,
    pub(crate) out: BytesMut,
}

impl Conversation {
    pub(crate) fn new(admission: Admission) -> Conversation {
        Conversation::with_limits(admission, Limits::default())
    }

    pub(crate) fn with_limits(admission: Admission, limits: Limits) -> Conversation {
        let mut out = BytesMut::new();
        let peer = Peer::new(admission, limits, &mut out);
        Conversation { peer, out }
    }

    /// A NULL DEALER that has joined; what was said until then is forgotten.
    pub(crate) fn joined(limits: Limits) -> Conversation {
        let mut conversation = Conversation::with_limits(Admission::Anyone, limits);
        conversation.hears(&null_opening("DEALER", b"")).expect("a good opening");
        conversation.out.clear();
        conversation
    }

    pub(crate) fn hears(&mut self, bytes: &[u8]) -> Result<Vec<Event>, CodecError> {
        let mut events = Vec::new();
        self.peer.receive(bytes, &mut self.out, &mut events)?;
        Ok(events)
    }

    /// What was written since the last call.
    pub(crate) fn says(&mut self) -> Vec<u8> {
        self.out.split().to_vec()
    }
}
