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
use tenure_door_zmq::codec::{CodecError, PeerAdmission, ZmtpEvent, ZmtpLimits, ZmtpPeer};

pub(crate) use zmtp::*;

/// A connection under test with what it wrote.
pub(crate) struct Conversation {
    pub(crate) peer: ZmtpPeer,
    pub(crate) out: BytesMut,
}

impl Conversation {
    pub(crate) fn new(admission: PeerAdmission) -> Conversation {
        Conversation::with_limits(admission, ZmtpLimits::default())
    }

    pub(crate) fn with_limits(admission: PeerAdmission, limits: ZmtpLimits) -> Conversation {
        let mut out = BytesMut::new();
        let peer = ZmtpPeer::new(admission, limits, &mut out);
        Conversation { peer, out }
    }

    /// A NULL DEALER that has joined; what was said until then is forgotten.
    pub(crate) fn joined(limits: ZmtpLimits) -> Conversation {
        let mut conversation = Conversation::with_limits(PeerAdmission::Anyone, limits);
        conversation.hears(&null_opening("DEALER", b"")).expect("a good opening");
        conversation.out.clear();
        conversation
    }

    pub(crate) fn hears(&mut self, bytes: &[u8]) -> Result<Vec<ZmtpEvent>, CodecError> {
        let mut events = Vec::new();
        self.peer.receive(bytes, &mut self.out, &mut events)?;
        Ok(events)
    }

    /// What was written since the last call.
    pub(crate) fn says(&mut self) -> Vec<u8> {
        self.out.split().to_vec()
    }
}
