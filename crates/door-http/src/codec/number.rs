//! Times and durations as they stand in a request.

use std::time::Duration;

use tenure_hub::words::Timestamp;

use crate::problem::ProblemDetails;

/// A number of seconds, such as `30` or `0.5`.
pub(crate) fn seconds(text: &str) -> Result<Duration, ProblemDetails> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| ProblemDetails::bad_value(format!("{text:?} is not a number of seconds")))
}

/// A point in time: RFC 3339, or milliseconds since 1970.
pub(crate) fn time(text: &str) -> Result<Timestamp, ProblemDetails> {
    if let Ok(millis) = text.parse() {
        return Ok(Timestamp(millis));
    }
    let time: Option<jiff::Timestamp> = text.parse().ok();
    let millis = time.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    millis.map(Timestamp).ok_or_else(|| {
        ProblemDetails::bad_value(format!("{text:?} is not a time: write it like 2026-01-31T12:00:00Z"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_read_and_nonsense_is_not() {
        assert_eq!(seconds("0.5").unwrap(), Duration::from_millis(500));
        for bad in ["", "-1", "soon", "NaN", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(time("2026-01-31T12:00:00Z").unwrap(), Timestamp(1_769_860_800_000));
        assert_eq!(time("1769860800000").unwrap(), Timestamp(1_769_860_800_000));
        for bad in ["", "yesterday", "2026-01-31", "1900-01-01T00:00:00Z"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
