//! The principal of a session: whose key it is, and through which door and from where the peer came.

use std::net::IpAddr;
use std::sync::Arc;

use crate::keys::Grant;
use crate::rights::Right;

#[derive(Clone, Debug)]
pub struct Principal {
    pub grant: Arc<Grant>,
    pub door: &'static str,
    /// None for a Unix socket and for the broker itself.
    pub address: Option<IpAddr>,
}

impl Principal {
    /// The broker itself, or whoever reaches a broker without keys: everything is allowed.
    pub fn trusted(door: &'static str) -> Principal {
        Principal { grant: Arc::new(Grant::everything()), door, address: None }
    }

    /// The same principal for a session in which the door needs one right more than its peer has, for example to read
    /// the result that it sends as a reply.
    #[must_use]
    pub fn with(&self, right: Right) -> Principal {
        if self.grant.rights.contains(right) {
            return self.clone();
        }
        let rights = self.grant.rights.with(right);
        Principal { grant: Arc::new(Grant { rights, ..(*self.grant).clone() }), ..self.clone() }
    }
}
