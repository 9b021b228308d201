//! New keys: sessions of keys that are gone or grant something else end at once, all others notice nothing.

mod support;

use std::sync::Arc;

use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::words::{Command, EventFilter, Refusal, Settings};
use tenure_hub::{
    Ask, Delivery, Grant, Hub, HubHandle, HubRefusal, Keys, Principal, Request, Response, Session, Watch,
};

use support::TIMEOUT;

fn keys(all: &[(&str, &str)]) -> Keys {
    let mut keys = Keys::default();
    for (key, namespace) in all {
        let grant = Grant { namespace: Some((*namespace).into()), ..Grant::everything() };
        keys.add(key.as_bytes(), grant);
    }
    keys
}

fn start(keys: Keys) -> Hub {
    let disk = Arc::new(MemoryDisk::new());
    Hub::start(disk, StoreSettings::default(), Settings::default(), keys).expect("the disk opens")
}

fn principal(hub: &HubHandle, key: &str) -> Principal {
    let grant = hub.admit(Some(key.as_bytes())).expect("it is known");
    Principal { grant, door: "test", address: None, is_broker: false }
}

fn open(hub: &HubHandle, key: &str) -> Session {
    let principal = principal(hub, key);
    let namespace = principal.grant.namespace.clone().expect("it has one");
    hub.open(principal, namespace, "someone".into()).expect("there is room")
}

/// The last of what arrives, as soon as something has.
async fn next(session: &Session) -> Delivery {
    tokio::time::timeout(TIMEOUT, session.mailbox().arrived()).await.expect("something arrives");
    let mut taken = Vec::new();
    session.mailbox().take(&mut taken);
    taken.pop().expect("something has arrived")
}

async fn watch(session: &Session) {
    let request = Request::Watch(Watch { watch: 1, filter: EventFilter::default(), from: None });
    session.send(vec![Ask { token: 1, request }]).await.expect("the hub is there");
    while !matches!(next(session).await, Delivery::Live { .. }) {}
}

#[tokio::test]
async fn sessions_of_revoked_and_changed_keys_end_and_others_go_on() {
    let hub = start(keys(&[("gone", "lab"), ("changed", "lab"), ("kept", "lab")]));
    let [gone, changed, kept] = ["gone", "changed", "kept"].map(|key| open(hub.handle(), key));
    for session in [&gone, &changed, &kept] {
        watch(session).await;
    }
    let stale = principal(hub.handle(), "gone");
    hub.handle().set_keys(keys(&[("changed", "office"), ("kept", "lab"), ("new", "lab")]));
    for session in [&gone, &changed] {
        let last = next(session).await;
        let Delivery::Ended(HubRefusal::Engine(Refusal::NotAllowed { what })) = &last else {
            panic!("{last:?}")
        };
        assert!(what.contains("revoked"), "{what}");
        assert!(session.mailbox().is_closed());
    }
    let again = hub.handle().open(stale, "lab".into(), "someone".into());
    assert!(
        matches!(again, Err(HubRefusal::Engine(Refusal::NotAllowed { .. }))),
        "a door that was about to open a session"
    );
    // The watch that was kept hears what happens, and nothing is delivered to the others.
    let request = Request::Command(Command::SetLimit { tag: "t".into(), limit: Some(1) });
    let new = open(hub.handle(), "new");
    new.send(vec![Ask { token: 1, request }]).await.expect("the hub is there");
    assert!(matches!(next(&kept).await, Delivery::Event { .. }));
}

#[tokio::test]
async fn a_connection_without_a_session_hears_of_it_too() {
    let hub = start(keys(&[("gone", "lab"), ("kept", "lab")]));
    let [gone, kept] = ["gone", "kept"].map(|key| principal(hub.handle(), key).grant);
    let handle = hub.handle().clone();
    let anyone = Grant::everything();
    let waits = async {
        tokio::select! {
            () = handle.revoked(&gone) => {}
            () = handle.revoked(&kept) => panic!("it is kept"),
            () = handle.revoked(&anyone) => panic!("it has no key"),
        }
    };
    let revokes = async { hub.handle().set_keys(keys(&[("kept", "lab")])) };
    tokio::time::timeout(TIMEOUT, async { tokio::join!(waits, revokes) }).await.expect("the session ends");
    // Also a door that asks too late.
    tokio::time::timeout(TIMEOUT, handle.revoked(&gone)).await.expect("it is gone");
}

#[tokio::test]
async fn a_key_with_a_namespace_sees_the_figures_of_that_namespace_alone() {
    let mut all = keys(&[("lab", "lab"), ("office", "office")]);
    all.add(b"root", Grant::everything());
    let hub = start(all);
    let [lab, office] = ["lab", "office"].map(|key| open(hub.handle(), key));
    let limit = |tag: &str| {
        let request = Request::Command(Command::SetLimit { tag: tag.into(), limit: Some(3) });
        vec![Ask { token: 1, request }]
    };
    lab.send(limit("ours")).await.expect("the hub is there");
    office.send(limit("theirs")).await.expect("the hub is there");
    next(&office).await;
    next(&lab).await;
    let root = principal(hub.handle(), "root");
    let root = hub.handle().open(root, "lab".into(), "someone".into()).expect("there is room");
    for (session, tags, requests) in [(&lab, vec!["ours"], false), (&root, vec!["ours", "theirs"], true)] {
        session.send(vec![Ask { token: 2, request: Request::Stats }]).await.expect("the hub is there");
        let Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } = next(session).await else {
            panic!("no figures")
        };
        let mut seen: Vec<&str> = stats.gauges.limits.iter().map(|(_, limit)| &*limit.tag).collect();
        seen.sort_unstable();
        assert_eq!(seen, tags);
        assert_eq!(stats.requests_total > 0, requests, "what all namespaces do together");
        assert_eq!(stats.sessions > 0, requests);
    }
}
