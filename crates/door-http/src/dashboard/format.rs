//! Numbers, sizes and times for people.

use std::time::Duration;

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_hub::words::{LostReason, TaskId, Timestamp};

/// Characters that need no escape in a part of a path or of a query string.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');
/// How many digits at the end of an id tell tasks apart. The first ones are its time.
const SHORT_ID: usize = 8;

/// A part of a path or of a query string.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 worker`, `2 workers`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `4.2 MB`.
pub(super) fn bytes(length: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut size = length as f64;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && size < 9.95);
    format!("{size:.decimals$} {}", UNITS[unit])
}

/// `850 ms`, `12 s`, `5 min`, `3 h 20 min`, `4 d`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.as_millis() < 1000 => format!("{} ms", span.as_millis()),
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 if (seconds / 60).is_multiple_of(60) => format!("{} h", seconds / 3600),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago, as a text that a script keeps up to date.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let text = if at > now { format!("in {}", span(at.since(now))) } else { coarse(now.since(at)) };
    html! { time datetime=(at.rfc3339()) title=(at.rfc3339()) data-age { (text) } }
}

/// How long already, as a text that a script keeps up to date.
pub(super) fn since(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at.rfc3339()) title=(at.rfc3339()) data-since { (span(now.since(at))) } }
}

fn coarse(past: Duration) -> String {
    if past < Duration::from_secs(1) { "now".to_owned() } else { format!("{} ago", span(past)) }
}

/// The time of day, for lists of events.
pub(super) fn clock(at: Timestamp) -> Markup {
    let text = at.rfc3339();
    let time = text.split_once('T').map_or(&*text, |(_, time)| time.trim_end_matches('Z'));
    html! { time datetime=(text) title=(text) data-clock { (time) } }
}

/// The end of an id, as the command line shows it.
pub(super) fn short(task: TaskId) -> String {
    let text = task.to_string();
    text[text.len() - SHORT_ID..].to_owned()
}

/// Why a worker or an attempt counts as lost, in plain words.
pub(super) fn why_lost(reason: LostReason) -> &'static str {
    match reason {
        LostReason::ConnectionClosed => "the connection closed",
        LostReason::HeartbeatMissed => "no sign of life came in time",
        LostReason::RunLimit => "the attempt ran longer than its limit",
        LostReason::WorkerSaidSo => "the worker reported the crash",
        LostReason::Forgotten => "the worker connected again without the task",
        LostReason::NotBackAfterRestart => "the worker did not come back after the restart of the broker",
    }
}

/// What a worker says about a failure beyond the exit code, which stands beside it.
pub(super) fn said_beside(message: &Option<Box<str>>, exit_code: i32) -> Option<&str> {
    message.as_deref().filter(|message| *message != format!("exit code {exit_code}"))
}

/// The same text as a sentence.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sizes_and_spans_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 999, 1000, 9_960, 1_234_567, 5 << 40].map(bytes),
            ["0 B", "999 B", "1.0 kB", "10 kB", "1.2 MB", "5.5 TB"]
        );
        let spans = [0, 61, 3600, 12_000, 200_000].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(spans, ["0 ms", "1 min", "1 h", "3 h 20 min", "2 d"]);
        assert_eq!(counted(1, "task", "tasks"), "1 task");
        assert_eq!(escaped("a b/<&>"), "a%20b%2F%3C%26%3E");
    }

    #[test]
    fn a_time_says_how_long_ago_it_was() {
        let now = Timestamp(1_769_860_800_000);
        let html = ago(Timestamp(now.0 - 125_000), now).into_string();
        assert!(html.ends_with(">2 min ago</time>"), "{html}");
        assert!(ago(Timestamp(now.0 + 5_000), now).into_string().contains(">in 5 s<"));
        assert!(ago(now, now).into_string().contains(">now<"));
    }
}
