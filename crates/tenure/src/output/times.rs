//! Points in time: relative for people, RFC 3339 for programs, and parsing of both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use crate::units::{parse_duration, show_duration};

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-01-31T12:00:00.000Z`.
pub(crate) fn rfc3339(millis: u64) -> String {
    tenure_hub::words::Timestamp(millis).rfc3339()
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

/// Date and time of day in UTC, for streams that reach back.
pub(crate) fn date_and_clock(millis: u64) -> String {
    let text = rfc3339(millis);
    text.split_once('T').map_or(text.clone(), |(date, _)| format!("{date} {}", clock(millis)))
}

/// Reads a point in time to come: RFC 3339, a span from now on (`5m`, `+5m`), or as people say it (`23:30`,
/// `tomorrow 6:00`, `2026-01-31`).
pub(crate) fn parse_future(text: &str, now: u64) -> Result<u64, String> {
    parse(text, now, Side::Ahead, &TimeZone::system())
}

/// Reads a point in time that has been: RFC 3339, a span before now (`5m`, `-5m`), or as people say it (`yesterday`,
/// `23:30`, `2026-01-31 12:00`).
pub(crate) fn parse_past(text: &str, now: u64) -> Result<u64, String> {
    parse(text, now, Side::Behind, &TimeZone::system())
}

/// On which side of now a time of day or a span is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ahead,
    Behind,
}

fn parse(text: &str, now: u64, side: Side, zone: &TimeZone) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a point in time: write 2026-01-31T12:00:00Z, a span such as 30m, or such as 23:30, tomorrow \
             6:00, yesterday or 2026-01-31 12:00"
        )
    };
    if text == "now" {
        return Ok(now);
    }
    if let Ok(span) = parse_duration(text.trim_start_matches(['+', '-'])) {
        let span = u64::try_from(span.as_millis()).map_err(|_| wrong())?;
        let moment = match side {
            Side::Ahead => now.checked_add(span),
            Side::Behind => now.checked_sub(span),
        };
        return moment.ok_or_else(wrong);
    }
    let time = match text.parse::<Timestamp>() {
        Ok(time) => Some(time),
        Err(_) => by_the_calendar(text, now, side, zone),
    };
    time.and_then(|time| u64::try_from(time.as_millisecond()).ok()).ok_or_else(wrong)
}

/// A day, a time of day, or both, in the user's time zone.
fn by_the_calendar(text: &str, now: u64, side: Side, zone: &TimeZone) -> Option<Timestamp> {
    if text.is_empty() {
        return None;
    }
    let now = Timestamp::from_millisecond(i64::try_from(now).ok()?).ok()?;
    let today = now.to_zoned(zone.clone()).date();
    let (day, time) = text.split_once([' ', 'T']).unwrap_or(match text.contains(':') {
        true => ("", text),
        false => (text, ""),
    });
    let date = match day {
        "" | "today" => today,
        "tomorrow" => today.tomorrow().ok()?,
        "yesterday" => today.yesterday().ok()?,
        day => day.parse::<Date>().ok()?,
    };
    let time = if time.is_empty() { Time::midnight() } else { time_of_day(time)? };
    let at = |date: Date| Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp());
    let moment = at(date)?;
    // A time of day alone is the next one, or the last one.
    match side {
        Side::Ahead if day.is_empty() && moment <= now => at(today.tomorrow().ok()?),
        Side::Behind if day.is_empty() && moment > now => at(today.yesterday().ok()?),
        _ => Some(moment),
    }
}

/// `6:00`, `23:30`, `23:30:05`.
fn time_of_day(text: &str) -> Option<Time> {
    let mut parts = text.split(':').map(str::parse::<i8>);
    let mut next = || parts.next()?.ok();
    let (hour, minute) = (next()?, next()?);
    let second = if text.matches(':').count() == 2 { next()? } else { 0 };
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, 0).ok()
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_769_860_800_000;

    #[test]
    fn a_time_is_written_and_read_back() {
        assert_eq!(rfc3339(NOON + 7), "2026-01-31T12:00:00.007Z");
        assert_eq!(parse_future("2026-01-31T12:00:00.007Z", 0), Ok(NOON + 7));
        assert_eq!(parse_future("2026-01-31T13:00:00+01:00", 0), Ok(NOON));
        assert_eq!(parse_future("5m", NOON), Ok(NOON + 300_000));
        assert_eq!(parse_past("1h", NOON), Ok(NOON - 3_600_000));
        assert!(parse_future("soon", NOON).is_err());
        assert!(parse_past("9999999d", NOON).is_err());
        assert_eq!(clock(NOON + 7), "12:00:00.007");
    }

    #[test]
    fn days_and_times_of_day_are_read_in_the_users_time_zone() {
        const HOUR: u64 = 3_600_000;
        // One hour east of Greenwich, it is one o'clock in the afternoon.
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let ahead = |text| parse(text, NOON, Side::Ahead, &zone);
        let behind = |text| parse(text, NOON, Side::Behind, &zone);
        assert_eq!(ahead("23:30"), Ok(NOON + 10 * HOUR + HOUR / 2));
        assert_eq!(ahead("12:00"), Ok(NOON + 23 * HOUR), "noon is over today");
        assert_eq!(behind("12:00"), Ok(NOON - HOUR));
        assert_eq!(behind("23:30"), Ok(NOON - 13 * HOUR - HOUR / 2));
        assert_eq!(ahead("tomorrow 6:00"), Ok(NOON + 17 * HOUR));
        assert_eq!(ahead("today 18:00:05"), Ok(NOON + 5 * HOUR + 5_000));
        assert_eq!(behind("yesterday"), Ok(NOON - 37 * HOUR));
        assert_eq!(behind("2026-01-31"), Ok(NOON - 13 * HOUR));
        assert_eq!(behind("2026-01-31 12:00"), Ok(NOON - HOUR));
        assert_eq!(behind("2026-01-31T12:00"), Ok(NOON - HOUR));
        assert_eq!(behind("now"), Ok(NOON));
        for text in ["25:00", "12", "12:00:00:00", "tomorrow noon", "2026-13-01", "someday 6:00", ""] {
            assert!(ahead(text).is_err(), "{text}");
        }
        assert_eq!(date_and_clock(NOON + 7), "2026-01-31 12:00:00.007");
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
