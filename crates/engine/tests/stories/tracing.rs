//! Traces: what a submission says about its trace reaches every worker, and survives a restart.

use tenure_engine::{NewTask, TraceContext};

use crate::broker::{Broker, SECOND};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn trace() -> Option<Box<TraceContext>> {
    TraceContext::parse(PARENT, Some("v=1")).ok().map(Box::new)
}

#[test]
fn a_task_keeps_its_trace_over_attempts_and_restarts() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = NewTask { trace: trace(), retries: 3, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    assert_eq!(broker.show(task).trace, trace());
    let worker = broker.worker("w", &["q"], 1);
    broker.fail(&worker, task);
    broker.restart_after(SECOND);
    assert_eq!(broker.show(task).trace, trace());
    broker.hush();
}

#[test]
fn the_same_name_is_the_same_task_whatever_its_trace() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let named =
        |broker: &mut Broker, trace| NewTask { name: Some("n".into()), trace, ..broker.new_task("q") };
    let first = named(&mut broker, trace());
    let first = broker.submit_and_see(&ann, first);
    let again = named(&mut broker, None);
    let again = broker.submit_and_see(&ann, again);
    assert!(again.known && again.task == first.task);
    assert_eq!(broker.show(first.task).trace, trace(), "the first submission counts");
    broker.hush();
}
