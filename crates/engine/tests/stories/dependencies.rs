//! Dependencies: a task runs after others, and what happens if they end otherwise than it hopes.

use tenure_engine::command::{Completion, ListQuery};
use tenure_engine::limits::AFTER_MAX;
use tenure_engine::state::{PauseCause, TaskState};
use tenure_engine::{
    After, AfterTask, Blob, Command, Condition, DependencyProgress, NewTask, Notice, OnBroken, Peer, Refusal,
    Settings, StateName, TaskId, Why,
};

use crate::broker::{Broker, SECOND, Said, compare};

fn after(task: TaskId) -> After {
    until(task, Condition::Completed)
}

fn until(task: TaskId, condition: Condition) -> After {
    After { task: AfterTask::Id(task), condition }
}

fn submit_after(broker: &mut Broker, peer: &Peer, after: Vec<After>) -> TaskId {
    let task = NewTask { after, ..broker.new_task("q") };
    broker.submit_task(peer, task)
}

#[test]
fn a_task_runs_when_the_last_task_it_waits_for_is_completed() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.hush();
    let last = submit_after(&mut broker, &ann, vec![after(one), after(two)]);
    broker.hears(&["#3 submitted"]);
    assert_eq!(broker.state(last), StateName::Waiting);
    broker.complete(&worker, one);
    broker.hears(&["#1/1 completed by w"]);
    assert_eq!(broker.show(last).state, TaskState::Waiting { open: 1 });
    broker.complete(&worker, two);
    broker.hears(&["#2/1 completed by w", "#3 dependencies met", "#3/1 assigned to w", "-> w: run #3/1"]);
}

#[test]
fn tasks_of_one_submission_wait_for_earlier_ones_by_their_index() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let index = |index| After { task: AfterTask::Index(index), condition: Condition::Completed };
    let first = NewTask { name: Some("first".into()), ..broker.new_task("q") };
    let second = NewTask { after: vec![index(0)], ..broker.new_task("q") };
    let by_name = After { task: AfterTask::Name("first".into()), condition: Condition::Ended };
    let third = NewTask { after: vec![by_name, index(1)], ..broker.new_task("q") };
    let itself = NewTask { after: vec![index(3)], ..broker.new_task("q") };
    let of_refused = NewTask { after: vec![index(3)], ..broker.new_task("q") };
    let each = broker.submit_many(&ann, vec![first, second, third, itself, of_refused]);
    let states: Vec<_> = each.iter().map(|each| each.as_ref().map(|accepted| accepted.state)).collect();
    assert_eq!(states[..3], [Ok(StateName::Ready), Ok(StateName::Waiting), Ok(StateName::Waiting)]);
    for refused in &each[3..] {
        let refusal = refused.as_ref().expect_err("it is refused");
        assert_eq!(refusal.code(), "bad-value", "{refusal}");
    }
    broker.hush();
}

#[test]
fn only_tasks_that_exist_can_be_waited_for() {
    let mut broker = Broker::with(Settings { ended_kept: 0, ..Settings::default() });
    let ann = broker.client("ann");
    let eve = broker.peer("elsewhere", "eve");
    let forgotten = broker.submit(&ann, "q");
    broker.cancel(&ann, forgotten);
    let hers = broker.submit(&eve, "q");
    let task = broker.new_task("q");
    let own = task.id;
    for id in [forgotten, hers, own] {
        let task = NewTask { after: vec![after(id)], ..task.clone() };
        assert_eq!(broker.refuses(&ann, Command::Submit(vec![task])), Refusal::UnknownTask { task: id });
    }
    let by_name = After { task: AfterTask::Name("x".into()), condition: Condition::Completed };
    let unknown = NewTask { after: vec![by_name], ..task.clone() };
    let refusal = broker.refuses(&ann, Command::Submit(vec![unknown]));
    assert_eq!(refusal, Refusal::UnknownName { name: "x".into() });
    let one = broker.submit(&ann, "q");
    let many = NewTask { after: vec![after(one); AFTER_MAX + 1], ..task };
    assert_eq!(broker.refuses(&ann, Command::Submit(vec![many])).code(), "too-many");
    broker.hush();
}

#[test]
fn a_task_that_has_ended_counts_at_once() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let done = broker.submit(&ann, "q");
    broker.complete(&worker, done);
    broker.hush();
    let next = submit_after(&mut broker, &ann, vec![after(done)]);
    assert_eq!(broker.assigned(), [next]);
    let wrong = NewTask { after: vec![until(done, Condition::Failed)], ..broker.new_task("q") };
    let accepted = broker.submit_and_see(&ann, wrong);
    assert_eq!(accepted.state, StateName::Cancelled);
    broker.hears(&["#3 submitted", &format!("#3 cancelled (dependency {done} ended as completed)")]);
}

