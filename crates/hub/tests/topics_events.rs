//! What happens in the broker, heard as topics: a task's life with its worker's crash, replay after being away, gaps.

mod support;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use support::{TIMEOUT, id, start, subscribe};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::topics::{
    Delivery, DeliveryKind, Message, Recovery, Resume, Sequence, Subscribe, SubscriptionHandle, TopicFilter,
    TopicRefusal, TopicSettings, Topics,
};
use tenure_hub::words::{
    Command, Held, Name, NewTask, Notice, OnClose, Settings, TaskId, Thresholds, WorkerSpec,
};
use tenure_hub::{
    Ask, Delivery as Mail, Done, Hub, HubHandle, Keys, Principal, Request, Response, Session, Submission,
    fresh_id,
};

fn default() -> Name {
    Name::from("default")
}

/// A subscription that is read one item at a time.
struct TestSubscriber {
    subscription: SubscriptionHandle,
    heard: VecDeque<Delivery>,
}

impl TestSubscriber {
    fn new(subscription: SubscriptionHandle) -> TestSubscriber {
        TestSubscriber { subscription, heard: VecDeque::new() }
    }

    async fn next(&mut self) -> Delivery {
        while self.heard.is_empty() {
            let mut out = Vec::new();
            let taking = self.subscription.take(3, 10_000, &mut out);
            tokio::time::timeout(TIMEOUT, taking)
                .await
                .expect("something comes")
                .expect("the stream goes on");
            self.heard.extend(out);
        }
        let next = self.heard.pop_front().expect("it is not empty");
        if let Delivery::Message { message, .. } = &next {
            let read = [(Arc::clone(&message.topic), message.sequence)];
            self.subscription.acknowledge(&read).expect("the stream goes on");
        }
        next
    }

    async fn message(&mut self) -> (DeliveryKind, Arc<Message>) {
        match self.next().await {
            Delivery::Message { kind, message } => (kind, message),
            other => panic!("{other:?}"),
        }
    }

    /// The next messages, up to the one of this kind of event.
    async fn until(&mut self, kind: &str) -> Vec<(String, String)> {
        let mut heard = Vec::new();
        loop {
            let (_, message) = self.message().await;
            let text = String::from_utf8(message.payload.to_vec()).unwrap();
            let is_last = text.contains(&format!("\"kind\":\"{kind}\""));
            heard.push((message.topic.to_string(), text));
            if is_last {
                return heard;
            }
        }
    }
}

/// A peer that submits or works.
struct Peer {
    session: Session,
}

impl Peer {
    fn new(hub: &HubHandle, namespace: &str, identity: &str) -> Peer {
        Peer { session: hub.open(Principal::trusted("test"), namespace.into(), identity.into()).unwrap() }
    }

    async fn ask(&self, request: Request) {
        self.session.send(vec![Ask { token: 1, request }]).await.unwrap();
    }

    async fn submit(&self, queue: &str) -> TaskId {
        let task = fresh_id();
        let submission = Submission::new(NewTask::new(task, queue), Bytes::from_static(b"body"));
        self.ask(Request::Submit(vec![submission])).await;
        task
    }

    async fn register(&self, name: &str, queue: &str) {
        let mut spec = WorkerSpec::new(name, vec![queue.into()], 1);
        spec.on_close = OnClose::TasksDie;
        self.ask(Request::Command(Command::Register(Box::new(spec)))).await;
    }

    /// The figures as Prometheus reads them.
    async fn figures(&self) -> String {
        self.session.send(vec![Ask { token: 2, request: Request::Stats }]).await.unwrap();
        let mut mails = Vec::new();
        loop {
            let arrived = self.session.mailbox().arrived();
            tokio::time::timeout(TIMEOUT, arrived).await.expect("figures come");
            self.session.mailbox().take(&mut mails);
            for mail in mails.drain(..) {
                if let Mail::Reply { token: 2, reply: Ok(Response::Stats(stats)) } = mail {
                    return stats.render();
                }
            }
        }
    }

    /// Waits for work and starts it.
    async fn begin(&self) -> Held {
        let mut mails = Vec::new();
        loop {
            let arrived = self.session.mailbox().arrived();
            tokio::time::timeout(TIMEOUT, arrived).await.expect("work comes");
            self.session.mailbox().take(&mut mails);
            for mail in mails.drain(..) {
                if let Mail::Notice(Notice::Assign(assignment)) = mail {
                    let held = Held { task: assignment.task, attempt: assignment.attempt };
                    self.ask(Request::Command(Command::Start(vec![held]))).await;
                    return held;
                }
            }
        }
    }
}

fn resume(topics: &Topics, name: &str, last: Option<u64>) -> TestSubscriber {
    let mut resume = Resume::new(id(name), Recovery::Replay);
    resume.last_seen_single = last.map(Sequence);
    TestSubscriber::new(topics.resume(&default(), &resume).expect("it is known").0)
}

