//! Jitter: spreads firings of many schedules that are due at the same moment. It is a hash of the schedule and of
//! the due time, so a restart does not change it.

use std::time::Duration;

/// The delay of one firing: at least zero, below `max`.
pub fn jitter(schedule: &str, due: u64, max: Duration) -> Duration {
    let span = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    if span == 0 {
        return Duration::ZERO;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in schedule.bytes().chain(due.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The low bits of this hash alone would repeat for due times of a regular distance.
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 29;
    Duration::from_millis(hash % span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jitter_of_a_firing_is_always_the_same_and_below_its_maximum() {
        let max = Duration::from_secs(300);
        for due in (0..1_000).map(|minute| minute * 60_000) {
            let delay = jitter("nightly", due, max);
            assert!(delay < max);
            assert_eq!(delay, jitter("nightly", due, max));
        }
        assert_eq!(jitter("nightly", 0, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn firings_spread_over_the_whole_span() {
        let max = Duration::from_secs(60);
        let mut tenths = [0; 10];
        for number in 0..1_000 {
            let delay = jitter(&format!("schedule-{number}"), 1_794_851_980_000, max);
            tenths[(delay.as_millis() / 6_000) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| *count > 50), "{tenths:?}");
    }
}
