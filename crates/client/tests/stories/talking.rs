//! Calls and broadcasts between clients.

use tenure_client::{CallOutcome, Client, Code, Hear, ReceivedBroadcast};

use crate::broker::{Broker, LONG};

#[tokio::test]
async fn a_call_is_answered_even_after_a_while() {
    let broker = Broker::start();
    let ada = broker.client().await;
    let desk = Client::builder().address(&broker.address()).identity("desk").connect().await.unwrap();
    let mut listener = desk.listen(["process.17", "process.18"]).await.unwrap();
    let serving = tokio::spawn(async move {
        let first = listener.next().await.unwrap();
        assert_eq!((&*first.to, &*first.from, &first.body[..]), ("process.17", "ada", &b"pause?"[..]));
        first.pending().await.unwrap();
        first.answer("paused").await.unwrap();
        listener.next().await.unwrap().error("no such process").await.unwrap();
        drop(listener.next().await.unwrap());
        listener
    });
    let answered = ada.call("process.17", "pause?", Some(LONG)).await.unwrap();
    assert_eq!((answered.outcome, answered.body), (CallOutcome::Result, "paused".into()));
    let failed = ada.call("process.18", "", None).await.unwrap();
    assert_eq!((failed.outcome, failed.body), (CallOutcome::Error, "no such process".into()));
    let given_up = ada.call("process.18", "", None).await.unwrap();
    assert_eq!(given_up.outcome, CallOutcome::Cancelled);
    drop(serving.await.unwrap());
    // The listener's goodbye is on its way; a later call finds no listener.
    desk.ping().await.unwrap();
    let none = ada.call("process.17", "", None).await.unwrap_err();
    assert!(none.is(&Code::NoListener), "{none}");
}

#[tokio::test]
async fn broadcasts_are_heard_by_those_who_want_them() {
    let broker = Broker::start();
    let ada = broker.client().await;
    let other = Client::connect(&broker.address()).await.unwrap();
    let mut weather =
        other.receive_broadcasts(Hear { subject: Some("weather".into()), sender: None }).await.unwrap();
    let mut all = other.receive_broadcasts(Hear::default()).await.unwrap();
    ada.broadcast("news", "none").await.unwrap();
    assert!(ada.broadcast("weather", "rain").await.unwrap() >= 1);
    let Some(ReceivedBroadcast::Broadcast(heard)) = weather.next().await else { panic!("it rains") };
    assert_eq!(
        (heard.subject.as_deref(), &heard.body[..], heard.sender.as_deref()),
        (Some("weather"), &b"rain"[..], Some("ada"))
    );
    for subject in ["news", "weather"] {
        let Some(ReceivedBroadcast::Broadcast(heard)) = all.next().await else { panic!("it is heard") };
        assert_eq!(heard.subject.as_deref(), Some(subject));
    }
}
