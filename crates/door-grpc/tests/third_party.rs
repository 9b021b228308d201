//! grpcio, a client that others wrote: every call of every service, and the transcripts of `spec/grpc.md`.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use support::{Broker, python, succeeds};
use tenure_door_grpc::Settings;
use tenure_door_kit::{DoorSettings, Tls};
use tenure_hub::words::Timestamp;
use tenure_hub::{HookAbout, HookKind, HookProgress, Keys, Undelivered};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_submits_looks_steers_waits_and_watches() {
    let Some(python) = python() else { return };
    let broker = Broker::start().await;
    succeeds(python, "tasks.py", &[&broker.address.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_works() {
    let Some(python) = python() else { return };
    let broker = Broker::start().await;
    succeeds(python, "workers.py", &[&broker.address.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_publishes_subscribes_and_comes_back() {
    let Some(python) = python() else { return };
    let settings = Settings { heartbeat: Duration::from_millis(300), ..Settings::default() };
    let broker = Broker::with(settings, Keys::default()).await;
    succeeds(python, "sidecar.py", &[&broker.address.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_keep_one_number_or_their_own_id_lose_nothing_and_read_every_answer() {
    let Some(python) = python() else { return };
    let broker = Broker::start().await;
    succeeds(python, "origin_clients.py", &[&broker.address.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_reads_what_a_hook_gave_up_and_has_it_sent_again() {
    let Some(python) = python() else { return };
    let broker = Broker::start().await;
    let hook = Arc::new(HookProgress::new(HookAbout {
        name: "ops".into(),
        namespace: "default".into(),
        kind: HookKind::Webhook,
        target: "http://127.0.0.1:9/".into(),
        events: vec!["failed".into()],
        queues: vec!["gpu".into()],
    }));
    hook.advance(19);
    hook.attempt_failed("connection refused");
    for seq in [17, 18] {
        hook.give_up(Undelivered {
            seq,
            kind: "failed".into(),
            given_up_at: Timestamp(1_790_000_000_000),
            attempts: 12,
            error: "connection refused".into(),
            body: Bytes::from_static(br#"{"hook": "ops"}"#),
            is_due: false,
        });
    }
    broker.hub.hooks().set(vec![Arc::clone(&hook)]);
    succeeds(python, "hooks.py", &[&broker.address.to_string()]).await;
    let due = [hook.take_due(), hook.take_due(), hook.take_due()].map(|due| due.map(|event| event.seq));
    assert_eq!(due, [Some(17), Some(18), None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_open_what_they_allow_and_nothing_else() {
    let Some(python) = python() else { return };
    let broker = Broker::with_keys().await;
    succeeds(python, "keys.py", &[&broker.address.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_certificate_the_door_speaks_tls_and_nothing_else() {
    let Some(python) = python() else { return };
    // It signs itself and is worth nothing: it is here for this test alone.
    let certificate = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/certificate.pem");
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/key.pem");
    let read = |path| std::fs::read(path).expect("it can be read");
    let tls = Some(Tls::new(&read(certificate), &read(key), None).expect("they go together"));
    let door = DoorSettings { tls, ..DoorSettings::default() };
    let broker = Broker::with(Settings { door, ..Settings::default() }, Keys::default()).await;
    succeeds(python, "tls.py", &[&broker.address.to_string(), certificate]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_transcripts_of_the_page_happen() {
    let Some(python) = python() else { return };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/grpc.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let folder = tempfile::tempdir().expect("a directory");
    let mut told = 0;
    for block in tenure_transcripts::blocks(&page).expect("the page is well written") {
        // Each story has a broker of its own.
        let broker = Broker::start().await;
        let file = folder.path().join("transcript");
        std::fs::write(&file, format!("{}\n{}\n", block.title, block.lines.join("\n")))
            .expect("it can be written");
        let address = broker.address.to_string();
        succeeds(python.clone(), "transcript.py", &[&address, file.to_str().expect("a path")]).await;
        told += 1;
    }
    assert!(told >= 8, "{told} transcripts");
}
