//! Webhooks, with a real hub in memory and receivers on loopback.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Broker, PATIENCE, Receiver, until, webhook};
use tenure_hub::store::MemoryDisk;
use tenure_hub::words::Name;
use tenure_outbound::hooks::{HookRunner, HookSecret, HookSettings, HookTarget, signature};
use tenure_outbound::{HttpTarget, TrustedRoots};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The hook has begun: it will deliver whatever happens from now on.
async fn begun(broker: &Broker) {
    until(&broker.hub, |hook| hook.next_event > 0).await;
}

fn with_secret(mut hook: HookSettings, secret: &str) -> HookSettings {
    if let HookTarget::Webhook(webhook) = &mut hook.target {
        webhook.secret = Some(HookSecret::new(secret.to_owned().into()));
    }
    hook
}

#[tokio::test]
async fn a_webhook_gets_the_chosen_events_with_a_signature_over_time_and_body() {
    let broker = Broker::start();
    let mut receiver = Receiver::start(&[]).await;
    let hook = HookSettings { queues: vec!["gpu".into()], ..webhook(&receiver.url) };
    let _runner = HookRunner::start(broker.hub.clone(), vec![with_secret(hook, "a secret of some length")]);
    begun(&broker).await;
    broker.submit("cpu").await;
    broker.submit("gpu").await;
    let received = receiver.next().await;
    assert_eq!(received.path, "/in?x=1");
    assert_eq!(received.json()["hook"], "ops");
    assert_eq!(received.json()["namespace"], "default");
    assert_eq!((&received.event()["kind"], &received.event()["queue"]), (&"submitted".into(), &"gpu".into()));
    let seconds: u64 = received.header("tenure-timestamp").parse().expect("a number");
    let expected = signature(b"a secret of some length", seconds, &received.body);
    assert_eq!(received.header("tenure-signature"), expected);
    assert_eq!(received.header("tenure-event"), "submitted");
    assert_eq!(received.header("content-type"), "application/json");
    let seq = received.event()["seq"].as_u64().expect("a number");
    assert_eq!(received.header("tenure-delivery"), format!("ops-{seq}"));
    until(&broker.hub, |hook| hook.counts.delivered == 1 && hook.next_event == seq + 1).await;
    assert!(receiver.next_now().is_none(), "the other queue is not of interest");
}

