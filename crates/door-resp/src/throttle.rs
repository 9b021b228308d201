//! Wrong keys, counted by address: whoever guesses has to wait. Time comes in as an argument.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use tenure_hub::words::Timestamp;

/// So many wrong keys within the window are forgiven.
const WRONG_KEYS_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// How many addresses are remembered; beyond that the oldest quarter is forgotten.
const ADDRESSES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Throttle {
    addresses: HashMap<IpAddr, Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// When wrong keys were shown, within the window and as long as they are few.
    wrong: VecDeque<Timestamp>,
    /// How often it has had to wait.
    waits: u32,
    last: Timestamp,
    blocked_until: Timestamp,
}

impl Record {
    /// Nothing of it matters any more.
    fn is_old(&self, now: Timestamp) -> bool {
        self.last.max(self.blocked_until) + WINDOW < now
    }
}

impl Throttle {
    /// How long this address has to wait before its next try, if it has to.
    pub(crate) fn must_wait(&self, now: Timestamp, address: IpAddr) -> Option<Duration> {
        let record = self.addresses.get(&address)?;
        (record.blocked_until > now).then(|| record.blocked_until.since(now))
    }

    /// A wrong key was shown. After a few, each one more doubles the wait.
    pub(crate) fn wrong(&mut self, now: Timestamp, address: IpAddr) {
        self.make_room(now);
        let record = self.addresses.entry(address).or_default();
        if record.is_old(now) {
            *record = Record::default();
        }
        record.last = now;
        record.wrong.retain(|at| now <= *at + WINDOW);
        record.wrong.push_back(now);
        if record.waits > 0 || record.wrong.len() >= WRONG_KEYS_MAX {
            let seconds = 1_u64.checked_shl(record.waits).unwrap_or(u64::MAX);
            record.blocked_until = now + Duration::from_secs(seconds).min(WAIT_MAX);
            record.waits += 1;
            record.wrong.clear();
        }
    }

    pub(crate) fn right(&mut self, address: IpAddr) {
        self.addresses.remove(&address);
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        self.addresses.retain(|_, record| !record.is_old(now));
        if self.addresses.len() >= ADDRESSES_MAX {
            // A quarter at a time, so that a crowd of guessers does not cost a search for each guess.
            let mut times: Vec<Timestamp> = self.addresses.values().map(|record| record.last).collect();
            let (_, oldest, _) = times.select_nth_unstable(ADDRESSES_MAX / 4);
            self.addresses.retain(|_, record| record.last > *oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_mistakes_are_free_and_then_the_wait_doubles() {
        let (mut throttle, address) = (Throttle::default(), IpAddr::from([127, 0, 0, 1]));
        let mut now = Timestamp(1_000_000);
        for _ in 0..WRONG_KEYS_MAX - 1 {
            throttle.wrong(now, address);
            assert_eq!(throttle.must_wait(now, address), None);
        }
        for seconds in [1, 2, 4, 8] {
            throttle.wrong(now, address);
            assert_eq!(throttle.must_wait(now, address), Some(Duration::from_secs(seconds)));
            now = now + Duration::from_secs(seconds);
            assert_eq!(throttle.must_wait(now, address), None);
        }
        assert_eq!(throttle.must_wait(now, IpAddr::from([127, 0, 0, 2])), None, "others do not wait");
        throttle.right(address);
        throttle.wrong(now, address);
        assert_eq!(throttle.must_wait(now, address), None, "a right key wipes the slate clean");
    }

    #[test]
    fn a_mistake_now_and_then_blocks_nobody() {
        let (mut throttle, address) = (Throttle::default(), IpAddr::from([127, 0, 0, 1]));
        let mut now = Timestamp(1_000_000);
        for _ in 0..100 {
            throttle.wrong(now, address);
            assert_eq!(
                throttle.must_wait(now, address),
                None,
                "five within a minute are too many, not these"
            );
            now = now + Duration::from_secs(16);
        }
    }

    #[test]
    fn whoever_goes_on_guessing_waits_longer_and_longer() {
        let (mut throttle, address) = (Throttle::default(), IpAddr::from([127, 0, 0, 1]));
        let mut now = Timestamp(1_000_000);
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            throttle.wrong(now, address);
            if let Some(wait) = throttle.must_wait(now, address) {
                longest = wait;
                now = now + wait;
            }
        }
        assert_eq!(longest, WAIT_MAX);
        now = now + WINDOW + Duration::from_secs(1);
        throttle.wrong(now, address);
        assert_eq!(throttle.must_wait(now, address), None, "a quiet minute after the wait is enough");
    }

    #[test]
    fn the_memory_of_addresses_is_bounded() {
        let mut throttle = Throttle::default();
        for number in 0..20_000_u32 {
            throttle.wrong(Timestamp(u64::from(number)), IpAddr::from(number.to_be_bytes()));
        }
        assert!(throttle.addresses.len() <= ADDRESSES_MAX);
        assert!(throttle.addresses.len() >= ADDRESSES_MAX / 2, "no more are forgotten than need be");
        let newest = IpAddr::from(19_999_u32.to_be_bytes());
        assert!(throttle.addresses.contains_key(&newest));
    }
}
