//! The pages under `spec/`: every code, event and transition that the engine knows stands there, and nothing else does.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_engine::event::{EventData, LostReason, Next};
use tenure_engine::limits;
use tenure_engine::notice::StopWhy;
use tenure_engine::state::{EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED, Wanted};
use tenure_engine::{
    Blob, NewTask, Quantity, Rate, Refusal, Settings, SkipReason, StateName, TaskId, Threshold, Timestamp,
    Why, WorkerSpec,
};

fn page(name: &str) -> String {
    let path = format!("{}/../../spec/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text under one heading, up to the next of the same rank.
fn section(page: &str, heading: &str) -> String {
    let begin = page.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} is missing"));
    let text = &page[begin + heading.len() + 2..];
    let rank = heading.split(' ').next().expect("a heading has marks");
    text.split(&format!("\n{rank} ")).next().expect("there is a first part").to_owned()
}

/// The cells of the table rows of a text, without heads.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for line in text.lines() {
        if line.starts_with("|---") {
            in_table = true;
        } else if !line.starts_with('|') {
            in_table = false;
        } else if in_table {
            rows.push(line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect());
        }
    }
    rows
}

/// What stands between back-ticks at the beginning of each row.
fn first_codes(text: &str) -> Vec<String> {
    rows(text).iter().filter_map(|row| code(&row[0])).collect()
}

fn code(cell: &str) -> Option<String> {
    Some(cell.strip_prefix('`')?.split('`').next()?.to_owned())
}

fn sorted(codes: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    codes.into_iter().map(Into::into).collect()
}

/// One of each. The match below does not compile when a refusal is missing from it.
fn refusals() -> Vec<Refusal> {
    let task = TaskId::from_u128(1);
    vec![
        Refusal::UnknownTask { task },
        Refusal::UnknownName { name: "n".into() },
        Refusal::NotAWorker,
        Refusal::UnknownWorker { worker: "w".into() },
        Refusal::UnknownQueue { queue: "q".into() },
        Refusal::UnknownSchedule { schedule: "s".into() },
        Refusal::BadSchedule { why: "minute".into() },
        Refusal::BadParent { parent: task },
        Refusal::IdTaken { task },
        Refusal::NameTaken { name: "n".into(), task },
        Refusal::StaleAttempt { task, attempt: 1, current: 2, state: StateName::Ready },
        Refusal::WrongState { task, state: StateName::Ready, verb: "release" },
        Refusal::WorkerTaken { worker: "w".into() },
        Refusal::BadName { what: "queue", why: "is empty" },
        Refusal::BadValue { what: "slots", why: "is zero" },
        Refusal::TooMany { what: "tags", limit: 32 },
        Refusal::Full { what: "tasks", limit: 1 },
        Refusal::NotAllowed { what: "submit" },
        Refusal::TooLate { deadline: Timestamp(5) },
    ]
}

fn number_of_refusal(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::UnknownTask { .. } => 0,
        Refusal::UnknownName { .. } => 1,
        Refusal::NotAWorker => 2,
        Refusal::UnknownWorker { .. } => 3,
        Refusal::UnknownQueue { .. } => 4,
        Refusal::UnknownSchedule { .. } => 5,
        Refusal::BadSchedule { .. } => 6,
        Refusal::BadParent { .. } => 7,
        Refusal::IdTaken { .. } => 8,
        Refusal::NameTaken { .. } => 9,
        Refusal::StaleAttempt { .. } => 10,
        Refusal::WrongState { .. } => 11,
        Refusal::WorkerTaken { .. } => 12,
        Refusal::BadName { .. } => 13,
        Refusal::BadValue { .. } => 14,
        Refusal::TooMany { .. } => 15,
        Refusal::Full { .. } => 16,
        Refusal::NotAllowed { .. } => 17,
        Refusal::TooLate { .. } => 18,
    }
}

