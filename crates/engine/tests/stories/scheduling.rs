//! Schedules: each due time submits one task, whatever the clock and the broker do.

use std::time::Duration;

use tenure_engine::{
    Answer, CatchUp, Command, NewSchedule, NewTask, Overlap, Peer, Query, Refusal, Reply, ScheduleInfo,
    StateName, TaskId, Timestamp,
};

use crate::broker::{Broker, SECOND, compare};

const HOUR: Duration = Duration::from_secs(3_600);
/// 2026-11-17T00:00:00Z
const MIDNIGHT: Timestamp = Timestamp(1_794_873_600_000);

fn broker() -> Broker {
    let mut broker = Broker::new();
    broker.now = MIDNIGHT;
    broker
}

fn hourly() -> NewSchedule {
    let task = NewTask::new(TaskId::from_u128(0), "q");
    NewSchedule { body: b"sync"[..].into(), ..NewSchedule::new("sync", "0 * * * *", task) }
}

fn set(broker: &mut Broker, peer: &Peer, schedule: NewSchedule) {
    broker.does(peer, Command::SetSchedule(Box::new(schedule)));
}

fn show(broker: &Broker) -> ScheduleInfo {
    match broker.ask(&Query::Schedule { schedule: "sync".into() }) {
        Ok(Answer::Schedules(mut one)) => one.remove(0),
        other => panic!("{other:?}"),
    }
}

fn named(broker: &Broker, name: &str) -> Option<StateName> {
    match broker.ask(&Query::Find { name: name.into() }) {
        Ok(Answer::Task(task)) => Some(task.state.name()),
        Err(Refusal::UnknownName { .. }) => None,
        other => panic!("{other:?}"),
    }
}

/// What the schedule itself said; its tasks are another story.
fn says(broker: &mut Broker) -> Vec<String> {
    let said = broker.take_said();
    said.into_iter().filter_map(|line| line.strip_prefix("schedule sync ").map(str::to_owned)).collect()
}

#[test]
fn a_due_time_submits_a_task_that_carries_its_name() {
    let mut broker = broker();
    let ann = broker.client("ann");
    let task = NewTask { retries: 2, priority: Some(7), ..hourly().task };
    set(&mut broker, &ann, NewSchedule { task, ..hourly() });
    assert_eq!(show(&broker).next[..2], [MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR]);
    broker.wait(HOUR - SECOND);
    assert_eq!(says(&mut broker), ["set"]);
    broker.wait(SECOND);
    assert_eq!(says(&mut broker), ["fired for 2026-11-17T01:00:00.000Z"]);
    let Ok(Answer::Task(task)) = broker.ask(&Query::Find { name: "sync@2026-11-17T01:00:00Z".into() }) else {
        panic!("the task is there")
    };
    assert_eq!((task.terms.retries, task.priority, task.body.bytes()), (2, 7, 4));
    assert_eq!(&*task.terms.submitter, "ann");
    let info = show(&broker);
    assert_eq!((info.progress.fired, info.progress.last_task), (1, Some(task.id)));
    assert_eq!(info.next[0], MIDNIGHT + 2 * HOUR);
}

#[test]
fn a_bad_schedule_is_refused_and_says_which_field_is_wrong() {
    let mut broker = broker();
    let ann = broker.client("ann");
    let mut refused =
        |schedule: NewSchedule| broker.refuses(&ann, Command::SetSchedule(Box::new(schedule))).to_string();
    let text = refused(NewSchedule { when: "0 25 * * *".into(), ..hourly() });
    assert!(text.contains("hour") && text.contains("example"), "{text}");
    let text = refused(NewSchedule { zone: Some("Mars/Base".into()), ..hourly() });
    assert!(text.contains("time zone"), "{text}");
    let text = refused(NewSchedule { name: "n".repeat(201).into(), ..hourly() });
    assert!(text.contains("200 bytes"), "{text}");
    let text = refused(NewSchedule { body: vec![0; 65_537].into(), ..hourly() });
    assert!(text.contains("65536"), "{text}");
    let text = refused(NewSchedule { jitter: 25 * HOUR, ..hourly() });
    assert!(text.contains("jitter"), "{text}");
    let named = NewTask { name: Some("n".into()), ..hourly().task };
    let text = refused(NewSchedule { task: named, ..hourly() });
    assert!(text.contains("own name"), "{text}");
    let held = NewTask { hold: true, ..hourly().task };
    let text = refused(NewSchedule { task: held, ..hourly() });
    assert!(text.contains("hold"), "{text}");
    for command in [
        Command::PauseSchedule { schedule: "other".into() },
        Command::ResumeSchedule { schedule: "other".into() },
        Command::RemoveSchedule { schedule: "other".into() },
        Command::RunSchedule { schedule: "other".into() },
    ] {
        assert_eq!(broker.refuses(&ann, command).code(), "unknown-schedule");
    }
}

