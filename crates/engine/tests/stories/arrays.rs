//! Arrays: many tasks as one thing.

use tenure_engine::command::ListQuery;
use tenure_engine::{
    After, AfterTask, Answer, ArrayAccepted, ArrayInfo, ArrayTerms, Blob, Command, Condition, Demand, Event,
    EventFilter, NewArray, NewTask, Notice, Peer, Query, Refusal, Reply, Settings, StateName, TaskId, WaitOn,
    Why,
};

use crate::broker::{Broker, SECOND, Said, compare};

const ARRAY: TaskId = TaskId([9; 16]);

fn new_array(size: u32) -> NewArray {
    let task = NewTask::new(ARRAY, "q");
    NewArray { task, size, first: 0, step: 1, limit: None, bodies: Vec::new() }
}

fn element(place: u32) -> TaskId {
    ArrayTerms { id: ARRAY, first: 0, step: 1 }.element_id(place)
}

fn submit(broker: &mut Broker, peer: &Peer, new: NewArray) -> ArrayAccepted {
    match broker.does(peer, Command::SubmitArray(Box::new(new))) {
        Reply::ArraySubmitted(accepted) => *accepted,
        reply => panic!("{reply:?}"),
    }
}

fn show(broker: &Broker) -> ArrayInfo {
    match broker.ask(&Query::Array { array: ARRAY }) {
        Ok(Answer::Array(info)) => *info,
        other => panic!("{other:?}"),
    }
}

fn count(broker: &Broker, state: StateName) -> u64 {
    show(broker).counts[state as usize]
}

/// The events about arrays since the last hearing.
fn heard_of_arrays(broker: &mut Broker) -> Vec<String> {
    broker.take_said().into_iter().filter(|line| line.starts_with("array ")).collect()
}

#[test]
fn an_array_is_submitted_and_ends_as_one() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    broker.hush();
    let named = NewTask { name: Some("sums".into()), ..NewTask::new(ARRAY, "q") };
    let accepted = submit(&mut broker, &ann, NewArray { task: named, ..new_array(3) });
    assert_eq!((accepted.array, accepted.size, accepted.known), (ARRAY, 3, false));
    let heard = broker.take_said();
    assert_eq!(heard[0], "array sums submitted with 3 elements");
    assert_eq!(count(&broker, StateName::Assigned), 2);
    broker.complete(&worker, element(0));
    broker.fail(&worker, element(1));
    assert_eq!(heard_of_arrays(&mut broker), [""; 0]);
    broker.complete(&worker, element(2));
    assert_eq!(heard_of_arrays(&mut broker), ["array sums ended: 2 completed, 1 failed, 0 cancelled"]);
    let info = show(&broker);
    assert_eq!((info.state, info.ended_at), (StateName::Failed, Some(broker.now)));
    // The element starts over, and the array ends again.
    broker.does(&ann, Command::Retry { task: element(1) });
    assert_eq!(show(&broker).ended_at, None);
    broker.complete(&worker, element(1));
    assert_eq!(heard_of_arrays(&mut broker), ["array sums ended: 3 completed, 0 failed, 0 cancelled"]);
    assert_eq!(show(&broker).state, StateName::Completed);
}

#[test]
fn the_elements_know_their_index_and_share_one_body() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let _worker = broker.worker("w", &["q"], 10);
    broker.hush();
    let task = NewTask { body: Blob::new(500, 20), ..NewTask::new(ARRAY, "q") };
    submit(&mut broker, &ann, NewArray { task, first: 10, step: 5, ..new_array(3) });
    let assigned: Vec<(u32, Blob)> = broker
        .take_raw()
        .into_iter()
        .filter_map(|(said, _)| match said {
            Said::Notice(_, Notice::Assign(assignment)) => {
                let element = assignment.terms.element(assignment.task).expect("it is an element");
                assert_eq!(element.array, ARRAY);
                Some((element.index, assignment.body))
            }
            _ => None,
        })
        .collect();
    assert_eq!(assigned, [10, 15, 20].map(|index| (index, Blob::new(500, 20))));
    assert_eq!(broker.show(element(1)).body, Blob::new(500, 20));
}

