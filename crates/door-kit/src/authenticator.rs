//! Login: maps a peer's key to the principal of its session. A wrong key is counted, logged, and answered with a delay
//! if the address has sent too many.

use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_hub::words::Timestamp;
use tenure_hub::{Audit, ClockReading, Counters, Grant, HubHandle, Keys, NotAdmitted, Principal};
use tokio::sync::watch;

use crate::throttle::Throttle;

/// The authenticator of one door.
#[derive(Debug)]
pub struct Authenticator {
    keys: KeySource,
    door: &'static str,
    counters: Arc<Counters>,
    throttle: Mutex<Throttle>,
    /// Makes the hashes of wrong keys useless to an attacker who reads memory or logs.
    hasher: std::hash::RandomState,
}

/// Who knows the keys.
#[derive(Debug)]
enum KeySource {
    Hub(HubHandle),
    /// A standby has no hub.
    Standby {
        keys: watch::Receiver<Keys>,
        audit: Option<Audit>,
    },
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The broker wants a key, and the peer has sent none.
    #[error("a key is required")]
    NoKey,
    /// The door sends its refusal after this wait. If `ends`, too many others wait already: the door refuses at once
    /// and ends the connection.
    #[error("invalid key")]
    WrongKey {
        /// How long the refusal waits.
        wait: Duration,
        /// The connection ends.
        ends: bool,
    },
}

impl Authenticator {
    /// The authenticator of one door.
    pub fn new(hub: HubHandle, door: &'static str, counters: Arc<Counters>) -> Authenticator {
        Authenticator::with(KeySource::Hub(hub), door, counters)
    }

    /// The authenticator of a door at which a standby answers by itself.
    pub fn of_standby(
        keys: watch::Receiver<Keys>,
        audit: Option<Audit>,
        door: &'static str,
        counters: Arc<Counters>,
    ) -> Authenticator {
        Authenticator::with(KeySource::Standby { keys, audit }, door, counters)
    }

    fn with(keys: KeySource, door: &'static str, counters: Arc<Counters>) -> Authenticator {
        Authenticator {
            keys,
            door,
            counters,
            throttle: Mutex::default(),
            hasher: std::hash::RandomState::new(),
        }
    }

    /// Whether peers need a key.
    pub fn wants_keys(&self) -> bool {
        match &self.keys {
            KeySource::Hub(hub) => hub.wants_keys(),
            KeySource::Standby { keys, .. } => !keys.borrow().is_empty(),
        }
    }

    /// Checks the key first: a valid key is never delayed, whatever other peers of its address have sent.
    pub fn login(
        &self,
        now: ClockReading,
        address: Option<IpAddr>,
        key: Option<&[u8]>,
    ) -> Result<Principal, LoginError> {
        if let Some(grant) = self.admit(key) {
            return Ok(Principal { grant, door: self.door, address, is_broker: false });
        }
        let Some(key) = key else {
            self.counters.count("no_key");
            self.note(now.wall, address, NotAdmitted::NoKey);
            return Err(LoginError::NoKey);
        };
        self.counters.count("wrong_key");
        self.note(now.wall, address, NotAdmitted::WrongKey);
        let hash = self.hasher.hash_one(key);
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = throttle.wrong(now.steady, address, hash);
        drop(throttle);
        if verdict.is_news {
            let from = address.map_or_else(|| "a local socket".to_owned(), |address| address.to_string());
            tracing::warn!(door = self.door, from, tries = verdict.tries, "login refused: invalid key");
        }
        Err(LoginError::WrongKey { wait: verdict.wait, ends: verdict.ends })
    }

    fn admit(&self, key: Option<&[u8]>) -> Option<Arc<Grant>> {
        match &self.keys {
            KeySource::Hub(hub) => hub.admit(key),
            KeySource::Standby { keys, .. } => keys.borrow().admit(key),
        }
    }

    /// The audit log, if there is one.
    pub fn audit(&self) -> Option<&Audit> {
        match &self.keys {
            KeySource::Hub(hub) => hub.audit(),
            KeySource::Standby { audit, .. } => audit.as_ref(),
        }
    }

    fn note(&self, now: Timestamp, address: Option<IpAddr>, no: NotAdmitted) {
        if let Some(audit) = self.audit() {
            audit.not_admitted(now, self.door, address, no);
        }
    }
}