#[test]
fn due_times_that_passed_while_the_broker_was_down_follow_catch_up() {
    for (catch_up, expected) in [
        (
            CatchUp::None,
            vec![
                "skipped 2026-11-17T01:00:00.000Z to 2026-11-17T02:00:00.000Z, missed",
                "skipped 2026-11-17T03:00:00.000Z, missed",
            ],
        ),
        (
            CatchUp::Last,
            vec![
                "skipped 2026-11-17T01:00:00.000Z to 2026-11-17T02:00:00.000Z, missed",
                "fired for 2026-11-17T03:00:00.000Z",
            ],
        ),
        (
            CatchUp::All,
            vec![
                "fired for 2026-11-17T01:00:00.000Z",
                "fired for 2026-11-17T02:00:00.000Z",
                "fired for 2026-11-17T03:00:00.000Z",
            ],
        ),
    ] {
        let mut broker = broker();
        let ann = broker.client("ann");
        set(&mut broker, &ann, NewSchedule { catch_up, ..hourly() });
        broker.hush();
        broker.restart_after(3 * HOUR + HOUR / 2);
        broker.wait(SECOND);
        assert_eq!(says(&mut broker), expected, "{catch_up}");
        broker.wait(HOUR);
        assert_eq!(says(&mut broker), ["fired for 2026-11-17T04:00:00.000Z"], "{catch_up}");
    }
}

#[test]
fn a_restart_at_the_due_time_misses_nothing() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, hourly());
    broker.wait(HOUR - SECOND);
    broker.hush();
    broker.restart_after(30 * SECOND);
    broker.wait(SECOND);
    assert_eq!(says(&mut broker), ["fired for 2026-11-17T01:00:00.000Z"]);
}

#[test]
fn catching_up_with_everything_has_a_limit() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { catch_up: CatchUp::All, when: "every 1m".into(), ..hourly() });
    broker.hush();
    broker.restart_after(3 * HOUR);
    broker.wait(SECOND);
    let said = says(&mut broker);
    assert_eq!(said[0], "skipped 2026-11-17T00:01:00.000Z to 2026-11-17T01:20:00.000Z, missed");
    assert_eq!((said.len(), said[100].as_str()), (101, "fired for 2026-11-17T03:00:00.000Z"));
}

#[test]
fn a_crash_between_the_task_and_the_record_of_the_firing_doubles_nothing() {
    for lost in 0..3 {
        let mut broker = broker();
        let ann = broker.client("ann");
        set(&mut broker, &ann, NewSchedule { catch_up: CatchUp::All, ..hourly() });
        broker.wait(HOUR);
        broker.hush();
        let kept = broker.journal.records.len() - lost;
        broker.journal.records.truncate(kept);
        broker.restart_after(SECOND);
        broker.wait(SECOND);
        broker.hush();
        assert_eq!(named(&broker, "sync@2026-11-17T01:00:00Z"), Some(StateName::Ready));
        assert_eq!((broker.counts().by_state.iter().sum::<u64>(), show(&broker).progress.fired), (1, 1));
    }
}

#[test]
fn a_schedule_comes_back_as_it_was() {
    let mut broker = broker();
    let ann = broker.client("ann");
    let zone = Some("Europe/Zurich".into());
    let jitter = 5 * 60 * SECOND;
    set(&mut broker, &ann, NewSchedule { zone, jitter, overlap: Overlap::CancelOld, ..hourly() });
    broker.wait(2 * HOUR);
    broker.does(&ann, Command::PauseSchedule { schedule: "sync".into() });
    broker.hush();
    let restored = broker.journal.restore(tenure_engine::Settings::default(), broker.now);
    restored.audit();
    compare(&restored, &broker.engine);
    broker.does(&ann, Command::RemoveSchedule { schedule: "sync".into() });
    broker.hush();
    let restored = broker.journal.restore(tenure_engine::Settings::default(), broker.now);
    compare(&restored, &broker.engine);
    assert_eq!(broker.ask(&Query::Schedules), Ok(Answer::Schedules(vec![])));
}

