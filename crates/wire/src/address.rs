//! Messages between peers: calls to one address, and broadcasts to all listening peers.

use bytes::Bytes;

use crate::Name;
use crate::schema::message;
use crate::words::CallOutcome;

message! {
    /// Answer calls to these addresses from now on.
    pub struct Listen {
        addresses: Vec<Name>,
    }
}

message! {
    /// A call to the peer that listens at an address. At most one peer receives it.
    pub struct Call {
        to: Name,
        body: Bytes,
        /// The caller stops waiting after this time.
        timeout_ms: Option<u64>,
    }
}

message! {
    /// A call to an address at which this peer listens.
    pub struct Called {
        /// Goes back with the answer.
        call: u64,
        to: Name,
        /// The caller's identity.
        from: Name,
        body: Bytes,
    }
}

message! {
    /// The caller of a pending call waits no longer.
    pub struct CallGivenUp {
        call: u64,
    }
}

message! {
    /// The receiver's answer to a call. `pending` may be followed by another answer, all others are final.
    pub struct Answer {
        call: u64,
        outcome: CallOutcome,
        body: Bytes,
    }
}

message! {
    /// The answer as the caller receives it.
    pub struct Answered {
        outcome: CallOutcome,
        body: Bytes,
    }
}

message! {
    /// A broadcast to all peers in the namespace that listen for broadcasts.
    pub struct Broadcast {
        subject: Option<Name>,
        body: Bytes,
        /// The sender's name. Default: the peer's identity.
        sender: Option<Name>,
        /// Correlation data for the sender's own use.
        correlation: Option<Name>,
    }
}

message! {
    /// Receive broadcasts from now on: those of this subject and this sender, or all. A further request adds to the
    /// earlier ones.
    #[derive(Default)]
    pub struct Hear {
        subject: Option<Name>,
        sender: Option<Name>,
    }
}