#[test]
fn the_shared_body_goes_with_the_last_element_and_the_bodies_of_items_with_each() {
    for items in [false, true] {
        let mut broker = Broker::with(Settings { ended_kept: 1, ..Settings::default() });
        let ann = broker.client("ann");
        let task = NewTask { body: Blob::new(500, 20), ..NewTask::new(ARRAY, "q") };
        let bodies = if items { vec![Blob::new(1, 1), Blob::new(2, 2)] } else { Vec::new() };
        submit(&mut broker, &ann, NewArray { task, bodies, ..new_array(2) });
        broker.cancel(&ann, ARRAY);
        let freed = |broker: &mut Broker| -> Vec<String> {
            broker.take_said().into_iter().filter(|line| line.starts_with("freed")).collect()
        };
        let first: &[&str] = if items { &["freed 1+1"] } else { &[] };
        assert_eq!(freed(&mut broker), first);
        assert_eq!(count(&broker, StateName::Cancelled), 2, "one is kept, both are counted");
        let other = broker.submit(&ann, "q");
        broker.cancel(&ann, other);
        let second = if items { "freed 2+2" } else { "freed 500+20" };
        assert_eq!(freed(&mut broker), [second]);
        assert!(broker.ask(&Query::Array { array: ARRAY }).is_err(), "it goes with its last element");
    }
}

#[test]
fn no_more_elements_run_at_once_than_the_limit_says() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 10);
    broker.hush();
    submit(&mut broker, &ann, NewArray { limit: Some(2), ..new_array(6) });
    assert_eq!(broker.assigned(), [element(0), element(1)]);
    assert_eq!(broker.explain(element(4)), Why::ArrayLimit { array: ARRAY, limit: 2, in_use: 2 });
    let other = broker.submit(&ann, "q");
    assert_eq!(broker.assigned(), [other], "the limit holds up no other task");
    broker.complete(&worker, element(0));
    assert_eq!(broker.assigned(), [element(2)]);
    broker.does(&ann, Command::LimitArray { array: ARRAY, limit: Some(3) });
    assert_eq!(broker.assigned(), [element(3)]);
    broker.does(&ann, Command::LimitArray { array: ARRAY, limit: None });
    assert_eq!(broker.assigned(), [element(4), element(5)]);
    let Ok(Answer::Limits(limits)) = broker.ask(&Query::Limits) else { panic!("no limits") };
    assert_eq!(limits, [], "the limit of an array is no tag");
}

#[test]
fn a_cancelled_array_ends_once_however_many_elements_it_has() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    broker.hush();
    submit(&mut broker, &ann, new_array(100));
    broker.start(&worker, element(0));
    broker.hush();
    broker.does(&ann, Command::Cancel { task: ARRAY, reason: Some("enough".into()) });
    assert_eq!(heard_of_arrays(&mut broker), [""; 0], "one element still runs");
    assert_eq!((count(&broker, StateName::Cancelled), count(&broker, StateName::Running)), (99, 1));
    broker.complete(&worker, element(0));
    assert_eq!(
        heard_of_arrays(&mut broker),
        ["array #99 ended: 1 completed, 0 failed, 99 cancelled"]
            .map(|line| { line.replace("#99", &format!("#{}", u128::from_be_bytes([9; 16]))) })
    );
    let refusal = broker.refuses(&ann, Command::Cancel { task: ARRAY, reason: None });
    assert_eq!(refusal, Refusal::WrongState { task: ARRAY, state: StateName::Cancelled, verb: "cancel" });
    // A retry repeats what did not complete.
    broker.does(&ann, Command::Retry { task: ARRAY });
    assert_eq!((count(&broker, StateName::Completed), count(&broker, StateName::Cancelled)), (1, 0));
    broker.hush();
}

