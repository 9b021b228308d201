//! Workers: handlers of every kind, and what reaches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_client::{
    After, Code, Context, Error, Failure, Finish, Interrupt, OnLost, Outcome, StateName, StopWhy, Submission,
    TaskId,
};
use tokio::sync::mpsc;

use crate::broker::{Broker, LONG, until};

async fn submit(client: &tenure_client::Client, body: &'static str) -> TaskId {
    client.submit(Submission::to("images").body(body)).await.unwrap().task
}

/// A handler begins before the broker hears of it, and what the broker takes for not begun it stops without asking.
async fn until_all_run(client: &tenure_client::Client, tasks: &[TaskId]) {
    for task in tasks {
        until("the broker knows that it runs", async || {
            client.show(*task).await.unwrap().state == StateName::Running
        })
        .await;
    }
}

#[tokio::test]
async fn handlers_get_their_task_and_give_its_result() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = async |context: Context| {
        assert_eq!((context.attempt(), &**context.queue(), context.priority()), (1, "images", 3));
        assert_eq!(
            (context.submitter().unwrap().as_ref(), context.name().unwrap().as_ref()),
            ("ada", "scan-7")
        );
        Outcome::complete(format!("{}!", String::from_utf8_lossy(context.body())))
    };
    let worker = broker.worker("w1").handle(handler).start().await.unwrap();
    let task =
        client.submit(Submission::to("images").body("scan 7").name("scan-7").priority(3)).await.unwrap().task;
    let ended = client.wait(task).await.unwrap();
    assert_eq!(
        (ended.state, ended.exit_code, ended.worker.as_deref()),
        (StateName::Completed, 0, Some("w1"))
    );
    assert_eq!(ended.result.unwrap(), "scan 7!");
    until("the report is answered", async || worker.stats().completed == 1).await;
    assert!(worker.is_connected());
}

#[tokio::test]
async fn failures_are_retried_until_they_are_final_and_a_panic_is_a_failure() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = async |context: Context| match &context.body()[..] {
        b"third time" if context.attempt() < 3 => Err(Failure::new(5, "not yet")),
        b"hopeless" => Err(Failure::new(7, "no such scan").last().result("partial")),
        b"panic" => panic!("out of ink"),
        b"question mark" => {
            "x".parse::<u32>()?;
            Ok("unreachable")
        }
        _ => Ok("done"),
    };
    let _worker = broker.worker("w1").slots(4).handle(handler).start().await.unwrap();
    let retried = |body: &'static str| {
        Submission::to("images")
            .body(body)
            .retries(5)
            .backoff(Duration::from_millis(1), Duration::from_millis(2))
    };
    let third = client.submit(retried("third time")).await.unwrap().task;
    let hopeless = client.submit(retried("hopeless")).await.unwrap().task;
    let panic = submit(&client, "panic").await;
    let question = submit(&client, "question mark").await;

    let ended = client.wait(third).await.unwrap();
    assert_eq!((ended.state, ended.result.unwrap()), (StateName::Completed, "done".into()));
    assert_eq!(client.show(third).await.unwrap().failures, 2);
    let ended = client.wait(hopeless).await.unwrap();
    assert_eq!((ended.exit_code, ended.message.as_deref()), (7, Some("no such scan")));
    assert_eq!((ended.result.unwrap(), client.show(hopeless).await.unwrap().attempt), ("partial".into(), 1));
    let ended = client.wait(panic).await.unwrap();
    assert_eq!((ended.exit_code, ended.message.as_deref()), (101, Some("the handler panicked: out of ink")));
    let ended = client.wait(question).await.unwrap();
    assert_eq!((ended.exit_code, ended.message.as_deref()), (1, Some("invalid digit found in string")));
}

