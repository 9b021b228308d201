//! Talk between peers: a call to one address, a broadcast to everybody who listens.

use bytes::Bytes;

use crate::Name;
use crate::schema::message;
use crate::words::Outcome;

message! {
    /// Answer calls to these addresses from now on.
    pub struct Listen {
        addresses: Vec<Name>,
    }
}

message! {
    /// Asks whoever listens at an address. At most one peer gets it.
    pub struct Call {
        to: Name,
        body: Bytes,
        /// After this the caller does not wait any longer.
        timeout_ms: Option<u64>,
    }
}

message! {
    /// Somebody calls an address at which this peer listens.
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
    pub struct CallGivenUp {
        call: u64,
    }
}

message! {
    /// The receiver's answer to a call. `pending` may be followed by another answer, all others are final.
    pub struct Answer {
        call: u64,
        outcome: Outcome,
        body: Bytes,
    }
}

message! {
    /// What the caller hears.
    pub struct Answered {
        outcome: Outcome,
        body: Bytes,
    }
}

message! {
    /// Tells everybody in the namespace who hears broadcasts.
    pub struct Broadcast {
        subject: Option<Name>,
        body: Bytes,
        /// In whose name; unless given, the peer's identity.
        sender: Option<Name>,
        /// Whatever the sender wants to find again.
        correlation: Option<Name>,
    }
}

message! {
    /// Hear broadcasts from now on: those of this subject and this sender, or all. Said again, it adds to what is
    /// heard.
    #[derive(Default)]
    pub struct Hear {
        subject: Option<Name>,
        sender: Option<Name>,
    }
}