#[tokio::test]
async fn a_subscriber_hears_the_life_of_a_task_with_its_workers_crash_and_its_result() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let handle = hub.handle();
    let mut queue = TestSubscriber::new(subscribe(handle.topics(), "queue", &["queue.q"]));
    let mut worker = TestSubscriber::new(subscribe(handle.topics(), "worker", &["worker.>"]));
    let client = Peer::new(handle, "default", "client");
    let task = client.submit("q").await;
    let first = queue.until("submitted").await;
    assert_eq!(first[0].0, "queue.q");
    let mut this = TestSubscriber::new(subscribe(handle.topics(), "task", &[&format!("task.{task}")]));

    let doomed = Peer::new(handle, "default", "doomed");
    doomed.register("doomed", "q").await;
    doomed.begin().await;
    this.until("started").await;
    drop(doomed);
    let crash = this.until("crashed").await;
    let (topic, text) = crash.last().unwrap();
    assert_eq!(*topic, format!("task.{task}"));
    assert!(
        text.contains("\"lost\":\"connection-closed\"") && text.contains("\"worker\":\"doomed\""),
        "{text}"
    );

    let lucky = Peer::new(handle, "default", "lucky");
    lucky.register("lucky", "q").await;
    let held = lucky.begin().await;
    lucky.ask(Request::Complete(vec![Done { held, result: Bytes::from_static(b"42") }])).await;
    let end = this.until("completed").await;
    assert!(end.last().unwrap().1.contains("\"result\":\"42\""), "{end:?}");
    let of_workers = worker.until("completed").await;
    for (topic, kind) in
        [("worker.doomed", "worker-registered"), ("worker.doomed", "crashed"), ("worker.lucky", "completed")]
    {
        assert!(
            of_workers.iter().any(|(t, text)| t == topic && text.contains(kind)),
            "{topic} {kind}: {of_workers:?}"
        );
    }
    queue.until("completed").await;
}

#[tokio::test]
async fn a_subscriber_of_a_queue_hears_of_its_backlog_and_the_figures_count_it() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let handle = hub.handle();
    let mut queue = TestSubscriber::new(subscribe(handle.topics(), "queue", &["queue.q"]));
    let client = Peer::new(handle, "default", "client");
    let thresholds = Some(Thresholds { depth: Some(2), age: None });
    client.ask(Request::Command(Command::SetThresholds { queue: "q".into(), thresholds })).await;
    let set = queue.until("queue-thresholds-set").await;
    assert!(set.last().unwrap().1.contains("\"depth\":2"), "{set:?}");
    client.submit("q").await;
    let second = client.submit("q").await;
    let told = queue.until("queue-backlog").await;
    let (topic, text) = told.last().unwrap();
    assert_eq!(topic, "queue.q");
    for field in ["\"queue\":\"q\"", "\"threshold\":\"depth\"", "\"depth\":2", "\"age_ms\":"] {
        assert!(text.contains(field), "{field}: {text}");
    }
    let figures = client.figures().await;
    assert!(figures.contains("tenure_queues_with_backlog 1\n"), "{figures}");
    assert!(figures.contains("tenure_queue_backlogs_total 1\n"), "{figures}");
    client.ask(Request::Command(Command::Cancel { task: second, reason: None })).await;
    let cleared = queue.until("queue-backlog-cleared").await;
    assert!(cleared.last().unwrap().1.contains("\"depth\":1"), "{cleared:?}");
    let figures = client.figures().await;
    assert!(figures.contains("tenure_queues_with_backlog 0\n"), "{figures}");
}

#[tokio::test]
async fn events_of_another_namespace_are_not_heard_and_patterns_must_begin_with_the_word() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let handle = hub.handle();
    let mut all = TestSubscriber::new(subscribe(handle.topics(), "all", &["task.*"]));
    let mut everything = subscribe(handle.topics(), "everything", &[">", "*.q"]);
    Peer::new(handle, "other", "client").submit("q").await;
    let mine = Peer::new(handle, "default", "client").submit("q").await;
    let (kind, message) = all.message().await;
    assert_eq!((kind, &*message.topic), (DeliveryKind::Live, &*format!("task.{mine}")));
    assert_eq!(everything.try_take(10, 1000, &mut Vec::new()), Ok(false));
    let mut grouped = Subscribe::new(id("grouped"), vec![TopicFilter::parse("task.*").unwrap()]);
    grouped.group = Some(Arc::from("g"));
    assert_eq!(handle.topics().subscribe(&default(), grouped).map(drop), Err(TopicRefusal::EventsInGroup));
}

