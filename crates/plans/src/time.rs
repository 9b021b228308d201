//! Points in time as documents write them: ISO 8601 outside, milliseconds since 1970 inside.

use jiff::Timestamp;

/// `2025-11-17T10:00:00.000Z`. A time after the year 9999 is written as the end of that year.
pub fn format_time(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

/// Reads `2025-11-17T10:00:00Z`, with a fraction and with an offset such as `+01:00` if there is one.
pub fn parse_time(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
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
        assert_eq!(format_time(u64::MAX), "9999-12-30T22:00:00.999Z", "the last moment there is a name for");
    }

    #[test]
    fn offsets_and_fractions_are_understood() {
        let noon = parse_time("2025-11-17T12:00:00Z");
        assert!(noon.is_some());
        assert_eq!(parse_time("2025-11-17T13:00:00+01:00"), noon);
        assert_eq!(parse_time("2025-11-17T06:30:00.000000-05:30"), noon);
        assert_eq!(parse_time("2025-11-17 12:00:00.5Z"), noon.map(|millis| millis + 500));
    }

    #[test]
    fn text_that_is_not_a_time_is_refused() {
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
        fn every_moment_reads_back_as_it_was_written(millis in 0u64..253_402_200_000_000) {
            proptest::prop_assert_eq!(parse_time(&format_time(millis)), Some(millis));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = parse_time(&text);
        }
    }
}
