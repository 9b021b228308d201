//! Families: children are more urgent than their parents, and a cancelled parent takes them along.

use tenure_engine::command::{Completion, ListQuery};
use tenure_engine::state::Wanted;
use tenure_engine::{Blob, Command, NewTask, Peer, StateName, TaskId};

use crate::broker::{Broker, SECOND};

fn submit_child(broker: &mut Broker, peer: &Peer, parent: TaskId) -> TaskId {
    let child = NewTask { parent: Some(parent), ..broker.new_task("q") };
    broker.submit_task(peer, child)
}

#[test]
fn a_child_is_more_urgent_than_its_parent_unless_told_otherwise() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let parent = NewTask { priority: Some(4), ..broker.new_task("q") };
    let parent = broker.submit_task(&ann, parent);
    let child = submit_child(&mut broker, &ann, parent);
    let grandchild = submit_child(&mut broker, &ann, child);
    let told = NewTask { parent: Some(parent), priority: Some(0), ..broker.new_task("q") };
    let told = broker.submit_task(&ann, told);
    let topmost = NewTask { priority: Some(i32::MAX), ..broker.new_task("q") };
    let topmost = broker.submit_task(&ann, topmost);
    let its_child = submit_child(&mut broker, &ann, topmost);
    let priorities = [child, grandchild, told, its_child].map(|task| broker.show(task).priority);
    assert_eq!(priorities, [5, 6, 0, i32::MAX]);
    assert_eq!((broker.show(child).parent, broker.show(parent).children), (Some(parent), 2));
    broker.hush();
}

#[test]
fn waiting_parents_do_not_fill_all_slots_while_their_children_wait() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let parent = broker.submit(&ann, "q");
    broker.submit(&ann, "q");
    broker.start(&worker, parent);
    let child = submit_child(&mut broker, &ann, parent);
    broker.hush();
    broker.complete(&worker, parent);
    assert_eq!(broker.assigned(), [child]);
}

#[test]
fn cancelling_goes_down_to_the_children_of_children() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let parent = broker.submit(&ann, "q");
    broker.start(&worker, parent);
    let child = submit_child(&mut broker, &ann, parent);
    broker.start(&worker, child);
    let (grandchild, done) = (submit_child(&mut broker, &ann, child), submit_child(&mut broker, &ann, child));
    broker.cancel(&ann, done);
    let bystander = broker.submit(&ann, "q");
    broker.hush();
    broker.does(&ann, Command::Cancel { task: parent, reason: Some("wrong input".into()) });
    broker.hears(&[
        "#1/1 cancel requested (wrong input)",
        "-> w: cancel #1/1 (wrong input)",
        "#1/1 cancel delivered to w",
        "#2/1 cancel requested (wrong input)",
        "-> w: cancel #2/1 (wrong input)",
        "#2/1 cancel delivered to w",
        "#3 cancelled (wrong input)",
    ]);
    assert_eq!(broker.state(grandchild), StateName::Cancelled);
    assert_eq!(broker.state(bystander), StateName::Ready);
    for task in [child, parent] {
        let held = broker.held(task);
        broker.does(&worker, Command::Confirm { held, wanted: Wanted::Cancel, result: Blob::EMPTY });
    }
    broker.hears(&[
        "#2/1 cancelled (wrong input)",
        "#5/1 assigned to w",
        "-> w: run #5/1",
        "#1/1 cancelled (wrong input)",
    ]);
}

#[test]
fn a_child_that_completes_after_all_is_kept_and_the_rest_is_cancelled() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let parent = broker.submit(&ann, "q");
    let child = submit_child(&mut broker, &ann, parent);
    broker.start(&worker, parent);
    broker.start(&worker, child);
    broker.cancel(&ann, parent);
    let completion = Completion { held: broker.held(child), result: Blob::new(5, 5) };
    broker.does(&worker, Command::Complete(vec![completion]));
    assert_eq!(broker.state(child), StateName::Completed);
    broker.hush();
}

#[test]
fn no_task_gets_a_parent_that_is_cancelled_or_about_to_be() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let running = broker.submit(&ann, "q");
    let waiting = broker.submit(&ann, "q");
    broker.start(&worker, running);
    broker.cancel(&ann, waiting);
    broker.cancel(&ann, running);
    broker.hush();
    for parent in [running, waiting] {
        let child = NewTask { parent: Some(parent), ..broker.new_task("q") };
        assert_eq!(broker.refuses(&ann, Command::Submit(vec![child])).code(), "bad-parent");
    }
}

#[test]
fn a_parent_that_is_forgotten_leaves_its_children_alone() {
    let settings = tenure_engine::Settings { ended_kept: 0, ..tenure_engine::Settings::default() };
    let mut broker = Broker::with(settings);
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let parent = broker.submit(&ann, "q");
    let child = submit_child(&mut broker, &ann, parent);
    broker.complete(&worker, parent);
    broker.wait(SECOND);
    assert_eq!(broker.state(child), StateName::Assigned);
    // Another task of the same id is not its parent.
    broker.submit_task(&ann, NewTask { hold: true, ..NewTask::new(parent, "q") });
    assert_eq!(broker.list(ListQuery { parent: Some(parent), ..ListQuery::default() }), []);
    broker.restart_after(SECOND);
    assert_eq!(broker.list(ListQuery { parent: Some(parent), ..ListQuery::default() }), []);
    broker.hush();
}