#[test]
fn a_task_after_an_array_waits_for_the_last_element() {
    for (fails, condition, expected) in [
        (false, Condition::Completed, StateName::Assigned),
        (true, Condition::Completed, StateName::Cancelled),
        (true, Condition::Ended, StateName::Assigned),
        (true, Condition::Failed, StateName::Assigned),
        (false, Condition::Failed, StateName::Cancelled),
    ] {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let worker = broker.worker("w", &["q"], 10);
        submit(&mut broker, &ann, new_array(3));
        let after = After { task: AfterTask::Id(ARRAY), condition };
        let reduce = NewTask { after: vec![after], ..broker.new_task("q") };
        let reduce = broker.submit_task(&ann, reduce);
        let Why::Dependencies { open: 1, some } = broker.explain(reduce) else { panic!("it waits") };
        assert_eq!((some[0].task, some[0].state), (ARRAY, StateName::Assigned));
        broker.complete(&worker, element(0));
        if fails {
            broker.fail(&worker, element(1));
        } else {
            broker.complete(&worker, element(1));
        }
        assert_eq!(broker.state(reduce), StateName::Waiting);
        broker.complete(&worker, element(2));
        assert_eq!(broker.state(reduce), expected, "{condition} {fails}");
        broker.hush();
    }
}

#[test]
fn an_array_waits_for_another_and_is_cancelled_with_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    submit(&mut broker, &ann, new_array(3));
    let second = TaskId([7; 16]);
    let after = vec![After { task: AfterTask::Id(ARRAY), condition: Condition::Completed }];
    let task = NewTask { after, ..NewTask::new(second, "q") };
    submit(&mut broker, &ann, NewArray { task, ..new_array(4) });
    broker.restart_after(SECOND);
    broker.cancel(&ann, ARRAY);
    let Ok(Answer::Array(info)) = broker.ask(&Query::Array { array: second }) else { panic!("it is there") };
    assert_eq!((info.state, info.counts[StateName::Cancelled as usize]), (StateName::Cancelled, 4));
    assert_eq!(heard_of_arrays(&mut broker).iter().filter(|line| line.contains("ended")).count(), 2);
}

#[test]
fn the_same_submission_under_one_name_is_one_array() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let named = |id: TaskId| NewTask { name: Some("sums".into()), ..NewTask::new(id, "q") };
    submit(&mut broker, &ann, NewArray { task: named(ARRAY), ..new_array(3) });
    let again = submit(&mut broker, &ann, NewArray { task: named(TaskId([7; 16])), ..new_array(3) });
    assert_eq!((again.array, again.known), (ARRAY, true));
    broker.hush();
    let taken = Refusal::NameTaken { name: "sums".into(), task: ARRAY };
    let other = NewArray { task: named(TaskId([7; 16])), ..new_array(4) };
    assert_eq!(broker.refuses(&ann, Command::SubmitArray(Box::new(other))), taken);
    let plain = named(TaskId([7; 16]));
    assert_eq!(broker.refuses(&ann, Command::Submit(vec![plain])), taken);
    let Ok(Answer::Array(info)) = broker.ask(&Query::FindArray { name: "sums".into() }) else {
        panic!("it is found by its name")
    };
    assert_eq!(info.id, ARRAY);
}

#[test]
fn what_makes_no_sense_is_refused_and_creates_no_element() {
    let mut broker = Broker::with(Settings { tasks_max: 10, ..Settings::default() });
    let ann = broker.client("ann");
    let far = NewArray { first: u32::MAX, ..new_array(2) };
    let taken = NewTask::new(element(4), "q");
    broker.submit_task(&ann, taken);
    broker.hush();
    for (new, code) in [
        (new_array(0), "bad-value"),
        (new_array(1_000_001), "too-many"),
        (new_array(4).with_bodies(3), "bad-value"),
        (NewArray { step: 0, ..new_array(2) }, "bad-value"),
        (far, "bad-value"),
        (new_array(5), "id-taken"),
        (NewArray { task: NewTask::new(TaskId([7; 16]), "q"), ..new_array(10) }, "full"),
        (NewArray { task: NewTask::new(TaskId([0xff; 16]), "q"), ..new_array(2) }, "bad-value"),
    ] {
        let refusal = broker.refuses(&ann, Command::SubmitArray(Box::new(new)));
        assert_eq!(refusal.code(), code, "{refusal}");
    }
    submit(&mut broker, &ann, new_array(4));
    broker.hush();
    let refusal = broker.refuses(&ann, Command::Submit(vec![NewTask::new(element(2), "q")]));
    assert_eq!(refusal.code(), "id-taken");
    let eve = broker.peer("elsewhere", "eve");
    let refusal = broker.refuses(&eve, Command::Cancel { task: ARRAY, reason: None });
    assert_eq!(refusal.code(), "unknown-task");
}