fn whys() -> Vec<Why> {
    let at = Timestamp(1);
    let rate = Rate::new(1, Duration::from_secs(1));
    vec![
        Why::NotWaiting { state: StateName::Running },
        Why::Held,
        Why::Dependencies { open: 1, some: vec![] },
        Why::NotBefore { until: at },
        Why::Paused,
        Why::QueuePaused { queue: "q".into() },
        Why::NoWorkerEver { queue: "q".into() },
        Why::AllLost { queue: "q".into(), since: at },
        Why::NeedsUnmet { missing: vec![] },
        Why::Quarantined { worker: "w".into(), until: at },
        Why::Draining { workers: 1 },
        Why::TagLimit { tag: "t".into(), limit: 1, in_use: 1 },
        Why::TagRate { tag: "t".into(), rate, next_at: at },
        Why::QueueRate { queue: "q".into(), rate, next_at: at },
        Why::AllFull { workers: 1, slots: 1 },
        Why::Short {
            resource: "cpus".into(),
            needed: Quantity::ONE,
            free: Quantity::default(),
            worker: "w".into(),
        },
        Why::TooLarge {
            resource: "cpus".into(),
            needed: Quantity::ONE,
            total: Quantity::default(),
            worker: "w".into(),
        },
        Why::Reserved { worker: "w".into(), task: TaskId::from_u128(1) },
        Why::NoWorkerAsks { workers: 1 },
        Why::AwaitingAcceptance { worker: "w".into(), since: at },
        Why::AwaitingDisk,
        Why::Suspended { open: 1, some: vec![] },
        Why::AwaitingSlot { worker: "w".into() },
        Why::ArrayLimit { array: TaskId::from_u128(1), limit: 1, in_use: 1 },
        Why::AwaitingJournal,
    ]
}

fn number_of_why(why: &Why) -> usize {
    match why {
        Why::NotWaiting { .. } => 0,
        Why::Held => 1,
        Why::Dependencies { .. } => 2,
        Why::NotBefore { .. } => 3,
        Why::Paused => 4,
        Why::QueuePaused { .. } => 5,
        Why::NoWorkerEver { .. } => 6,
        Why::AllLost { .. } => 7,
        Why::NeedsUnmet { .. } => 8,
        Why::Quarantined { .. } => 9,
        Why::Draining { .. } => 10,
        Why::TagLimit { .. } => 11,
        Why::TagRate { .. } => 12,
        Why::QueueRate { .. } => 13,
        Why::AllFull { .. } => 14,
        Why::Short { .. } => 15,
        Why::TooLarge { .. } => 16,
        Why::Reserved { .. } => 17,
        Why::NoWorkerAsks { .. } => 18,
        Why::AwaitingAcceptance { .. } => 19,
        Why::AwaitingDisk => 20,
        Why::Suspended { .. } => 21,
        Why::AwaitingSlot { .. } => 22,
        Why::ArrayLimit { .. } => 23,
        Why::AwaitingJournal => 24,
    }
}

