//! `_PL` workers that may still compute jobs from a connection that is gone.
//!
//! Such a worker opens a new socket and introduces itself like a new one, possibly with a new identity. It reports
//! a client and a thread and no job, so it gets nothing before it has reported how many of its threads are free.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_hub::words::Name;

/// What identifies a returning worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trait {
    /// The identity that it chose.
    Identity(Name),
    /// The name of its server.
    Server(Name),
}

/// Maximum number of traits. Beyond it, every worker may be a lost one.
const TRAITS_MAX: usize = 10_000;

/// Shared by all workers of one door. Entries stay: a worker may compute for days, or be dead.
#[derive(Debug, Default)]
pub(crate) struct LostWorkers(Mutex<Lost>);

#[derive(Debug, Default)]
struct Lost {
    traits: HashSet<(Name, Trait)>,
    /// There is a lost worker without any known trait.
    has_unknown: bool,
}

impl LostWorkers {
    pub(crate) fn add(&self, namespace: &Name, worker: Vec<Trait>) {
        if worker.is_empty() {
            return self.add_unknown();
        }
        let mut lost = self.lock();
        for one in worker {
            if lost.traits.len() < TRAITS_MAX {
                lost.traits.insert((namespace.clone(), one));
            } else {
                lost.has_unknown |= !lost.traits.contains(&(namespace.clone(), one));
            }
        }
    }

    /// Adds a worker without any known trait, so that every worker may be it.
    pub(crate) fn add_unknown(&self) {
        self.lock().has_unknown = true;
    }

    /// Whether this worker may be one of them.
    pub(crate) fn may_include(&self, namespace: &Name, worker: &[Trait]) -> bool {
        let lost = self.lock();
        lost.has_unknown || worker.iter().any(|one| lost.traits.contains(&(namespace.clone(), one.clone())))
    }

    fn lock(&self) -> MutexGuard<'_, Lost> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Trait {
        Trait::Identity(name.into())
    }

    #[test]
    fn a_worker_is_recognised_by_anything_it_said_of_itself() {
        let (lost, lab) = (LostWorkers::default(), Name::from("lab"));
        let server = |name: &str| Trait::Server(name.into());
        lost.add(&lab, vec![identity("w"), server("node")]);
        assert!(lost.may_include(&lab, &[identity("w")]));
        assert!(lost.may_include(&lab, &[identity("another"), server("node")]));
        assert!(!lost.may_include(&lab, &[identity("node"), server("w")]));
        assert!(!lost.may_include(&"elsewhere".into(), &[identity("w")]));
        assert!(!lost.may_include(&lab, &[]));
        lost.add(&lab, vec![]);
        assert!(lost.may_include(&lab, &[identity("any")]), "nothing is known of the one that was lost");
    }

    #[test]
    fn with_too_many_to_remember_every_worker_may_be_one() {
        let (lost, lab) = (LostWorkers::default(), Name::from("lab"));
        for number in 0..TRAITS_MAX {
            lost.add(&lab, vec![identity(&number.to_string())]);
        }
        lost.add(&lab, vec![identity("0")]);
        assert!(!lost.may_include(&lab, &[identity("new")]));
        lost.add(&lab, vec![identity("one more")]);
        assert!(lost.may_include(&lab, &[identity("new")]));
    }
}
