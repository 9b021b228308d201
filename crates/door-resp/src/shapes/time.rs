//! ISO 8601 in and out, as this door's JSON writes times. Milliseconds since 1970 inside.

const DAY_SECONDS: i64 = 86_400;

/// `2025-11-17T10:00:00.000Z`.
pub(crate) fn format_time(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    let (seconds, milli) = (millis / 1000, millis % 1000);
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Reads `2025-11-17T10:00:00Z`, with a fraction and with an offset such as `+01:00` if there is one.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let text = text.as_bytes();
    if text.get(4) != Some(&b'-') || text.get(7) != Some(&b'-') {
        return None;
    }
    if !matches!(text.get(10), Some(b'T' | b't' | b' ')) || text.get(13) != Some(&b':') {
        return None;
    }
    if text.get(16) != Some(&b':') {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..10])?);
    let (hour, minute) = (digits(&text[11..13])?, digits(&text[14..16])?);
    let second = digits(text.get(17..19)?)?;
    if !(1..=12).contains(&month) || !(1..=month_days(year, month)).contains(&day) {
        return None;
    }
    // A leap second is written as 60.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millis, rest) = fraction(&text[19..])?;
    let offset_minutes = offset(rest)?;
    let seconds = days_of(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    u64::try_from((seconds - offset_minutes * 60) * 1000 + millis).ok()
}

fn digits(text: &[u8]) -> Option<i64> {
    let mut value = 0;
    for digit in text {
        value = value * 10 + i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    Some(value)
}

/// Any number of digits after the point; what is finer than a millisecond is dropped.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let [b'.', rest @ ..] = text else { return Some((0, text)) };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let mut millis = 0;
    for (worth, digit) in [100, 10, 1].iter().zip(&rest[..count]) {
        millis += worth * i64::from(digit - b'0');
    }
    Some((millis, &rest[count..]))
}

fn offset(text: &[u8]) -> Option<i64> {
    match text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), hours @ .., b':', _, _] if hours.len() == 2 => {
            let (hours, minutes) = (digits(hours)?, digits(&text[4..6])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = hours * 60 + minutes;
            Some(if *sign == b'-' { -minutes } else { minutes })
        }
        _ => None,
    }
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. The year is taken to begin in March, so that the leap day comes last.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_and_read() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_763_373_600_000, "2025-11-17T10:00:00.000Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(format_time(millis), text);
            assert_eq!(parse_time(text), Some(millis));
        }
    }

    #[test]
    fn offsets_and_fractions_are_understood() {
        let noon = parse_time("2025-11-17T12:00:00Z");
        assert_eq!(parse_time("2025-11-17T13:00:00+01:00"), noon);
        assert_eq!(parse_time("2025-11-17T06:30:00.000000-05:30"), noon);
        assert_eq!(parse_time("2025-11-17 12:00:00.5Z"), noon.map(|millis| millis + 500));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2025-11-17",
            "2025-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2025-11-17T24:00:00Z",
            "2025-11-17T10:00:00",
            "2025-11-17T10:00:00.Z",
            "2025-11-17T10:00:00+1:00",
            "1969-12-31T23:59:59Z",
            "2025-11-17T10:00:0xZ",
            "2025-11-17T10:00:00+99:00",
            "2025-11-17T10:00",
            "äöüäöüäöüäöüäöü",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_moment_reads_back_as_it_was_written(millis in 0u64..253_402_300_799_999) {
            proptest::prop_assert_eq!(parse_time(&format_time(millis)), Some(millis));
        }

        #[test]
        fn no_text_can_make_it_panic(text in "\\PC*") {
            let _ = parse_time(&text);
        }
    }
}
