//! Keys: who may come in, and as what. A key is 256 random bits, kept as its hash and compared in constant time.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use tenure_engine::Name;

/// What a key allows. Without any keys the broker listens on loopback only and everybody may do everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the key, for logs. The key itself is never logged.
    pub name: Name,
    /// The namespace its sessions are bound to; `None` lets the handshake choose.
    pub namespace: Option<Name>,
    /// The only worker id it may register, if it is bound to one.
    pub worker: Option<Name>,
    pub may_submit: bool,
    pub may_work: bool,
    /// Limits, queues, draining others, backups.
    pub may_manage: bool,
}

impl Grant {
    /// Everything: what a broker without keys gives to whoever reaches its loopback address.
    pub fn everything() -> Grant {
        Grant {
            name: "anyone".into(),
            namespace: None,
            worker: None,
            may_submit: true,
            may_work: true,
            may_manage: true,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Keys {
    known: Vec<([u8; 32], Grant)>,
}

impl Keys {
    /// Adds a key in plain text; only its hash is kept.
    pub fn add(&mut self, key: &[u8], grant: Grant) {
        self.known.push((hash(key), grant));
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The grant of a key. Every known key is compared, and each in constant time, so that the answer's time says
    /// nothing about how close a guess was.
    pub fn find(&self, key: &[u8]) -> Option<&Grant> {
        let presented = hash(key);
        let mut found = None;
        for (known, grant) in &self.known {
            let same: Choice = known.ct_eq(&presented);
            if bool::from(same) {
                found = Some(grant);
            }
        }
        found
    }

    /// What a session may do that presents this key, or none. `None` means: no entry.
    pub fn admit(&self, key: Option<&[u8]>) -> Option<Grant> {
        if self.is_empty() {
            return Some(Grant::everything());
        }
        self.find(key?).cloned()
    }
}

fn hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_key_is_admitted_and_without_keys_everybody_is() {
        let mut keys = Keys::default();
        assert_eq!(keys.admit(None), Some(Grant::everything()));
        let grant = Grant { name: "lab".into(), may_manage: false, ..Grant::everything() };
        keys.add(b"correct", grant.clone());
        assert_eq!(keys.admit(Some(b"correct")), Some(grant));
        assert_eq!(keys.admit(Some(b"wrong")), None);
        assert_eq!(keys.admit(None), None);
        assert!(!format!("{keys:?}").contains("correct"));
    }
}
