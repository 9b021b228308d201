//! Suspending: a task that waits for its children gives its slot to them.

use std::time::Duration;

use tenure_engine::command::{Completion, ListQuery};
use tenure_engine::limits::AFTER_MAX;
use tenure_engine::state::Wanted;
use tenure_engine::terms::OnLost;
use tenure_engine::{
    After, AfterTask, Blob, Command, Condition, Demand, Held, NewTask, Peer, Refusal, Settings, StateName,
    TaskId, WaitOn, Why, WorkerSpec,
};

use crate::broker::{Broker, SECOND, compare, failure, spec};

fn child_of(broker: &mut Broker, peer: &Peer, parent: TaskId) -> TaskId {
    let child = NewTask { parent: Some(parent), ..broker.new_task("q") };
    broker.submit_task(peer, child)
}

fn suspend(broker: &mut Broker, worker: &Peer, task: TaskId, on: &[TaskId]) {
    let held = broker.held(task);
    broker.does(worker, Command::Suspend { held, on: WaitOn::Tasks(on.to_vec()) });
}

fn await_children(broker: &mut Broker, worker: &Peer, task: TaskId) {
    let held = broker.held(task);
    broker.does(worker, Command::Suspend { held, on: WaitOn::Children });
}

/// A worker with one slot, a parent that runs there, and its child, for which it waits.
fn family(change: impl FnOnce(NewTask) -> NewTask) -> (Broker, Peer, Peer, TaskId, TaskId) {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let parent = change(broker.new_task("q"));
    let parent = broker.submit_task(&ann, parent);
    broker.start(&worker, parent);
    let child = child_of(&mut broker, &ann, parent);
    broker.hush();
    await_children(&mut broker, &worker, parent);
    (broker, ann, worker, parent, child)
}

#[test]
fn a_parent_that_waits_gives_its_slot_to_its_child_and_goes_on_in_the_same_attempt() {
    let (mut broker, _, worker, parent, child) = family(|task| task);
    broker.hears(&["#1/1 suspended by w, waits for 1", "#2/1 assigned to w", "-> w: run #2/1"]);
    assert_eq!(broker.state(parent), StateName::Suspended);
    assert_eq!(broker.counts().by_state[StateName::Suspended as usize], 1);
    broker.start(&worker, child);
    broker.hush();
    broker.complete(&worker, child);
    broker.hears(&["#2/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
    assert_eq!(broker.state(parent), StateName::Running);
    broker.complete(&worker, parent);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn nested_parents_on_one_slot_all_finish() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let mut family = vec![broker.submit(&ann, "q")];
    for depth in 0..20 {
        let parent = family[depth];
        broker.start(&worker, parent);
        let child = child_of(&mut broker, &ann, parent);
        await_children(&mut broker, &worker, parent);
        family.push(child);
    }
    for task in family.iter().rev() {
        broker.complete(&worker, *task);
    }
    broker.hush();
    assert!(family.iter().all(|task| broker.state(*task) == StateName::Completed));
}

#[test]
fn an_attempt_that_waits_for_what_has_ended_goes_on_at_once() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (task, one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, task);
    broker.complete(&worker, one);
    broker.cancel(&ann, two);
    broker.hush();
    suspend(&mut broker, &worker, task, &[two, one, two]);
    broker.hears(&["#1/1 continued by w", "-> w: continue #1/1: #3 cancelled, #2 completed"]);
    // Without children there is nothing to wait for.
    await_children(&mut broker, &worker, task);
    broker.hears(&["#1/1 continued by w", "-> w: continue #1/1:"]);
    broker.complete(&worker, task);
    broker.hush();
}

#[test]
fn it_learns_how_each_task_ended_even_if_the_broker_has_forgotten_them() {
    let mut broker = Broker::with(Settings { ended_kept: 0, ..Settings::default() });
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 4);
    let task = broker.submit(&ann, "q");
    let others = [(); 3].map(|()| broker.submit(&ann, "q"));
    broker.start(&worker, task);
    suspend(&mut broker, &worker, task, &others);
    broker.complete(&worker, others[0]);
    broker.fail(&worker, others[1]);
    broker.hush();
    broker.cancel(&ann, others[2]);
    broker.hears(&[
        "-> w: stop #4/1, cancelled",
        "#4/1 cancelled",
        "#1/1 continued by w",
        "-> w: continue #1/1: #2 completed, #3 failed, #4 cancelled",
    ]);
    // The notice was lost with the connection: the worker says again what it waits for.
    suspend(&mut broker, &worker, task, &others);
    broker.hears(&["-> w: continue #1/1: #2 completed, #3 failed, #4 cancelled"]);
    broker.complete(&worker, task);
    broker.hush();
}

