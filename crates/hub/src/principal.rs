//! The principal of a session: its key, and the door and address the peer came from.

use std::net::IpAddr;
use std::sync::Arc;

use crate::keys::Grant;
use crate::rights::Right;

/// Who is behind a session.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The rights of its key.
    pub grant: Arc<Grant>,
    /// The door through which it came.
    pub door: &'static str,
    /// `None` for a Unix socket and for the broker itself.
    pub address: Option<IpAddr>,
    /// It is the broker itself, which may look into every namespace of its journal.
    pub is_broker: bool,
}

impl Principal {
    /// The broker itself: everything is allowed.
    pub fn trusted(door: &'static str) -> Principal {
        Principal { grant: Arc::new(Grant::everything()), door, address: None, is_broker: true }
    }

    /// The same principal with one right more than its peer has, for a session of the door itself, for
    /// example to read the result that the door sends as a reply.
    #[must_use]
    pub fn with(&self, right: Right) -> Principal {
        if self.grant.rights.contains(right) {
            return self.clone();
        }
        let rights = self.grant.rights.with(right);
        Principal { grant: Arc::new(Grant { rights, ..(*self.grant).clone() }), ..self.clone() }
    }
}
