//! The clock of the broker, and how the broker notices that it was away.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_engine::Timestamp;

/// The only clock of the broker, doors included. It never goes back within a turn, and the engine copes when it does.
pub fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since_epoch.as_millis() as u64)
}

/// Compares each turn with the one before. If the process was stopped, the machine slept or the clock was set, there is
/// a leap between them.
#[derive(Debug)]
pub(crate) struct Turning {
    at: Timestamp,
    leap_min: Duration,
}

impl Turning {
    /// The hub takes a turn at least every `idle_max`, so twice that is no coincidence.
    pub(crate) fn begin(now: Timestamp, idle_max: Duration) -> Turning {
        Turning { at: now, leap_min: idle_max * 2 }
    }

    /// Another turn. After a leap, says when the one before was.
    pub(crate) fn turn(&mut self, now: Timestamp) -> Option<Timestamp> {
        let before = std::mem::replace(&mut self.at, now);
        let leapt = now.since(before).max(before.since(now)) >= self.leap_min;
        leapt.then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_engine::Timestamp;

    use super::Turning;

    #[test]
    fn a_leap_is_longer_than_any_sleep_forward_or_back() {
        let at = |millis: u64| Timestamp(1_000_000 + millis);
        let mut turning = Turning::begin(at(0), Duration::from_secs(1));
        assert_eq!(turning.turn(at(1_500)), None);
        assert_eq!(turning.turn(at(1_000)), None, "a clock that is corrected a little");
        assert_eq!(turning.turn(at(3_000)), Some(at(1_000)));
        assert_eq!(turning.turn(at(3_001)), None);
        assert_eq!(turning.turn(at(500)), Some(at(3_001)));
        assert_eq!(turning.turn(at(501)), None);
    }
}