#[tokio::test]
async fn a_cancellation_and_a_pause_reach_the_handler_and_are_confirmed() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = async |context: Context| match context.interrupted().await {
        Interrupt::Cancel { reason } => {
            Outcome::cancelled(format!("cancelled: {}", reason.unwrap_or_default()))
        }
        Interrupt::Pause { .. } => Outcome::paused("as far as it got"),
        Interrupt::Leaving | Interrupt::Stop { .. } => Outcome::give_back("leaving"),
    };
    let worker = broker.worker("w1").slots(2).handle(handler).start().await.unwrap();
    let (one, two) = (submit(&client, "one").await, submit(&client, "two").await);
    until_all_run(&client, &[one, two]).await;
    client.cancel(one, Some("wrong scan")).await.unwrap();
    client.pause(two, None).await.unwrap();
    let ended = client.wait(one).await.unwrap();
    assert_eq!((ended.state, ended.exit_code), (StateName::Cancelled, -1));
    until("the pause is confirmed", async || client.show(two).await.unwrap().state == StateName::Paused)
        .await;
    until("both are counted", async || (worker.stats().cancelled, worker.stats().paused) == (1, 1)).await;
    client.resume(two).await.unwrap();
    until("it runs again", async || worker.stats().started == 3).await;
    assert_eq!(client.show(two).await.unwrap().attempt, 2);
}

#[tokio::test]
async fn a_handler_that_blocks_the_whole_runtime_does_not_stop_the_heartbeats() {
    let broker = Broker::start();
    let client = broker.client().await;
    let address = broker.address();
    // The worker's program has one thread, and its handler blocks it.
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let worker = tenure_client::Worker::builder(&address)
                .id("w1")
                .queues(["images"])
                .heartbeat(Duration::from_millis(50))
                .lost_after(Duration::from_millis(400))
                .lease(Duration::from_millis(400))
                .handle(async |_| {
                    std::thread::sleep(Duration::from_millis(1_500));
                    "slept"
                });
            worker.start().await.unwrap().ended().await.unwrap()
        })
    });
    let task = submit(&client, "").await;
    let ended = client.wait(task).await.unwrap();
    assert_eq!((ended.state, ended.result.unwrap()), (StateName::Completed, "slept".into()));
    let shown = client.show(task).await.unwrap();
    assert_eq!((shown.attempt, shown.crashes), (1, 0));
    client.drain_worker("w1").await.unwrap();
    assert_eq!(program.join().unwrap().completed, 1);
}

#[tokio::test]
async fn blocking_handlers_run_side_by_side_and_can_be_interrupted() {
    let broker = Broker::start();
    let client = broker.client().await;
    let together = Arc::new(std::sync::Barrier::new(3));
    let handler = move |context: Context| {
        together.wait();
        match context.wait_interrupted(LONG) {
            Some(Interrupt::Cancel { .. }) => Outcome::cancelled(""),
            other => Outcome::fail(Failure::new(3, format!("{other:?}"))),
        }
    };
    let worker = broker.worker("w1").slots(3).handle_blocking(handler).start().await.unwrap();
    let tasks = [submit(&client, "1").await, submit(&client, "2").await, submit(&client, "3").await];
    until_all_run(&client, &tasks).await;
    for task in tasks {
        client.cancel(task, None).await.unwrap();
        assert_eq!(client.wait(task).await.unwrap().state, StateName::Cancelled);
    }
    until("all are counted", async || worker.stats().cancelled == 3).await;
}

#[tokio::test]
async fn progress_is_seen_while_the_task_runs() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = async |context: Context| {
        for percent in 0..=40 {
            context.progress(Some(percent), "scanning");
        }
        context.interrupted().await;
        Outcome::cancelled("")
    };
    let _worker = broker.worker("w1").handle(handler).start().await.unwrap();
    let task = submit(&client, "").await;
    until("the broker shows the progress", async || {
        let shown = client.show(task).await.unwrap();
        let progress = shown.holding.and_then(|holding| holding.progress);
        progress.is_some_and(|progress| {
            progress.percent == Some(40) && progress.note.as_deref() == Some("scanning")
        })
    })
    .await;
    client.cancel(task, None).await.unwrap();
    client.wait(task).await.unwrap();
}

#[tokio::test]
async fn a_given_back_task_goes_to_another_worker() {
    let broker = Broker::start();
    let client = broker.client().await;
    let unwilling = broker.worker("w1").handle(async |_| Outcome::give_back("not me")).start().await.unwrap();
    let task = submit(&client, "").await;
    until("it is given back", async || unwilling.stats().given_back > 0).await;
    unwilling.drain();
    unwilling.ended().await.unwrap();
    let _willing = broker.worker("w2").handle(async |_| "done").start().await.unwrap();
    assert_eq!(client.wait(task).await.unwrap().worker.as_deref(), Some("w2"));
}