#[tokio::test]
async fn a_receiver_that_fails_is_tried_again_with_the_same_delivery() {
    let broker = Broker::start();
    let mut receiver = Receiver::start(&[500, 429]).await;
    let _runner = HookRunner::start(broker.hub.clone(), vec![webhook(&receiver.url)]);
    begun(&broker).await;
    broker.submit("q").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(receiver.next().await.header("tenure-delivery").to_owned());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    until(&broker.hub, |hook| hook.counts.delivered == 1 && hook.counts.failed_attempts == 2).await;
    until(&broker.hub, |hook| hook.last_error.is_none() && hook.undelivered == 0).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_counts_as_a_failure() {
    let broker = Broker::start();
    let mut receiver = Receiver::start(&[302, 302, 302]).await;
    let _runner = HookRunner::start(broker.hub.clone(), vec![webhook(&receiver.url)]);
    begun(&broker).await;
    broker.submit("q").await;
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    for _ in 0..3 {
        assert_eq!(receiver.next().await.path, "/in?x=1");
    }
    assert!(receiver.next_now().is_none());
}

#[tokio::test]
async fn what_was_given_up_is_shown_and_can_be_sent_again() {
    let broker = Broker::start();
    let mut receiver = Receiver::start(&[500, 500, 500]).await;
    let _runner = HookRunner::start(broker.hub.clone(), vec![webhook(&receiver.url)]);
    begun(&broker).await;
    broker.submit("q").await;
    until(&broker.hub, |hook| hook.undelivered == 1 && hook.counts.given_up == 1).await;
    let (namespace, name): (Name, Name) = ("default".into(), "ops".into());
    let kept = broker.hub.hooks().undelivered(&namespace, &name).expect("the hook is known");
    assert_eq!((kept[0].attempts, &*kept[0].kind), (3, "submitted"));
    assert!(kept[0].error.contains("status 500"), "{}", kept[0].error);
    for _ in 0..3 {
        receiver.next().await;
    }
    assert_eq!(broker.hub.hooks().redeliver(&namespace, &name, Some(kept[0].seq)), Ok(1));
    let again = receiver.next().await;
    assert_eq!(again.body, kept[0].body);
    until(&broker.hub, |hook| hook.undelivered == 0 && hook.counts.delivered == 1).await;
}

#[tokio::test]
async fn a_restart_forgets_neither_events_nor_what_was_given_up() {
    let disk = MemoryDisk::new();
    let broker = Broker::on(Arc::new(disk.clone()));
    // The port is closed as soon as it is known: connections are refused.
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let hook = HookSettings { attempts: 1, concurrency: 1, ..webhook(&format!("http://{closed}/")) };
    let mut runner = HookRunner::start(broker.hub.clone(), vec![hook]);
    begun(&broker).await;
    broker.submit("given-up").await;
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    broker.hub.stop();
    runner.ended().await;
    broker.stop().await;

    // Without its hook, the broker goes on, and dies.
    let disk = disk.reopen();
    let broker = Broker::on(Arc::new(disk.clone()));
    broker.submit("meanwhile").await;
    let disk = disk.crash(3);

    let broker = Broker::on(Arc::new(disk));
    let mut receiver = Receiver::start(&[]).await;
    let _runner = HookRunner::start(broker.hub.clone(), vec![webhook(&receiver.url)]);
    assert_eq!(receiver.next().await.event()["queue"], "meanwhile");
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    let (namespace, name): (Name, Name) = ("default".into(), "ops".into());
    assert_eq!(broker.hub.hooks().redeliver(&namespace, &name, None), Ok(1));
    assert_eq!(receiver.next().await.event()["queue"], "given-up");
}

#[tokio::test]
async fn a_hook_that_waits_for_its_receiver_does_not_delay_the_broker() {
    let broker = Broker::start();
    // It accepts connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let _runner = HookRunner::start(broker.hub.clone(), vec![webhook(&url)]);
    begun(&broker).await;
    let submitted = async {
        for _ in 0..200 {
            broker.submit("q").await;
        }
    };
    tokio::time::timeout(PATIENCE, submitted).await.expect("the hub goes on");
    until(&broker.hub, |hook| hook.in_flight == 4).await;
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_in_time_has_failed() {
    let broker = Broker::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let hook = HookSettings { timeout: Duration::from_millis(20), attempts: 2, ..webhook(&url) };
    let _runner = HookRunner::start(broker.hub.clone(), vec![hook]);
    begun(&broker).await;
    broker.submit("q").await;
    until(&broker.hub, |hook| hook.undelivered == 1).await;
    until(&broker.hub, |hook| hook.last_error.as_deref().is_some_and(|why| why.contains("no answer within")))
        .await;
}

#[tokio::test]
async fn https_needs_a_certificate_of_a_trusted_authority() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).expect("it is written");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate and its key");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://localhost:{}/in", listener.local_addr().expect("an address").port());
    let (sender, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(support::answer(stream, Arc::new(Mutex::new(Vec::new())), sender.clone()));
            }
        }
    });
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let other_file = directory.path().join("other.pem");
    std::fs::write(&other_file, other.cert.pem()).expect("it is written");
    let hook = |name: &str, file: &std::path::Path| {
        let mut hook = HookSettings { name: name.into(), attempts: 1, ..webhook("http://localhost/") };
        if let HookTarget::Webhook(webhook) = &mut hook.target {
            webhook.target = HttpTarget::parse(&url).expect("an address");
            webhook.roots = Some(TrustedRoots::of_file(file).expect("a certificate"));
        }
        hook
    };
    let broker = Broker::start();
    let hooks = vec![hook("wrong", &other_file), hook("right", &file)];
    let _runner = HookRunner::start(broker.hub.clone(), hooks);
    let all = || broker.hub.hooks().figures();
    until(&broker.hub, |_| all().iter().all(|hook| hook.next_event > 0)).await;
    broker.submit("q").await;
    let got = tokio::time::timeout(PATIENCE, received.recv()).await.expect("in time").expect("it runs");
    assert_eq!(got.header("tenure-hook"), "right");
    until(&broker.hub, |_| all()[0].undelivered == 1 && all()[1].counts.delivered == 1).await;
    assert!(all()[0].last_error.as_deref().is_some_and(|why| why.contains("TLS failed")), "{:?}", all()[0]);
}

#[tokio::test]
async fn a_hook_that_is_replaced_goes_on_where_it_was() {
    let broker = Broker::start();
    let mut receiver = Receiver::start(&[]).await;
    let mut runner = HookRunner::start(broker.hub.clone(), vec![webhook(&receiver.url)]);
    begun(&broker).await;
    broker.submit("before").await;
    assert_eq!(receiver.next().await.event()["queue"], "before");
    runner.replace(Vec::new()).await;
    assert!(broker.hub.hooks().figures().is_empty());
    broker.submit("between").await;
    runner.replace(vec![webhook(&receiver.url)]).await;
    let mut queues = Vec::new();
    // What was delivered and not written down yet is repeated.
    while queues.last().is_none_or(|queue| queue != "between") {
        queues.push(receiver.next().await.event()["queue"].as_str().unwrap_or_default().to_owned());
    }
    assert!(queues.len() <= 2, "{queues:?}");
}
