//! Every verb of a client, there and back.

use std::time::Duration;

use tenure_client::{
    Client, Code, Error, Move, OnLost, Outcome, Query, StateName, Submission, TaskId, Thresholds, Timestamp,
    WhyCode,
};
use tenure_hub::{Grant, Keys, Right, Rights};

use crate::broker::{Broker, LONG};

#[tokio::test]
async fn a_task_is_submitted_with_everything_that_can_be_said_about_it() {
    let broker = Broker::start();
    let client = broker.client().await;
    let parent = client.submit(Submission::to("images")).await.unwrap().task;
    let id = TaskId::new();
    let submission = Submission::to("images")
        .id(id)
        .body("scan 7")
        .name("scan-7")
        .priority(5)
        .needs(["gpu"])
        .tags(["lab", "licence"])
        .parent(parent)
        .not_before(Timestamp(1))
        .expires_in(Duration::from_secs(3600))
        .on_lost(OnLost::Pause)
        .crash_budget(1)
        .retries(2)
        .backoff(Duration::from_millis(10), Duration::from_millis(20))
        .accept_timeout(Duration::from_secs(9))
        .run_limit(Duration::from_secs(8));
    let accepted = client.submit(submission.clone()).await.unwrap();
    assert_eq!((accepted.task, accepted.known), (id, false));
    assert_eq!(accepted.unserved.unwrap().code, WhyCode::NoWorkerEver);
    let known = client.submit(submission.clone()).await.unwrap();
    assert_eq!((known.task, known.known), (id, true));
    let taken = client.submit(submission.body("another")).await.unwrap_err();
    assert!(taken.is(&Code::NameTaken), "{taken}");

    let task = client.show(id).await.unwrap();
    assert_eq!(task, client.find("scan-7").await.unwrap());
    assert_eq!(
        (task.state, task.priority, task.parent, task.body_bytes),
        (StateName::Ready, 5, Some(parent), 6)
    );
    let terms = task.terms;
    assert_eq!((terms.on_lost, terms.crash_budget, terms.retries), (OnLost::Pause, 1, 2));
    assert_eq!((terms.backoff_first_ms, terms.backoff_max_ms), (10, 20));
    assert_eq!((terms.accept_timeout_ms, terms.run_limit_ms), (Some(9_000), Some(8_000)));
    assert_eq!(terms.submitter.as_deref(), Some("ada"));
    assert_eq!(client.body(id).await.unwrap(), "scan 7");
}

#[tokio::test]
async fn many_tasks_travel_together_and_one_bad_one_does_not_spoil_them() {
    let broker = Broker::start();
    let client = broker.client().await;
    let many = (0..25_000).map(|number: u32| {
        Submission::to(if number == 7 { "" } else { "images" }).body(number.to_be_bytes().to_vec())
    });
    let verdicts = client.submit_many(many).await.unwrap();
    assert_eq!(verdicts.len(), 25_000);
    assert_eq!(verdicts[7].as_ref().unwrap_err().code, Code::BadName);
    let last = verdicts[24_999].as_ref().unwrap().task;
    assert_eq!(client.body(last).await.unwrap(), 24_999_u32.to_be_bytes().as_slice());
    assert_eq!(client.counts().await.unwrap().by_state.ready, 24_999);
}

#[tokio::test]
async fn a_task_is_steered_through_its_states() {
    let broker = Broker::start();
    let client = broker.client().await;
    let task = client.submit(Submission::to("images").hold(true)).await.unwrap().task;
    assert_eq!(client.explain(task).await.unwrap().code, WhyCode::Held);
    client.release(task).await.unwrap();
    client.move_task(task, Move::default().queue("mail").priority(9).tags(["gpu"])).await.unwrap();
    let moved = client.show(task).await.unwrap();
    assert_eq!((&*moved.terms.queue, moved.priority, &*moved.terms.tags[0]), ("mail", 9, "gpu"));
    client.pause(task, Some("lunch")).await.unwrap();
    assert_eq!(client.show(task).await.unwrap().state, StateName::Paused);
    client.resume(task).await.unwrap();
    client.cancel(task, Some("no longer needed")).await.unwrap();
    let ended = client.wait(task).await.unwrap();
    assert_eq!((ended.state, ended.exit_code), (StateName::Cancelled, -1));
    client.retry(task).await.unwrap();
    assert_eq!(client.show(task).await.unwrap().state, StateName::Ready);
    let refused = client.release(task).await.unwrap_err();
    assert!(refused.is(&Code::WrongState), "{refused}");
    let unknown = client.cancel(TaskId::new(), None).await.unwrap_err();
    assert!(unknown.is(&Code::UnknownTask), "{unknown}");
}

