//! Who has which identity. When a second connection comes with an identity, the first one leaves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_hub::Counters;
use tokio_util::sync::CancellationToken;

use crate::codec::Identity;

/// How long a connection that is replaced may take to go.
const HANDOVER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<HashMap<Identity, Seat>>,
    last: AtomicU64,
}

/// A connection under its identity.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    number: u64,
    wanted: CancellationToken,
    left: CancellationToken,
}

impl Seats {
    /// Takes the seat of an identity. Whoever had it is asked to leave and waited for, so that the hub hears of the old
    /// connection's end before it hears of the new one.
    pub(super) async fn take(&self, identity: &Identity, counters: &Counters) -> Seat {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let seat = Seat { number, wanted: CancellationToken::new(), left: CancellationToken::new() };
        let before = self.lock().insert(identity.clone(), seat.clone());
        if let Some(before) = before {
            counters.count("replaced");
            before.wanted.cancel();
            let _ = tokio::time::timeout(HANDOVER, before.left.cancelled()).await;
        }
        seat
    }

    pub(super) fn leave(&self, identity: &Identity, seat: &Seat) {
        let mut taken = self.lock();
        if taken.get(identity).is_some_and(|known| known.number == seat.number) {
            taken.remove(identity);
        }
        seat.left.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Seat>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Cancelled when another connection wants this seat.
    pub(super) fn is_wanted(&self) -> &CancellationToken {
        &self.wanted
    }
}