#[test]
fn a_paused_schedule_is_not_due_and_catches_up_when_it_is_resumed() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { catch_up: CatchUp::Last, ..hourly() });
    broker.does(&ann, Command::PauseSchedule { schedule: "sync".into() });
    assert_eq!(show(&broker).next, []);
    broker.wait(3 * HOUR + SECOND);
    assert_eq!(says(&mut broker), ["set", "paused"]);
    broker.does(&ann, Command::ResumeSchedule { schedule: "sync".into() });
    broker.wait(SECOND);
    let missed = "skipped 2026-11-17T01:00:00.000Z to 2026-11-17T02:00:00.000Z, missed";
    assert_eq!(says(&mut broker), ["resumed", missed, "fired for 2026-11-17T03:00:00.000Z"]);
}

#[test]
fn a_clock_that_is_set_back_fires_no_due_time_again() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { catch_up: CatchUp::All, ..hourly() });
    broker.wait(3 * HOUR);
    assert_eq!(says(&mut broker).len(), 4);
    let before = broker.now;
    broker.now = MIDNIGHT + HOUR / 2;
    broker.engine.clock_set(before, broker.now);
    broker.wait(2 * HOUR + HOUR / 2);
    assert_eq!(says(&mut broker), Vec::<String>::new());
    broker.wait(HOUR);
    assert_eq!(says(&mut broker), ["fired for 2026-11-17T04:00:00.000Z"]);
}

#[test]
fn a_clock_that_was_wrong_is_forgotten_when_the_times_are_set_again() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, hourly());
    broker.wait(2 * HOUR);
    broker.now = MIDNIGHT + HOUR / 2;
    broker.hush();
    set(&mut broker, &ann, NewSchedule { when: "0 0-23 * * *".into(), ..hourly() });
    broker.wait(HOUR * 5 / 2);
    let said = says(&mut broker);
    // The tasks of the first two hours are there already.
    let exists = ["skipped 2026-11-17T01:00:00.000Z, exists", "skipped 2026-11-17T02:00:00.000Z, exists"];
    assert_eq!(said[1..], [exists[0], exists[1], "fired for 2026-11-17T03:00:00.000Z"]);
}

#[test]
fn a_clock_that_jumps_forward_is_a_downtime() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { catch_up: CatchUp::Last, ..hourly() });
    broker.hush();
    let before = broker.now;
    broker.now = MIDNIGHT + HOUR * 5 / 2;
    broker.engine.clock_set(before, broker.now);
    broker.wait(SECOND);
    let said = says(&mut broker);
    assert_eq!(said, ["skipped 2026-11-17T01:00:00.000Z, missed", "fired for 2026-11-17T02:00:00.000Z"]);
}

#[test]
fn with_skip_a_due_time_passes_while_the_last_task_has_not_ended() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { overlap: Overlap::Skip, ..hourly() });
    broker.wait(2 * HOUR);
    let said = says(&mut broker);
    assert_eq!(
        said[1..],
        ["fired for 2026-11-17T01:00:00.000Z", "skipped 2026-11-17T02:00:00.000Z, overlap"]
    );
    let last = show(&broker).progress.last_task.expect("it fired");
    broker.cancel(&ann, last);
    broker.wait(HOUR);
    assert_eq!(says(&mut broker), ["fired for 2026-11-17T03:00:00.000Z"]);
}

#[test]
fn with_queue_the_next_task_waits_until_the_last_has_ended() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, hourly());
    broker.wait(2 * HOUR);
    assert_eq!(named(&broker, "sync@2026-11-17T01:00:00Z"), Some(StateName::Ready));
    assert_eq!(named(&broker, "sync@2026-11-17T02:00:00Z"), Some(StateName::Waiting));
    let Ok(Answer::Task(first)) = broker.ask(&Query::Find { name: "sync@2026-11-17T01:00:00Z".into() })
    else {
        panic!("the task is there")
    };
    broker.cancel(&ann, first.id);
    assert_eq!(named(&broker, "sync@2026-11-17T02:00:00Z"), Some(StateName::Ready));
    broker.hush();
}