#[test]
fn a_more_urgent_task_goes_before_an_attempt_that_could_continue() {
    let (mut broker, ann, worker, parent, child) = family(|task| task);
    broker.start(&worker, child);
    let urgent = NewTask { priority: Some(9), ..broker.new_task("q") };
    let urgent = broker.submit_task(&ann, urgent);
    let idle = broker.submit(&ann, "q");
    broker.hush();
    broker.complete(&worker, child);
    assert_eq!(broker.assigned(), [urgent]);
    assert_eq!(broker.explain(parent), Why::AwaitingSlot { worker: "w".into() });
    broker.complete(&worker, urgent);
    broker.hears(&["#3/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
    assert_eq!(broker.state(idle), StateName::Ready);
}

#[test]
fn a_suspended_task_leaves_its_tags_to_its_children_and_takes_them_again() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "licence", Some(1));
    let worker = broker.worker("w", &["q"], 5);
    let other = broker.worker("v", &["p"], 5);
    let with_tag = |task| NewTask { tags: vec!["licence".into()], ..task };
    let parent = with_tag(broker.new_task("q"));
    let parent = broker.submit_task(&ann, parent);
    broker.start(&worker, parent);
    let child = NewTask { parent: Some(parent), ..with_tag(broker.new_task("q")) };
    let child = broker.submit_task(&ann, child);
    assert_eq!(broker.state(child), StateName::Ready);
    broker.hush();
    await_children(&mut broker, &worker, parent);
    broker.hears(&["#1/1 suspended by w, waits for 1", "#2/1 assigned to w", "-> w: run #2/1"]);
    let urgent = NewTask { priority: Some(9), ..with_tag(broker.new_task("p")) };
    let urgent = broker.submit_task(&ann, urgent);
    let later = with_tag(broker.new_task("p"));
    let later = broker.submit_task(&ann, later);
    broker.hush();
    broker.complete(&worker, child);
    assert_eq!(broker.assigned(), [urgent]);
    assert_eq!(broker.explain(parent), Why::TagLimit { tag: "licence".into(), limit: 1, in_use: 1 });
    // A task of another worker that is less urgent does not go first.
    broker.complete(&other, urgent);
    broker.hears(&["#3/1 completed by v", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
    broker.complete(&worker, parent);
    assert_eq!(broker.assigned(), [later]);
}

#[test]
fn a_worker_keeps_no_room_for_an_attempt_that_a_full_tag_stops() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "licence", Some(1));
    let worker = broker.worker_with(WorkerSpec { light_slots: 1, ..spec("w", &["q"], 1) });
    broker.worker("v", &["p"], 1);
    let parent = NewTask { tags: vec!["licence".into()], ..broker.new_task("q") };
    let parent = broker.submit_task(&ann, parent);
    broker.start(&worker, parent);
    let child = child_of(&mut broker, &ann, parent);
    await_children(&mut broker, &worker, parent);
    broker.start(&worker, child);
    let urgent = NewTask { priority: Some(9), ..broker.new_task("q") };
    broker.submit_task(&ann, urgent);
    broker.complete(&worker, child);
    let light = NewTask { demand: Demand { slots: 0, ..Demand::default() }, ..broker.new_task("q") };
    let light = broker.submit_task(&ann, light);
    assert_eq!(broker.explain(light), Why::Reserved { worker: "w".into(), task: parent });
    broker.hush();
    let licensed = NewTask { tags: vec!["licence".into()], ..broker.new_task("p") };
    let licensed = broker.submit_task(&ann, licensed);
    assert_eq!(broker.assigned(), [licensed, light]);
}

