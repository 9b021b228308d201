//! Cron expressions on a clock that is set: twice a year in many zones, an hour is left out or repeated.
//!
//! An expression that names hours means a time of day. A time that the clock leaves out is due once, at the
//! jump; a time that the clock shows twice is due once, the first time. An expression that matches every hour
//! means a rhythm: it is due at each matching minute that the clock shows, the repeated ones included.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::cron::CronExpression;

/// The next moment after `after` at which the expression is due.
pub(crate) fn next_after(
    expression: &CronExpression,
    zone: &TimeZone,
    after: Timestamp,
) -> Option<Timestamp> {
    if expression.is_hourly() {
        next_shown(expression, zone, after)
    } else {
        next_meant(expression, zone, after)
    }
}

/// The next time of day. The moments of later wall clock times are never earlier, except for times that were
/// due in the first pass of a repeated hour.
fn next_meant(expression: &CronExpression, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut time = zone.to_datetime(after);
    loop {
        time = expression.next_after(time)?;
        let moment = moment_of(zone, time)?;
        if moment > after {
            return Some(moment);
        }
    }
}

fn moment_of(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(time).ok()
        }
        AmbiguousOffset::Gap { after, .. } => {
            // Read with the later offset, a time that is left out lies before the jump.
            let before_jump = after.to_timestamp(time).ok()?;
            zone.following(before_jump).next().map(|jump| jump.timestamp())
        }
    }
}

/// The next matching minute that the clock shows.
fn next_shown(expression: &CronExpression, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut from = after;
    loop {
        let offset = zone.to_offset(from);
        let next =
            expression.next_after(offset.to_datetime(from)).and_then(|time| offset.to_timestamp(time).ok());
        let change = zone.following(from).next().map(|change| change.timestamp());
        match (next, change) {
            (Some(next), Some(change)) if change <= next => {
                // A change can be due itself; from there on another offset applies.
                if expression.matches(zone.to_datetime(change)) {
                    return Some(change);
                }
                from = change;
            }
            (Some(next), _) => return Some(next),
            (None, _) => return None,
        }
    }
}
