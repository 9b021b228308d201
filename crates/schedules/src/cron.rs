//! Cron expressions: five fields (minute, hour, day of the month, month, day of the week), as bit sets.

use jiff::civil::{Date, DateTime};

use crate::error::TimingError;

/// The rarest date, 29 February, is at most eight years away.
const YEARS_MAX: i16 = 9;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const EXAMPLE: &str = "'0 2 * * *' (every day at 02:00)";

/// The minutes at which a wall clock matches an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronExpression {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// If both fields are restricted, a day that matches either of them matches, as in every cron.
    either_day: bool,
}

struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
    example: &'static str,
}

const MINUTE: Field =
    Field { name: "minute", min: 0, max: 59, names: &[], example: "'*/15 * * * *' (every 15 minutes)" };
const HOUR: Field =
    Field { name: "hour", min: 0, max: 23, names: &[], example: "'0 9-17 * * *' (each hour from 9 to 17)" };
const DAY: Field = Field {
    name: "day of the month",
    min: 1,
    max: 31,
    names: &[],
    example: "'0 2 1 * *' (the first of each month at 02:00)",
};
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &MONTHS,
    example: "'0 2 1 jan,jul *' (1 January and 1 July at 02:00)",
};
const WEEKDAY: Field = Field {
    name: "day of the week",
    min: 0,
    max: 7,
    names: &WEEKDAYS,
    example: "'0 2 * * mon-fri' (Monday to Friday at 02:00)",
};

impl CronExpression {
    /// Reads the five fields of an expression, or an alias such as `@daily`.
    pub fn parse(text: &str) -> Result<CronExpression, TimingError> {
        let text = alias(text.trim()).unwrap_or(text.trim());
        if text.starts_with('@') {
            let why = format!(
                "{text} is not known: write five fields, or @hourly, @daily, @weekly, @monthly or @yearly"
            );
            return Err(TimingError::new("cron expression", why, EXAMPLE));
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day, month, weekday] = &fields[..] else {
            let why = format!(
                "it has {} fields instead of five: minute, hour, day of the month, month, day of the week",
                fields.len()
            );
            return Err(TimingError::new("cron expression", why, EXAMPLE));
        };
        let mut weekdays = WEEKDAY.parse(weekday)?;
        // Sunday is both 0 and 7.
        if weekdays & 1 << 7 != 0 {
            weekdays = weekdays & !(1 << 7) | 1;
        }
        let expression = CronExpression {
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            weekdays,
            either_day: is_restricted(day) && is_restricted(weekday),
        };
        let start = DateTime::constant(2000, 1, 1, 0, 0, 0, 0);
        if expression.next_after(start).is_none() {
            let why = format!("no month in {month:?} has a day {day}");
            return Err(TimingError::new("day of the month", why, DAY.example));
        }
        Ok(expression)
    }

    /// Whether every hour of the day matches. Such an expression means a rhythm, not a time of day.
    pub(crate) fn is_hourly(&self) -> bool {
        self.hours.count_ones() == 24
    }

    /// Whether the expression is due at this minute of the wall clock.
    pub fn matches(&self, time: DateTime) -> bool {
        self.matches_day(time.date())
            && has(self.hours, time.hour() as u32)
            && has(self.minutes, time.minute() as u32)
    }

    fn matches_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day() as u32);
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset() as u32);
        let fits = if self.either_day { day || weekday } else { day && weekday };
        fits && has(self.months, date.month() as u32)
    }

    /// The next matching minute of a wall clock that is never set.
    pub(crate) fn next_after(&self, after: DateTime) -> Option<DateTime> {
        let (mut date, mut hour, mut minute) = (after.date(), after.hour() as u32, after.minute() as u32 + 1);
        let last_year = after.year().checked_add(YEARS_MAX)?;
        while date.year() <= last_year {
            if !has(self.months, date.month() as u32) {
                date = date.last_of_month().tomorrow().ok()?;
            } else {
                if self.matches_day(date)
                    && let Some((hour, minute)) = self.time_from(hour, minute)
                {
                    return Some(date.at(hour, minute, 0, 0));
                }
                date = date.tomorrow().ok()?;
            }
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The first matching time of a day at or after a minute of an hour.
    fn time_from(&self, hour: u32, minute: u32) -> Option<(i8, i8)> {
        let first_minute = first_at(self.minutes, 0)?;
        if has(self.hours, hour)
            && let Some(found) = first_at(self.minutes, minute)
        {
            return Some((hour as i8, found as i8));
        }
        Some((first_at(self.hours, hour + 1)? as i8, first_minute as i8))
    }
}

fn alias(text: &str) -> Option<&'static str> {
    Some(match text.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => return None,
    })
}

fn is_restricted(field: &str) -> bool {
    !field.starts_with(['*', '?'])
}

fn has(set: u64, number: u32) -> bool {
    set & 1 << number != 0
}

