//! Who this program is to the broker, and where the broker may be: the same for clients, watchers and workers.

use tenure_wire::Name;
use tenure_wire::hello::{FEATURE_ACKNOWLEDGE, Hello, Key};
use tenure_wire::words::Role;

use crate::address::{ADDRESSES_MAX, Address};
use crate::error::Error;

#[derive(Clone, Debug, Default)]
pub(crate) struct PeerOptions {
    pub(crate) addresses: Vec<Address>,
    pub(crate) identity: Option<Name>,
    pub(crate) namespace: Option<Name>,
    pub(crate) key: Option<Key>,
    pub(crate) software: Option<Box<str>>,
    pub(crate) roles: Vec<Role>,
    /// The first address that could not be read. It is told when the connection is wanted, so that builders stay
    /// chains.
    pub(crate) bad_address: Option<Error>,
}

impl PeerOptions {
    /// Adds one address, or several with commas between them.
    pub(crate) fn add_addresses(&mut self, text: &str) {
        match Address::parse_many(text) {
            Ok(addresses) => self.addresses.extend(addresses),
            Err(error) => self.bad_address = self.bad_address.take().or(Some(error)),
        }
    }

    /// Whether there is somewhere to connect to.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(error) = &self.bad_address {
            return Err(error.clone());
        }
        if self.addresses.is_empty() {
            return Err(Error::bad_address("", "is empty"));
        }
        if self.addresses.len() > ADDRESSES_MAX {
            return Err(Error::bad_address(&self.names(), "has too many addresses, at most 64 are taken"));
        }
        Ok(())
    }

    pub(crate) fn hello(&self) -> Hello {
        let software = self.software.clone().unwrap_or_else(|| SOFTWARE.into());
        Hello {
            version: tenure_wire::VERSION,
            roles: self.roles.clone(),
            identity: self.identity.clone(),
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            software: Some(software),
            features: vec![FEATURE_ACKNOWLEDGE.into()],
        }
    }

    /// All addresses, for people.
    pub(crate) fn names(&self) -> String {
        let names: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

/// What the broker's people read about this program unless it says something better.
const SOFTWARE: &str = concat!("tenure-client ", env!("CARGO_PKG_VERSION"), " (Rust)");

/// The setters that every builder with a [`PeerOptions`] inside offers, in the same words.
macro_rules! peer_setters {
    () => {
        /// Where the broker listens: `host:port`, `host`, `unix:/path`, or several with commas between them. May be
        /// given several times; the addresses are tried in turn.
        #[must_use]
        pub fn address(mut self, address: &str) -> Self {
            self.peer.add_addresses(address);
            self
        }

        /// Several addresses of the broker, to be tried in turn.
        #[must_use]
        pub fn addresses<'a>(mut self, addresses: impl IntoIterator<Item = &'a str>) -> Self {
            addresses.into_iter().for_each(|address| self.peer.add_addresses(address));
            self
        }

        /// Which namespace to work in, unless the key says.
        #[must_use]
        pub fn namespace(mut self, namespace: impl Into<$crate::Name>) -> Self {
            self.peer.namespace = Some(namespace.into());
            self
        }

        /// The secret to show, if the broker asks for one.
        #[must_use]
        pub fn key(mut self, key: &str) -> Self {
            self.peer.key = Some($crate::wire::hello::Key::new(key));
            self
        }

        /// This program and its version, for the broker's people to read.
        #[must_use]
        pub fn software(mut self, software: &str) -> Self {
            self.peer.software = Some(software.into());
            self
        }
    };
}

pub(crate) use peer_setters;
