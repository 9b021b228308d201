//! Waiting: a handler waits for other tasks, and its attempt takes no slot meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_client::{Client, Code, Context, Error, Interrupt, Outcome, StateName, Submission, TaskId};
use tokio::sync::mpsc;

use crate::broker::{Broker, LONG, until};

async fn ended(client: &Client, task: TaskId) -> StateName {
    tokio::time::timeout(LONG, client.wait(task)).await.expect("it ends").unwrap().state
}

/// A workflow: at each level above the last it submits a child and waits for it.
async fn nested(client: Client, context: Context) -> Result<String, Error> {
    let depth: u32 = String::from_utf8_lossy(context.body()).parse().expect("a number");
    if depth == 0 {
        return Ok("leaf".to_owned());
    }
    let child = Submission::to("images").body(format!("{}", depth - 1)).parent(context.task());
    let child = client.submit(child).await?.task;
    let ends = context.wait_for(&[child]).await?;
    assert_eq!((ends[0].task, &ends[0].state), (child, &StateName::Completed));
    let below = client.result(child).await?;
    Ok(format!("{depth} over {}", String::from_utf8_lossy(&below)))
}

#[tokio::test]
async fn three_nested_workflows_finish_on_one_worker_with_two_slots() {
    let broker = Broker::start();
    let client = broker.client().await;
    let for_handlers = client.clone();
    let handler = move |context: Context| nested(for_handlers.clone(), context);
    let _worker = broker.worker("w").slots(2).handle(handler).start().await.unwrap();
    let workflows = client.submit_many((0..3).map(|_| Submission::to("images").body("4"))).await.unwrap();
    for workflow in workflows {
        let task = workflow.unwrap().task;
        assert_eq!(ended(&client, task).await, StateName::Completed);
        assert_eq!(client.result(task).await.unwrap(), "4 over 3 over 2 over 1 over leaf");
        assert_eq!(client.show(task).await.unwrap().attempt, 1);
    }
}

#[tokio::test]
async fn at_most_as_many_handlers_work_as_there_are_slots() {
    let broker = Broker::start();
    let client = broker.client().await;
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (for_handlers, counts) = (client.clone(), (Arc::clone(&working), Arc::clone(&most)));
    let handler = move |context: Context| {
        let (client, (working, most)) = (for_handlers.clone(), counts.clone());
        async move {
            let begin = || {
                let now = working.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
            };
            begin();
            tokio::time::sleep(Duration::from_millis(5)).await;
            if context.parent().is_none() {
                let children = (0..5).map(|_| Submission::to("images").parent(context.task()));
                client.submit_many(children).await?;
                working.fetch_sub(1, Ordering::SeqCst);
                let ends = context.wait_for_children().await?;
                begin();
                assert_eq!(ends.len(), 5);
            }
            working.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), Error>(())
        }
    };
    let _worker = broker.worker("w").slots(2).handle(handler).start().await.unwrap();
    let parents = client.submit_many((0..4).map(|_| Submission::to("images"))).await.unwrap();
    for parent in parents {
        assert_eq!(ended(&client, parent.unwrap().task).await, StateName::Completed);
    }
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 2, "{most} handlers worked at once");
}