#[tokio::test]
async fn a_draining_worker_finishes_what_it_has_and_takes_nothing_new() {
    let broker = Broker::start();
    let client = broker.client().await;
    let (finish, finished) = mpsc::channel::<()>(4);
    let finished = Arc::new(tokio::sync::Mutex::new(finished));
    let handler = move |_| {
        let finished = Arc::clone(&finished);
        async move {
            finished.lock().await.recv().await;
            "done"
        }
    };
    let worker = broker.worker("w1").slots(2).handle(handler).start().await.unwrap();
    let first = submit(&client, "").await;
    until("it runs", async || worker.stats().started == 1).await;
    worker.drain();
    until("the broker knows", async || client.workers().await.unwrap()[0].draining).await;
    let second = submit(&client, "").await;
    finish.send(()).await.unwrap();
    let stats = tokio::time::timeout(LONG, worker.ended()).await.unwrap().unwrap();
    assert_eq!((stats.started, stats.completed, stats.held), (1, 1, 0));
    assert_eq!(client.wait(first).await.unwrap().state, StateName::Completed);
    assert_eq!(client.show(second).await.unwrap().state, StateName::Ready);
}

#[tokio::test]
async fn a_stopping_worker_hurries_its_handlers_and_leaves_without_those_that_do_not_end() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = async |context: Context| match &context.body()[..] {
        b"polite" => {
            assert_eq!(context.interrupted().await, Interrupt::Leaving);
            Outcome::give_back("leaving")
        }
        _ => std::future::pending().await,
    };
    let worker = broker
        .worker("w1")
        .slots(2)
        .stop_grace(Duration::from_millis(300))
        .handle(handler)
        .start()
        .await
        .unwrap();
    let polite = submit(&client, "polite").await;
    let stubborn = client.submit(Submission::to("images").on_lost(OnLost::Fail)).await.unwrap().task;
    until("both run", async || worker.stats().started == 2).await;
    worker.stop();
    let stats = tokio::time::timeout(LONG, worker.ended()).await.unwrap().unwrap();
    assert_eq!(stats.given_back, 1);
    assert_eq!(client.show(polite).await.unwrap().state, StateName::Ready);
    assert_eq!(client.wait(stubborn).await.unwrap().state, StateName::Failed);
}

#[tokio::test]
async fn an_attempt_that_is_over_must_stop_and_is_dropped_if_it_does_not() {
    let broker = Broker::start();
    let client = broker.client().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |context: Context| {
        let tell = tell.clone();
        async move {
            if context.attempt() == 1 {
                tell.send(context.interrupted().await).unwrap();
                // It hears, and does not care.
                std::future::pending::<()>().await;
            }
        }
    };
    let _worker =
        broker.worker("w1").stop_grace(Duration::from_millis(100)).handle(handler).start().await.unwrap();
    let limited = Submission::to("images").run_limit(Duration::from_millis(200));
    let task = client.submit(limited).await.unwrap().task;
    let interrupt = tokio::time::timeout(LONG, told.recv()).await.unwrap().unwrap();
    assert_eq!(interrupt, Interrupt::Stop { why: StopWhy::RunLimit });
    // The one slot becomes free again only because the handler is dropped.
    let ended = tokio::time::timeout(LONG, client.wait(task)).await.unwrap().unwrap();
    assert_eq!((ended.state, client.show(task).await.unwrap().attempt), (StateName::Completed, 2));
}

#[tokio::test]
async fn two_workers_cannot_share_a_name() {
    let broker = Broker::start();
    let _first = broker.worker("w1").handle(async |_| ()).start().await.unwrap();
    let second = broker.worker("w1").handle(async |_| ()).start().await.unwrap_err();
    assert!(second.is(&Code::WorkerTaken), "{second}");
    let without = broker.worker("w2").start().await.unwrap_err();
    assert!(matches!(without, Error::BadSetting { .. }), "{without}");
    let without_queues = broker.worker("w3").queues([""; 0]).handle(async |_| ()).start().await.unwrap_err();
    assert!(without_queues.is(&Code::BadValue), "{without_queues}");
}

