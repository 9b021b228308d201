//! Which connection holds which identity. An identity belongs to the key that used it first, while that peer is
//! connected or has jobs under it. Among connections of one key the newest holds it. The older one does not get it
//! back by reconnecting at once; otherwise two peers that share an identity would disconnect each other in a loop.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_hub::KeyId;
use tenure_hub::words::Name;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::codec::Identity;

/// How long a replaced connection may take to close.
const HANDOVER: Duration = Duration::from_secs(2);
/// A connection that took an identity from another keeps it until no other has asked for it for this long.
const CONTESTED: Duration = Duration::from_secs(10);
/// How long a connection waits for an identity that it cannot have before it is closed. ZeroMQ reconnects at once.
const REFUSED_AFTER: Duration = Duration::from_secs(1);
/// How many identities without a connection are remembered for the jobs under them.
const REMEMBERED_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Identities {
    table: Mutex<Table>,
    last: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<IdentityKey, Entry>,
    /// How many entries have no holder.
    remembered: usize,
}

/// An identity of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IdentityKey {
    pub(super) namespace: Name,
    pub(super) identity: Identity,
}

#[derive(Debug)]
struct Entry {
    owner: KeyId,
    holder: Option<Holder>,
    /// A connection left unfinished jobs under it.
    has_jobs: bool,
}

/// The connection that has an identity.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    number: u64,
    wanted: CancellationToken,
    left: CancellationToken,
    refused: CancellationToken,
    /// When it was last contested: taken from another connection, or requested without success.
    contested_at: Option<Instant>,
}

/// The answer to a claim.
#[derive(Debug)]
pub(super) enum IdentityClaim {
    Granted {
        holder: Holder,
        /// Another connection had it and was closed for this one.
        replaced: bool,
        /// The same key has used it since the broker was started.
        is_known: bool,
    },
    /// Another connection has just taken it, and keeps it. `is_new` is set the first time.
    Refused { is_new: bool },
    /// It belongs to another key.
    OfAnotherKey,
}

#[derive(Debug)]
enum Attempt {
    Taken {
        holder: Holder,
        before: Option<Holder>,
        is_known: bool,
    },
    Contested {
        holder: Holder,
        is_new: bool,
    },
    OfAnotherKey,
    /// It belongs to another key because of jobs that may not have ended yet.
    HasJobs,
}

impl Identities {
    /// Claims an identity. Closes the connection that held it and waits for it, so that the hub learns of the old
    /// connection's end before the new one starts. `has_jobs` asks the hub whether anything is unfinished under the
    /// identity.
    pub(super) async fn claim(
        &self,
        key: &IdentityKey,
        owner: KeyId,
        has_jobs: impl Future<Output = bool> + Send,
    ) -> IdentityClaim {
        let mut is_first = false;
        let mut has_jobs = Some(has_jobs);
        // A holder that leaves by itself makes room for the waiting connection.
        for _ in 0..2 {
            match self.attempt(key, owner, Instant::now()) {
                Attempt::Taken { holder, before, is_known } => {
                    if let Some(before) = &before {
                        before.wanted.cancel();
                        let _ = tokio::time::timeout(HANDOVER, before.left.cancelled()).await;
                    }
                    return IdentityClaim::Granted { holder, replaced: before.is_some(), is_known };
                }
                Attempt::Contested { holder, is_new } => {
                    is_first |= is_new;
                    if tokio::time::timeout(REFUSED_AFTER, holder.left.cancelled()).await.is_err() {
                        break;
                    }
                }
                Attempt::HasJobs => {
                    let is_free = match has_jobs.take() {
                        Some(has_jobs) => !has_jobs.await,
                        None => false,
                    };
                    if !is_free {
                        return refuse_for_its_key().await;
                    }
                    self.forget(key);
                }
                Attempt::OfAnotherKey => return refuse_for_its_key().await,
            }
        }
        IdentityClaim::Refused { is_new: is_first }
    }

    fn attempt(&self, key: &IdentityKey, owner: KeyId, now: Instant) -> Attempt {
        let mut holder = Holder {
            number: self.last.fetch_add(1, Ordering::Relaxed),
            wanted: CancellationToken::new(),
            left: CancellationToken::new(),
            refused: CancellationToken::new(),
            contested_at: None,
        };
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(key) else {
            let entry = Entry { owner, holder: Some(holder.clone()), has_jobs: false };
            table.entries.insert(key.clone(), entry);
            return Attempt::Taken { holder, before: None, is_known: false };
        };
        if entry.owner != owner {
            return if entry.holder.is_some() { Attempt::OfAnotherKey } else { Attempt::HasJobs };
        }
        if let Some(holder) = &mut entry.holder
            && holder.contested_at.is_some_and(|at| now - at < CONTESTED)
        {
            holder.contested_at = Some(now);
            let is_new = !holder.refused.is_cancelled();
            holder.refused.cancel();
            return Attempt::Contested { holder: holder.clone(), is_new };
        }
        let before = entry.holder.take();
        if before.is_some() {
            holder.contested_at = Some(now);
        }
        entry.holder = Some(holder.clone());
        if before.is_none() {
            table.remembered -= 1;
        }
        Attempt::Taken { holder, before, is_known: true }
    }

