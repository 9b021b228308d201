//! Counts events: how tasks ended, how long attempts took, and on which workers.

use std::collections::HashMap;
use std::time::Duration;

use tenure_client::{Event, EventKind, TaskId};

/// How many attempts and groups of messages are remembered.
const ATTEMPTS_MAX: usize = 1_000_000;
const GROUPS_MAX: usize = 1_000;
/// How many of the slowest attempts and of the groups are shown.
const SHOWN_MAX: usize = 10;
/// How many bars a plot over time has.
pub(crate) const BINS: usize = 60;
/// The longest message of a group.
const MESSAGE_CHARS_MAX: usize = 200;

#[derive(Debug)]
pub(crate) struct ReportTotals {
    since: u64,
    until: u64,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    /// Failures with another attempt after them.
    pub(crate) retried: u64,
    pub(crate) crashed: u64,
    /// Ends over time: completed, failed, and cancelled or expired.
    pub(crate) over_time: [[u64; 3]; BINS],
    /// Attempts that have started and not ended.
    open: HashMap<(TaskId, u32), OpenRun>,
    /// Attempts that have ended.
    ended: Vec<Run>,
    groups: HashMap<String, Group>,
    first: Option<(u64, u64)>,
}

/// An attempt that has started. Only the time in which it runs counts.
#[derive(Clone, Debug)]
struct OpenRun {
    worker: String,
    /// Before it was last suspended or paused.
    took: Duration,
    now: Activity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    RunningSince(u64),
    /// It waits for other tasks.
    Suspended,
    /// It has ended, or is stopped in place: the event says the same of both.
    Paused,
}

impl OpenRun {
    fn stop(&mut self, at: u64, now: Activity) {
        if let Activity::RunningSince(since) = self.now {
            self.took += Duration::from_millis(at.saturating_sub(since));
        }
        self.now = now;
    }
}

/// An attempt that has ended or is paused.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) task: TaskId,
    pub(crate) attempt: u32,
    pub(crate) worker: String,
    /// How long it ran, without the time in which it was suspended or paused.
    pub(crate) took: Duration,
}

/// Failures with the same message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) count: u64,
    pub(crate) exit_code: i32,
    /// The last task of the group.
    pub(crate) example: TaskId,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Durations {
    pub(crate) count: usize,
    pub(crate) mean: Duration,
    pub(crate) p50: Duration,
    pub(crate) p90: Duration,
    pub(crate) max: Duration,
    pub(crate) sum: Duration,
}

impl ReportTotals {
    pub(crate) fn new(since: u64, until: u64) -> ReportTotals {
        ReportTotals {
            since,
            until,
            submitted: 0,
            completed: 0,
            failed: 0,
            cancelled: 0,
            expired: 0,
            retried: 0,
            crashed: 0,
            over_time: [[0; 3]; BINS],
            open: HashMap::new(),
            ended: Vec::new(),
            groups: HashMap::new(),
            first: None,
        }
    }

    pub(crate) fn add(&mut self, event: &Event) {
        self.first.get_or_insert((event.seq, event.at.0));
        let Some(task) = event.task else { return };
        match event.kind {
            EventKind::Submitted => self.submitted += 1,
            EventKind::Started => {
                if self.open.len() < ATTEMPTS_MAX {
                    let worker = event.worker.as_deref().unwrap_or_default().to_owned();
                    let now = Activity::RunningSince(event.at.0);
                    self.open.insert((task, event.attempt), OpenRun { worker, took: Duration::ZERO, now });
                }
                return;
            }
            EventKind::Suspended => return self.stop(event, task, Activity::Suspended),
            EventKind::Paused => return self.stop(event, task, Activity::Paused),
            EventKind::Continued => return self.stop(event, task, Activity::RunningSince(event.at.0)),
            EventKind::Completed => {
                self.completed += 1;
                self.count_end(event, 0);
            }
            EventKind::Failed => {
                self.group(event, task);
                if event.is_end() {
                    self.failed += 1;
                    self.count_end(event, 1);
                } else {
                    self.retried += 1;
                }
            }
            EventKind::Crashed => {
                self.crashed += 1;
                self.group(event, task);
                if event.is_end() {
                    self.failed += 1;
                    self.count_end(event, 1);
                }
            }
            EventKind::Cancelled => {
                self.cancelled += 1;
                self.count_end(event, 2);
            }
            EventKind::Expired => {
                self.expired += 1;
                self.count_end(event, 2);
            }
            EventKind::GivenBack => {}
            _ => return,
        }
        if let Some(mut run) = self.open.remove(&(task, event.attempt))
            && self.ended.len() < ATTEMPTS_MAX
        {
            run.stop(event.at.0, Activity::Paused);
            let OpenRun { worker, took, .. } = run;
            self.ended.push(Run { task, attempt: event.attempt, worker, took });
        }
    }