#[tokio::test]
async fn thousands_of_tasks_flow_through_a_few_slots_and_each_runs_once() {
    let broker = Broker::start();
    let client = broker.client().await;
    let runs = Arc::new(AtomicU32::new(0));
    let handler = {
        let runs = Arc::clone(&runs);
        move |context: Context| {
            runs.fetch_add(1, Ordering::Relaxed);
            async move { context.body().clone() }
        }
    };
    let workers = [
        broker.worker("w1").slots(16).handle(handler.clone()).start().await.unwrap(),
        broker.worker("w2").slots(16).handle(handler).start().await.unwrap(),
    ];
    let many = (0..5_000_u32).map(|number| Submission::to("images").body(number.to_be_bytes().to_vec()));
    let submitted = client.submit_many(many).await.unwrap();
    let tasks: Vec<TaskId> = submitted.into_iter().map(|verdict| verdict.unwrap().task).collect();
    let waited = client.wait_all(&tasks, Some(LONG)).await.unwrap();
    assert_eq!((waited.ended.len(), waited.pending.len()), (5_000, 0));
    assert_eq!(runs.load(Ordering::Relaxed), 5_000);
    until("all reports are answered", async || {
        workers.iter().map(|worker| worker.stats().completed).sum::<u64>() == 5_000
    })
    .await;
    assert_eq!(client.result(tasks[4_321]).await.unwrap(), 4_321_u32.to_be_bytes().as_slice());
}

#[tokio::test]
async fn a_worker_drains_when_the_process_gets_sigterm() {
    let broker = Broker::start();
    let client = broker.client().await;
    let handler = async |_| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "finished first"
    };
    let worker = broker.worker("w1").drain_on_sigterm(true).handle(handler).start().await.unwrap();
    let task = submit(&client, "").await;
    until("it runs", async || worker.stats().started == 1).await;
    let process = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    let stats = tokio::time::timeout(LONG, worker.ended()).await.unwrap().unwrap();
    assert_eq!(stats.completed, 1);
    assert_eq!(client.wait(task).await.unwrap().result.unwrap(), "finished first");
}

#[tokio::test]
async fn a_program_without_a_runtime_works_until_it_is_drained() {
    let broker = Broker::start();
    let client = broker.client().await;
    let worker = broker.worker("w1").handle_blocking(|context: Context| context.body().len().to_string());
    let program = std::thread::spawn(|| worker.run_blocking());
    let task = submit(&client, "twelve bytes").await;
    assert_eq!(client.wait(task).await.unwrap().result.unwrap(), "12");
    client.drain_worker("w1").await.unwrap();
    until("the program has ended", async || program.is_finished()).await;
    assert_eq!(program.join().unwrap().unwrap().completed, 1);
}

#[tokio::test]
async fn large_results_that_are_ready_together_do_not_burst_a_frame() {
    let broker = Broker::start();
    let client = broker.client().await;
    let together = Arc::new(tokio::sync::Barrier::new(3));
    let handler = move |context: Context| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            let bytes: usize = std::str::from_utf8(context.body()).unwrap().parse().unwrap();
            vec![7_u8; bytes]
        }
    };
    let worker = broker.worker("w1").slots(3).handle(handler).start().await.unwrap();
    let tasks = [
        submit(&client, "3000000").await,
        submit(&client, "16777216").await,
        submit(&client, "16777217").await,
    ];
    let waited = client.wait_all(&tasks, Some(LONG)).await.unwrap();
    let ended = |task: TaskId| waited.ended.iter().find(|ended| ended.task == task).unwrap();
    assert_eq!((ended(tasks[0]).exit_code, ended(tasks[0]).result_bytes), (0, 3_000_000));
    assert_eq!((ended(tasks[1]).exit_code, ended(tasks[1]).result_bytes), (0, 16_777_216));
    let too_large = ended(tasks[2]).message.as_deref().unwrap();
    assert!(too_large.contains("16777217 bytes"), "{too_large}");
    assert_eq!(worker.stats().reconnects, 0);
}