fn kinds() -> Vec<EventData> {
    let (worker, at) = (|| "w".into(), Timestamp(1));
    let lost = LostReason::Forgotten;
    vec![
        EventData::Submitted { unserved: None, reconciliation: None },
        EventData::Released,
        EventData::DependenciesMet,
        EventData::Due,
        EventData::Assigned { worker: worker() },
        EventData::Started { worker: worker() },
        EventData::Progress { percent: None, note: None },
        EventData::Checkpoint { bytes: 1 },
        EventData::Suspended { worker: worker(), open: 1 },
        EventData::Continued { worker: worker() },
        EventData::GivenBack { worker: worker(), reason: None },
        EventData::TakenBack { worker: worker() },
        EventData::HolderLost { worker: worker(), reason: lost, lease_until: at },
        EventData::HolderReturned { worker: worker() },
        EventData::Crashed { worker: worker(), reason: lost, next: Next::Paused, budget_left: 0 },
        EventData::CancelRequested { reason: None },
        EventData::PauseRequested { reason: None },
        EventData::IntentDelivered { wanted: Wanted::Cancel, worker: worker() },
        EventData::Paused { reason: None },
        EventData::Resumed,
        EventData::Retried,
        EventData::Moved,
        EventData::Completed { worker: worker(), result: Blob::EMPTY },
        EventData::Failed {
            worker: None,
            exit_code: 1,
            message: None,
            next: Next::Failed,
            result: Blob::EMPTY,
        },
        EventData::Expired,
        EventData::Cancelled { reason: None, forced: false },
        EventData::WorkerRegistered,
        EventData::WorkerLost { reason: lost },
        EventData::WorkerReturned,
        EventData::WorkerLeft,
        EventData::WorkerDraining,
        EventData::WorkerQuarantined { until: at, crashes: 1 },
        EventData::WorkerCleared,
        EventData::QueuePaused,
        EventData::QueueResumed,
        EventData::QueueUnserved { needs: vec![] },
        EventData::QueueServed { needs: vec![] },
        EventData::QueueBacklog { threshold: Threshold::Depth, depth: 1, age: Duration::ZERO },
        EventData::QueueBacklogCleared { threshold: Threshold::Age, depth: 0, age: Duration::ZERO },
        EventData::QueueThresholdsSet { depth: None, age: None },
        EventData::QueueRateSet { rate: None },
        EventData::LimitSet { limit: None },
        EventData::ScheduleSet,
        EventData::ScheduleFired { due: at, task: TaskId::from_u128(1) },
        EventData::ScheduleSkipped { reason: SkipReason::Missed, from: at, to: at },
        EventData::SchedulePaused,
        EventData::ScheduleResumed,
        EventData::ScheduleRemoved,
        EventData::ArraySubmitted { size: 1 },
        EventData::ArrayEnded { completed: 1, failed: 0, cancelled: 0 },
        EventData::ArrayLimitSet { limit: None },
        EventData::RateSet { rate: None },
        EventData::ShareSet { weight: None },
    ]
}

/// The names of a kind's fields. Every field is named, so a new one does not compile until it is on the page.
fn fields(kind: &EventData) -> &'static [&'static str] {
    match kind {
        EventData::Submitted { unserved: _, reconciliation: _ } => &["unserved", "reconciliation"],
        EventData::Assigned { worker: _ } | EventData::Started { worker: _ } => &["worker"],
        EventData::TakenBack { worker: _ } | EventData::HolderReturned { worker: _ } => &["worker"],
        EventData::Progress { percent: _, note: _ } => &["percent", "note"],
        EventData::Checkpoint { bytes: _ } => &["bytes"],
        EventData::Suspended { worker: _, open: _ } => &["worker", "open"],
        EventData::Continued { worker: _ } => &["worker"],
        EventData::GivenBack { worker: _, reason: _ } => &["worker", "reason"],
        EventData::HolderLost { worker: _, reason: _, lease_until: _ } => {
            &["worker", "reason", "lease_until"]
        }
        EventData::Crashed { worker: _, reason: _, next: _, budget_left: _ } => {
            &["worker", "reason", "next", "budget_left"]
        }
        EventData::CancelRequested { reason: _ } | EventData::PauseRequested { reason: _ } => &["reason"],
        EventData::Paused { reason: _ } => &["reason"],
        EventData::IntentDelivered { wanted: _, worker: _ } => &["wanted", "worker"],
        EventData::Completed { worker: _, result: _ } => &["worker", "result"],
        EventData::Failed { worker: _, exit_code: _, message: _, next: _, result: _ } => {
            &["worker", "exit_code", "message", "next", "result"]
        }
        EventData::Cancelled { reason: _, forced: _ } => &["reason", "forced"],
        EventData::WorkerLost { reason: _ } => &["reason"],
        EventData::WorkerQuarantined { until: _, crashes: _ } => &["until", "crashes"],
        EventData::QueueUnserved { needs: _ } | EventData::QueueServed { needs: _ } => &["needs"],
        EventData::QueueBacklog { threshold: _, depth: _, age: _ }
        | EventData::QueueBacklogCleared { threshold: _, depth: _, age: _ } => &["threshold", "depth", "age"],
        EventData::QueueThresholdsSet { depth: _, age: _ } => &["depth", "age"],
        EventData::ScheduleFired { due: _, task: _ } => &["due", "task"],
        EventData::ScheduleSkipped { reason: _, from: _, to: _ } => &["reason", "from", "to"],
        EventData::LimitSet { limit: _ } | EventData::ArrayLimitSet { limit: _ } => &["limit"],
        EventData::ArraySubmitted { size: _ } => &["size"],
        EventData::ArrayEnded { completed: _, failed: _, cancelled: _ } => {
            &["completed", "failed", "cancelled"]
        }
        EventData::QueueRateSet { rate: _ } | EventData::RateSet { rate: _ } => &["rate"],
        EventData::ShareSet { weight: _ } => &["weight"],
        EventData::Released
        | EventData::DependenciesMet
        | EventData::Due
        | EventData::Resumed
        | EventData::Retried
        | EventData::Moved
        | EventData::Expired
        | EventData::WorkerRegistered
        | EventData::WorkerReturned
        | EventData::WorkerLeft
        | EventData::WorkerDraining
        | EventData::WorkerCleared
        | EventData::QueuePaused
        | EventData::QueueResumed
        | EventData::ScheduleSet
        | EventData::SchedulePaused
        | EventData::ScheduleResumed
        | EventData::ScheduleRemoved => &[],
    }
}

