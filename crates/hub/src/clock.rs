//! The broker's clocks, and how it detects that its process was suspended or its clock was set.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure_engine::Timestamp;

/// The time of day, for the engine and for times that people read. It goes back when it is set back: the hub
/// detects that and informs the engine, which keeps every duration as long as it was.
pub fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since_epoch.as_millis() as u64)
}

/// A monotonic clock, for deadlines: setting the time of day does not change it. It agrees with the wall clock
/// at its first call, so that times from before the start of the process can be expressed.
pub fn monotonic_clock() -> Timestamp {
    static BEGUN: OnceLock<(Timestamp, Instant)> = OnceLock::new();
    let (wall, begun) = BEGUN.get_or_init(|| (wall_clock(), Instant::now()));
    *wall + begun.elapsed()
}

/// The same moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// For the engine, and for times that people read.
    pub wall: Timestamp,
    /// For deadlines.
    pub steady: Timestamp,
}

impl ClockReading {
    /// Reads both clocks.
    pub fn now() -> ClockReading {
        ClockReading { wall: wall_clock(), steady: monotonic_clock() }
    }

    /// A moment at which the clocks agree, for tests.
    pub fn both(at: Timestamp) -> ClockReading {
        ClockReading { wall: at, steady: at }
    }

    /// The reading of the steady clock at another time of day, if the time of day is not set in between.
    pub fn steady_at(self, wall: Timestamp) -> Timestamp {
        let before = self.wall.since(wall).as_millis() as u64;
        Timestamp(self.steady.millis().saturating_sub(before)) + wall.since(self.wall)
    }
}

/// The jump of the wall clock between two turns, apart from normal progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockJump {
    /// The clock was set, or the machine slept: from which time to which.
    pub(crate) set: Option<(Timestamp, Timestamp)>,
    /// The process did not run: from when until when.
    pub(crate) away: Option<(Timestamp, Timestamp)>,
}

/// Compares each turn with the previous one.
#[derive(Debug)]
pub(crate) struct ClockMonitor {
    before: ClockReading,
    away_min: Duration,
}

/// Smaller corrections are ignored; they change a delay by at most this much.
const SET_MIN: Duration = Duration::from_millis(500);

impl ClockMonitor {
    /// The hub takes a turn at least every `idle_max`, so a gap of twice that means that the process did not
    /// run.
    pub(crate) fn begin(now: ClockReading, idle_max: Duration) -> ClockMonitor {
        ClockMonitor { before: now, away_min: idle_max * 2 }
    }

    /// Another turn. The steady clock gives the elapsed time; if the wall clock differs, it was set.
    pub(crate) fn turn(&mut self, now: ClockReading) -> ClockJump {
        let before = std::mem::replace(&mut self.before, now);
        let passed = now.steady.since(before.steady);
        // What the wall clock would have shown at the previous turn, had it been set before.
        let corrected = Timestamp(now.wall.millis().saturating_sub(passed.as_millis() as u64));
        let is_set = corrected.since(before.wall).max(before.wall.since(corrected)) >= SET_MIN;
        let from = if is_set { corrected } else { before.wall };
        ClockJump {
            set: is_set.then_some((before.wall, corrected)),
            away: (passed >= self.away_min).then_some((from, now.wall)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_engine::Timestamp;

    use super::{ClockJump, ClockMonitor, ClockReading};

    const NOON: u64 = 43_200_000;
    const HOUR: u64 = 3_600_000;

    /// Milliseconds after noon by the wall clock, and after the start by the steady one.
    fn at(wall: i64, steady: u64) -> ClockReading {
        ClockReading { wall: noon(wall), steady: Timestamp(steady) }
    }

    fn noon(after: i64) -> Timestamp {
        Timestamp(NOON.saturating_add_signed(after))
    }

    fn turning() -> ClockMonitor {
        ClockMonitor::begin(at(0, 0), Duration::from_secs(1))
    }

    #[test]
    fn a_turn_after_a_sleep_or_a_small_correction_is_no_leap() {
        let mut turning = turning();
        assert_eq!(turning.turn(at(1_500, 1_500)), ClockJump::default());
        assert_eq!(turning.turn(at(1_700, 1_900)), ClockJump::default(), "the clock is corrected a little");
    }

    #[test]
    fn a_process_that_was_stopped_was_away() {
        let mut turning = turning();
        let away = Some((noon(0), noon(60_000)));
        assert_eq!(turning.turn(at(60_000, 60_000)), ClockJump { set: None, away });
        assert_eq!(turning.turn(at(60_001, 60_001)), ClockJump::default());
    }

    #[test]
    fn a_clock_that_was_set_differs_from_time_that_passed() {
        let mut turning = turning();
        let back = -(HOUR as i64);
        let set = Some((noon(0), noon(back)));
        assert_eq!(turning.turn(at(back + 10, 10)), ClockJump { set, away: None });
        let set = Some((noon(back + 10), noon(10)));
        assert_eq!(turning.turn(at(1_010, 1_010)), ClockJump { set, away: None });
        assert_eq!(turning.turn(at(1_011, 1_011)), ClockJump::default());
    }

    #[test]
    fn a_time_of_day_has_its_place_on_the_monotonic_clock_before_and_after_now() {
        let now = at(3_600_000, 1_000_000);
        assert_eq!(now.steady_at(noon(3_600_000)), Timestamp(1_000_000));
        assert_eq!(now.steady_at(noon(3_605_000)), Timestamp(1_005_000));
        assert_eq!(now.steady_at(noon(3_595_000)), Timestamp(995_000));
        assert_eq!(now.steady_at(noon(0)), Timestamp::ZERO, "before the steady clock began");
    }

    #[test]
    fn a_machine_that_slept_has_set_its_clock() {
        // The steady clock stands still meanwhile.
        let mut turning = turning();
        let hour = HOUR as i64;
        assert_eq!(turning.turn(at(hour, 0)), ClockJump { set: Some((noon(0), noon(hour))), away: None });
    }

    #[test]
    fn a_clock_that_was_set_while_the_process_was_stopped_is_both() {
        let mut turning = turning();
        let back = -(HOUR as i64);
        let leap = turning.turn(at(back + 60_000, 60_000));
        let (set, away) = ((noon(0), noon(back)), (noon(back), noon(back + 60_000)));
        assert_eq!(leap, ClockJump { set: Some(set), away: Some(away) });
    }
}
