//! Points in time. The engine never reads a clock: every `now` is an argument, so tests and the simulator
//! control time.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The first moment of 1970.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than anything a broker will see.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// Milliseconds since 1970.
    pub fn millis(self) -> u64 {
        self.0
    }

    /// For people to read: `2026-01-31T12:00:00.000Z`.
    pub fn rfc3339(self) -> String {
        let time =
            i64::try_from(self.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
        time.map_or_else(|| self.0.to_string(), |time| format!("{time:.3}"))
    }

    /// The duration since `earlier`; zero if `earlier` is not in the past.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The next time that differs.
    pub(crate) fn after(self) -> Timestamp {
        Timestamp(self.0.saturating_add(1))
    }

    /// Shifts a time so that its distance from `to` equals its old distance from `from`. `NEVER` stays
    /// `NEVER`.
    pub fn carried(self, from: Timestamp, to: Timestamp) -> Timestamp {
        match self {
            Timestamp::NEVER => Timestamp::NEVER,
            Timestamp(at) => Timestamp(at.saturating_add(to.0).saturating_sub(from.0)),
        }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
