//! The namespaces that the sessions of each key have entered, so that one key cannot use up the broker's
//! limit.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use tenure_engine::{Name, Refusal};

use crate::keys::{Grant, KeyId};
use crate::refusal::HubRefusal;

#[derive(Debug)]
pub(crate) struct EnteredNamespaces {
    limit: usize,
    of_key: Mutex<HashMap<KeyId, HashSet<Name>>>,
}

impl EnteredNamespaces {
    pub(crate) fn new(limit: usize) -> EnteredNamespaces {
        EnteredNamespaces { limit, of_key: Mutex::default() }
    }

    /// Counts a namespace that a session of this key enters. Keys with a namespace of their own are not
    /// counted, and a broker without keys trusts its peers.
    pub(crate) fn enter(&self, grant: &Grant, namespace: &Name) -> Result<(), HubRefusal> {
        if grant.namespace.is_some() || grant.key == KeyId::default() {
            return Ok(());
        }
        let mut of_key = self.of_key.lock().unwrap_or_else(PoisonError::into_inner);
        let entered = of_key.entry(grant.key).or_default();
        if entered.contains(namespace) {
            return Ok(());
        }
        let limit = grant.namespaces_max.unwrap_or(self.limit);
        if entered.len() >= limit {
            return Err(Refusal::TooMany { what: "namespaces of this key", limit }.into());
        }
        entered.insert(namespace.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    #[test]
    fn the_namespaces_of_a_key_are_limited_without_affecting_other_keys() {
        let mut keys = Keys::default();
        keys.add(b"one", Grant::everything());
        keys.add(b"two", Grant::everything());
        let [one, two] = [b"one", b"two"].map(|key| keys.find(key).expect("it is known"));
        let entered = EnteredNamespaces::new(2);
        let enter = |grant: &Grant, namespace: &str| entered.enter(grant, &namespace.into());
        for namespace in ["a", "b", "a"] {
            assert_eq!(enter(one, namespace), Ok(()));
        }
        assert_eq!(
            enter(one, "c"),
            Err(Refusal::TooMany { what: "namespaces of this key", limit: 2 }.into())
        );
        assert_eq!(enter(two, "c"), Ok(()));
        let three = Grant { namespaces_max: Some(1), ..(**two).clone() };
        assert_eq!(
            enter(&three, "d"),
            Err(Refusal::TooMany { what: "namespaces of this key", limit: 1 }.into())
        );
        for namespace in ["a", "b", "c"] {
            assert_eq!(enter(&Grant::everything(), namespace), Ok(()), "a broker without keys");
        }
    }
}
