//! What a store would keep: every record, in order, and the engine that comes back from them.

use tenure_engine::record::{LimitSetting, QueueSetting, ShareSetting, WorkerHealth};
use tenure_engine::{
    ArrayRecord, Change, Dependency, Engine, Event, Restore, ScheduleProgress, ScheduleSetting, Settings,
    Task, TaskState, Terms, Timestamp,
};

#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) records: Vec<(u64, Kept)>,
}

/// An owned copy of a change.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Task(Box<Task>, Box<Terms>, Vec<Dependency>),
    Worker(WorkerHealth),
    Queue(QueueSetting),
    Limit(LimitSetting),
    Schedule(Box<ScheduleSetting>, ScheduleProgress),
    ScheduleProgress(ScheduleProgress),
    Array(Box<ArrayRecord>),
    Share(ShareSetting),
    Nothing,
}

impl Journal {
    pub(crate) fn write(&mut self, event: &Event, change: Change<'_>) {
        let expected = self.records.last().map_or(1, |(seq, _)| seq + 1);
        assert_eq!(event.seq, expected, "event numbers have no holes");
        self.records.push((event.seq, keep(change)));
    }

    pub(crate) fn restore(&self, settings: Settings, now: Timestamp) -> Engine {
        let mut restore = Restore::new(settings);
        for (seq, kept) in &self.records {
            apply(&mut restore, kept.clone());
            restore.event(*seq);
        }
        restore.finish(now)
    }
}

/// Stops if the two differ in anything that must survive, and shows only that.
pub(crate) fn compare(restored: &Engine, live: &Engine) {
    let (restored, live) = (view(restored), view(live));
    let only = |these: &[String], those: &[String]| {
        these.iter().filter(|line| !those.contains(line)).cloned().collect::<Vec<_>>()
    };
    let (extra, missing) = (only(&restored, &live), only(&live, &restored));
    assert!(
        extra.is_empty() && missing.is_empty(),
        "an engine comes back as it was; restored only:\n  {}\nlive only:\n  {}",
        extra.join("\n  "),
        missing.join("\n  ")
    );
}

pub(crate) fn keep(change: Change<'_>) -> Kept {
    match change {
        Change::Task { task, terms, after } => {
            Kept::Task(Box::new(task.clone()), Box::new(terms.clone()), after.to_vec())
        }
        Change::Worker(health) => Kept::Worker(health.clone()),
        Change::Queue(setting) => Kept::Queue(setting.clone()),
        Change::Limit(setting) => Kept::Limit(setting.clone()),
        Change::Schedule { schedule, progress } => {
            Kept::Schedule(Box::new(schedule.clone()), progress.clone())
        }
        Change::ScheduleProgress(progress) => Kept::ScheduleProgress(progress.clone()),
        Change::Array(record) => Kept::Array(Box::new(record.clone())),
        Change::Share(setting) => Kept::Share(setting.clone()),
        Change::NamespaceLeft(_) => unreachable!("no command makes a namespace leave"),
        Change::Nothing => Kept::Nothing,
    }
}

pub(crate) fn apply(restore: &mut Restore, kept: Kept) {
    match kept {
        Kept::Task(mut task, terms, after) => {
            task.terms = restore.terms(*terms);
            restore.task(*task, &after);
        }
        Kept::Worker(health) => restore.worker(health),
        Kept::Queue(setting) => restore.queue(setting),
        Kept::Limit(setting) => restore.limit(&setting),
        Kept::Schedule(schedule, progress) => restore.schedule(*schedule, progress),
        Kept::ScheduleProgress(progress) => restore.schedule_progress(progress),
        Kept::Array(record) => restore.array(*record),
        Kept::Share(setting) => restore.share(&setting),
        Kept::Nothing => {}
    }
}

/// Everything about an engine that must survive it, as text: one line per task, worker record, queue and limit. Since
/// when a queue is unserved is presence, and a restart makes it begin again.
fn view(engine: &Engine) -> Vec<String> {
    let mut lines = Vec::new();
    engine.scan_tasks(None, usize::MAX, &mut |task, terms, after| {
        lines.push(task_line(task, terms, after));
    });
    engine.settings_records(&mut |change| match change {
        Change::Queue(setting) => {
            let QueueSetting {
                namespace,
                queue,
                paused,
                ever_served,
                unserved_since: _,
                thresholds,
                passed,
                rate,
            } = setting;
            lines.push(format!(
                "queue {namespace}/{queue} paused {paused} served {ever_served} {thresholds:?} {passed:?} {rate:?}"
            ));
        }
        change => lines.push(format!("{change:?}")),
    });
    lines.sort();
    lines.push(format!("last event {}", engine.last_event()));
    lines
}

fn task_line(task: &Task, terms: &Terms, after: &[Dependency]) -> String {
    let state = match &task.state {
        TaskState::Assigned(holding) | TaskState::Running(holding) => format!(
            "{} {} {} {:?} {:?} {:?}",
            task.state.name(),
            holding.worker,
            holding.since,
            holding.started_at,
            holding.intent,
            holding.progress
        ),
        TaskState::Suspended(suspension) => format!(
            "suspended {} {} {:?} {:?} {:?} {} {}",
            suspension.holding.worker,
            suspension.holding.since,
            suspension.holding.started_at,
            suspension.holding.intent,
            suspension.holding.progress,
            suspension.since,
            suspension.open(),
        ),
        state => format!("{state:?}"),
    };
    let extras = task.extras.as_ref().map(|extras| {
        let tenure_engine::Extras {
            name,
            fingerprint,
            parent,
            not_before,
            expires_at,
            crashed_on,
            checkpoint,
            suspended_for,
            trace,
            ..
        } = &**extras;
        format!(
            "{name:?} {fingerprint} {parent:?} {not_before:?} {expires_at:?} {crashed_on:?} {checkpoint:?} {suspended_for:?} {trace:?}"
        )
    });
    // Extras that say nothing are as good as none.
    let extras = extras.filter(|text| text != "None 0 None None None [] None 0ns None");
    format!(
        "{} {:?} {} {} {} {} {} {} {state} {:?} {extras:?} {terms:?} {after:?}",
        task.id,
        task.body,
        task.priority,
        task.attempt,
        task.crashes,
        task.failures,
        task.age,
        task.submitted_at,
        task.devices(),
    )
}
