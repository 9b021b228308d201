//! Timing: when a schedule is due, read from a text such as `0 2 * * *` or `every 15m`.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::cron::CronExpression;
use crate::error::TimingError;
use crate::{interval, wall_clock};

/// Windows before a moment in which to look for its due times: the first that holds enough of them ends the search, so
/// it costs little for a schedule that is due each minute as well as for one that is due once a year.
const WINDOWS: [u64; 5] = [3_600_000, 86_400_000, 31 * 86_400_000, 366 * 86_400_000, 9 * 366 * 86_400_000];

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Cron {
        expression: CronExpression,
        zone: TimeZone,
    },
    /// In milliseconds.
    Every(u64),
}

/// The newest due times of a span, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueTimes {
    /// In milliseconds since 1970.
    pub times: Vec<u64>,
    /// Earlier times of the span were left out.
    pub more: bool,
}

impl Timing {
    /// Reads a cron expression, or `every` with an interval. A zone is a name of the IANA database; without one, the
    /// expression is in UTC.
    pub fn parse(when: &str, zone: Option<&str>) -> Result<Timing, TimingError> {
        if let Some(span) = when.trim().strip_prefix("every ") {
            if let Some(zone) = zone {
                let why = format!("an interval has no time zone, but {zone} was given");
                return Err(TimingError::new("time zone", why, "every 15m"));
            }
            return Ok(Timing { kind: Kind::Every(interval::parse(span)?) });
        }
        let expression = CronExpression::parse(when)?;
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => TimeZoneDatabase::bundled().get(name).map_err(|_| {
                TimingError::new(
                    "time zone",
                    format!("{name:?} is not a name of the IANA database"),
                    "Europe/Zurich",
                )
            })?,
        };
        Ok(Timing { kind: Kind::Cron { expression, zone } })
    }

    /// The first due time after a moment. Intervals count from `anchor`. All in milliseconds since 1970.
    pub fn next_after(&self, anchor: u64, after: u64) -> Option<u64> {
        match &self.kind {
            Kind::Every(every) => interval::next_after(*every, anchor, after),
            Kind::Cron { expression, zone } => {
                let after = Timestamp::from_millisecond(i64::try_from(after).ok()?).ok()?;
                let next = wall_clock::next_after(expression, zone, after)?;
                u64::try_from(next.as_millisecond()).ok()
            }
        }
    }

    /// The newest due times after `after` and not after `until`, at most `max` of them.
    pub fn latest(&self, anchor: u64, after: u64, until: u64, max: usize) -> DueTimes {
        let mut windows = WINDOWS.iter().map(|window| until.saturating_sub(*window)).chain([after]);
        loop {
            let from = windows.next().unwrap_or(after).max(after);
            let mut found = DueTimes::default();
            let mut last = from;
            while let Some(next) = self.next_after(anchor, last).filter(|next| *next <= until) {
                found.times.push(next);
                last = next;
                // Enough is known about a narrow window; a wide one is walked without keeping all of it.
                if found.times.len() > 2 * max {
                    found.times.drain(..max);
                    found.more = true;
                }
            }
            if from == after || found.times.len() >= max {
                let surplus = found.times.len().saturating_sub(max);
                found.times.drain(..surplus);
                let oldest = found.times.first().copied();
                found.more = oldest
                    .is_some_and(|oldest| self.next_after(anchor, after).is_some_and(|first| first < oldest));
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;
    /// 2026-11-17T00:00:00Z
    const TODAY: u64 = 1_794_873_600_000;

    #[test]
    fn the_latest_due_times_end_at_the_given_moment() {
        let daily = Timing::parse("0 2 * * *", None).unwrap();
        let found = daily.latest(0, TODAY - 10 * DAY, TODAY, 3);
        assert_eq!(found.times, [3, 2, 1].map(|days| TODAY - days * DAY + DAY / 12));
        assert!(found.more);
        let found = daily.latest(0, TODAY - 2 * DAY, TODAY, 3);
        assert_eq!((found.times.len(), found.more), (2, false));
        assert_eq!(daily.latest(0, TODAY, TODAY + 1, 3), DueTimes::default());
    }

    #[test]
    fn a_schedule_of_every_minute_that_slept_for_a_year_is_found_at_once() {
        let minutely = Timing::parse("* * * * *", None).unwrap();
        let found = minutely.latest(0, TODAY - 365 * DAY, TODAY, 1);
        assert_eq!((found.times, found.more), (vec![TODAY], true));
        let every = Timing::parse("every 1s", None).unwrap();
        let found = every.latest(5, TODAY - 365 * DAY, TODAY, 2);
        assert_eq!((found.times, found.more), (vec![TODAY - 1_995, TODAY - 995], true));
    }

    #[test]
    fn an_unknown_zone_and_a_zone_for_an_interval_are_refused() {
        let error = Timing::parse("0 2 * * *", Some("Europe/Atlantis")).unwrap_err().to_string();
        assert!(error.contains("time zone") && error.contains("Europe/Zurich"), "{error}");
        assert!(Timing::parse("every 5m", Some("Europe/Zurich")).is_err());
    }
}
