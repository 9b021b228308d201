//! The identity of this program and the addresses of the broker: shared by clients, watchers and workers.

use tenure_wire::Name;
use tenure_wire::hello::{FEATURE_ACKNOWLEDGE, Hello, Key};
use tenure_wire::words::Role;

use crate::address::{ADDRESSES_MAX, Address};
use crate::error::Error;
use crate::tls;

#[derive(Clone, Debug, Default)]
pub(crate) struct PeerOptions {
    pub(crate) addresses: Vec<Address>,
    /// How many of them, at the end, a broker has named.
    pub(crate) learned: usize,
    pub(crate) identity: Option<Name>,
    pub(crate) namespace: Option<Name>,
    pub(crate) key: Option<Key>,
    pub(crate) software: Option<Box<str>>,
    pub(crate) roles: Vec<Role>,
    /// It wants the member of a group that it has addressed, also if that stands by.
    pub(crate) stays_at_member: bool,
    /// The first address that could not be parsed. Connecting reports it, so that builder methods need not return a
    /// `Result`.
    pub(crate) bad_address: Option<Error>,
}

impl PeerOptions {
    /// Adds one address, or several separated by commas.
    pub(crate) fn add_addresses(&mut self, text: &str) {
        match Address::parse_many(text) {
            Ok(addresses) => self.addresses.extend(addresses),
            Err(error) => self.bad_address = self.bad_address.take().or(Some(error)),
        }
    }

    /// Checks that there is an address to connect to, and that the files that it names can be read. A later connection
    /// reads them again, and tries again if they are just being replaced.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(error) = &self.bad_address {
            return Err(error.clone());
        }
        if self.addresses.is_empty() {
            return Err(Error::bad_address("", "is empty"));
        }
        if self.addresses.len() > ADDRESSES_MAX {
            return Err(Error::bad_address(&self.names(), "has too many addresses: at most 64 are allowed"));
        }
        for address in &self.addresses {
            if let Address::Tls(tls) = address
                && let Err(error) = tls::connector(tls, self.stays_at_member)
            {
                let why = format!("cannot be used: {error}").into();
                return Err(Error::BadSetting { what: "the address", why });
            }
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
            member: self.stays_at_member,
        }
    }

    /// All addresses, for messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

/// Default text that names this program to the broker's operators.
const SOFTWARE: &str = concat!("tenure-client ", env!("CARGO_PKG_VERSION"), " (Rust)");

/// Setters shared by all builders that contain a [`PeerOptions`].
macro_rules! peer_setters {
    () => {
        /// Adds an address of the broker: `host:port`, `host`, `unix:/path`, or a comma-separated list of these. May
        /// be called several times; the addresses are tried in turn.
        #[must_use]
        pub fn address(mut self, address: &str) -> Self {
            self.peer.add_addresses(address);
            self
        }

        /// Adds several addresses of the broker, which are tried in turn.
        #[must_use]
        pub fn addresses<'a>(mut self, addresses: impl IntoIterator<Item = &'a str>) -> Self {
            addresses.into_iter().for_each(|address| self.peer.add_addresses(address));
            self
        }

        /// Sets the namespace, for keys that do not imply one.
        #[must_use]
        pub fn namespace(mut self, namespace: impl Into<$crate::Name>) -> Self {
            self.peer.namespace = Some(namespace.into());
            self
        }

        /// Sets the key that authenticates this program.
        #[must_use]
        pub fn key(mut self, key: &str) -> Self {
            self.peer.key = Some($crate::wire::hello::Key::new(key));
            self
        }

        /// Sets the name and version of this program, shown to the broker's operators.
        #[must_use]
        pub fn software(mut self, software: &str) -> Self {
            self.peer.software = Some(software.into());
            self
        }
    };
}

pub(crate) use peer_setters;
