//! Spans and sizes as people write them: `30s`, `5m`, `1h30m`, `7d`; `512KB`, `64MB`.

use std::time::Duration;

/// Reads a span: numbers with units, one after the other. A bare number has no unit and is refused.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("`{text}` is not a duration: write a number with ms, s, m, h or d, such as 30s or 1h30m");
    let mut millis: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (number, unit, after) = split(rest).ok_or_else(wrong)?;
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let part = number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too long a duration"))?;
        millis = millis.checked_add(part).ok_or_else(|| format!("`{text}` is too long a duration"))?;
        rest = after;
    }
    Ok(Duration::from_millis(millis))
}

/// Reads a size in bytes. Units are powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a size: write a number of bytes, or one with KB, MB or GB, such as 64MB");
    let text_trimmed = text.trim();
    let digits = text_trimmed.len() - text_trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text_trimmed[..digits].parse().map_err(|_| wrong())?;
    let factor: u64 = match text_trimmed[digits..].trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large a size"))
}

/// A span in its two largest units, for people.
pub(crate) fn show_duration(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let seconds = millis / 1_000;
    let pair = |large: u64, large_unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    match seconds {
        0 => format!("{millis}ms"),
        1..60 if millis % 1_000 != 0 && seconds < 10 => format!("{seconds}.{}s", millis % 1_000 / 100),
        1..60 => format!("{seconds}s"),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// A size with one decimal, for people.
pub(crate) fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if value < 10.0 && unit > 0 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{} {}", text.trim_end_matches(".0"), UNITS[unit])
}

/// `1 crash`, `2 crashes`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// The next number, its unit, and what follows.
fn split(text: &str) -> Option<(u64, &str, &str)> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let number = text[..unit_at].parse().ok()?;
    let tail = text[unit_at..].trim_start();
    let unit_end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
    Some((number, &tail[..unit_end], tail[unit_end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("250 ms", 250),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "5 parsecs", "-5s", "1h30", "99999999999999999999d", "9999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("64MB", 64 << 20), ("512 KB", 512 << 10), ("1g", 1 << 30), ("100", 100), ("0", 0)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "64 XB", "-1MB", "1.5MB", "99999999999TB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_see_two_units_at_most() {
        for (millis, text) in [
            (7, "7ms"),
            (1_500, "1.5s"),
            (45_000, "45s"),
            (60_000, "1m"),
            (61_000, "1m1s"),
            (3_600_000, "1h"),
            (5_400_000, "1h30m"),
            (604_800_000, "7d"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(show_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(show_size(0), "0 B");
        assert_eq!(show_size(1536), "1.5 KB");
        assert_eq!(show_size(64 << 20), "64 MB");
    }
}
