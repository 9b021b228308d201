//! Keys: which peers are admitted, and with which rights. A key is 256 random bits, stored as its hash and
//! compared in constant time.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use tenure_engine::{DEFAULT_NAMESPACE, Name, Refusal};

use crate::refusal::HubRefusal;
use crate::rights::Rights;

/// Completes "this key may not …" for a session whose key is gone.
pub(crate) const REVOKED: &str = "stay connected: it was revoked or changed";

/// The rights and limits of a key. Without any keys the broker listens on loopback only and every peer may do
/// everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the key, for logs. The key itself is never logged.
    pub name: Name,
    /// Distinguishes two keys with the same name.
    pub key: KeyId,
    /// The namespace its sessions are bound to; `None` lets the handshake choose.
    pub namespace: Option<Name>,
    /// The only worker id that its sessions may use, if set.
    pub worker: Option<Name>,
    /// The rights of the key.
    pub rights: Rights,
    /// How many namespaces its sessions may enter. `None`: the broker's limit per key.
    pub namespaces_max: Option<usize>,
    /// How many queues its sessions may use. `None`: the limit of the namespace.
    pub queues_max: Option<usize>,
}

/// A part of a key's hash: enough to identify the key, useless to guess it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyId(u64);

impl Grant {
    /// Full rights: the grant of every peer of a broker without keys, which listens on loopback only.
    pub fn everything() -> Grant {
        Grant {
            name: "anyone".into(),
            key: KeyId::default(),
            namespace: None,
            worker: None,
            rights: Rights::ALL,
            namespaces_max: None,
            queues_max: None,
        }
    }

    /// The namespace of a session: the key's own, else the requested one. A peer that requests another
    /// namespace than its key's is refused, not moved silently.
    pub fn namespace_for(&self, asked: Option<Name>) -> Result<Name, HubRefusal> {
        match (&self.namespace, asked) {
            (Some(own), Some(asked)) if *own != asked => {
                Err(Refusal::NotAllowed { what: "enter this namespace" }.into())
            }
            (Some(own), _) => Ok(own.clone()),
            (None, Some(asked)) => Ok(asked),
            (None, None) => Ok(DEFAULT_NAMESPACE.into()),
        }
    }
}

/// No rights: the grant of a peer that presents no key where one is required.
impl Default for Grant {
    fn default() -> Grant {
        Grant { name: "none".into(), rights: Rights::NONE, ..Grant::everything() }
    }
}

/// All keys of the broker.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    known: Vec<Known>,
}

/// A key by its hashes.
#[derive(Clone, Debug)]
struct Known {
    hash: [u8; 32],
    /// The hash of the raw bytes, for a key written in hexadecimal digits.
    raw: Option<[u8; 32]>,
    grant: Arc<Grant>,
}

impl Known {
    fn is(&self, presented: &[u8; 32]) -> Choice {
        // Compare both in any case, to keep the time constant.
        let raw = self.raw.as_ref().unwrap_or(&self.hash);
        self.hash.ct_eq(presented) | raw.ct_eq(presented)
    }
}