#[test]
fn every_refusal_has_its_chapter_and_stands_in_the_overview() {
    for (number, refusal) in refusals().iter().enumerate() {
        assert_eq!(number_of_refusal(refusal), number, "one of each, in order");
        assert!(!refusal.to_string().is_empty());
    }
    let codes: Vec<&str> = refusals().iter().map(Refusal::code).collect();
    assert_eq!(codes, Refusal::CODES);
    assert_eq!(sorted(codes).len(), refusals().len(), "no code is used twice");
    // The page has the refusals of the hub as well; a test of the hub checks that it has no others.
    let page = page("errors.md");
    let chapters = sorted(page.lines().filter_map(|line| code(line.strip_prefix("## ")?)));
    assert!(chapters.is_superset(&sorted(Refusal::CODES)), "{chapters:?}");
    let overview = sorted(
        rows(&page).into_iter().flat_map(|row| row[1].split(", ").filter_map(code).collect::<Vec<_>>()),
    );
    assert_eq!(overview, chapters);
}

#[test]
fn every_event_stands_on_the_page_with_its_fields() {
    let page = page("tasks.md");
    let events = section(&page, "## Events");
    assert_eq!(first_codes(&events), kinds().iter().map(|kind| kind.as_str().to_owned()).collect::<Vec<_>>());
    for (row, kind) in rows(&events).iter().zip(kinds()) {
        let named: Vec<&str> = row[2].split('`').skip(1).step_by(2).collect();
        assert_eq!(named, fields(&kind), "the fields of {}", kind.as_str());
    }
}

#[test]
fn every_reason_not_to_run_stands_on_the_page() {
    for (number, why) in whys().iter().enumerate() {
        assert_eq!(number_of_why(why), number, "one of each, in order");
    }
    let reasons = section(&page("tasks.md"), "## Why is it not running?");
    assert_eq!(first_codes(&reasons), whys().iter().map(|why| why.code().to_owned()).collect::<Vec<_>>());
}

#[test]
fn the_table_of_transitions_is_the_engines_own() {
    let page = page("tasks.md");
    let states = first_codes(&section(&page, "## States"));
    assert_eq!(states, StateName::ALL.map(|state| state.as_str().to_owned()));
    let mut told = BTreeSet::new();
    for row in rows(&section(&page, "## Transitions")) {
        let state = |cell: &str| code(cell).and_then(|text| StateName::parse(&text)).expect("a state");
        assert!(told.insert((state(&row[0]), state(&row[1]))), "told once: {row:?}");
        assert!(!row[2].is_empty());
    }
    for from in StateName::ALL {
        for to in StateName::ALL {
            assert_eq!(told.contains(&(from, to)), from.may_become(to), "{from} to {to}");
        }
    }
}