#[test]
fn a_broken_dependency_cancels_a_whole_chain_and_says_why() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let first = NewTask { name: Some("build".into()), ..broker.new_task("q") };
    let first = broker.submit_task(&ann, first);
    let second = submit_after(&mut broker, &ann, vec![after(first)]);
    let third = submit_after(&mut broker, &ann, vec![after(second)]);
    let anyway = submit_after(&mut broker, &ann, vec![until(third, Condition::Ended)]);
    broker.hush();
    broker.fail(&worker, first);
    broker.hears(&[
        "#1/1 failed by w with 7: failed",
        &format!("#2 cancelled (dependency {first} (build) ended as failed)"),
        &format!("#3 cancelled (dependency {second} ended as cancelled)"),
        "#4 dependencies met",
        "#4/1 assigned to w",
        "-> w: run #4/1",
    ]);
    assert_eq!(broker.show(second).after[0].progress, DependencyProgress::Broken);
    assert_eq!(broker.state(anyway), StateName::Assigned);
}

#[test]
fn a_task_that_hopes_for_a_failure_runs_after_one() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let first = broker.submit(&ann, "q");
    let cleanup = submit_after(&mut broker, &ann, vec![until(first, Condition::Failed)]);
    broker.hush();
    broker.fail(&worker, first);
    assert_eq!(broker.assigned(), [cleanup]);
}

#[test]
fn a_task_may_run_anyway_or_wait_for_a_person() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let (one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    let edges = vec![after(one), after(two)];
    let run = NewTask { after: edges.clone(), on_broken: OnBroken::Run, ..broker.new_task("q") };
    let hold = NewTask { after: edges, on_broken: OnBroken::Hold, ..broker.new_task("q") };
    let (run, hold) = (broker.submit_task(&ann, run), broker.submit_task(&ann, hold));
    broker.cancel(&ann, one);
    assert_eq!(broker.state(run), StateName::Waiting);
    let TaskState::Paused(pause) = broker.show(hold).state else { panic!("it is held") };
    assert_eq!(pause.why, PauseCause::DependencyBroken);
    assert_eq!(pause.reason.as_deref(), Some(format!("dependency {one} ended as cancelled").as_str()));
    // The person lets it go, and it waits for the other one.
    broker.does(&ann, Command::Resume { task: hold });
    assert_eq!(broker.show(hold).state, TaskState::Waiting { open: 1 });
    broker.cancel(&ann, two);
    assert_eq!((broker.state(run), broker.state(hold)), (StateName::Ready, StateName::Paused));
    broker.does(&ann, Command::Resume { task: hold });
    assert_eq!(broker.state(hold), StateName::Ready);
    broker.hush();
}

#[test]
fn a_held_or_paused_task_looks_at_its_dependencies_when_it_is_let_go() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let first = broker.submit(&ann, "q");
    let held = NewTask { after: vec![after(first)], hold: true, ..broker.new_task("q") };
    let held = broker.submit_task(&ann, held);
    let paused = submit_after(&mut broker, &ann, vec![after(first)]);
    let later = NewTask {
        after: vec![after(first)],
        not_before: Some(broker.now + 60 * SECOND),
        ..broker.new_task("q")
    };
    let later = broker.submit_task(&ann, later);
    broker.pause(&ann, paused);
    assert_eq!(broker.state(later), StateName::Waiting);
    broker.complete(&worker, first);
    assert_eq!(broker.state(held), StateName::Created);
    assert_eq!(broker.state(paused), StateName::Paused);
    assert_eq!(broker.state(later), StateName::Delayed);
    broker.does(&ann, Command::Release { task: held });
    broker.does(&ann, Command::Resume { task: paused });
    assert_eq!((broker.state(held), broker.state(paused)), (StateName::Assigned, StateName::Ready));
    broker.hush();
}

#[test]
fn a_cancelled_task_no_longer_waits_and_takes_its_children_along() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let first = broker.submit(&ann, "q");
    let waits = submit_after(&mut broker, &ann, vec![after(first)]);
    let child = NewTask { parent: Some(waits), ..broker.new_task("other") };
    let child = broker.submit_task(&ann, child);
    let too = submit_after(&mut broker, &ann, vec![after(first)]);
    broker.cancel(&ann, waits);
    assert_eq!(broker.state(child), StateName::Cancelled);
    broker.hush();
    broker.complete(&worker, first);
    assert_eq!(broker.assigned(), [too]);
}

#[test]
fn a_retried_task_waits_for_what_has_not_ended_and_takes_the_rest_as_it_is() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let (one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    let last = submit_after(&mut broker, &ann, vec![after(one), after(two)]);
    broker.fail(&worker, one);
    assert_eq!(broker.state(last), StateName::Cancelled);
    // The dependency alone does not bring it back.
    broker.does(&ann, Command::Retry { task: one });
    assert_eq!(broker.state(last), StateName::Cancelled);
    broker.complete(&worker, two);
    broker.does(&ann, Command::Retry { task: last });
    assert_eq!(broker.show(last).state, TaskState::Waiting { open: 1 });
    broker.complete(&worker, one);
    assert_eq!(broker.state(last), StateName::Assigned);
    broker.fail(&worker, last);
    broker.does(&ann, Command::Retry { task: last });
    assert_eq!(broker.state(last), StateName::Assigned);
    broker.hush();
}