    fn stop(&mut self, event: &Event, task: TaskId, now: Activity) {
        if let Some(run) = self.open.get_mut(&(task, event.attempt)) {
            run.stop(event.at.0, now);
        }
    }

    /// The attempts that have ended or are paused.
    fn runs(&self) -> Vec<Run> {
        let is_paused = |run: &&OpenRun| run.now == Activity::Paused;
        let paused = self.open.iter().filter(|(_, run)| is_paused(run)).map(|((task, attempt), run)| Run {
            task: *task,
            attempt: *attempt,
            worker: run.worker.clone(),
            took: run.took,
        });
        self.ended.iter().cloned().chain(paused).collect()
    }

    /// The number and the time of the first event.
    pub(crate) fn first_event(&self) -> Option<(u64, u64)> {
        self.first
    }

    pub(crate) fn slowest(&self) -> Vec<Run> {
        let mut runs = self.runs();
        runs.sort_by_key(|run| (std::cmp::Reverse(run.took), run.task, run.attempt));
        runs.truncate(SHOWN_MAX);
        runs
    }

    /// The groups of failures, the largest first.
    pub(crate) fn failures(&self) -> Vec<(String, Group)> {
        let mut groups: Vec<(&String, &Group)> = self.groups.iter().collect();
        groups.sort_by_key(|(message, group)| (std::cmp::Reverse(group.count), message.as_str()));
        groups.into_iter().take(SHOWN_MAX).map(|(message, group)| (message.clone(), *group)).collect()
    }

    /// Each worker with its attempts and how long they took, the busiest first.
    pub(crate) fn workers(&self) -> Vec<(String, u64, Duration)> {
        let mut workers: HashMap<String, (u64, Duration)> = HashMap::new();
        for run in self.runs().into_iter().filter(|run| !run.worker.is_empty()) {
            let (attempts, busy) = workers.entry(run.worker).or_default();
            *attempts += 1;
            *busy += run.took;
        }
        let mut all: Vec<(String, u64, Duration)> =
            workers.into_iter().map(|(worker, (attempts, busy))| (worker, attempts, busy)).collect();
        all.sort_by(|one, other| other.2.cmp(&one.2).then_with(|| one.0.cmp(&other.0)));
        all
    }

    pub(crate) fn durations(&self) -> Option<Durations> {
        let mut took: Vec<Duration> = self.runs().iter().map(|run| run.took).collect();
        took.sort_unstable();
        let sum: Duration = took.iter().sum();
        let at = |share: f64| took[((took.len() - 1) as f64 * share).round() as usize];
        (!took.is_empty()).then(|| Durations {
            count: took.len(),
            mean: sum / u32::try_from(took.len()).unwrap_or(u32::MAX),
            p50: at(0.5),
            p90: at(0.9),
            max: at(1.0),
            sum,
        })
    }

    /// How many attempts took how long: the upper bound of each class doubles.
    pub(crate) fn histogram(&self) -> Vec<(Duration, u64)> {
        let mut classes: Vec<(Duration, u64)> = Vec::new();
        let mut bound = Duration::from_millis(100);
        let runs = self.runs();
        let longest = runs.iter().map(|run| run.took).max().unwrap_or_default();
        loop {
            classes.push((bound, 0));
            if bound >= longest || classes.len() == 32 {
                break;
            }
            bound *= 2;
        }
        for run in &runs {
            let class = classes.iter().position(|(bound, _)| run.took <= *bound).unwrap_or(classes.len() - 1);
            classes[class].1 += 1;
        }
        classes
    }

    fn count_end(&mut self, event: &Event, kind: usize) {
        let span = (self.until - self.since).max(1);
        let place = event.at.0.saturating_sub(self.since) * BINS as u64 / span;
        let bin = usize::try_from(place).unwrap_or(BINS).min(BINS - 1);
        self.over_time[bin][kind] += 1;
    }

    fn group(&mut self, event: &Event, task: TaskId) {
        let more = event.more.as_deref();
        let message = match (&event.kind, more.and_then(|more| more.message.as_deref())) {
            (_, Some(message)) => alike(message),
            (EventKind::Crashed, None) => "the worker was lost".to_owned(),
            _ => "no message".to_owned(),
        };
        let exit_code = more.and_then(|more| more.exit_code).unwrap_or_default();
        if self.groups.len() == GROUPS_MAX && !self.groups.contains_key(&message) {
            return;
        }
        let group = self.groups.entry(message).or_insert(Group { count: 0, exit_code, example: task });
        group.count += 1;
        group.example = task;
    }
}