trait WithBodies {
    fn with_bodies(self, count: u32) -> Self;
}

impl WithBodies for NewArray {
    fn with_bodies(mut self, count: u32) -> NewArray {
        self.bodies = (1..=count).map(|at| Blob::new(u64::from(at), 1)).collect();
        self
    }
}

#[test]
fn the_counts_survive_a_restart_and_retention() {
    let settings = Settings { ended_kept: 2, ended_kept_for: SECOND * 60, ..Settings::default() };
    let mut broker = Broker::with(settings);
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 10);
    submit(&mut broker, &ann, NewArray { limit: Some(9), ..new_array(8) });
    for place in 0..3 {
        broker.complete(&worker, element(place));
    }
    broker.fail(&worker, element(3));
    broker.does(&ann, Command::LimitArray { array: ARRAY, limit: Some(8) });
    broker.fail(&worker, element(4));
    let counts =
        |broker: &Broker| [StateName::Completed, StateName::Failed].map(|state| count(broker, state));
    assert_eq!(counts(&broker), [3, 2]);
    // Retention by age has no record, and the array's record counts what it removed.
    broker.wait(SECOND * 61);
    assert_eq!(broker.list(ListQuery { array: Some(ARRAY), ..ListQuery::default() }).len(), 3);
    for limit in [Some(7), None] {
        broker.does(&ann, Command::LimitArray { array: ARRAY, limit });
        let before = broker.now;
        compare(
            &broker.journal.restore(
                Settings { ended_kept: 2, ended_kept_for: SECOND * 60, ..Settings::default() },
                before,
            ),
            &broker.engine,
        );
        broker.restart_after(SECOND);
        assert_eq!(counts(&broker), [3, 2]);
    }
    broker.hush();
}

#[test]
fn lists_show_the_elements_in_order_or_leave_them_out() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let plain = broker.submit(&ann, "q");
    submit(&mut broker, &ann, new_array(5));
    broker.hush();
    let elements: Vec<TaskId> = (0..5).map(element).collect();
    let of_array = ListQuery { array: Some(ARRAY), limit: 2, ..ListQuery::default() };
    assert_eq!(broker.list(of_array.clone()), elements);
    broker.cancel(&ann, element(2));
    let cancelled = ListQuery { states: vec![StateName::Cancelled], ..of_array };
    assert_eq!(broker.list(cancelled), [element(2)]);
    assert_eq!(broker.list(ListQuery { without_elements: true, ..ListQuery::default() }), [plain]);
    broker.hush();
}

#[test]
fn a_watch_of_the_array_hears_of_its_elements() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    submit(&mut broker, &ann, new_array(2));
    broker.submit(&ann, "q");
    let events: Vec<Event> = broker
        .take_raw()
        .into_iter()
        .filter_map(|(said, _)| if let Said::Event(event) = said { Some(event) } else { None })
        .collect();
    let of_array = EventFilter { task: Some(ARRAY), ..EventFilter::default() };
    assert_eq!(events.iter().filter(|event| of_array.matches(event)).count(), 3);
    let of_queue =
        EventFilter { queue: Some("q".into()), submitter: Some("ann".into()), ..EventFilter::default() };
    assert_eq!(events.iter().filter(|event| of_queue.matches(event)).count(), 4);
}

