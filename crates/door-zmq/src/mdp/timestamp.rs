//! Points in time as people and `_PL` clients read them.

use std::time::Duration;

use jiff::Timestamp;

/// ISO 8601 in UTC with milliseconds, from the time since 1970.
pub fn iso8601(since_1970: Duration) -> String {
    let time = Timestamp::UNIX_EPOCH.checked_add(since_1970).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_are_easy_to_get_wrong_are_right() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(Duration::from_millis(millis)), text);
        }
    }
}