/// A message without what differs from task to task: numbers, and ids in hexadecimal digits.
fn alike(message: &str) -> String {
    let mut text = String::new();
    let mut word = String::new();
    for c in message.chars().chain([' ']) {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let is_id = word.len() >= 8 && digits > 0 && word.chars().all(|c| c.is_ascii_hexdigit());
        if is_id {
            text.push('#');
        } else {
            let mut was_digit = false;
            for c in word.chars() {
                if !c.is_ascii_digit() {
                    text.push(c);
                } else if !was_digit {
                    text.push('#');
                }
                was_digit = c.is_ascii_digit();
            }
        }
        word.clear();
        text.push(c);
    }
    // An exit code is not a number like others.
    let text = text.trim_end().to_owned();
    let text = match message.strip_prefix("exit code ").and_then(|rest| rest.split([':', ' ']).next()) {
        Some(code) => text.replacen("exit code #", &format!("exit code {code}"), 1),
        None => text,
    };
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use tenure_client::Timestamp;
    use tenure_client::wire::event::Detail;
    use tenure_client::wire::words::Next;

    use super::*;

    fn event(kind: EventKind, task: u8, at: u64, more: Detail) -> Event {
        Event {
            seq: at,
            at: Timestamp(at),
            kind,
            task: Some(TaskId([task; 16])),
            attempt: 1,
            worker: Some("w".into()),
            queue: None,
            submitter: None,
            more: Some(Box::new(more)),
        }
    }

    fn failed(message: &str, next: Next) -> Detail {
        Detail { exit_code: Some(3), message: Some(message.into()), next: Some(next), ..Detail::default() }
    }

    #[test]
    fn events_become_counts_durations_and_groups() {
        let mut tally = ReportTotals::new(0, 6_000);
        for (task, start, end) in [(1, 0, 1_000), (2, 0, 3_000)] {
            tally.add(&event(EventKind::Submitted, task, 0, Detail::default()));
            tally.add(&event(EventKind::Started, task, start, Detail::default()));
            tally.add(&event(EventKind::Completed, task, end, Detail::default()));
        }
        tally.add(&event(EventKind::Started, 3, 0, Detail::default()));
        tally.add(&event(EventKind::Failed, 3, 5_000, failed("exit code 3: no scan 17", Next::Retried)));
        tally.add(&event(EventKind::Failed, 4, 5_999, failed("exit code 3: no scan 9", Next::Failed)));
        assert_eq!((tally.submitted, tally.completed, tally.failed, tally.retried), (2, 2, 1, 1));
        let durations = tally.durations().unwrap();
        assert_eq!(
            (durations.count, durations.p50, durations.max),
            (3, Duration::from_secs(3), Duration::from_secs(5))
        );
        assert_eq!(tally.slowest()[0].task, TaskId([3; 16]));
        let failures = tally.failures();
        assert_eq!((failures[0].0.as_str(), failures[0].1.count), ("exit code 3: no scan #", 2));
        assert_eq!(tally.workers(), [("w".to_owned(), 3, Duration::from_secs(9))]);
        assert_eq!(tally.over_time[10][0] + tally.over_time[30][0], 2);
        assert_eq!(tally.over_time[59][1], 1);
        assert_eq!(tally.histogram().iter().map(|(_, count)| count).sum::<u64>(), 3);
    }

    #[test]
    fn time_in_which_an_attempt_is_suspended_or_paused_is_not_its_run_time() {
        let mut tally = ReportTotals::new(0, 100_000);
        for (kind, at) in [
            (EventKind::Started, 1_000),
            (EventKind::Suspended, 3_000),
            (EventKind::Continued, 13_000),
            (EventKind::Paused, 14_000),
            (EventKind::Resumed, 50_000),
            (EventKind::Continued, 51_000),
            (EventKind::Completed, 55_000),
        ] {
            tally.add(&event(kind, 1, at, Detail::default()));
        }
        let seven = Duration::from_secs(7);
        assert_eq!((tally.durations().unwrap().count, tally.durations().unwrap().max), (1, seven));
        // An attempt that was paused last may have ended with that.
        for (kind, at) in [(EventKind::Started, 0), (EventKind::Paused, 2_000)] {
            tally.add(&event(kind, 2, at, Detail::default()));
        }
        // One that waits for others goes on.
        for (kind, at) in [(EventKind::Started, 0), (EventKind::Suspended, 9_000)] {
            tally.add(&event(kind, 3, at, Detail::default()));
        }
        assert_eq!(tally.workers(), [("w".to_owned(), 2, Duration::from_secs(9))]);
        assert_eq!(tally.slowest().iter().map(|run| run.took.as_secs()).collect::<Vec<_>>(), [7, 2]);
    }

    #[test]
    fn messages_are_alike_that_differ_in_numbers_and_ids() {
        assert_eq!(alike("task 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f of 12"), "task #-#f#-#cc#-#b#-# of #");
        assert_eq!(alike("exit code 137"), "exit code 137");
        assert_eq!(alike("exit code 2: row 7 of table4"), "exit code 2: row # of table#");
        assert!(alike(&"x".repeat(1_000)).len() == MESSAGE_CHARS_MAX);
    }
}