#[tokio::test]
async fn a_blocking_handler_waits_like_any_other() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = |context: Context| match context.name() {
        Some(_) => Ok::<_, Error>("second".to_owned()),
        None => {
            let first: TaskId = String::from_utf8_lossy(context.body()).parse().expect("an id");
            let ends = context.wait_for(&[first]).wait()?;
            Ok(format!("{}", ends[0].state))
        }
    };
    let held = client.submit(Submission::to("images").name("first").hold(true)).await.unwrap().task;
    let _worker = broker.worker("w").slots(1).handle_blocking(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images").body(held.to_string())).await.unwrap().task;
    until("it waits", async || client.show(task).await.unwrap().state == StateName::Suspended).await;
    let shown = client.show(task).await.unwrap();
    assert_eq!((shown.open, shown.holding.is_some()), (Some(1), true));
    assert_eq!(client.explain(task).await.unwrap().code.as_str(), "suspended");
    client.release(held).await.unwrap();
    assert_eq!(ended(&client, task).await, StateName::Completed);
    assert_eq!(client.result(task).await.unwrap(), "completed");
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_refused_and_the_attempt_goes_on() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = |context: Context| async move {
        let itself = context.wait_for(&[context.task()]).await.unwrap_err();
        let unknown = context.wait_for(&[TaskId::default()]).await.unwrap_err();
        assert!(itself.is(&Code::BadValue) && unknown.is(&Code::UnknownTask), "{itself} {unknown}");
        assert!(context.wait_for_children().await.unwrap().is_empty());
        Outcome::complete("on it goes")
    };
    let _worker = broker.worker("w").handle(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    assert_eq!(ended(&client, task).await, StateName::Completed);
}

#[tokio::test]
async fn a_cancelled_handler_stops_waiting() {
    let broker = Broker::start();
    let client = broker.client().await;
    let other = client.submit(Submission::to("images").hold(true)).await.unwrap().task;
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |context: Context| {
        let tell = tell.clone();
        async move {
            let waited = context.wait_for(&[other]).await;
            tell.send(format!("{waited:?}")).unwrap();
            waited.map(drop)
        }
    };
    let _worker = broker.worker("w").handle(handler).start().await.unwrap();
    for (verb, state) in [("pause", StateName::Paused), ("cancel", StateName::Cancelled)] {
        let task = client.submit(Submission::to("images")).await.unwrap().task;
        until("it waits", async || client.show(task).await.unwrap().state == StateName::Suspended).await;
        if verb == "pause" {
            client.pause(task, None).await.unwrap();
        } else {
            client.cancel(task, None).await.unwrap();
        }
        until("it is so", async || client.show(task).await.unwrap().state == state).await;
        assert!(told.recv().await.unwrap().contains("Interrupted"));
    }
}

#[tokio::test]
async fn a_handler_that_gives_up_waiting_gets_its_slot_back() {
    let broker = Broker::start();
    let client = broker.client().await;
    let other = client.submit(Submission::to("images").hold(true)).await.unwrap().task;
    let handler = move |context: Context| async move {
        let waited = tokio::time::timeout(Duration::from_millis(50), context.wait_for(&[other])).await;
        assert!(waited.is_err(), "nothing has ended");
        assert!(context.wait_for_children().await.unwrap().is_empty());
        Outcome::complete("without it")
    };
    let _worker = broker.worker("w").handle(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    assert_eq!(ended(&client, task).await, StateName::Completed);
    assert_eq!(client.show(other).await.unwrap().state, StateName::Created);
}

#[tokio::test]
async fn a_broker_that_dies_meanwhile_disturbs_nothing() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let other = client.submit(Submission::to("images").name("other").hold(true)).await.unwrap().task;
    let handler = move |context: Context| async move {
        if context.name().is_none() {
            let ends = context.wait_for(&[other]).await?;
            assert_eq!(ends[0].state, StateName::Completed);
        }
        Ok::<(), Error>(())
    };
    let _worker = broker.worker("w").slots(1).handle(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    until("it waits", async || client.show(task).await.unwrap().state == StateName::Suspended).await;
    broker.kill();
    broker.start_again();
    let client = broker.client().await;
    assert_eq!(client.show(task).await.unwrap().state, StateName::Suspended);
    client.release(other).await.unwrap();
    assert_eq!(ended(&client, task).await, StateName::Completed);
    assert_eq!(client.show(task).await.unwrap().attempt, 1);
}

#[tokio::test]
async fn a_worker_that_leaves_gives_back_what_waits() {
    let broker = Broker::start();
    let client = broker.client().await;
    let other = client.submit(Submission::to("images").hold(true)).await.unwrap().task;
    let handler = move |context: Context| async move {
        match context.wait_for(&[other]).await {
            Err(Error::Interrupted { interrupt: Interrupt::Leaving }) => Outcome::give_back("it leaves"),
            other => panic!("{other:?}"),
        }
    };
    let worker = broker.worker("w").handle(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    until("it waits", async || client.show(task).await.unwrap().state == StateName::Suspended).await;
    worker.stop();
    until("it waits on", async || client.show(task).await.unwrap().state == StateName::Waiting).await;
    client.cancel(other, None).await.unwrap();
    assert_eq!(client.show(task).await.unwrap().state, StateName::Ready);
}

#[tokio::test]
async fn a_handler_that_is_paused_while_it_waits_waits_again_when_it_is_resumed() {
    let broker = Broker::start();
    let client = broker.client().await;
    let other = client.submit(Submission::to("images").name("other").hold(true)).await.unwrap().task;
    let handler = move |context: Context| async move {
        while context.name().is_none() {
            tokio::select! {
                ends = context.wait_for(&[other]) => return ends.map(|ends| assert_eq!(ends[0].task, other)),
                () = context.stop_wanted() => drop(context.wait_for_resume().await?),
            }
        }
        Ok::<(), Error>(())
    };
    let _worker = broker.worker("w").slots(1).stops_in_place().handle(handler).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    let waits = async || {
        let shown = client.show(task).await.unwrap();
        shown.state == StateName::Suspended && shown.pause.is_none() && shown.open == Some(1)
    };
    until("it waits", waits).await;
    // Whatever the broker has answered to its first wait in the meantime does not resume it.
    for _ in 0..20 {
        client.pause(task, None).await.unwrap();
        until("it is paused", async || client.show(task).await.unwrap().pause.is_some()).await;
        assert_eq!(client.explain(task).await.unwrap().code, "paused".into());
        client.resume(task).await.unwrap();
        until("it waits again", waits).await;
    }
    client.release(other).await.unwrap();
    assert_eq!(ended(&client, task).await, StateName::Completed);
    assert_eq!(client.show(task).await.unwrap().attempt, 1);
}
