//! When a subscription retries after it has lost its connection. Pure: randomness is an argument.
//!
//! Requests and workers reconnect on the faster [backoff](crate::reconnect_backoff) of the client, because a caller waits for
//! them. A subscriber may run for weeks, so the program chooses its policy.

use std::time::Duration;

/// How a subscription reconnects. The delay before an attempt is `min(initial_delay * 2^attempt, max_delay)`, plus up
/// to `jitter_factor` of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconnectionPolicy {
    /// How many attempts may fail in a row before the subscription gives up; 0 for no limit.
    pub max_retries: u32,
    /// Delay before the first retry after a failure.
    pub initial_delay: Duration,
    /// Upper bound of the growing delay.
    pub max_delay: Duration,
    /// Whether the delay doubles with every attempt; if not, every delay is the initial one.
    pub exponential_backoff: bool,
    /// From 0 to 1.
    pub jitter_factor: f64,
}

impl Default for ReconnectionPolicy {
    fn default() -> ReconnectionPolicy {
        ReconnectionPolicy {
            max_retries: 0,
            initial_delay: Duration::from_millis(1_000),
            max_delay: Duration::from_millis(30_000),
            exponential_backoff: true,
            jitter_factor: 0.1,
        }
    }
}

impl ReconnectionPolicy {
    /// Returns the delay before the attempt with this number, counted from 0. `random` is between 0 and 1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doublings = if self.exponential_backoff { attempt.min(31) } else { 0 };
        let delay = self.initial_delay.saturating_mul(1 << doublings).min(self.max_delay);
        let jitter = self.jitter_factor.clamp(0.0, 1.0) * random.clamp(0.0, 1.0);
        delay + delay.mul_f64(jitter)
    }

    /// Whether this many failed attempts in a row exceed the limit.
    pub(crate) fn is_over(&self, failed: u32) -> bool {
        self.max_retries > 0 && failed >= self.max_retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_longest_and_jitter_is_added_to_it() {
        let policy = ReconnectionPolicy::default();
        let millis = |attempt, random| policy.delay(attempt, random).as_millis();
        let plain: Vec<u128> = (0..8).map(|attempt| millis(attempt, 0.0)).collect();
        assert_eq!(plain, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!((millis(0, 1.0), millis(2, 0.5), millis(9, 1.0)), (1_100, 4_200, 33_000));
        assert_eq!(millis(u32::MAX, 0.0), 30_000);
    }

    #[test]
    fn without_backoff_every_delay_is_the_first() {
        let policy = ReconnectionPolicy { exponential_backoff: false, ..ReconnectionPolicy::default() };
        assert_eq!(policy.delay(7, 0.0), Duration::from_secs(1));
    }

    #[test]
    fn no_retries_at_all_means_any_number_of_them() {
        let endless = ReconnectionPolicy::default();
        assert!(!endless.is_over(1_000_000));
        let three = ReconnectionPolicy { max_retries: 3, ..endless };
        assert!(!three.is_over(2) && three.is_over(3));
    }
}