#[test]
fn a_running_task_waits_for_an_array_and_continues_when_the_last_element_has_ended() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let parent = broker.submit(&ann, "q");
    broker.start(&worker, parent);
    let child = NewTask { parent: Some(parent), ..NewTask::new(ARRAY, "q") };
    submit(&mut broker, &ann, NewArray { task: child, ..new_array(2) });
    let on = WaitOn::Tasks(vec![ARRAY]);
    broker.does(&worker, Command::Suspend { held: broker.held(parent), on: on.clone() });
    assert_eq!(broker.state(parent), StateName::Suspended);
    let Why::Suspended { open: 1, some } = broker.explain(parent) else { panic!("it waits for one array") };
    assert_eq!((some[0].task, some[0].state), (ARRAY, StateName::Assigned));
    broker.complete(&worker, element(0));
    compare(&broker.journal.restore(Settings::default(), broker.now), &broker.engine);
    broker.hush();
    broker.fail(&worker, element(1));
    let heard = broker.take_said();
    let told = heard.iter().position(|line| line.starts_with("-> w: continue #1/1:")).expect("it continues");
    assert!(heard[told].ends_with("failed"), "{heard:?}");
    assert_eq!(broker.state(parent), StateName::Running);
    // Said again, it continues at once.
    broker.does(&worker, Command::Suspend { held: broker.held(parent), on });
    assert_eq!(broker.state(parent), StateName::Running);
    broker.complete(&worker, parent);
    broker.hush();
}

#[test]
fn no_task_waits_for_its_own_array_or_for_one_that_waits_for_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    submit(&mut broker, &ann, new_array(2));
    broker.start(&worker, element(1));
    let on = WaitOn::Tasks(vec![ARRAY]);
    let refusal = broker.refuses(&worker, Command::Suspend { held: broker.held(element(1)), on });
    assert_eq!(refusal.code(), "bad-value");
    let later = ArrayTerms { id: TaskId([7; 16]), first: 0, step: 1 };
    let after = vec![After { task: AfterTask::Id(element(1)), condition: Condition::Ended }];
    let task = NewTask { after, ..NewTask::new(later.id, "q") };
    submit(&mut broker, &ann, NewArray { task, ..new_array(2) });
    let on = WaitOn::Tasks(vec![later.id]);
    let refusal = broker.refuses(&worker, Command::Suspend { held: broker.held(element(1)), on });
    assert_eq!(refusal.code(), "bad-value");
    broker.hush();
}

#[test]
fn a_suspended_element_makes_room_in_its_array_and_waits_for_room_to_continue() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 3);
    submit(&mut broker, &ann, NewArray { limit: Some(1), ..new_array(3) });
    broker.start(&worker, element(0));
    let other = broker.submit(&ann, "q");
    let on = WaitOn::Tasks(vec![other]);
    broker.does(&worker, Command::Suspend { held: broker.held(element(0)), on });
    assert_eq!([0, 1, 2].map(|place| broker.state(element(place))), {
        [StateName::Suspended, StateName::Assigned, StateName::Ready]
    });
    assert_eq!(count(&broker, StateName::Suspended), 1);
    broker.complete(&worker, other);
    assert_eq!(broker.explain(element(0)), Why::ArrayLimit { array: ARRAY, limit: 1, in_use: 1 });
    broker.complete(&worker, element(1));
    assert_eq!([0, 2].map(|place| broker.state(element(place))), [StateName::Running, StateName::Ready]);
    broker.hush();
}

#[test]
fn each_element_occupies_what_the_array_asks_for() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 5);
    let demand = Demand { slots: 2, resources: Vec::new() };
    let task = NewTask { demand, ..NewTask::new(ARRAY, "q") };
    submit(&mut broker, &ann, NewArray { task, ..new_array(3) });
    assert_eq!([StateName::Assigned, StateName::Ready].map(|state| count(&broker, state)), [2, 1]);
    assert_eq!(broker.worker_info("w").slots_used, 4);
    broker.complete(&worker, element(0));
    assert_eq!(broker.state(element(2)), StateName::Assigned);
    broker.hush();
}
