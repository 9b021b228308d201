//! How long a broker may be silent. A member of a group that is frozen or cut off is replaced within seconds, so its
//! clients must not wait for it much longer than that.

use std::time::Duration;

use tenure_wire::hello::Welcome;

/// The limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LivenessTimeouts {
    /// While requests are in flight, the broker is pinged after this much silence.
    pub(crate) ping_after: Duration,
    /// The connection is closed if a ping is not answered within this time.
    pub(crate) dead_after: Duration,
}

impl LivenessTimeouts {
    pub(crate) const ALONE: LivenessTimeouts =
        LivenessTimeouts { ping_after: Duration::from_secs(5), dead_after: Duration::from_secs(10) };
    /// Together they last about as long as the default lease of a leader.
    pub(crate) const IN_GROUP: LivenessTimeouts =
        LivenessTimeouts { ping_after: Duration::from_secs(1), dead_after: Duration::from_secs(2) };

    pub(crate) fn of(welcome: &Welcome) -> LivenessTimeouts {
        if is_in_group(welcome) { LivenessTimeouts::IN_GROUP } else { LivenessTimeouts::ALONE }
    }
}

/// Whether the broker belongs to a group: then another one may take over.
pub(crate) fn is_in_group(welcome: &Welcome) -> bool {
    welcome.leader.is_some() || !welcome.members.is_empty()
}