#[test]
fn a_retry_of_a_dependency_does_not_hold_up_what_it_released() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let (one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    let last = submit_after(&mut broker, &ann, vec![after(one), after(two)]);
    broker.complete(&worker, one);
    broker.does(&ann, Command::Retry { task: one });
    assert_eq!(broker.show(last).state, TaskState::Waiting { open: 1 });
    broker.complete(&worker, two);
    assert_eq!(broker.state(last), StateName::Ready);
    broker.hush();
}

#[test]
fn explain_names_some_of_the_tasks_and_how_many_there_are() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let named = NewTask { name: Some("train".into()), ..broker.new_task("q") };
    let mut edges = vec![until(broker.submit_task(&ann, named), Condition::Ended)];
    edges.extend((0..8).map(|_| after(broker.submit(&ann, "q"))));
    let task = submit_after(&mut broker, &ann, edges);
    let why = broker.explain(task);
    let Why::Dependencies { open, some } = &why else { panic!("{why:?}") };
    assert_eq!((*open, some.len()), (9, 5));
    let told = why.to_string();
    assert!(told.starts_with("waits for 9 tasks: "), "{told}");
    assert!(told.contains("(train), which is ready (until ended)") && told.ends_with(", …"), "{told}");
    broker.hush();
}

#[test]
fn the_worker_learns_which_tasks_came_before_and_where_their_results_are() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let named = NewTask { name: Some("map".into()), ..broker.new_task("q") };
    let first = broker.submit_task(&ann, named);
    submit_after(&mut broker, &ann, vec![after(first)]);
    broker.hush();
    let completion = Completion { held: broker.held(first), result: Blob::new(900, 42) };
    broker.does(&worker, Command::Complete(vec![completion]));
    let said = broker.take_raw();
    let assignment = said.iter().find_map(|(said, _)| match said {
        Said::Notice(_, Notice::Assign(assignment)) => Some(assignment),
        _ => None,
    });
    let [known] = &assignment.expect("it is assigned").after[..] else { panic!("one dependency") };
    assert_eq!((known.task, known.name.as_deref(), known.result_bytes), (first, Some("map"), 42));
    assert_eq!((known.state, known.progress), (Some(StateName::Completed), DependencyProgress::Met));
}

#[test]
fn a_dependency_that_was_forgotten_stays_settled() {
    let mut broker = Broker::with(Settings { ended_kept: 0, ..Settings::default() });
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (one, two) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    let last = submit_after(&mut broker, &ann, vec![after(one), after(two)]);
    broker.complete(&worker, one);
    broker.restart_after(SECOND);
    let info = broker.show(last);
    assert_eq!(info.state, TaskState::Waiting { open: 1 });
    assert_eq!((info.after[0].progress, info.after[0].state), (DependencyProgress::Met, None));
    assert_eq!(info.after[1].progress, DependencyProgress::Open);
    broker.hush();
}

#[test]
fn waiting_tasks_come_back_after_a_restart_and_run_in_their_turn() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let first = broker.submit(&ann, "q");
    let chain: Vec<TaskId> = (0..3).fold(vec![first], |mut chain, _| {
        let last = *chain.last().expect("one");
        chain.push(submit_after(&mut broker, &ann, vec![after(last)]));
        chain
    });
    broker.complete(&worker, first);
    let restored = broker.journal.restore(Settings::default(), broker.now);
    compare(&restored, &broker.engine);
    broker.restart_after(SECOND);
    let worker = broker.worker("w", &["q"], 1);
    for task in &chain[1..] {
        assert_eq!(broker.state(*task), StateName::Assigned);
        broker.complete(&worker, *task);
    }
    let waiting = ListQuery { states: vec![StateName::Waiting], ..ListQuery::default() };
    assert!(broker.list(waiting).is_empty());
    broker.hush();
}

#[test]
fn a_chain_of_any_length_is_cancelled_without_a_deep_stack() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let index = |index| After { task: AfterTask::Index(index), condition: Condition::Completed };
    let mut tasks = vec![broker.new_task("q")];
    for number in 1..20_000 {
        tasks.push(NewTask { after: vec![index(number - 1)], ..broker.new_task("q") });
    }
    let (first, last) = (tasks[0].id, tasks[19_999].id);
    broker.submit_many(&ann, tasks);
    broker.cancel(&ann, first);
    assert_eq!(broker.state(last), StateName::Cancelled);
    broker.hush();
}