#[tokio::test]
async fn a_task_that_is_handed_over_ends_when_another_runtime_says_so() {
    let broker = Broker::start();
    let client = broker.client().await;
    let (tell, mut handed_over) = mpsc::unbounded_channel::<(Context, Finish)>();
    let worker = broker.worker("w1").slots(3).hand_over(move |context, finish| {
        tell.send((context, finish)).unwrap();
    });
    let worker = worker.start().await.unwrap();
    let done = submit(&client, "done").await;
    let (context, finish) = handed_over.recv().await.unwrap();
    assert_eq!(context.task(), done);
    // Any thread may say it.
    std::thread::spawn(move || finish.with(Outcome::complete("result"))).join().unwrap();
    assert_eq!(client.wait(done).await.unwrap().result.unwrap(), "result");

    let cancelled = submit(&client, "cancelled").await;
    let (context, finish) = handed_over.recv().await.unwrap();
    until_all_run(&client, &[cancelled]).await;
    let (tell_interrupt, mut interrupts) = mpsc::unbounded_channel();
    context.on_interrupt(move |interrupt| tell_interrupt.send(interrupt.clone()).unwrap());
    client.cancel(cancelled, Some("wrong scan")).await.unwrap();
    let interrupt = tokio::time::timeout(LONG, interrupts.recv()).await.unwrap().unwrap();
    assert_eq!(interrupt, Interrupt::Cancel { reason: Some("wrong scan".into()) });
    finish.with(Outcome::cancelled(""));
    assert_eq!(client.wait(cancelled).await.unwrap().state, StateName::Cancelled);

    // Who loses the task has crashed with it.
    let lost =
        client.submit(Submission::to("images").crash_budget(1).on_lost(OnLost::Fail)).await.unwrap().task;
    drop(handed_over.recv().await.unwrap());
    let ended = client.wait(lost).await.unwrap();
    assert_eq!(ended.state, StateName::Failed);
    assert!(ended.message.unwrap().contains("dropped before it ended"));
    worker.drain();
    worker.ended().await.unwrap();
}

#[tokio::test]
async fn every_waiting_client_gets_the_result_of_its_own_task() {
    let broker = Broker::start();
    let client = broker.client().await;
    let echo = async |context: Context| context.body().to_vec();
    let _worker = broker.worker("w1").slots(32).handle(echo).start().await.unwrap();
    // Tasks end while they are asked about, so that some ends are heard of twice.
    for round in 0..20 {
        let submissions =
            (0..500).map(|number: u32| Submission::to("images").body(format!("{round}-{number}")));
        let accepted = client.submit_many(submissions).await.unwrap();
        let tasks: Vec<TaskId> = accepted.into_iter().map(|accepted| accepted.unwrap().task).collect();
        let waited = client.wait_all_results(&tasks, Some(LONG)).await.unwrap();
        assert!(waited.pending.is_empty());
        for ended in waited.ended {
            let number = tasks.iter().position(|task| *task == ended.task).unwrap();
            assert_eq!(ended.result.unwrap(), format!("{round}-{number}"));
        }
    }
}

#[tokio::test]
async fn a_task_runs_after_others_and_finds_their_results() {
    let broker = Broker::start();
    let client = broker.client().await;
    let fetching = client.clone();
    let handler = move |context: Context| {
        let client = fetching.clone();
        async move {
            let mut parts = vec![String::from_utf8_lossy(context.body()).into_owned()];
            for dependency in context.after() {
                let result = client.result(dependency.task).await?;
                parts.push(String::from_utf8_lossy(&result).into_owned());
            }
            Ok::<_, Failure>(parts.join("+"))
        }
    };
    let _worker = broker.worker("w1").slots(2).handle(handler).start().await.unwrap();
    let task = |body: &'static str| Submission::to("images").body(body);
    let submissions = [
        task("a").name("first"),
        task("b"),
        task("c").after("first").after(After::index(1)),
        task("d").after(After::index(2)).after(After::index(9)),
        task("e").after(After::index(2).failed()),
    ];
    let mut verdicts = client.submit_many(submissions).await.unwrap();
    assert!(verdicts.remove(3).unwrap_err().message.contains("before this one"));
    let tasks: Vec<TaskId> = verdicts.into_iter().map(|verdict| verdict.unwrap().task).collect();
    let joined = client.wait(tasks[2]).await.unwrap();
    assert_eq!(joined.result.unwrap(), "c+a+b");
    let broken = client.wait(tasks[3]).await.unwrap();
    assert_eq!(broken.state, StateName::Cancelled);
    assert!(broken.message.unwrap().contains("ended as completed"));
}
