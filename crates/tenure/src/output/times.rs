//! Points in time: relative for people, RFC 3339 for programs, and parsing of both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use crate::units::{parse_duration, show_duration};

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-01-31T12:00:00.000Z`.
pub(crate) fn rfc3339(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| millis.to_string(), |time| format!("{time:.3}"))
}

/// `5m ago`, `in 3h`, `now`.
pub(crate) fn relative(millis: u64, now: u64) -> String {
    let span = Duration::from_millis(now.abs_diff(millis));
    if span < Duration::from_secs(1) {
        "now".to_owned()
    } else if millis < now {
        format!("{} ago", show_duration(whole_seconds(span)))
    } else {
        format!("in {}", show_duration(whole_seconds(span)))
    }
}

/// The time of day in UTC, for streams of events.
pub(crate) fn clock(millis: u64) -> String {
    let day = millis / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", day / 3_600, day / 60 % 60, day % 60, millis % 1_000)
}

/// Reads a point in time: RFC 3339, or a span from now on (`5m`, `+5m`).
pub(crate) fn parse_future(text: &str, now: u64) -> Result<u64, String> {
    parse(text, |span| now.checked_add(span))
}

/// Reads a point in time: RFC 3339, or a span before now (`5m`, `-5m`).
pub(crate) fn parse_past(text: &str, now: u64) -> Result<u64, String> {
    parse(text, |span| now.checked_sub(span))
}

fn parse(text: &str, from_now: impl Fn(u64) -> Option<u64>) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a point in time: write 2026-01-31T12:00:00Z, or a span such as 30m");
    if let Ok(span) = parse_duration(text.trim_start_matches(['+', '-'])) {
        return u64::try_from(span.as_millis()).ok().and_then(from_now).ok_or_else(wrong);
    }
    let time: Timestamp = text.parse().map_err(|_| wrong())?;
    u64::try_from(time.as_millisecond()).map_err(|_| wrong())
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_769_860_800_000;

    #[test]
    fn a_time_is_told_and_read_back() {
        assert_eq!(rfc3339(NOON + 7), "2026-01-31T12:00:00.007Z");
        assert_eq!(parse_future("2026-01-31T12:00:00.007Z", 0), Ok(NOON + 7));
        assert_eq!(parse_future("2026-01-31T13:00:00+01:00", 0), Ok(NOON));
        assert_eq!(parse_future("5m", NOON), Ok(NOON + 300_000));
        assert_eq!(parse_past("1h", NOON), Ok(NOON - 3_600_000));
        assert!(parse_future("tomorrow", NOON).is_err());
        assert!(parse_past("9999999d", NOON).is_err());
        assert_eq!(clock(NOON + 7), "12:00:00.007");
    }

    #[test]
    fn people_hear_how_long_ago_it_was() {
        assert_eq!(relative(NOON, NOON + 300), "now");
        assert_eq!(relative(NOON, NOON + 65_300), "1m5s ago");
        assert_eq!(relative(NOON + 7_200_000, NOON), "in 2h");
    }

    #[test]
    fn a_time_beyond_the_calendar_is_still_told() {
        assert_eq!(rfc3339(u64::MAX), u64::MAX.to_string());
    }
}
