//! Compares cron expressions with croniter, on random expressions, zones and dates. The days on which the clock is set
//! are left out: there the two differ on purpose, and `wall_clocks.rs` holds what this crate promises.

use std::io::Write;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tenure_schedules::Timing;

/// Reads `expression|zone|milliseconds|count` and writes the due times after that moment, in milliseconds.
const SCRIPT: &str = r#"
import sys
from datetime import datetime
from zoneinfo import ZoneInfo
from croniter import croniter
for line in sys.stdin:
    expression, zone, start, count = line.rstrip("\n").split("|")
    start = datetime.fromtimestamp(int(start) / 1000, ZoneInfo(zone))
    due = croniter(expression, start)
    print(" ".join(str(int(due.get_next(float) * 1000)) for _ in range(int(count))))
"#;

const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Pacific/Apia",
];
const CASES: u64 = 2_000;
const DUE_TIMES: usize = 8;

/// A plain generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// A number, a range, a range with a step, or a list.
    fn restricted(&mut self, first: u64, last: u64) -> String {
        let one = |random: &mut Random| first + random.below(last - first + 1);
        match self.below(4) {
            0 => one(self).to_string(),
            kind @ (1 | 2) => {
                let (a, b) = (one(self), one(self));
                let (from, to) = (a.min(b), a.max(b));
                // A range of one number with a step is written differently by croniter.
                if kind == 1 || from == to {
                    return if from == to { from.to_string() } else { format!("{from}-{to}") };
                }
                format!("{from}-{to}/{}", 1 + self.below((to - from).min(6)))
            }
            _ => {
                let mut numbers: Vec<u64> = (0..=self.below(3)).map(|_| one(self)).collect();
                numbers.sort_unstable();
                numbers.dedup();
                numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
            }
        }
    }

    fn field(&mut self, first: u64, last: u64, open: u64) -> String {
        if self.below(10) < open { "*".to_owned() } else { self.restricted(first, last) }
    }

    fn expression(&mut self) -> String {
        let minute = match self.below(4) {
            0 => format!("*/{}", 1 + self.below(30)),
            _ => self.field(0, 59, 1),
        };
        let hour = match self.below(4) {
            0 => format!("*/{}", 1 + self.below(12)),
            _ => self.field(0, 23, 4),
        };
        // Day 28 exists in every month, so that no expression is never due.
        let day = self.field(1, 28, 6);
        let (month, weekday) = (self.field(1, 12, 7), self.field(0, 6, 6));
        format!("{minute} {hour} {day} {month} {weekday}")
    }
}

/// Whether the clock of the zone is set within a day of this moment.
fn is_near_a_change(zone: &TimeZone, at: u64) -> bool {
    let offset = |millis: i64| zone.to_offset(Timestamp::from_millisecond(millis).expect("a time"));
    let (at, day) = (i64::try_from(at).expect("a time"), 24 * 3_600_000);
    offset(at - day) != offset(at) || offset(at + day) != offset(at)
}

#[test]
fn cron_expressions_are_due_when_croniter_says_so() {
    let Some(python) = std::env::var_os("TENURE_THIRD_PARTY_PYTHON") else {
        eprintln!("skipped: TENURE_THIRD_PARTY_PYTHON is not set");
        return;
    };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let cases: Vec<(String, &str, u64)> = (0..CASES)
        .map(|_| {
            let zone = ZONES[random.below(ZONES.len() as u64) as usize];
            // Between 1990 and 2045, on a minute.
            let start = (631_152_000 + random.below(1_735_000_000) / 60 * 60) * 1_000;
            (random.expression(), zone, start)
        })
        .collect();
    let asked: String = cases
        .iter()
        .map(|(expression, zone, start)| format!("{expression}|{zone}|{start}|{DUE_TIMES}\n"))
        .collect();
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = child.stdin.take().expect("it reads");
    let writing = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writing.join().expect("no panic").expect("it reads all");
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).expect("numbers");
    assert_eq!(answers.lines().count(), cases.len());
    let mut compared = 0;
    for ((expression, zone_name, start), answer) in cases.iter().zip(answers.lines()) {
        let timing = Timing::parse(expression, Some(zone_name)).expect("an expression");
        let zone = TimeZone::get(zone_name).expect("a zone");
        let expected: Vec<u64> = answer.split(' ').map(|number| number.parse().expect("a number")).collect();
        let mut after = *start;
        for due in expected {
            let found = timing.next_after(0, after).expect("it is due");
            if is_near_a_change(&zone, due) || is_near_a_change(&zone, found) {
                break;
            }
            assert_eq!(found, due, "`{expression}` in {zone_name} after {after}");
            compared += 1;
            after = due;
        }
    }
    assert!(compared > 10_000, "{compared} due times were compared");
}