#[test]
fn explain_names_what_it_waits_for() {
    let (mut broker, ann, _, parent, child) = family(|task| task);
    let Why::Suspended { open, some } = broker.explain(parent) else { panic!("it is suspended") };
    assert_eq!((open, some[0].task), (1, child));
    let text = broker.explain(parent).to_string();
    assert_eq!(text, format!("it is suspended and waits for 1 task: {child}, which is assigned"));
    let running = ListQuery { states: vec![StateName::Suspended], ..ListQuery::default() };
    assert_eq!(broker.list(running), [parent]);
    assert_eq!(broker.worker_info("w").suspended, 1);
    let moved = Command::Move { task: parent, to: tenure_engine::command::Move::default() };
    assert_eq!(broker.refuses(&ann, moved).code(), "wrong-state");
    broker.hush();
}

#[test]
fn what_cannot_be_waited_for_is_refused_by_name() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let eve = broker.peer("elsewhere", "eve");
    let worker = broker.worker("w", &["q"], 3);
    let task = broker.submit(&ann, "q");
    let hers = broker.submit(&eve, "q");
    broker.start(&worker, task);
    let held = broker.held(task);
    let waiting = |on: Vec<TaskId>| Command::Suspend { held, on: WaitOn::Tasks(on) };
    let unknown = TaskId::from_u128(999);
    for id in [unknown, hers] {
        assert_eq!(broker.refuses(&worker, waiting(vec![id])), Refusal::UnknownTask { task: id });
    }
    assert_eq!(broker.refuses(&worker, waiting(vec![task])).code(), "bad-value");
    let too_many = broker.refuses(&worker, waiting(vec![unknown; AFTER_MAX + 1]));
    assert_eq!(too_many, Refusal::TooMany { what: "tasks to wait for", limit: AFTER_MAX });
    let stale = Command::Suspend { held: Held { attempt: 7, ..held }, on: WaitOn::Children };
    assert_eq!(broker.refuses(&worker, stale).code(), "stale-attempt");
    // A task that runs after this one, and one that a running task waits for in turn.
    let after = vec![After { task: AfterTask::Id(task), condition: Condition::Ended }];
    let dependent = NewTask { after, ..broker.new_task("q") };
    let dependent = broker.submit_task(&ann, dependent);
    assert_eq!(broker.refuses(&worker, waiting(vec![dependent])).code(), "bad-value");
    let child = child_of(&mut broker, &ann, task);
    broker.start(&worker, child);
    await_children(&mut broker, &worker, task);
    let upwards = Command::Suspend { held: broker.held(child), on: WaitOn::Tasks(vec![task]) };
    assert_eq!(broker.refuses(&worker, upwards).code(), "bad-value");
    broker.hush();
}

#[test]
fn a_suspended_attempt_may_wait_for_other_tasks_instead_or_end_without_them() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let (task, one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, task);
    suspend(&mut broker, &worker, task, &[one, two]);
    broker.hush();
    suspend(&mut broker, &worker, task, &[one, two]);
    broker.hears_nothing();
    suspend(&mut broker, &worker, task, &[two]);
    broker.hears(&["#1/1 suspended by w, waits for 1"]);
    broker.complete(&worker, one);
    broker.hush();
    assert_eq!(broker.state(task), StateName::Suspended);
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
    broker.complete(&worker, two);
    broker.hears(&["#3/1 completed by w"]);
}