#[test]
fn with_cancel_old_the_last_task_gives_way() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { overlap: Overlap::CancelOld, ..hourly() });
    broker.wait(2 * HOUR);
    assert_eq!(named(&broker, "sync@2026-11-17T01:00:00Z"), Some(StateName::Cancelled));
    assert_eq!(named(&broker, "sync@2026-11-17T02:00:00Z"), Some(StateName::Ready));
    let said = broker.take_said().join("\n");
    assert!(said.contains("cancelled (schedule sync is due again)"), "{said}");
}

#[test]
fn jitter_delays_a_firing_but_not_its_due_time() {
    let mut broker = broker();
    let ann = broker.client("ann");
    let jitter = HOUR / 2;
    set(&mut broker, &ann, NewSchedule { jitter, ..hourly() });
    broker.hush();
    let delay = tenure_schedules::jitter("sync", (MIDNIGHT + HOUR).0, jitter);
    assert!(delay > SECOND, "the story needs a delay");
    broker.wait(HOUR + delay - SECOND);
    assert_eq!(says(&mut broker), Vec::<String>::new());
    broker.wait(SECOND);
    assert_eq!(says(&mut broker), ["fired for 2026-11-17T01:00:00.000Z"]);
}

#[test]
fn a_schedule_runs_now_without_losing_its_next_due_time() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, hourly());
    broker.wait(HOUR / 2);
    let Reply::Submitted(each) = broker.does(&ann, Command::RunSchedule { schedule: "sync".into() }) else {
        panic!("it was submitted")
    };
    let task = each[0].as_ref().expect("it was accepted").task;
    assert_eq!(broker.show(task).name.as_deref(), Some("sync@2026-11-17T00:30:00Z"));
    broker.cancel(&ann, task);
    broker.wait(HOUR / 2);
    let said = says(&mut broker);
    assert_eq!(said[1..], ["fired for 2026-11-17T00:30:00.000Z", "fired for 2026-11-17T01:00:00.000Z"]);
}

#[test]
fn a_changed_schedule_keeps_its_history_and_its_pause() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, hourly());
    broker.wait(HOUR);
    broker.does(&ann, Command::PauseSchedule { schedule: "sync".into() });
    set(&mut broker, &ann, NewSchedule { when: "every 10m".into(), ..hourly() });
    assert_eq!((show(&broker).progress.fired, show(&broker).next.len()), (1, 0));
    broker.does(&ann, Command::ResumeSchedule { schedule: "sync".into() });
    assert_eq!(show(&broker).next[0], MIDNIGHT + HOUR + 600 * SECOND);
    broker.hush();
}

#[test]
fn many_schedules_of_one_moment_take_several_ticks() {
    let mut broker = broker();
    let ann = broker.client("ann");
    for number in 0..200 {
        let name = format!("many-{number}").into();
        set(&mut broker, &ann, NewSchedule { name, ..hourly() });
    }
    broker.hush();
    broker.wait(HOUR);
    assert_eq!(broker.counts().by_state.iter().sum::<u64>(), 200);
    broker.hush();
}

#[test]
fn nothing_is_due_while_the_broker_accepts_no_tasks() {
    let mut broker = broker();
    let ann = broker.client("ann");
    set(&mut broker, &ann, NewSchedule { catch_up: CatchUp::Last, ..hourly() });
    broker.engine.hold_schedules(true);
    broker.wait(2 * HOUR);
    assert_eq!(says(&mut broker), ["set"]);
    broker.engine.hold_schedules(false);
    broker.wait(SECOND);
    assert_eq!(says(&mut broker).last().expect("it fires"), "fired for 2026-11-17T02:00:00.000Z");
}

#[test]
fn a_schedule_belongs_to_its_namespace() {
    let mut broker = broker();
    let ann = broker.client("ann");
    let bob = broker.peer("other", "bob");
    set(&mut broker, &ann, hourly());
    assert_eq!(broker.ask_in("other", &Query::Schedules), Ok(Answer::Schedules(vec![])));
    let refusal = broker.refuses(&bob, Command::RemoveSchedule { schedule: "sync".into() });
    assert_eq!(refusal.code(), "unknown-schedule");
    broker.hush();
}
