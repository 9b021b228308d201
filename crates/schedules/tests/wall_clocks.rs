//! Due times through changes of the clock: by example, and against a model that walks through every minute.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use proptest::sample::select;
use tenure_schedules::{CronExpression, Timing};

const MINUTE: i64 = 60_000;

fn millis(text: &str) -> u64 {
    text.parse::<Timestamp>().unwrap().as_millisecond() as u64
}

fn due(when: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let timing = Timing::parse(when, Some(zone)).unwrap();
    let mut at = millis(from);
    let next = std::iter::from_fn(|| {
        at = timing.next_after(0, at)?;
        Some(Timestamp::from_millisecond(at as i64).unwrap().to_string())
    });
    next.take(count).collect()
}

#[test]
fn a_time_that_the_clock_leaves_out_is_due_once_at_the_jump() {
    // In Zurich, 29 March 2026 goes from 02:00 to 03:00, which is 01:00 UTC.
    let times = due("30 2 * * *", "Europe/Zurich", "2026-03-27T12:00:00Z", 3);
    assert_eq!(times, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    let times = due("0,15,45 2 29 3 *", "Europe/Zurich", "2026-03-01T12:00:00Z", 2);
    assert_eq!(times, ["2026-03-29T01:00:00Z", "2027-03-29T00:00:00Z"]);
}

#[test]
fn a_time_that_the_clock_shows_twice_is_due_once_the_first_time() {
    // 25 October 2026 shows 02:00 to 03:00 twice: from 00:00 UTC and from 01:00 UTC.
    let times = due("30 2 * * *", "Europe/Zurich", "2026-10-24T12:00:00Z", 2);
    assert_eq!(times, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let within_the_second_pass = due("30 2 * * *", "Europe/Zurich", "2026-10-25T01:10:00Z", 1);
    assert_eq!(within_the_second_pass, ["2026-10-26T01:30:00Z"]);
}

#[test]
fn a_rhythm_goes_on_through_both_changes() {
    let times = due("30 * * * *", "Europe/Zurich", "2026-10-24T23:45:00Z", 3);
    assert_eq!(times, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]);
    let times = due("*/30 * * * *", "Europe/Zurich", "2026-03-29T00:30:00Z", 3);
    assert_eq!(times, ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"]);
}

#[test]
fn a_day_that_a_zone_leaves_out_is_due_once() {
    // Apia had no 30 December 2011: it went from UTC-10 to UTC+14 at the end of the 29th.
    let times = due("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3);
    assert_eq!(times, ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
}

#[test]
fn half_an_hour_of_change_is_a_change() {
    // Lord Howe Island moves its clock by thirty minutes, on 5 April 2026 back from 02:00 to 01:30.
    let times = due("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2);
    assert_eq!(times, ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]);
}

/// Walks through every minute, and looks at the wall clock before and after it.
fn model(when: &str, zone: &TimeZone, from: i64, minutes: i64) -> Vec<u64> {
    let expression = CronExpression::parse(when).unwrap();
    let is_rhythm = when.split_whitespace().nth(1).is_some_and(|hours| hours == "*");
    let wall = |at: i64| zone.to_datetime(Timestamp::from_millisecond(at).unwrap());
    let mut found = Vec::new();
    for at in (0..minutes).map(|count| from + count * MINUTE) {
        let (before, shown) = (wall(at - MINUTE), wall(at));
        let is_due = if is_rhythm {
            expression.matches(shown)
        } else {
            let left_out = std::iter::successors(Some(before), |time| {
                Some(time.saturating_add(jiff::SignedDuration::from_mins(1)))
            });
            let left_out = left_out.skip(1).take_while(|time| *time < shown);
            let was_shown = (1..=180).any(|count| wall(at - count * MINUTE) == shown);
            left_out.clone().any(|time| expression.matches(time)) || (expression.matches(shown) && !was_shown)
        };
        if is_due {
            found.push(at as u64);
        }
    }
    found
}

fn expression() -> impl Strategy<Value = String> {
    let minute = select(vec!["0", "30", "*/15", "1,59", "10-50/20", "*"]);
    let hour = select(vec!["*", "0", "1", "2", "3", "1-3", "*/2", "23", "2,14"]);
    let day = select(vec!["*", "*", "29", "1-7", "*/2"]);
    let weekday = select(vec!["*", "*", "sun", "mon-fri"]);
    (minute, hour, day, weekday)
        .prop_map(|(minute, hour, day, weekday)| format!("{minute} {hour} {day} * {weekday}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn due_times_are_those_of_a_walk_through_every_minute(
        when in expression(),
        zone in select(vec!["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago", "UTC"]),
        change in select(vec!["2026-03-08T00:00:00Z", "2026-03-28T12:00:00Z", "2026-04-04T12:00:00Z", "2026-04-05T00:00:00Z", "2026-09-06T00:00:00Z", "2026-10-03T12:00:00Z", "2026-10-24T12:00:00Z", "2026-11-01T00:00:00Z"]),
        offset in 0_i64..600,
    ) {
        let tz = TimeZoneDatabase::bundled().get(zone).unwrap();
        let (start, minutes) = (millis(change) as i64 + offset * MINUTE, 30 * 60);
        let timing = Timing::parse(&when, Some(zone)).unwrap();
        let end = (start + (minutes - 1) * MINUTE) as u64;
        let mut at = start as u64 - 1;
        let mut found = Vec::new();
        while let Some(next) = timing.next_after(0, at).filter(|next| *next <= end) {
            found.push(next);
            at = next;
        }
        prop_assert_eq!(found, model(&when, &tz, start, minutes), "{} in {}", when, zone);
    }
}