impl Keys {
    /// Adds a key in plain text; only its hash is kept.
    pub fn add(&mut self, key: &[u8], grant: Grant) {
        let grant = Arc::new(Grant { key: key_id(&hash(key)), ..grant });
        self.known.push(Known { hash: hash(key), raw: from_hex(key).map(|bytes| hash(&bytes)), grant });
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The grant of a key, presented as its text or as the bytes that its hexadecimal digits encode. Every
    /// known key is compared, each in constant time, so that the response time does not reveal how close a
    /// guess was.
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Grant>> {
        let presented = hash(key);
        let mut found = None;
        for known in &self.known {
            if bool::from(known.is(&presented)) {
                found = Some(&known.grant);
            }
        }
        found
    }

    /// The grant of a known key.
    fn grant_of(&self, key: KeyId) -> Option<&Grant> {
        self.known.iter().map(|known| &*known.grant).find(|grant| grant.key == key)
    }

    /// Whether a grant is still usable: its key is known, or it came from the broker itself or from a broker
    /// without keys.
    pub(crate) fn knows(&self, key: KeyId) -> bool {
        key == KeyId::default() || self.grant_of(key).is_some()
    }

    /// The keys that are missing from `others`, or have another grant there.
    pub(crate) fn revoked_by(&self, others: &Keys) -> HashSet<KeyId> {
        let is_revoked = |grant: &&Arc<Grant>| others.grant_of(grant.key) != Some(&**grant);
        self.known.iter().map(|known| &known.grant).filter(is_revoked).map(|grant| grant.key).collect()
    }

    /// The names of keys that are missing from `others`, or have another grant there.
    pub fn names_not_in(&self, others: &Keys) -> Vec<Name> {
        let revoked = self.revoked_by(others);
        let gone = self.known.iter().filter(|known| revoked.contains(&known.grant.key));
        let names: BTreeSet<&Name> = gone.map(|known| &known.grant.name).collect();
        names.into_iter().cloned().collect()
    }

    /// Whether the key of a grant still has the same grant.
    pub(crate) fn is_current(&self, grant: &Grant) -> bool {
        grant.key == KeyId::default() || self.grant_of(grant.key) == Some(grant)
    }

    /// The grant of a session that presents this key, or no key. `None`: not admitted.
    pub fn admit(&self, key: Option<&[u8]>) -> Option<Arc<Grant>> {
        if self.is_empty() {
            return Some(Arc::new(Grant::everything()));
        }
        self.find(key?).cloned()
    }

    /// Whether a grant may use a worker id. An id that has keys of its own belongs to those keys only.
    pub fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal> {
        let is_its_own = match &grant.worker {
            Some(own) => **own == *worker,
            None => !self.known.iter().any(|other| other.grant.worker.as_deref() == Some(worker)),
        };
        if is_its_own { Ok(()) } else { Err(Refusal::NotAllowed { what: "use this worker id" }.into()) }
    }
}

fn hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Decodes an even number of hexadecimal digits.
fn from_hex(key: &[u8]) -> Option<Vec<u8>> {
    if key.is_empty() || !key.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    key.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn key_id(hash: &[u8; 32]) -> KeyId {
    let (first, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
    KeyId(u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Right;

    #[test]
    fn only_a_known_key_is_admitted_and_without_keys_every_peer_is() {
        let mut keys = Keys::default();
        assert_eq!(keys.admit(None).as_deref(), Some(&Grant::everything()));
        let rights = Rights::ALL.without(Right::Manage);
        let grant = Grant { name: "lab".into(), rights, ..Grant::everything() };
        keys.add(b"correct", grant.clone());
        let admitted = keys.admit(Some(b"correct")).expect("it is known");
        assert_eq!(*admitted, Grant { key: admitted.key, ..grant });
        assert_ne!(admitted.key, KeyId::default());
        assert_eq!(keys.admit(Some(b"wrong")), None);
        assert_eq!(keys.admit(None), None);
        assert!(!format!("{keys:?}").contains("correct"));
    }

    #[test]
    fn a_key_of_hexadecimal_digits_is_also_known_by_its_bytes() {
        let mut keys = Keys::default();
        keys.add(b"00ff10Ab", Grant::everything());
        keys.add(b"0g", Grant::everything());
        let by_text = keys.admit(Some(b"00ff10Ab")).expect("it is known");
        assert_eq!(keys.admit(Some(b"\x00\xff\x10\xab")), Some(by_text));
        assert_eq!(keys.admit(Some(b"\x00\xff\x10")), None);
        assert_eq!(keys.admit(Some(b"\x00")), None, "not a key of digits");
        assert_eq!(keys.admit(Some(b"")), None);
    }

    #[test]
    fn a_worker_id_with_a_key_of_its_own_belongs_to_that_key() {
        let mut keys = Keys::default();
        keys.add(b"own", Grant { worker: Some("w1".into()), ..Grant::everything() });
        keys.add(b"any", Grant::everything());
        let [own, any] = [b"own", b"any"].map(|key| keys.admit(Some(key)).expect("it is known"));
        assert!(keys.may_work_as(&own, "w1").is_ok());
        assert!(keys.may_work_as(&own, "w2").is_err());
        assert!(keys.may_work_as(&any, "w2").is_ok());
        assert!(keys.may_work_as(&any, "w1").is_err(), "another key names it");
    }

    #[test]
    fn a_key_with_a_namespace_enters_no_other() {
        let bound = Grant { namespace: Some("lab".into()), ..Grant::everything() };
        assert_eq!(bound.namespace_for(None), Ok("lab".into()));
        assert_eq!(bound.namespace_for(Some("lab".into())), Ok("lab".into()));
        assert!(bound.namespace_for(Some("other".into())).is_err());
        assert_eq!(Grant::everything().namespace_for(Some("other".into())), Ok("other".into()));
        assert_eq!(Grant::everything().namespace_for(None), Ok(DEFAULT_NAMESPACE.into()));
    }

    #[test]
    fn a_key_is_revoked_when_it_is_gone_or_grants_something_else() {
        let keys = |all: &[(&[u8], &str)]| {
            let mut keys = Keys::default();
            for (key, namespace) in all {
                keys.add(key, Grant { namespace: Some((*namespace).into()), ..Grant::everything() });
            }
            keys
        };
        let old = keys(&[(b"one", "lab"), (b"two", "lab"), (b"three", "lab")]);
        let new = keys(&[(b"one", "lab"), (b"two", "office"), (b"four", "lab")]);
        let id = |key: &[u8]| old.find(key).expect("it is known").key;
        assert_eq!(old.revoked_by(&new), HashSet::from([id(b"two"), id(b"three")]));
        assert!(old.revoked_by(&old).is_empty());
        let is_still = |key: &[u8]| new.is_current(old.find(key).expect("it is known"));
        assert!(is_still(b"one") && !is_still(b"two") && !is_still(b"three"));
        assert!(new.knows(id(b"two")) && !new.knows(id(b"three")));
        assert!(new.knows(KeyId::default()) && new.is_current(&Grant::everything()));
    }
}