    /// A connection leaves, possibly with unfinished jobs under its identity.
    pub(super) fn leave(&self, key: &IdentityKey, holder: &Holder, has_jobs: bool) {
        let mut table = self.lock();
        let has_room = table.remembered < REMEMBERED_MAX;
        if let Some(entry) = table.entries.get_mut(key) {
            entry.has_jobs |= has_jobs;
            if entry.holder.as_ref().is_some_and(|known| known.number == holder.number) {
                entry.holder = None;
                if entry.has_jobs && has_room {
                    table.remembered += 1;
                } else {
                    table.entries.remove(key);
                }
            }
        }
        drop(table);
        holder.left.cancel();
    }

    /// Nothing is unfinished under it any more.
    fn forget(&self, key: &IdentityKey) {
        let mut table = self.lock();
        if table.entries.get(key).is_some_and(|entry| entry.holder.is_none()) {
            table.entries.remove(key);
            table.remembered -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn refuse_for_its_key() -> IdentityClaim {
    delay_refusal().await;
    IdentityClaim::OfAnotherKey
}

/// A refused peer reconnects at once, so it has to wait a moment.
pub(super) async fn delay_refusal() {
    tokio::time::sleep(REFUSED_AFTER).await;
}

impl Holder {
    /// Cancelled when another connection wants this identity.
    pub(super) fn is_wanted(&self) -> &CancellationToken {
        &self.wanted
    }

    /// Whether another connection was refused because of this one.
    pub(super) fn is_disputed(&self) -> bool {
        self.refused.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    const ANYONE: [u8; 0] = [];

    fn key(namespace: &str) -> IdentityKey {
        IdentityKey { namespace: namespace.into(), identity: Identity::given(7) }
    }

    /// The ids of keys, as the hub makes them.
    fn owner(of: &[u8]) -> KeyId {
        let mut keys = tenure_hub::Keys::default();
        keys.add(of, tenure_hub::Grant::everything());
        keys.admit(Some(of)).expect("it is known").key
    }

    #[test]
    fn a_connection_that_was_replaced_does_not_get_its_identity_back_as_long_as_it_keeps_asking() {
        let (identities, key, mut now) = (Identities::default(), key("lab"), Instant::now());
        let attempt = |now| identities.attempt(&key, owner(&ANYONE), now);
        assert!(matches!(attempt(now), Attempt::Taken { before: None, .. }));
        now += Duration::from_secs(3600);
        assert!(matches!(attempt(now), Attempt::Taken { before: Some(_), .. }), "the newer has it");
        for round in 0..100 {
            now += CONTESTED / 2;
            let Attempt::Contested { is_new, .. } = attempt(now) else { panic!("it keeps it") };
            assert_eq!(is_new, round == 0, "said once");
        }
        now += CONTESTED;
        assert!(matches!(attempt(now), Attempt::Taken { before: Some(_), .. }), "a newer one has come");
    }

    #[tokio::test]
    async fn a_contested_identity_is_free_when_its_holder_goes() {
        let (identities, key, owner) = (Identities::default(), key("lab"), owner(&ANYONE));
        identities.attempt(&key, owner, Instant::now());
        let Attempt::Taken { holder, before: Some(_), .. } = identities.attempt(&key, owner, Instant::now())
        else {
            panic!("taken")
        };
        let claim = identities.claim(&key, owner, ready(true));
        let (claim, ()) = tokio::join!(claim, async { identities.leave(&key, &holder, false) });
        assert!(matches!(claim, IdentityClaim::Granted { replaced: false, .. }), "{claim:?}");
    }

    #[test]
    fn an_identity_is_another_one_in_every_namespace() {
        let (identities, now) = (Identities::default(), Instant::now());
        for key in [key("lab"), key("third_party")] {
            assert!(matches!(
                identities.attempt(&key, owner(&ANYONE), now),
                Attempt::Taken { before: None, .. }
            ));
        }
    }

    #[tokio::test]
    async fn an_identity_stays_with_its_key_until_nothing_is_under_it() {
        let (identities, key, mine, other) =
            (Identities::default(), key("lab"), owner(b"mine"), owner(b"other"));
        let IdentityClaim::Granted { holder, is_known: false, .. } =
            identities.claim(&key, mine, ready(true)).await
        else {
            panic!("it is free")
        };
        assert!(matches!(identities.claim(&key, other, ready(false)).await, IdentityClaim::OfAnotherKey));
        identities.leave(&key, &holder, true);
        assert!(matches!(identities.claim(&key, other, ready(true)).await, IdentityClaim::OfAnotherKey));
        let IdentityClaim::Granted { holder, is_known: true, .. } =
            identities.claim(&key, mine, ready(true)).await
        else {
            panic!("it is its own")
        };
        identities.leave(&key, &holder, false);
        let claim = identities.claim(&key, other, ready(false)).await;
        assert!(
            matches!(claim, IdentityClaim::Granted { is_known: false, .. }),
            "its jobs have ended: {claim:?}"
        );
        assert_eq!(identities.lock().remembered, 0);
    }

    #[test]
    fn an_identity_without_jobs_is_forgotten_with_its_connection() {
        let (identities, key) = (Identities::default(), key("lab"));
        for owner in [owner(b"mine"), owner(b"other")] {
            let Attempt::Taken { holder, is_known: false, .. } =
                identities.attempt(&key, owner, Instant::now())
            else {
                panic!("it is free")
            };
            identities.leave(&key, &holder, false);
        }
        assert!(identities.lock().entries.is_empty());
    }
}
