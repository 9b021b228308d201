//! Compares due times with croner, on random expressions, zones and dates, half of them around a change of the clock.
//!
//! Where the two differ on purpose, a rule says which due times are left out and from which of the two. The rules are
//! those of the decision about schedules, and apply only at a change of the clock and only to expressions that do not
//! match every hour; `wall_clocks.rs` holds what this crate promises there.

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Zoned};
use proptest::collection::btree_set;
use proptest::prelude::*;
use proptest::sample::select;
use tenure_schedules::{CronExpression, Timing};

const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "America/Santiago",
    "Africa/Casablanca",
];
/// 1990 to 2046, in minutes since 1970.
const MINUTES: std::ops::Range<i64> = 10_519_200..39_972_960;
const MINUTE: i64 = 60;
/// How far around a change of the clock a comparison begins, in minutes.
const AROUND: std::ops::Range<i64> = -3_000..200;
const DUE_TIMES: usize = 40;
/// A comparison ends after this many days, so that an expression that is due once in years stays cheap.
const DAYS_MAX: i64 = 400;

/// One field: a number, a range, a range with a step, or a list, unless it is open.
fn field(first: u8, last: u8) -> impl Strategy<Value = String> {
    let numbers = move |count| btree_set(first..=last, count);
    let two = move || numbers(2..3).prop_map(|two| two.into_iter().collect::<Vec<u8>>());
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => (first..=last).prop_map(|one| one.to_string()),
        1 => two().prop_map(|two| format!("{}-{}", two[0], two[1])),
        1 => (two(), 1_u8..6).prop_map(|(two, step)| format!("{}-{}/{}", two[0], two[1], step.min(two[1] - two[0]))),
        1 => numbers(2..4).prop_map(|some| some.iter().map(u8::to_string).collect::<Vec<_>>().join(",")),
    ]
}

fn stepped(first: u8, last: u8, step: u8) -> impl Strategy<Value = String> {
    prop_oneof![4 => field(first, last), 1 => (1..=step).prop_map(|step| format!("*/{step}"))]
}

fn expression() -> impl Strategy<Value = String> {
    // Every month has 28 days, so every expression is due again.
    (stepped(0, 59, 30), stepped(0, 23, 12), stepped(1, 28, 9), field(1, 12), field(0, 6))
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
        // With a step in the day of the month and a restricted day of the week, croner takes a day that matches either.
        // Here, as in Vixie cron, a field that begins with `*` is not restricted, so both must match.
        .prop_filter("croner takes either day", |text| {
            let fields: Vec<&str> = text.split(' ').collect();
            !(fields[2].starts_with("*/") && fields[4] != "*")
        })
}

/// How often an expression is due on a day that it matches, as far as croner treats that differently.
#[derive(Debug, PartialEq)]
enum Kind {
    /// It matches every hour, and follows the clock through every change.
    EveryHour,
    OnceADay,
    Several,
}

fn kind(text: &str) -> Kind {
    let fields: Vec<&str> = text.split(' ').collect();
    // The days do not matter for the times of day.
    let any_day = CronExpression::parse(&format!("{} {} * * *", fields[0], fields[1])).expect("it is valid");
    let midnight = DateTime::constant(2025, 1, 1, 0, 0, 0, 0);
    let times: Vec<DateTime> = (0..1_440)
        .map(|minute| midnight + SignedDuration::from_mins(minute))
        .filter(|time| any_day.matches(*time))
        .collect();
    if (0..24).all(|hour| times.iter().any(|time| time.hour() == hour)) {
        return Kind::EveryHour;
    }
    if times.len() == 1 { Kind::OnceADay } else { Kind::Several }
}

/// What the clock of a zone does at one moment.
struct Moment<'a> {
    zone: &'a TimeZone,
    at: i64,
}

impl Moment<'_> {
    fn wall(&self, at: i64) -> DateTime {
        self.zone.to_datetime(Timestamp::from_second(at).expect("a time"))
    }

    /// The times that the clock leaves out here; none if it does not jump forward.
    fn left_out(&self) -> Vec<DateTime> {
        let (before, shown) = (self.wall(self.at - MINUTE), self.wall(self.at));
        let minutes = std::iter::successors(Some(before), |time| Some(*time + SignedDuration::from_mins(1)));
        minutes.skip(1).take_while(|time| *time < shown).collect()
    }

    /// The clock has shown this time before.
    fn is_repeated(&self) -> bool {
        let shown = self.wall(self.at);
        (1..=26 * 60).any(|minutes| self.wall(self.at - minutes * MINUTE) == shown)
    }
}

/// The due times of croner that this crate has, too.
fn is_expected(text: &str, kind: &Kind, moment: &Moment<'_>) -> bool {
    let expression = CronExpression::parse(text).expect("it is valid");
    let matches = expression.matches(moment.wall(moment.at));
    match kind {
        Kind::EveryHour => true,
        // A single time of day also fires in croner at a jump that the search crosses on its way to it.
        Kind::OnceADay => matches || moment.left_out().iter().any(|time| expression.matches(*time)),
        // croner takes it for an interval, which is due in both passes of a repeated hour.
        Kind::Several => !moment.is_repeated(),
    }
}

/// The due times of this crate that croner has, too.
fn is_shared(text: &str, kind: &Kind, moment: &Moment<'_>) -> bool {
    // Of several times of day, croner skips those that the clock leaves out. Here the first is due at the jump.
    let expression = CronExpression::parse(text).expect("it is valid");
    *kind != Kind::Several || expression.matches(moment.wall(moment.at))
}

/// When a comparison begins: anywhere, or shortly before or after a change of the clock.
fn start(zone: &TimeZone, anywhere: i64, around: Option<i64>) -> i64 {
    let at = Timestamp::from_second(anywhere * MINUTE).expect("a time");
    let change = zone.following(at).next().map(|change| change.timestamp().as_second());
    match (around, change) {
        (Some(offset), Some(change)) if change < MINUTES.end * MINUTE => change + offset * MINUTE,
        _ => anywhere * MINUTE,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn due_times_are_those_of_croner(
        text in expression(),
        name in select(ZONES.to_vec()),
        anywhere in MINUTES,
        around in prop::option::of(AROUND),
    ) {
        let zone = TimeZoneDatabase::bundled().get(name).expect("it is bundled");
        let (timing, kind) = (Timing::parse(&text, Some(name)).expect("it is valid"), kind(&text));
        let from = start(&zone, anywhere, around);
        let end = from + DAYS_MAX * 24 * 60 * MINUTE;
        let mut ours = Vec::new();
        let mut at = from as u64 * 1_000;
        while ours.len() < DUE_TIMES && let Some(next) = timing.next_after(0, at) && next as i64 / 1_000 <= end {
            ours.push(next as i64 / 1_000);
            at = next;
        }
        // Both are compared up to the same moment.
        let until = if ours.len() < DUE_TIMES { end } else { ours[DUE_TIMES - 1] };
        let cron: Cron = text.parse().expect("croner reads it");
        let begin = Zoned::new(Timestamp::from_second(from).expect("a time"), zone.clone());
        let theirs: Vec<i64> = cron
            .iter_after(begin)
            .map(|next| next.timestamp().as_second())
            .take_while(|next| *next <= until)
            .filter(|next| is_expected(&text, &kind, &Moment { zone: &zone, at: *next }))
            .collect();
        ours.retain(|next| is_shared(&text, &kind, &Moment { zone: &zone, at: *next }));
        prop_assert_eq!(ours, theirs, "{} in {} after {}, {:?}", text, name, from, kind);
    }
}