#[tokio::test]
async fn queues_workers_limits_and_figures_can_be_looked_at() {
    let broker = Broker::start();
    let client = broker.client().await;
    let worker = broker
        .worker("w1")
        .capabilities(["gpu"])
        .slots(3)
        .handle(async |_| Outcome::complete(""))
        .start()
        .await
        .unwrap();
    client.set_limit("licence", Some(2)).await.unwrap();
    let limits = client.limits().await.unwrap();
    assert_eq!((&*limits[0].tag, limits[0].limit), ("licence", Some(2)));
    client.set_limit("licence", None).await.unwrap();
    let thresholds = Thresholds { depth: Some(7), age_ms: Some(9_000) };
    client.set_thresholds("images", Some(thresholds)).await.unwrap();
    assert_eq!(client.queues().await.unwrap()[0].thresholds, Some(thresholds));
    client.set_thresholds("images", None).await.unwrap();
    assert_eq!(client.queues().await.unwrap()[0].thresholds, Some(Thresholds::default()));
    client.pause_queue("images").await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    assert_eq!(client.explain(task).await.unwrap().code, WhyCode::QueuePaused);
    assert!(client.queues().await.unwrap().iter().any(|queue| &*queue.queue == "images" && queue.paused));
    client.resume_queue("images").await.unwrap();
    assert_eq!(client.wait(task).await.unwrap().state, StateName::Completed);
    let workers = client.workers().await.unwrap();
    assert_eq!((&*workers[0].worker, workers[0].slots, &*workers[0].capabilities[0]), ("w1", 3, "gpu"));
    client.clear_worker("w1").await.unwrap();
    client.drain_worker("w1").await.unwrap();
    worker.ended().await.unwrap();
    assert!(!client.stats().await.unwrap().is_empty());
    assert!(client.ping().await.unwrap() > Timestamp(0));
    assert!(client.backup("copy").await.unwrap().bytes > 0);
    assert!(broker.directory().join("backups/copy/manifest").is_file());
    let refused = client.backup("/tmp/elsewhere").await.unwrap_err().to_string();
    assert!(refused.contains("backup_dir"), "{refused}");
}

#[tokio::test]
async fn a_listing_walks_through_all_pages() {
    let broker = Broker::start();
    let client = broker.client().await;
    let submitted = client.submit_many((0..250).map(|_| Submission::to("images"))).await.unwrap();
    let mut wanted: Vec<TaskId> = submitted.into_iter().map(|verdict| verdict.unwrap().task).collect();
    client.submit(Submission::to("mail")).await.unwrap();
    let mut listing = client.list(Query::default().queue("images").states([StateName::Ready]).page(100));
    let mut listed = Vec::new();
    while let Some(task) = listing.next().await {
        listed.push(task.unwrap().id);
    }
    listed.sort();
    wanted.sort();
    assert_eq!(listed, wanted);
    let mut pages = client.list(Query::default().page(100));
    let mut count = 0;
    while let Some(page) = pages.next_page().await.unwrap() {
        assert!(page.len() <= 100);
        count += page.len();
    }
    assert_eq!(count, 251);
    let mut bad = client.list(Query::default().states(["asleep".into()]));
    assert!(bad.next().await.unwrap().unwrap_err().is(&Code::BadValue));
    assert!(bad.next().await.is_none());
}

#[tokio::test]
async fn waiting_ends_with_the_task_or_with_the_time() {
    let broker = Broker::start();
    let client = broker.client().await;
    let large = vec![7_u8; 3 << 20];
    let result = large.clone();
    let _worker = broker
        .worker("w1")
        .slots(4)
        .handle(move |_| {
            let result = result.clone();
            async move { result }
        })
        .start()
        .await
        .unwrap();
    let ran = client.submit(Submission::to("images")).await.unwrap().task;
    let idle = client.submit(Submission::to("mail")).await.unwrap().task;
    let ended = client.wait(ran).await.unwrap();
    assert_eq!(ended.result.unwrap(), large);
    assert_eq!(client.result(ran).await.unwrap(), large);
    assert_eq!(client.wait_timeout(idle, Duration::from_millis(50)).await.unwrap(), None);
    let waited = client.wait_all(&[ran, idle], Some(Duration::from_millis(50))).await.unwrap();
    assert_eq!((waited.ended.len(), waited.pending), (1, vec![idle]));
    let all = client.wait_all(&[ran], None).await.unwrap();
    assert!(all.pending.is_empty() && all.ended[0].result.is_none());
    let with_results = client.wait_all_results(&[ran, idle], Some(Duration::from_millis(50))).await.unwrap();
    assert_eq!(with_results.ended[0].result.as_deref(), Some(&large[..]));
    assert_eq!(with_results.pending, [idle]);
}

