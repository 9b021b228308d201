//! Rates of tags and queues.

use std::fmt;

use crate::schema::message;

message! {
    /// How many tasks the broker hands out in a period, and how many of them at once.
    #[derive(Copy, Eq)]
    pub struct Rate {
        count: u32,
        period_ms: u64,
        /// Absent in a request: what one second gives, at least 1.
        burst: Option<u32>,
    }
}

/// The units of a period in texts, the longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Rate {
    /// Reads `10/m`: a count, then a period of `s`, `m`, `h`, `d` or a multiple such as `30s`.
    ///
    /// ```
    /// use tenure_wire::rate::Rate;
    ///
    /// let rate = Rate::parse("5/30s").expect("a rate");
    /// assert_eq!((rate.count, rate.period_ms, rate.burst), (5, 30_000, None));
    /// assert_eq!(Rate { burst: Some(2), ..rate }.to_string(), "5/30s, burst 2");
    /// assert_eq!(Rate::parse("often"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Rate> {
        let (count, period) = text.split_once('/')?;
        let digits = period.find(|letter: char| !letter.is_ascii_digit())?;
        let (times, unit) = period.split_at(digits);
        let times: u64 = if times.is_empty() { 1 } else { times.parse().ok()? };
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
        Some(Rate { count: count.parse().ok()?, period_ms: millis.checked_mul(times)?, burst: None })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.period_ms.max(1);
        let (unit, length) = UNITS
            .iter()
            .find(|(_, length)| millis.is_multiple_of(*length))
            .expect("all are whole milliseconds");
        match millis / length {
            1 => write!(f, "{}/{unit}", self.count)?,
            times => write!(f, "{}/{times}{unit}", self.count)?,
        }
        self.burst.map_or(Ok(()), |burst| write!(f, ", burst {burst}"))
    }
}
