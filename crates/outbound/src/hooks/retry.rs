//! How long a hook waits after a failed attempt.

use std::time::Duration;

/// The wait after the given number of failed attempts: it doubles, up to `max`, and is shortened by up to a quarter, so
/// that many events do not come back at the same moment. `random` is any number.
pub(super) fn pause(first: Duration, max: Duration, failed: u32, random: u64) -> Duration {
    let doubled =
        first.saturating_mul(1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX)).min(max);
    let quarter = u64::try_from(doubled.as_millis() / 4).unwrap_or(u64::MAX);
    doubled - Duration::from_millis(random % (quarter + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_its_maximum_and_varies_by_a_quarter() {
        let (first, max) = (Duration::from_secs(1), Duration::from_secs(300));
        let plain = |failed| pause(first, max, failed, 0).as_secs();
        assert_eq!([1, 2, 3, 9, 10, 40].map(plain), [1, 2, 4, 256, 300, 300]);
        for random in 0..5_000 {
            let wait = pause(first, max, 3, random).as_millis();
            assert!((3_000..=4_000).contains(&wait), "{wait}");
        }
    }
}
