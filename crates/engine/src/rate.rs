//! A rate: how many tasks of a tag or queue the broker hands out in a period, and how many of them at once.

use std::fmt;
use std::time::Duration;

use crate::limits::{BURST_MAX, RATE_COUNT_MAX, RATE_PERIOD_MAX};
use crate::refusal::Refusal;

/// `count` tasks in each `period`, at most `burst` of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many tasks.
    pub count: u32,
    /// In which time.
    pub period: Duration,
    /// How many at once.
    pub burst: u32,
}

/// The units of a period in texts, the longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Rate {
    /// A rate with the usual burst: what one second gives, at least one task.
    pub fn new(count: u32, period: Duration) -> Rate {
        let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
        let of_one_second = u64::from(count).saturating_mul(1_000) / millis;
        let burst = u32::try_from(of_one_second).unwrap_or(u32::MAX).clamp(1, BURST_MAX);
        Rate { count, period, burst }
    }

    /// Reads `10/m`: a count, then a period of `s`, `m`, `h`, `d` or a multiple such as `30s`.
    pub fn parse(text: &str) -> Option<Rate> {
        let (count, period) = text.split_once('/')?;
        let digits = period.find(|letter: char| !letter.is_ascii_digit())?;
        let (times, unit) = period.split_at(digits);
        let times: u64 = if times.is_empty() { 1 } else { times.parse().ok()? };
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
        Some(Rate::new(count.parse().ok()?, Duration::from_millis(millis.checked_mul(times)?)))
    }

    pub(crate) fn check(self) -> Result<(), Refusal> {
        let bad = |what, why| Err(Refusal::BadValue { what, why });
        if self.count == 0 {
            return bad("rate", "is zero: pause the queue or set a limit of 0 to stop its tasks");
        }
        if self.count > RATE_COUNT_MAX {
            return bad("rate", "is above 1000000 tasks in a period: leave it out");
        }
        if self.period < Duration::from_millis(1) || self.period > RATE_PERIOD_MAX {
            return bad("rate period", "is not between 1 ms and 366 days");
        }
        if self.burst == 0 || self.burst > BURST_MAX {
            return bad("burst", "is not between 1 and 1000000");
        }
        Ok(())
    }

    pub(crate) fn period_millis(self) -> u64 {
        self.period.as_millis() as u64
    }
}

impl fmt::Display for Rate {
    /// `10/m, burst 5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.period_millis().max(1);
        let (unit, length) = UNITS
            .iter()
            .find(|(_, length)| millis.is_multiple_of(*length))
            .expect("all are whole milliseconds");
        match millis / length {
            1 => write!(f, "{}/{unit}, burst {}", self.count, self.burst),
            times => write!(f, "{}/{times}{unit}, burst {}", self.count, self.burst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_it_is_read() {
        for (text, written) in [
            ("10/m", "10/m, burst 1"),
            ("100/s", "100/s, burst 100"),
            ("5/30s", "5/30s, burst 1"),
            ("3000/m", "3000/m, burst 50"),
            ("24/1d", "24/d, burst 1"),
            ("7/90m", "7/90m, burst 1"),
            ("1/250ms", "1/250ms, burst 4"),
        ] {
            assert_eq!(Rate::parse(text).expect(text).to_string(), written);
        }
        for text in ["", "10", "10/", "/m", "10/x", "-1/m", "10/m5", "1.5/s", "10/99999999999999d"] {
            assert_eq!(Rate::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_rate_that_lets_nothing_through_or_has_no_period_is_refused() {
        let good = Rate::new(1, Duration::from_secs(1));
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Rate { count: 0, ..good },
            Rate { burst: 0, ..good },
            Rate { period: Duration::ZERO, ..good },
            Rate { count: RATE_COUNT_MAX + 1, ..good },
            Rate { burst: BURST_MAX + 1, ..good },
            Rate { period: RATE_PERIOD_MAX * 2, ..good },
        ] {
            assert_eq!(bad.check().expect_err("refused").code(), "bad-value", "{bad}");
        }
    }
}