fn first_at(set: u64, from: u32) -> Option<u32> {
    let rest = set.checked_shr(from)?;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

impl Field {
    /// The set of numbers that a field names: `*`, `5`, `1-5`, `*/15`, `8-18/2`, `mon`, and lists of these.
    fn parse(&self, text: &str) -> Result<u64, TimingError> {
        text.split(',').try_fold(0, |set, part| Ok(set | self.part(text, part)?))
    }

    fn part(&self, text: &str, part: &str) -> Result<u64, TimingError> {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => {
                let count = step.parse::<u8>().ok().filter(|count| *count > 0);
                let count = count
                    .ok_or_else(|| self.wrong(text, &format!("the step {step:?} is not a number above 0")))?;
                (range, Some(count))
            }
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => {
                (self.min, self.max.min(if self.max == 7 { 6 } else { self.max }))
            }
            Some((first, last)) => (self.number(text, first)?, self.number(text, last)?),
            // `5/15` means from 5 on, as in most crons.
            None if step.is_some() => (self.number(text, range)?, self.max),
            None => {
                let number = self.number(text, range)?;
                (number, number)
            }
        };
        if first > last {
            return Err(self.wrong(text, &format!("the range {range} runs backwards")));
        }
        Ok((first..=last).step_by(usize::from(step.unwrap_or(1))).fold(0, |set, number| set | 1 << number))
    }

    fn number(&self, text: &str, word: &str) -> Result<u8, TimingError> {
        let lower = word.to_ascii_lowercase();
        if let Some(place) = self.names.iter().position(|name| *name == lower) {
            return Ok(place as u8 + u8::from(self.min == 1));
        }
        let number = word.parse::<u8>().ok().filter(|number| (self.min..=self.max).contains(number));
        number.ok_or_else(|| {
            let names = match self.names {
                [] => String::new(),
                [first, .., last] => format!(" or {first} to {last}"),
                [only] => format!(" or {only}"),
            };
            self.wrong(text, &format!("{word:?} is not a number from {} to {}{names}", self.min, self.max))
        })
    }

    fn wrong(&self, text: &str, why: &str) -> TimingError {
        let why = if text.contains(',') { format!("in {text:?}, {why}") } else { why.to_owned() };
        TimingError::new(self.name, why, self.example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(expression: &str, after: &str) -> String {
        let expression = CronExpression::parse(expression).unwrap();
        expression.next_after(after.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn the_next_time_follows_the_fields() {
        assert_eq!(next("0 2 * * *", "2026-11-17T01:59:59"), "2026-11-17T02:00:00");
        assert_eq!(next("0 2 * * *", "2026-11-17T02:00:00"), "2026-11-18T02:00:00");
        assert_eq!(next("*/15 * * * *", "2026-12-31T23:46:00"), "2027-01-01T00:00:00");
        assert_eq!(next("5/20 9-10 * * *", "2026-11-17T09:25:00"), "2026-11-17T09:45:00");
        assert_eq!(next("0 0 29 2 *", "2026-11-17T00:00:00"), "2028-02-29T00:00:00");
        assert_eq!(next("0 0 29 2 *", "2096-03-01T00:00:00"), "2104-02-29T00:00:00");
        assert_eq!(next("30 8 * jan,Jul mon", "2026-11-17T00:00:00"), "2027-01-04T08:30:00");
        assert_eq!(next("@weekly", "2026-11-17T00:00:00"), "2026-11-22T00:00:00");
        assert_eq!(next("0 0 * * 7", "2026-11-17T00:00:00"), "2026-11-22T00:00:00");
        assert_eq!(next("0 0 * * 5-7", "2026-11-21T00:00:00"), "2026-11-22T00:00:00");
    }

    #[test]
    fn a_day_matches_either_field_if_both_are_restricted() {
        assert_eq!(next("0 0 20 * mon", "2026-11-17T00:00:00"), "2026-11-20T00:00:00");
        assert_eq!(next("0 0 20 * mon", "2026-11-20T00:00:00"), "2026-11-23T00:00:00");
    }

    #[test]
    fn a_wrong_expression_names_its_field_and_shows_an_example() {
        for (expression, parts) in [
            ("75 2 * * *", ["minute", "\"75\" is not a number from 0 to 59", "'*/15 * * * *'"]),
            ("0 24 * * *", ["hour", "\"24\"", "'0 9-17 * * *'"]),
            ("0 2 0 * *", ["day of the month", "from 1 to 31", "'0 2 1 * *'"]),
            ("0 2 * foo *", ["month", "\"foo\" is not a number from 1 to 12 or jan to dec", "jan,jul"]),
            ("0 2 * * sunday", ["day of the week", "sun to sat", "mon-fri"]),
            ("0 2 * *", ["cron expression", "4 fields instead of five", "'0 2 * * *'"]),
            ("@often", ["cron expression", "@often", "@daily"]),
            ("*/0 * * * *", ["minute", "the step \"0\"", "example"]),
            ("30-10 * * * *", ["minute", "backwards", "example"]),
            ("0 0 31 2 *", ["day of the month", "no month", "example"]),
        ] {
            let error = CronExpression::parse(expression).expect_err(expression).to_string();
            for part in parts {
                assert!(error.contains(part), "{expression}: {error}");
            }
        }
    }
}