#[tokio::test]
async fn a_returning_subscriber_gets_the_events_since_its_position() {
    let disk = MemoryDisk::new();
    let hub = start(&disk, TopicSettings::default());
    let client = Peer::new(hub.handle(), "default", "client");
    let mut subscriber = TestSubscriber::new(subscribe(hub.handle().topics(), "s", &["queue.q", "plain"]));
    client.submit("q").await;
    let (_, first) = subscriber.message().await;
    drop(subscriber);
    client.submit("q").await;
    client.submit("other").await;
    client.submit("q").await;
    support::publish(hub.handle().topics(), "plain", "hello").await.unwrap();

    let mut back = resume(hub.handle().topics(), "s", None);
    let mut replayed = Vec::new();
    let mut completed = Vec::new();
    while completed.len() < 2 {
        match back.next().await {
            Delivery::Message { kind: DeliveryKind::Replay, message } => {
                replayed.push((message.topic.to_string(), message.sequence.0));
            }
            Delivery::ReplayComplete(complete) => {
                completed.push((complete.topic.to_string(), complete.replayed));
            }
            other => panic!("{other:?}"),
        }
    }
    replayed.sort();
    completed.sort();
    assert_eq!(replayed[0], ("plain".to_owned(), 1));
    assert_eq!(replayed.len(), 3, "{replayed:?}");
    assert!(replayed[1].1 > first.sequence.0);
    assert_eq!(completed, [("plain".to_owned(), 1), ("queue.q".to_owned(), 2)]);

    hub.handle().stop();
    drop(back);
    hub.ended().await.unwrap();
    let hub = start(&disk.reopen(), TopicSettings::default());
    let client = Peer::new(hub.handle(), "default", "client");
    client.submit("q").await;
    let mut back = resume(hub.handle().topics(), "s", None);
    let after = loop {
        if let Delivery::Message { message, .. } = back.next().await
            && &*message.topic == "queue.q"
        {
            break message.sequence.0;
        }
    };
    assert!(after > replayed[2].1, "what was heard before the restart does not come again");
}

#[tokio::test]
async fn a_client_that_knows_its_last_number_goes_on_after_it_and_learns_what_is_gone() {
    let disk = MemoryDisk::new();
    let store = StoreSettings {
        segment_bytes: 2_000,
        snapshot_bytes: 4_000,
        spare_segments: 0,
        events_kept: 20,
        ..StoreSettings::default()
    };
    let engine = Settings { ended_kept: 1, ..Settings::default() };
    let hub =
        Hub::start_with_topics(Arc::new(disk), store, engine, TopicSettings::default(), Keys::default())
            .unwrap();
    drop(subscribe(hub.handle().topics(), "s", &["queue.q"]));
    let worker = Peer::new(hub.handle(), "default", "w");
    worker.register("w", "q").await;
    let client = Peer::new(hub.handle(), "default", "client");
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    loop {
        for _ in 0..40 {
            client.submit("q").await;
            let held = worker.begin().await;
            worker.ask(Request::Complete(vec![Done { held, result: Bytes::new() }])).await;
        }
        let mut back = resume(hub.handle().topics(), "s", Some(1));
        match back.next().await {
            Delivery::Gap(gap) => {
                assert_eq!((&*gap.topic, gap.first_missed), ("queue.q", Sequence(2)));
                let mut kept = gap.oldest_kept;
                loop {
                    match back.next().await {
                        // The store may have tidied up again while the log was read: that is another gap.
                        Delivery::Gap(gap) => {
                            assert_eq!((&*gap.topic, gap.first_missed), ("queue.q", kept));
                            kept = gap.oldest_kept;
                        }
                        Delivery::Message { kind: DeliveryKind::Replay, message } => {
                            assert!(message.sequence >= kept);
                            return;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            // Old events go when the store tidies up, which is not at once.
            Delivery::Message { kind: DeliveryKind::Replay, message } => {
                assert!(message.sequence > Sequence(1));
            }
            other => panic!("{other:?}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "old events never went");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn only_those_who_hear_of_it_are_counted_as_subscribers_of_what_happens_in_the_broker() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let _ears = [
        subscribe(topics, "everything", &[">", "*.zzz"]),
        subscribe(topics, "one", &["task.zzz", ">"]),
        subscribe(topics, "all", &["task.*"]),
    ];
    assert_eq!(topics.topic("default", "task.zzz").unwrap().subscribers, 2);
    let page = topics.topics("default", 0, 10, None);
    assert_eq!(page.items.iter().map(|topic| topic.subscribers).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn one_number_counts_for_events_and_other_topics_if_the_subscription_is_new() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    Peer::new(hub.handle(), "default", "client").submit("q").await;
    let mut told = TestSubscriber::new(subscribe(topics, "told", &["queue.q"]));
    Peer::new(hub.handle(), "default", "client").submit("q").await;
    told.message().await;
    support::publish(topics, "plain", "hello").await.unwrap();
    let resume = Resume {
        filters: ["queue.q", "*"].map(|text| TopicFilter::parse(text).unwrap()).to_vec(),
        last_seen_single: Some(Sequence(0)),
        ..Resume::new(id("new"), Recovery::Replay)
    };
    let mut subscriber = TestSubscriber::new(topics.resume(&default(), &resume).unwrap().0);
    let (mut heard, mut ends) = (Vec::new(), 0);
    while ends < 2 {
        match subscriber.next().await {
            Delivery::Message { kind: DeliveryKind::Replay, message } => {
                heard.push(message.topic.to_string());
            }
            Delivery::ReplayComplete(_) => ends += 1,
            other => panic!("{other:?}"),
        }
    }
    heard.sort();
    assert_eq!(heard, ["plain", "queue.q", "queue.q"]);
}
