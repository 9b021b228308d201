//! Who has which identity. When a second connection comes with an identity, the first one leaves; but it does not get it
//! back by coming again at once, or two peers that share an identity would throw each other out for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_hub::words::Name;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::codec::Identity;

/// How long a connection that is replaced may take to go.
const HANDOVER: Duration = Duration::from_secs(2);
/// Whoever took a seat from another keeps it until nobody has asked for it for so long.
const CONTESTED: Duration = Duration::from_secs(10);
/// How long a connection that cannot have its seat waits for it before it is closed. ZeroMQ comes again at once.
const REFUSED_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<HashMap<SeatKey, Seat>>,
    last: AtomicU64,
}

/// A seat is for one identity in one namespace; and a connection that may not work under its name does not take the
/// seat of one that may.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeatKey {
    pub(super) namespace: Name,
    pub(super) identity: Identity,
    pub(super) may_work: bool,
}

/// A connection under its identity.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    number: u64,
    wanted: CancellationToken,
    left: CancellationToken,
    refused: CancellationToken,
    /// When it was last fought for: taken from another, or wanted in vain.
    contested_at: Option<Instant>,
}

/// How a seat was come by.
#[derive(Debug)]
pub(super) enum Taking {
    Free(Seat),
    /// Another connection had it and has left for this one.
    Replaced(Seat),
    /// Another connection has just taken it, and keeps it. `is_new` the first time.
    Refused {
        is_new: bool,
    },
}

#[derive(Debug)]
enum Attempt {
    Taken(Seat, Option<Seat>),
    Contested { holder: Seat, is_new: bool },
}

impl Seats {
    /// Takes a seat. Whoever had it is asked to leave and waited for, so that the hub hears of the old connection's end
    /// before it hears of the new one.
    pub(super) async fn take(&self, key: &SeatKey) -> Taking {
        let mut is_first = false;
        // A holder that goes of itself makes room for the one that waits.
        for _ in 0..2 {
            match self.attempt(key, Instant::now()) {
                Attempt::Taken(seat, None) => return Taking::Free(seat),
                Attempt::Taken(seat, Some(before)) => {
                    before.wanted.cancel();
                    let _ = tokio::time::timeout(HANDOVER, before.left.cancelled()).await;
                    return Taking::Replaced(seat);
                }
                Attempt::Contested { holder, is_new } => {
                    is_first |= is_new;
                    if tokio::time::timeout(REFUSED_AFTER, holder.left.cancelled()).await.is_err() {
                        break;
                    }
                }
            }
        }
        Taking::Refused { is_new: is_first }
    }

    fn attempt(&self, key: &SeatKey, now: Instant) -> Attempt {
        let mut taken = self.lock();
        if let Some(holder) = taken.get_mut(key)
            && holder.contested_at.is_some_and(|at| now - at < CONTESTED)
        {
            holder.contested_at = Some(now);
            let is_new = !holder.refused.is_cancelled();
            holder.refused.cancel();
            return Attempt::Contested { holder: holder.clone(), is_new };
        }
        let mut seat = Seat {
            number: self.last.fetch_add(1, Ordering::Relaxed),
            wanted: CancellationToken::new(),
            left: CancellationToken::new(),
            refused: CancellationToken::new(),
            contested_at: None,
        };
        if taken.contains_key(key) {
            seat.contested_at = Some(now);
        }
        let before = taken.insert(key.clone(), seat.clone());
        Attempt::Taken(seat, before)
    }

    pub(super) fn leave(&self, key: &SeatKey, seat: &Seat) {
        let mut taken = self.lock();
        if taken.get(key).is_some_and(|known| known.number == seat.number) {
            taken.remove(key);
        }
        seat.left.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SeatKey, Seat>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Cancelled when another connection wants this seat.
    pub(super) fn is_wanted(&self) -> &CancellationToken {
        &self.wanted
    }

    /// Whether another connection was refused for this one.
    pub(super) fn is_disputed(&self) -> bool {
        self.refused.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str) -> SeatKey {
        SeatKey { namespace: namespace.into(), identity: Identity::given(7), may_work: true }
    }

    #[test]
    fn whoever_was_replaced_does_not_get_its_seat_back_as_long_as_it_keeps_asking() {
        let (seats, key, mut now) = (Seats::default(), key("lab"), Instant::now());
        assert!(matches!(seats.attempt(&key, now), Attempt::Taken(_, None)));
        now += Duration::from_secs(3600);
        assert!(matches!(seats.attempt(&key, now), Attempt::Taken(_, Some(_))), "the newer has it");
        for round in 0..100 {
            now += CONTESTED / 2;
            let Attempt::Contested { is_new, .. } = seats.attempt(&key, now) else { panic!("it keeps it") };
            assert_eq!(is_new, round == 0, "said once");
        }
        now += CONTESTED;
        assert!(matches!(seats.attempt(&key, now), Attempt::Taken(_, Some(_))), "a newer one has come");
    }

    #[tokio::test]
    async fn a_contested_seat_is_free_when_its_holder_goes() {
        let (seats, key) = (Seats::default(), key("lab"));
        seats.attempt(&key, Instant::now());
        let Attempt::Taken(holder, Some(_)) = seats.attempt(&key, Instant::now()) else { panic!("taken") };
        let (taking, ()) = tokio::join!(seats.take(&key), async { seats.leave(&key, &holder) });
        assert!(matches!(taking, Taking::Free(_)), "{taking:?}");
    }

    #[test]
    fn an_identity_is_a_seat_in_every_namespace_and_apart_for_those_who_may_not_work() {
        let (seats, now) = (Seats::default(), Instant::now());
        let other = SeatKey { may_work: false, ..key("lab") };
        for key in [key("lab"), key("strangers"), other] {
            assert!(matches!(seats.attempt(&key, now), Attempt::Taken(_, None)));
        }
    }
}