#[test]
fn reasons_to_stop_to_be_lost_and_what_follows_stand_on_the_page() {
    let page = page("tasks.md");
    let stops = [
        StopWhy::Stale,
        StopWhy::TakenBack,
        StopWhy::Cancelled,
        StopWhy::Paused,
        StopWhy::RunLimit,
        StopWhy::Expired,
    ];
    assert_eq!(first_codes(&section(&page, "## Acceptance")), stops.map(|stop| stop.as_str().to_owned()));
    let lost = LostReason::ALL.map(|reason| reason.as_str().to_owned());
    assert_eq!(first_codes(&section(&page, "## Leases and lost workers")), lost);
    let crashes = section(&page, "## Crashes and failures");
    let next = [Next::Requeued, Next::RetriedAt(Timestamp(1)), Next::Paused, Next::Failed, Next::Cancelled];
    let named = first_codes(&crashes);
    assert_eq!(named[..3], ["requeue", "pause", "fail"]);
    assert_eq!(named[3..], next.map(|next| next.as_str().to_owned()));
    let exits: Vec<String> = rows(&section(&page, "## States")).iter().map(|row| row[0].clone()).collect();
    for exit in [0, EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED] {
        assert!(exits.contains(&exit.to_string()), "exit code {exit}");
    }
}

#[test]
fn numbers_on_the_page_are_those_of_the_engine() {
    let page = page("tasks.md");
    let said: Vec<usize> = rows(&section(&page, "## Limits"))
        .iter()
        .map(|row| row[1].replace(',', "").parse().expect("a number"))
        .collect();
    let known = [
        limits::NAME_BYTES_MAX,
        limits::NEEDS_MAX,
        limits::TAGS_MAX,
        limits::AFTER_MAX,
        limits::ARRAY_SIZE_MAX,
        limits::ARRAYS_MAX,
        limits::WORKER_QUEUES_MAX,
        limits::WORKER_CAPABILITIES_MAX,
        limits::SLOTS_MAX as usize,
        limits::LIGHT_SLOTS_MAX as usize,
        limits::RESOURCES_MAX,
        (limits::QUANTITY_MAX.0 / 1000) as usize,
        limits::DEVICES_MAX,
        limits::DEMANDS_MAX,
        limits::NOTE_BYTES_MAX,
        limits::REASON_BYTES_MAX,
        limits::MESSAGE_BYTES_MAX,
        limits::ABOUT_BYTES_MAX,
        limits::LIMITED_TAGS_MAX,
        limits::RATE_COUNT_MAX as usize,
        limits::BURST_MAX as usize,
        limits::SHARES_MAX,
        limits::WEIGHT_MAX as usize,
        limits::NAMESPACES_MAX,
        limits::SCHEDULES_MAX,
        limits::SCHEDULE_NAME_BYTES_MAX,
        limits::SCHEDULE_BODY_BYTES_MAX,
        limits::SCHEDULE_BODIES_BYTES_MAX,
        limits::CATCH_UP_MAX,
        limits::PAGE_MAX,
    ];
    assert_eq!(said, known);
    // Defaults that the text names.
    let (settings, seconds) = (Settings::default(), Duration::from_secs);
    let worker = WorkerSpec::new("w", vec![], 1);
    let task = NewTask::new(TaskId::from_u128(1), "q");
    assert_eq!((worker.heartbeat, worker.lost_after, worker.lease), (seconds(5), seconds(15), seconds(30)));
    assert_eq!(limits::LOST_AFTER_MIN, Duration::from_millis(100));
    assert_eq!((settings.accept_timeout, settings.take_back_after), (seconds(30), seconds(2)));
    assert_eq!(settings.restart_grace, seconds(60));
    assert_eq!((settings.ended_kept, settings.ended_kept_for), (100_000, seconds(7 * 24 * 3600)));
    assert_eq!((settings.quarantine_crashes, settings.quarantine_window), (5, seconds(600)));
    assert_eq!(settings.quarantine_for, seconds(600));
    assert_eq!((settings.reserve_after, worker.light_slots), (seconds(300), 1_000));
    assert_eq!(limits::TASK_SLOTS_MAX, limits::SLOTS_MAX);
    assert_eq!((task.crash_budget, task.retries), (3, 0));
    assert_eq!((task.backoff.first, task.backoff.max), (seconds(1), seconds(300)));
    assert_eq!(limits::CRASHED_ON_MAX, 8);
}
