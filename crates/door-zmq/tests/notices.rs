//! Notices to the submitter: crashes, missing workers, the end, and what happened while it was away.

mod support;

use std::time::Duration;

use support::broker::{Broker, calm};
use support::cbor::Item;
use support::plugin::{PluginClient, PluginWorker, says};
use support::wire::Wire;
use tenure_door_zmq::mdp::SlotStyle;
use tenure_door_zmq::{PingPongSettings, Settings};
use tenure_hub::words::{Command, Reply};
use tenure_hub::{Ask, Delivery, Principal, Request, Response};

const PATH: &str = "Tools/Count";

#[test]
fn the_client_hears_of_a_crash_and_the_job_goes_to_the_next_worker() {
    let broker = Broker::start();
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 1, PATH);
    broker.until_workers(1);
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit(PATH, &["job-1"]);
    worker.call();
    broker.until_running(1);
    drop(worker);

    let notice = client.notice();
    let expected = r#"{"error": "WORKER_CRASHED", "service": "Tools/Count", "job_id": "job-1", "worker": "node-1",
        "attempt": 1, "reason": "connection-closed", "next": "requeued", …}"#;
    assert!(says(&notice, expected), "{notice:?}");

    let mut next = PluginWorker::start(broker.mdp, "node-2", 1, PATH);
    let call = next.call();
    assert!(says(&call, r#"{"JobID": "job-1", "Attempt": 2, …}"#), "{call:?}");
    next.finish(&call, &["42"]);
    assert_eq!(client.wire.texts(), ["", "MDPC01_PL", "", "42"]);
    assert_eq!(client.notice_within(Duration::from_millis(50)), None, "once per crash");
}

#[test]
fn a_job_without_workers_is_reported_at_once_and_stays_queued() {
    let broker = Broker::start();
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit(PATH, &["job-1"]);
    let notice = client.notice();
    let expected = r#"{"error": "NO_WORKERS", "service": "Tools/Count", "job_id": "job-1", "reason": "no-worker-ever",
        "next": "waiting", …}"#;
    assert!(says(&notice, expected), "{notice:?}");
    let Some(Item::Text(message)) = notice.get("message") else { panic!("{notice:?}") };
    assert_eq!(message, "The job waits: no worker has ever served queue Tools/Count: start one.");

    let mut worker = PluginWorker::start(broker.mdp, "node-1", 1, PATH);
    let call = worker.call();
    worker.finish(&call, &[]);
    // Without a result nothing is sent; the client asks.
    while client.lines("mmi.status", &[]) != ["1", "0", "0"] {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_last_crash_of_the_budget_is_followed_by_a_final_notice() {
    let broker = Broker::start();
    let mut client = PluginClient::start(broker.mdp, "lab");
    for attempt in 1..=3 {
        let mut worker = PluginWorker::start(broker.mdp, &format!("node-{attempt}"), 1, PATH);
        if attempt == 1 {
            broker.until_workers(1);
            client.submit(PATH, &["job-1"]);
        }
        worker.call();
        broker.until_running(1);
        drop(worker);
        let next = if attempt < 3 { "requeued" } else { "failed" };
        let notice = client.notice();
        let expected = format!(r#"{{"error": "WORKER_CRASHED", "attempt": {attempt}, "next": {next:?}, …}}"#);
        assert!(says(&notice, &expected), "{notice:?}");
    }
    let last = client.notice();
    let expected =
        r#"{"error": "JOB_FAILED", "job_id": "job-1", "reason": "crash-budget", "next": "failed", …}"#;
    assert!(says(&last, expected), "{last:?}");
}

#[test]
fn a_storm_of_crashes_is_one_notice() {
    let broker = Broker::start();
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 50, PATH);
    let mut client = PluginClient::start(broker.mdp, "lab");
    broker.until_workers(1);
    let jobs: Vec<String> = (0..50).map(|number| format!("job-{number}")).collect();
    client.submit(PATH, &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..50 {
        worker.call();
    }
    broker.until_running(50);
    drop(worker);
    let (mut notices, mut told) = (0, Vec::new());
    while told.len() < 50 {
        let notice = client.notice();
        assert!(says(&notice, r#"{"error": "WORKER_CRASHED", …}"#), "{notice:?}");
        notices += 1;
        match notice.get("jobs") {
            Some(Item::List(jobs)) => told.extend(jobs.iter().cloned()),
            _ => told.push(notice),
        }
    }
    assert!(notices <= 3, "on a quiet machine it is one, here {notices}");
    assert!(told.iter().all(|job| says(job, r#"{"worker": "node-1", "next": "requeued", …}"#)));
    assert_eq!(client.notice_within(Duration::from_millis(50)), None);
}

#[test]
fn with_a_delay_crashes_are_gathered_and_told_together() {
    let settings = Settings { crash_notification_delay: Duration::from_millis(1500), ..calm() };
    let broker = Broker::with(settings, PingPongSettings::default());
    let mut one = PluginWorker::start(broker.mdp, "node-1", 1, PATH);
    let mut two = PluginWorker::start(broker.mdp, "node-2", 1, PATH);
    broker.until_workers(2);
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit(PATH, &["job-1", "job-2"]);
    one.call();
    two.call();
    broker.until_running(2);
    drop(one);
    broker.until_running(1);
    drop(two);
    let notice = client.notice();
    assert!(says(&notice, r#"{"error": "WORKER_CRASHED", "count": 2, …}"#), "{notice:?}");
}

#[test]
fn notices_can_be_switched_off_and_the_slot_can_carry_the_command() {
    let settings = Settings { notify_no_workers: false, notice_slot: SlotStyle::Command, ..calm() };
    let broker = Broker::with(settings, PingPongSettings::default());
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit(PATH, &["job-1"]);
    let mut worker = PluginWorker::start(broker.mdp, "node-1", 1, PATH);
    worker.call();
    broker.until_running(1);
    drop(worker);
    let frames = client.wire.receive(Duration::from_secs(5)).expect("a notice");
    assert_eq!(frames[2], [8]);
    assert!(says(&Item::decode(&frames[3]).expect("a map"), r#"{"error": "WORKER_CRASHED", …}"#));
}

#[test]
fn a_client_that_was_away_gets_what_it_missed_by_event_number() {
    let broker = Broker::start();
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit(PATH, &["job-1", "job-2"]);
    client.notice();
    drop(client);

    for node in ["node-1", "node-2"] {
        let mut worker = PluginWorker::start(broker.mdp, node, 1, PATH);
        worker.call();
        broker.until_running(1);
        drop(worker);
        broker.until_running(0);
    }

    let mut client = PluginClient::start(broker.mdp, "lab");
    let answer = client.ask("mmi.notify", &["0"]);
    assert_eq!(answer[0], b"200");
    let latest: i64 = String::from_utf8_lossy(&answer[1]).parse().expect("a number");
    let missed: Vec<Item> = answer[2..].iter().map(|frame| Item::decode(frame).expect("a map")).collect();
    let number = |item: &Item| match item.get("event") {
        Some(Item::Integer(event)) => *event,
        other => panic!("{other:?}"),
    };
    let told: Vec<(&Item, &Item)> = missed
        .iter()
        .map(|item| (item.get("error").expect("kind"), item.get("job_id").expect("job")))
        .collect();
    let text = |text: &str| Item::Text(text.to_owned());
    assert_eq!(
        told,
        [
            (&text("NO_WORKERS"), &text("job-1")),
            (&text("NO_WORKERS"), &text("job-2")),
            (&text("WORKER_CRASHED"), &text("job-1")),
            (&text("WORKER_CRASHED"), &text("job-1")),
        ]
    );
    assert!(missed.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])));
    assert!(number(&missed[3]) <= latest);

    // From the last number on nothing was missed, and from the third on only the rest.
    let seen = number(&missed[2]).to_string();
    assert_eq!(client.ask("mmi.notify", &[&latest.to_string()]).len(), 2);
    assert_eq!(client.ask("mmi.notify", &[&seen]).len(), 3);
}

#[test]
fn another_client_does_not_hear_of_it() {
    let broker = Broker::start();
    let mut client = PluginClient::start(broker.mdp, "lab");
    let mut other = PluginClient::start(broker.mdp, "office");
    other.ask("mmi.status", &[]);
    client.submit(PATH, &["job-1"]);
    client.notice();
    assert_eq!(other.notice_within(Duration::from_millis(50)), None);
    assert_eq!(other.ask("mmi.notify", &["0"]).len(), 2);
}

#[test]
fn an_unchanged_client_gets_no_notices_and_one_that_asks_does() {
    let broker = Broker::start();
    let mut plain = Wire::named(broker.mdp, b"plain");
    plain.send(&["", "MDPC01", "echo", "x"]);
    assert_eq!(plain.receive(Duration::from_millis(80)), None);

    let mut asking = Wire::named(broker.mdp, b"asking");
    asking.send(&["", "MDPC01", "mmi.notify", "on"]);
    assert_eq!(asking.texts()[..4], ["", "MDPC01", "mmi.notify", "200"]);
    asking.send(&["", "MDPC01", "echo", "x"]);
    let notice = asking.receive(Duration::from_secs(5)).expect("a notice");
    assert_eq!((&notice[1][..], &notice[2][..]), (&b"MDPC01"[..], &b""[..]));
    asking.send(&["", "MDPC01", "mmi.notify", "off"]);
    assert_eq!(asking.texts()[..4], ["", "MDPC01", "mmi.notify", "200"]);
    asking.send(&["", "MDPC01", "echo", "x"]);
    assert_eq!(asking.receive(Duration::from_millis(80)), None);
}

#[test]
fn a_cancelled_or_expired_job_sends_a_notice() {
    let settings = Settings { expire: Some(Duration::from_millis(150)), ..calm() };
    let broker = Broker::with(settings, PingPongSettings::default());
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.submit(PATH, &["job-1"]);
    client.notice();
    let expired = client.notice();
    assert!(says(&expired, r#"{"error": "JOB_EXPIRED", "job_id": "job-1", …}"#), "{expired:?}");

    client.submit(PATH, &["job-2"]);
    let waiting = client.notice();
    let Some(Item::Text(task)) = waiting.get("task") else { panic!("{waiting:?}") };
    let session =
        broker.hub().open(Principal::trusted("test"), "default".into(), "someone".into()).expect("a session");
    let reason = Some("not needed".into());
    let cancel = Request::Command(Command::Cancel { task: task.parse().expect("an id"), reason });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        session.send(vec![Ask { token: 1, request: cancel }]).await.expect("sent");
        session.mailbox().arrived().await;
    });
    let mut deliveries = Vec::new();
    session.mailbox().take(&mut deliveries);
    let done = matches!(&deliveries[..], [Delivery::Reply { reply: Ok(Response::Command(Reply::Done)), .. }]);
    assert!(done, "{deliveries:?}");
    let cancelled = client.notice();
    let expected = r#"{"error": "JOB_CANCELLED", "job_id": "job-2", "reason": "not needed", …}"#;
    assert!(says(&cancelled, expected), "{cancelled:?}");
}

#[test]
fn a_batch_that_cannot_be_read_is_refused_by_notice() {
    let broker = Broker::start();
    let mut client = PluginClient::start(broker.mdp, "lab");
    client.wire.send(&["", "MDPC01_PL", PATH, "no map", "neither"]);
    let notice = client.notice();
    assert!(
        says(
            &notice,
            r#"{"error": "JOB_REFUSED", "service": "Tools/Count", "reason": "bad-value", "next": "refused", …}"#
        ),
        "{notice:?}"
    );
    assert_eq!(broker.counters.get("bad-value"), 1);
}
