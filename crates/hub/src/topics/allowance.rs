//! The allowance: how many messages may be published while a change is on its way to the disk.
//!
//! After a crash a topic continues above its saved number plus the saved allowance, so a small allowance
//! skips few numbers. A busy broker needs a large one, or publishers would wait for the disk. So the
//! allowance follows the rate: a larger one is written before it takes effect, a smaller one takes effect
//! before it is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The initial allowance, and the one at low rates.
pub(super) const ALLOWANCE_MIN: u64 = 1 << 16;
/// The allowance is this many times its recent use.
const ROOM: u64 = 8;
/// How much it grows when a burst uses it up.
const GROWTH: u64 = 8;

#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The current allowance. The one on disk is never smaller.
    messages: AtomicU64,
    /// The highest use since the saver last checked.
    used: AtomicU64,
    limit: u64,
}

impl Allowance {
    pub(super) fn new(limit: u64) -> Allowance {
        let messages = AtomicU64::new(ALLOWANCE_MIN.min(limit));
        Allowance(Arc::new(Inner { messages, used: AtomicU64::new(0), limit }))
    }

    pub(super) fn messages(&self) -> u64 {
        self.0.messages.load(Ordering::Acquire)
    }

    /// Whether so large a part is used that the next burst would wait.
    pub(super) fn is_short(&self, used: u64) -> bool {
        used >= self.messages() / ROOM && self.messages() < self.0.limit
    }

    /// Notes how many messages were published while a change was on its way to the disk.
    pub(super) fn was_used(&self, messages: u64) {
        self.0.used.fetch_max(messages, Ordering::AcqRel);
    }

    /// The allowance that the saver should write next, if it differs from the current one.
    pub(super) fn next(&self, is_urgent: bool) -> Option<u64> {
        let now = self.messages();
        let used = self.0.used.swap(0, Ordering::AcqRel);
        let wanted = if is_urgent { now * GROWTH } else { (used * ROOM).next_power_of_two() };
        let next = wanted.max(ALLOWANCE_MIN).min(self.0.limit);
        (next != now).then_some(next)
    }

    /// Whether it is above the minimum, so that the saver should check it after a while.
    pub(super) fn is_large(&self) -> bool {
        self.messages() > ALLOWANCE_MIN.min(self.0.limit)
    }

    pub(super) fn set(&self, messages: u64) {
        self.0.messages.store(messages, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_follows_the_rate() {
        let allowance = Allowance::new(1 << 20);
        assert_eq!(allowance.messages(), ALLOWANCE_MIN);
        assert!(!allowance.is_large() && !allowance.is_short(100) && allowance.is_short(ALLOWANCE_MIN / 2));
        let grown = allowance.next(true).expect("more");
        assert_eq!(grown, 8 * ALLOWANCE_MIN);
        allowance.set(grown);
        assert!(allowance.is_large());
        allowance.was_used(15_000);
        assert_eq!(allowance.next(false), Some(1 << 17), "the next power of two of eight times that");
        assert_eq!(allowance.next(false), Some(ALLOWANCE_MIN), "nothing was used since");
    }

    #[test]
    fn a_small_limit_is_the_allowance() {
        let allowance = Allowance::new(5_000);
        assert_eq!(
            (allowance.messages(), allowance.is_large(), allowance.is_short(4_999)),
            (5_000, false, false)
        );
        assert_eq!((allowance.next(false), allowance.next(true)), (None, None));
    }
}