#[test]
fn a_failed_attempt_forgets_what_it_waited_for() {
    let (mut broker, ann, worker, parent, child) = family(|task| NewTask { retries: 1, ..task });
    broker.hush();
    broker.does(&worker, Command::Fail(failure(broker.held(parent), 7)));
    broker.hush();
    assert_eq!(broker.state(parent), StateName::Delayed);
    broker.cancel(&ann, child);
    broker.wait(60 * SECOND);
    broker.hush();
}

#[test]
fn a_worker_lost_while_its_task_waits_costs_nothing_of_the_crash_budget() {
    let (mut broker, ann, worker, parent, child) = family(|task| NewTask { crash_budget: 1, ..task });
    let held = broker.held(parent);
    broker.does(&worker, Command::Checkpoint { held, checkpoint: Blob::new(7, 7) });
    broker.disconnect(&worker);
    broker.wait(60 * SECOND);
    broker.hush();
    assert_eq!((broker.state(parent), broker.show(parent).crashes), (StateName::Waiting, 0));
    let second = broker.worker("v", &["q"], 1);
    assert_eq!(broker.assigned(), [child]);
    broker.start(&second, child);
    broker.complete(&second, child);
    broker.hears(&[
        "#2/2 started by v",
        "#2/2 completed by v",
        "#1/1 dependencies met",
        "#1/2 assigned to v",
        "-> v: run #1/2 from 7+7",
    ]);
    // The next attempt waits again, and goes on at once.
    broker.start(&second, parent);
    broker.hush();
    suspend(&mut broker, &second, parent, &[child]);
    broker.hears(&["-> v: continue #1/2: #2 completed"]);
    broker.does(&ann, Command::Cancel { task: parent, reason: None });
    broker.hush();
}

#[test]
fn a_lost_worker_pauses_or_fails_a_suspended_task_as_its_policy_says() {
    for (on_lost, state) in [(OnLost::Pause, StateName::Paused), (OnLost::Fail, StateName::Failed)] {
        let (mut broker, ann, worker, parent, child) = family(|task| NewTask { on_lost, ..task });
        broker.disconnect(&worker);
        broker.wait(60 * SECOND);
        assert_eq!(broker.state(parent), state);
        if state == StateName::Paused {
            broker.does(&ann, Command::Resume { task: parent });
            assert_eq!(broker.state(parent), StateName::Waiting);
            broker.cancel(&ann, child);
            assert_eq!(broker.state(parent), StateName::Ready);
        }
        broker.hush();
    }
}

