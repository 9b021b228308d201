//! When to try the next address: every address once, then after a delay that doubles from [`FIRST`] to [`LONGEST`].
//! Jitter keeps a thousand peers of a restarted broker from reconnecting in the same instant. Pure: randomness is an
//! argument.

use std::time::Duration;

/// The delay after the first round of addresses has failed.
pub(crate) const FIRST: Duration = Duration::from_millis(100);
/// The longest delay.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// Which address to try next, and when.
#[derive(Clone, Debug)]
pub(crate) struct ReconnectBackoff {
    addresses: usize,
    next: usize,
    /// Addresses tried since the last delay.
    tried: usize,
    /// Rounds that have failed since the last success.
    rounds: u32,
    /// A connection has just been lost, possibly by all peers at the same time.
    lost: bool,
}

/// The next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextDial {
    /// The index of the address.
    pub(crate) address: usize,
    /// How long to wait before the attempt.
    pub(crate) after: Duration,
}

impl ReconnectBackoff {
    /// `addresses` is at least 1.
    pub(crate) fn new(addresses: usize) -> ReconnectBackoff {
        ReconnectBackoff { addresses: addresses.max(1), next: 0, tried: 0, rounds: 0, lost: false }
    }

    /// The number of addresses has changed. The next attempt begins with the first one.
    pub(crate) fn resize(&mut self, addresses: usize) {
        if addresses.max(1) != self.addresses {
            *self = ReconnectBackoff { rounds: self.rounds, ..ReconnectBackoff::new(addresses) };
        }
    }

    /// Returns the next attempt. The low bits of `random` choose where in the second half of the delay it falls.
    pub(crate) fn next(&mut self, random: u64) -> NextDial {
        let address = self.next;
        self.next = (self.next + 1) % self.addresses;
        let mut after = Duration::ZERO;
        if self.tried == self.addresses {
            self.tried = 0;
            self.rounds = self.rounds.saturating_add(1);
            after = jittered(delay(self.rounds), random);
        } else if std::mem::take(&mut self.lost) {
            after = FIRST * share(random) / SHARES;
        }
        self.tried += 1;
        NextDial { address, after }
    }

    /// A connection was up and is lost: the next attempt goes to the same address, at a random time within the first
    /// delay.
    pub(crate) fn lost(&mut self, address: usize) {
        *self = ReconnectBackoff {
            next: address % self.addresses,
            lost: true,
            ..ReconnectBackoff::new(self.addresses)
        };
    }

    /// A connection was closed right after it was opened: the delay keeps growing, so that the client does not loop on
    /// a broker that refuses all peers.
    pub(crate) fn rejected(&mut self) {
        self.tried = self.addresses;
    }
}

fn delay(round: u32) -> Duration {
    let doublings = round.saturating_sub(1).min(16);
    LONGEST.min(FIRST * 2_u32.pow(doublings))
}

/// Between half of the delay and the whole.
fn jittered(delay: Duration, random: u64) -> Duration {
    let half = delay / 2;
    half + half * share(random) / SHARES
}

/// Number of steps for jitter.
const SHARES: u32 = 1023;

/// From nothing to all of them.
fn share(random: u64) -> u32 {
    (random % u64::from(SHARES + 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1023;

    #[test]
    fn every_address_is_tried_before_anybody_waits() {
        let mut backoff = ReconnectBackoff::new(3);
        let first: Vec<NextDial> = (0..3).map(|_| backoff.next(MOST)).collect();
        assert_eq!(first.iter().map(|next| next.address).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(first.iter().all(|next| next.after.is_zero()));
        assert_eq!(backoff.next(MOST), NextDial { address: 0, after: FIRST });
        assert_eq!(backoff.next(MOST), NextDial { address: 1, after: Duration::ZERO });
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let mut backoff = ReconnectBackoff::new(1);
        let delays: Vec<u128> = (0..10).map(|_| backoff.next(MOST).after.as_millis()).collect();
        assert_eq!(delays, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        for _ in 0..100 {
            assert_eq!(backoff.next(MOST).after, LONGEST);
        }
    }

    #[test]
    fn jitter_stays_in_the_second_half_of_the_delay() {
        for random in [0, 1, 511, 512, 1023, u64::MAX] {
            let mut backoff = ReconnectBackoff::new(1);
            backoff.next(random);
            let after = backoff.next(random).after;
            assert!(after >= FIRST / 2 && after <= FIRST, "{after:?}");
        }
        let spread: std::collections::BTreeSet<Duration> =
            (0..1024).map(|random| jittered(LONGEST, random)).collect();
        assert!(spread.len() > 1_000, "{} different delays", spread.len());
    }

    #[test]
    fn after_a_loss_the_same_address_is_tried_soon_with_jitter() {
        let mut backoff = ReconnectBackoff::new(2);
        for _ in 0..7 {
            backoff.next(MOST);
        }
        backoff.lost(1);
        let mut eager = backoff.clone();
        assert_eq!(eager.next(0), NextDial { address: 1, after: Duration::ZERO });
        assert_eq!(backoff.next(MOST), NextDial { address: 1, after: FIRST });
        assert_eq!(backoff.next(MOST), NextDial { address: 0, after: Duration::ZERO });
        assert_eq!(backoff.next(MOST), NextDial { address: 1, after: FIRST });
    }

    #[test]
    fn a_rejected_client_waits_before_it_retries() {
        let mut backoff = ReconnectBackoff::new(2);
        backoff.next(MOST);
        backoff.rejected();
        assert_eq!(backoff.next(MOST), NextDial { address: 1, after: FIRST });
    }
}