#[tokio::test]
async fn thousands_of_requests_are_under_way_at_once() {
    let broker = Broker::start();
    let client = broker.client().await;
    let mut submitting = tokio::task::JoinSet::new();
    for number in 0..6_000_u32 {
        let client = client.clone();
        submitting
            .spawn(async move { client.submit(Submission::to("images").name(format!("n{number}"))).await });
    }
    let mut known = 0;
    while let Some(submitted) = submitting.join_next().await {
        known += usize::from(submitted.unwrap().unwrap().known);
    }
    assert_eq!(known, 0);
    assert_eq!(client.counts().await.unwrap().by_state.ready, 6_000);
}

#[tokio::test]
async fn keys_open_the_door_and_a_wrong_one_says_so_at_once() {
    let mut keys = Keys::default();
    let grant = Grant {
        namespace: Some("lab".into()),
        rights: Rights::ALL.without(Right::Manage),
        ..Grant::everything()
    };
    keys.add(b"secret", grant);
    let broker = Broker::with_keys(keys);
    let refused = Client::builder().address(&broker.address()).key("wrong").connect().await.unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    let client = Client::builder().address(&broker.address()).key("secret").connect().await.unwrap();
    assert_eq!(&*client.namespace(), "lab");
    let not_allowed = client.set_limit("gpu", Some(1)).await.unwrap_err();
    assert!(not_allowed.is(&Code::NotAllowed), "{not_allowed}");
}

#[tokio::test]
async fn what_would_be_too_large_is_refused_before_it_is_sent() {
    let broker = Broker::start();
    let client = broker.client().await;
    let too_large = client.submit(Submission::to("images").body(vec![0; 17 << 20])).await.unwrap_err();
    assert!(matches!(too_large, Error::TooLarge { .. }), "{too_large}");
    let largest = vec![1; 16 << 20];
    let task = client.submit(Submission::to("images").body(largest.clone())).await.unwrap().task;
    assert_eq!(tokio::time::timeout(LONG, client.body(task)).await.unwrap().unwrap(), largest);
}

#[tokio::test]
async fn a_closed_client_says_so() {
    let broker = Broker::start();
    let client = broker.client().await;
    let other = client.clone();
    let waiting = tokio::spawn(async move { other.wait(TaskId::default()).await });
    client.close();
    assert!(matches!(client.ping().await, Err(Error::Closed)));
    assert!(waiting.await.unwrap().is_err());
}

#[tokio::test]
async fn a_unix_socket_is_as_good_as_any_other() {
    let broker = Broker::start();
    let path = broker.listen_at_unix_socket();
    let client = Client::connect(&format!("unix:{}", path.display())).await.unwrap();
    let task = client.submit(Submission::to("images").body("here")).await.unwrap().task;
    assert_eq!(broker.client().await.body(task).await.unwrap(), "here");
    let none = Client::builder()
        .address("unix:/no/such.sock")
        .connect_timeout(Duration::from_millis(50))
        .connect()
        .await;
    assert!(matches!(none.unwrap_err(), Error::Unreachable { .. }));
}

#[tokio::test]
async fn a_client_reaches_a_broker_behind_tls_and_believes_no_other_certificate() {
    let broker = Broker::start();
    let address = broker.listen_with_tls().await;
    let client = Client::builder().address(&address).connect_timeout(LONG).connect().await.unwrap();
    let body = vec![7; 3 << 20];
    let task = client.submit(Submission::to("q").body(body.clone())).await.unwrap();
    assert_eq!(client.body(task.task).await.unwrap().len(), body.len());

    let other = broker.directory().join("other.pem");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    let (place, _) = address.split_once('?').unwrap();
    let wrong = format!("{place}?ca={}", other.display());
    let timeout = Duration::from_millis(300);
    let refused = Client::builder().address(&wrong).connect_timeout(timeout).connect().await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
}