#[test]
fn a_broker_restart_does_not_disturb_what_waits() {
    let (mut broker, ann, worker, parent, child) = family(|task| task);
    broker.start(&worker, child);
    broker.restart_after(SECOND);
    compare(&broker.journal.restore(Settings::default(), broker.now), &broker.engine);
    let both = vec![broker.held(parent), broker.held(child)];
    let back = WorkerSpec { held: both, instance: 3, ..spec("w", &["q"], 1) };
    let worker = broker.worker_with(back.clone());
    await_children(&mut broker, &worker, parent);
    broker.hush();
    broker.complete(&worker, child);
    broker.hears(&["#2/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
    // What it waits for may end while the worker is away.
    let second = child_of(&mut broker, &ann, parent);
    let third = NewTask { hold: true, ..broker.new_task("q") };
    let third = broker.submit_task(&ann, third);
    suspend(&mut broker, &worker, parent, &[third]);
    broker.cancel(&ann, second);
    broker.hush();
    broker.restart_after(SECOND);
    broker.cancel(&ann, third);
    broker.hears(&["#4 cancelled"]);
    let back = WorkerSpec { held: vec![broker.held(parent)], ..back };
    let worker = broker.worker_with(back);
    broker.hears(&["w returned", "#1/1 holder w returned", "queue q served"]);
    // It continues when the worker has said over the new session that it waits, so that there is one notice for it.
    suspend(&mut broker, &worker, parent, &[third]);
    broker.hears(&["#1/1 continued by w", "-> w: continue #1/1: #4 cancelled"]);
}

#[test]
fn a_worker_that_forgot_a_suspended_task_gives_it_to_the_next_attempt() {
    let (mut broker, _, worker, parent, child) = family(|task| task);
    broker.start(&worker, child);
    broker.hush();
    let held = Some(vec![broker.held(child)]);
    broker.does(&worker, Command::Heartbeat { held, stats: None });
    broker.hears(&["#1/1 crashed on w, forgotten: requeued, 3 left"]);
    assert_eq!(broker.state(parent), StateName::Waiting);
    broker.complete(&worker, child);
    assert_eq!(broker.assigned(), [parent]);
}

#[test]
fn a_cancelled_parent_that_waits_takes_its_children_along() {
    let (mut broker, ann, worker, parent, child) = family(|task| task);
    broker.hush();
    broker.cancel(&ann, parent);
    broker.hears(&[
        "#1/1 cancel requested",
        "-> w: cancel #1/1",
        "#1/1 cancel delivered to w",
        "-> w: stop #2/1, cancelled",
        "#2/1 cancelled",
        "#1/1 continued by w",
        "-> w: continue #1/1: #2 cancelled",
    ]);
    let confirm = Command::Confirm { held: broker.held(parent), wanted: Wanted::Cancel, result: Blob::EMPTY };
    broker.does(&worker, confirm);
    broker.hears(&["#1/1 cancelled"]);
    assert_eq!(broker.state(child), StateName::Cancelled);
}

#[test]
fn a_cancel_timeout_runs_while_a_task_waits() {
    let (mut broker, ann, _, parent, _) = family(|task| NewTask { cancel_timeout: Some(5 * SECOND), ..task });
    let other = NewTask { hold: true, ..broker.new_task("q") };
    broker.submit_task(&ann, other);
    broker.cancel(&ann, parent);
    broker.wait(4 * SECOND);
    assert!(!broker.state(parent).has_ended());
    broker.wait(SECOND);
    assert_eq!(broker.state(parent), StateName::Cancelled);
    broker.hush();
}

#[test]
fn a_paused_parent_waits_on_after_it_is_resumed() {
    let (mut broker, ann, worker, parent, child) = family(|task| task);
    broker.pause(&ann, parent);
    let confirm = Command::Confirm { held: broker.held(parent), wanted: Wanted::Pause, result: Blob::EMPTY };
    broker.does(&worker, confirm);
    assert_eq!(broker.state(parent), StateName::Paused);
    broker.does(&ann, Command::Resume { task: parent });
    assert_eq!(broker.state(parent), StateName::Waiting);
    broker.hush();
    broker.complete(&worker, child);
    assert_eq!(broker.assigned(), [parent]);
}

#[test]
fn the_run_limit_stands_still_while_a_task_waits() {
    let limit = Duration::from_secs(10);
    let (mut broker, _, worker, parent, child) =
        family(|task| NewTask { run_limit: Some(limit), crash_budget: 1, ..task });
    let listed = |broker: &Broker| Some(vec![broker.held(parent), broker.held(child)]);
    broker.start(&worker, child);
    for _ in 0..20 {
        broker.wait(5 * SECOND);
        broker.does(&worker, Command::Heartbeat { held: listed(&broker), stats: None });
    }
    broker.complete(&worker, child);
    assert_eq!(broker.state(parent), StateName::Running);
    broker.wait(9 * SECOND);
    broker.heartbeat(&worker);
    assert_eq!(broker.state(parent), StateName::Running);
    broker.wait(SECOND);
    assert_eq!(broker.state(parent), StateName::Failed);
    broker.hush();
}

#[test]
fn a_draining_worker_finishes_what_is_suspended_there() {
    let (mut broker, ann, worker, parent, child) = family(|task| task);
    broker.start(&worker, child);
    broker.does(&worker, Command::Drain);
    let idle = broker.submit(&ann, "q");
    broker.hush();
    broker.complete(&worker, child);
    broker.hears(&["#2/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
    assert_eq!((broker.state(parent), broker.state(idle)), (StateName::Running, StateName::Ready));
}

#[test]
fn a_worker_that_leaves_hands_back_what_waits() {
    let (mut broker, _, worker, parent, child) = family(|task| task);
    broker.does(&worker, Command::Leave);
    assert_eq!((broker.state(parent), broker.state(child)), (StateName::Waiting, StateName::Ready));
    broker.hush();
}

#[test]
fn children_that_run_after_their_parent_are_not_waited_for() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let parent = broker.submit(&ann, "q");
    broker.start(&worker, parent);
    let after = |task| vec![After { task: AfterTask::Id(task), condition: Condition::Ended }];
    let follows = NewTask { parent: Some(parent), after: after(parent), ..broker.new_task("q") };
    let follows = broker.submit_task(&ann, follows);
    let last = NewTask { parent: Some(parent), after: after(follows), ..broker.new_task("q") };
    broker.submit_task(&ann, last);
    let child = child_of(&mut broker, &ann, parent);
    broker.hush();
    await_children(&mut broker, &worker, parent);
    broker.hears(&["#1/1 suspended by w, waits for 1"]);
    broker.complete(&worker, child);
    broker.hears(&["#4/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1: #4 completed"]);
    await_children(&mut broker, &worker, parent);
    broker.hears(&["-> w: continue #1/1: #4 completed"]);
}

#[test]
fn thousands_of_children_are_waited_for_a_thousand_at_a_time() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let parent = broker.submit(&ann, "q");
    broker.start(&worker, parent);
    let count = AFTER_MAX + 1;
    let new: Vec<NewTask> =
        (0..count).map(|_| NewTask { parent: Some(parent), hold: true, ..broker.new_task("q") }).collect();
    let children: Vec<TaskId> =
        broker.submit_many(&ann, new).into_iter().map(|each| each.expect("accepted").task).collect();
    await_children(&mut broker, &worker, parent);
    let Why::Suspended { open, .. } = broker.explain(parent) else { panic!("it is suspended") };
    assert_eq!(open as usize, AFTER_MAX);
    for child in &children[..AFTER_MAX] {
        broker
            .engine
            .handle(
                broker.now,
                &ann,
                Command::Cancel { task: *child, reason: None },
                &mut Quiet(&mut broker.journal),
            )
            .expect("it is cancelled");
    }
    assert_eq!(broker.state(parent), StateName::Running);
    await_children(&mut broker, &worker, parent);
    let Why::Suspended { open, .. } = broker.explain(parent) else { panic!("it is suspended") };
    assert_eq!(open, 1);
    broker.hush();
}

#[test]
fn a_completion_while_waiting_is_as_good_as_any() {
    let (mut broker, _, worker, parent, _) = family(|task| task);
    broker.hush();
    let completion = Completion { held: broker.held(parent), result: Blob::EMPTY };
    broker.does(&worker, Command::Complete(vec![completion]));
    broker.hears(&["#1/1 completed by w"]);
}

/// Keeps the journal, and listens to nothing: the audit after every command would take too long.
struct Quiet<'a>(&'a mut crate::broker::Journal);

impl tenure_engine::Output for Quiet<'_> {
    fn record(&mut self, event: tenure_engine::Event, change: tenure_engine::Change<'_>) {
        self.0.write(&event, change);
    }

    fn notice(&mut self, _: tenure_engine::SessionId, _: tenure_engine::Notice) {}

    fn body(&mut self, _: &[u8]) -> Blob {
        Blob::EMPTY
    }

    fn freed(&mut self, _: Blob) {}
}
