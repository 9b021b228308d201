//! Delays the reply to wrong keys. Valid keys are never delayed, so a misconfigured program cannot lock out others.
//!
//! Wrong keys are counted by address and by a short hash of the key. So the log distinguishes a program that
//! repeats one wrong key from one that guesses; both wait longer with every attempt.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tenure_hub::words::Timestamp;

/// This many wrong keys of one address are answered without delay.
const FREE_TRIES: u32 = 3;
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(8);
/// The count of an address is reset after this long without a wrong key.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Minimum interval between log lines about the same wrong key of one address.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// How many addresses are tracked; beyond that the oldest are dropped.
const ADDRESSES_MAX: usize = 10_000;
/// How many different wrong keys are tracked for one address.
const KEYS_MAX: usize = 16;
/// How many connections are held back at the same time, of one address and of all. A connection that waits for its
/// refusal takes the place of another peer, so a storm of wrong keys is refused at once beyond this.
const HELD_PER_ADDRESS_MAX: usize = 16;
const HELD_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Throttle {
    addresses: HashMap<Option<IpAddr>, Record>,
    /// Until when connections are held back, with their addresses.
    held: Vec<(Timestamp, Option<IpAddr>)>,
}

#[derive(Debug, Default)]
struct Record {
    tries: u32,
    last: Timestamp,
    /// When each key was last logged.
    logged: HashMap<u64, Timestamp>,
}

/// How to treat a wrong key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThrottleVerdict {
    /// Delay of the refusal.
    pub(crate) wait: Duration,
    /// The refusal is not delayed, because too many others are: the connection has to end instead.
    pub(crate) ends: bool,
    /// Recent wrong keys of this address.
    pub(crate) tries: u32,
    /// Whether to log it.
    pub(crate) is_news: bool,
}

impl Throttle {
    /// A peer sent a wrong key. `key` is a hash that is meaningless outside this process.
    pub(crate) fn wrong(&mut self, now: Timestamp, address: Option<IpAddr>, key: u64) -> ThrottleVerdict {
        self.make_room(now);
        let record = self.addresses.entry(address).or_default();
        if record.last + FORGET_AFTER < now {
            *record = Record::default();
        }
        record.last = now;
        record.tries = record.tries.saturating_add(1);
        let tries = record.tries;
        let wait = match tries.checked_sub(FREE_TRIES + 1) {
            None => Duration::ZERO,
            Some(more) => WAIT_MIN.saturating_mul(1 << more.min(16)).min(WAIT_MAX),
        };
        let is_news = match record.logged.get(&key) {
            Some(at) => *at + LOG_INTERVAL <= now,
            None => record.logged.len() < KEYS_MAX,
        };
        if is_news {
            record.logged.insert(key, now);
        }
        if wait.is_zero() || self.try_delay(now, address, wait) {
            ThrottleVerdict { wait, ends: false, tries, is_news }
        } else {
            ThrottleVerdict { wait: Duration::ZERO, ends: true, tries, is_news }
        }
    }

    /// Whether one more connection may be held back; if so, it counts from now on.
    fn try_delay(&mut self, now: Timestamp, address: Option<IpAddr>, wait: Duration) -> bool {
        self.held.retain(|(until, _)| *until > now);
        let of_address = self.held.iter().filter(|(_, held)| *held == address).count();
        let try_delay = of_address < HELD_PER_ADDRESS_MAX && self.held.len() < HELD_MAX;
        if try_delay {
            self.held.push((now + wait, address));
        }
        try_delay
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        self.addresses.retain(|_, record| now <= record.last + FORGET_AFTER);
        if self.addresses.len() >= ADDRESSES_MAX {
            // Drops a quarter at a time, so that many guessing peers do not cost a search for each guess.
            let mut times: Vec<Timestamp> = self.addresses.values().map(|record| record.last).collect();
            let (_, oldest, _) = times.select_nth_unstable(ADDRESSES_MAX / 4);
            let oldest = *oldest;
            self.addresses.retain(|_, record| record.last > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    #[test]
    fn a_few_wrong_keys_are_free_and_then_the_wait_doubles_up_to_a_limit() {
        let mut throttle = Throttle::default();
        let now = Timestamp(1_000_000);
        let waits: Vec<u64> = (0..11).map(|_| throttle.wrong(now, HERE, 1).wait.as_millis() as u64).collect();
        assert_eq!(waits, [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        let later = now + FORGET_AFTER + Duration::from_millis(1);
        assert_eq!(throttle.wrong(later, HERE, 1).wait, Duration::ZERO, "it starts afresh");
    }

    #[test]
    fn a_storm_of_wrong_keys_is_refused_at_once_when_enough_connections_are_held_back() {
        let mut throttle = Throttle::default();
        let now = Timestamp(1_000_000);
        let held = |throttle: &mut Throttle, now, address| {
            let verdicts: Vec<ThrottleVerdict> =
                (0..1_000).map(|_| throttle.wrong(now, address, 1)).collect();
            assert!(verdicts.iter().all(|verdict| !verdict.ends || verdict.wait.is_zero()));
            verdicts.iter().filter(|verdict| !verdict.wait.is_zero()).count()
        };
        assert_eq!(held(&mut throttle, now, HERE), HELD_PER_ADDRESS_MAX);
        assert_eq!(held(&mut throttle, now, None), HELD_PER_ADDRESS_MAX, "another address");
        let all: usize = (0..100_u32)
            .map(|number| held(&mut throttle, now, Some(IpAddr::from(number.to_be_bytes()))))
            .sum();
        assert_eq!(all, HELD_MAX - 2 * HELD_PER_ADDRESS_MAX);
        assert_eq!(
            held(&mut throttle, now + WAIT_MAX, HERE),
            HELD_PER_ADDRESS_MAX,
            "they have been answered"
        );
    }

    #[test]
    fn the_log_hears_of_each_wrong_key_once_a_minute() {
        let mut throttle = Throttle::default();
        let now = Timestamp(1_000_000);
        assert!(throttle.wrong(now, HERE, 1).is_news);
        assert!(!throttle.wrong(now, HERE, 1).is_news);
        assert!(throttle.wrong(now, HERE, 2).is_news);
        assert!(throttle.wrong(now + Duration::from_secs(30), None, 1).is_news, "another address");
        assert!(throttle.wrong(now + LOG_INTERVAL, HERE, 1).is_news);
    }

    #[test]
    fn a_crowd_of_addresses_is_forgotten_in_time() {
        let mut throttle = Throttle::default();
        for number in 0..u32::try_from(3 * ADDRESSES_MAX).unwrap() {
            let address = IpAddr::from(number.to_be_bytes());
            throttle.wrong(Timestamp(1_000_000 + u64::from(number)), Some(address), 1);
        }
        assert!(throttle.addresses.len() <= ADDRESSES_MAX);
    }
}
