//! Calls between peers by address, and broadcasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure_wire::address::{Answer, Answered, Broadcast, Call, Hear, Listen};
use tenure_wire::request::OneNumber;
use tenure_wire::time::millis;
use tenure_wire::words::CallOutcome;
use tenure_wire::{Name, Reply, Request};
use tokio::sync::mpsc;

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;
use crate::listeners::ArrivedCall;

impl Client {
    /// Calls the peer that listens at an address, and waits for the final answer. If no peer listens there, the broker
    /// refuses at once with `nobody-there`. Dropping the future tells the receiver that the caller no longer waits.
    pub async fn call(
        &self,
        to: impl Into<Name>,
        body: impl Into<Bytes>,
        timeout: Option<Duration>,
    ) -> Result<Answered, Error> {
        let call = Call { to: to.into(), body: body.into(), timeout_ms: timeout.map(millis) };
        let (number, answered) = self.send("call", Request::Call(call), Repeat::Unsafe).await?;
        let mut guard = DropCall { client: self, number };
        let reply = answered.await.unwrap_or(Err(Error::Closed));
        guard.number = None;
        match reply? {
            Reply::Answered(answered) => Ok(answered),
            other => Err(unexpected("call", &other)),
        }
    }

    /// Answers calls to these addresses from now on, across reconnects, until the listener is dropped.
    pub async fn listen<N: Into<Name>>(
        &self,
        addresses: impl IntoIterator<Item = N>,
    ) -> Result<Listener, Error> {
        let addresses: Vec<Name> = addresses.into_iter().map(Into::into).collect();
        // Registered here first: a call may arrive together with the reply.
        let calls = self.shared().in_flight().listeners.listen(addresses.clone());
        let listener = Listener { client: self.clone(), calls };
        match self.ask("listen", Request::Listen(Listen { addresses }), Repeat::Safe).await? {
            Reply::Done => Ok(listener),
            other => Err(unexpected("listen", &other)),
        }
    }

    /// Sends a broadcast to all peers in the namespace that listen for this subject. Returns how many received it.
    pub async fn broadcast(&self, subject: impl Into<Name>, body: impl Into<Bytes>) -> Result<u64, Error> {
        let (subject, body) = (Some(subject.into()), body.into());
        self.broadcast_all(Broadcast { subject, body, sender: None, correlation: None }).await
    }

    /// Receives broadcasts from now on, across reconnects, until the receiver is dropped. Broadcasts sent while there
    /// was no connection are lost.
    pub async fn receive_broadcasts(&self, hear: Hear) -> Result<BroadcastReceiver, Error> {
        let (heard, missed) = self.shared().in_flight().listeners.add_receiver(hear.clone());
        let receiver = BroadcastReceiver { client: self.clone(), heard, missed };
        match self.ask("hear", Request::Hear(hear), Repeat::Safe).await? {
            Reply::Done => Ok(receiver),
            other => Err(unexpected("hear", &other)),
        }
    }

    /// Like [`broadcast`](Self::broadcast), with all options: sender name and correlation data.
    pub async fn broadcast_all(&self, broadcast: Broadcast) -> Result<u64, Error> {
        match self.ask("broadcast", Request::Broadcast(broadcast), Repeat::Unsafe).await? {
            Reply::Sent(sent) => Ok(sent.receivers),
            other => Err(unexpected("broadcast", &other)),
        }
    }

    /// Unregisters dropped listeners at the broker.
    fn unlisten(&self) {
        let shared = self.shared();
        let mut in_flight = shared.in_flight();
        for request in in_flight.listeners.unlisten() {
            in_flight.send_without_reply(&request);
        }
        drop(in_flight);
        shared.wake.notify_one();
    }
}

/// Tells the broker when the caller stops waiting.
struct DropCall<'a> {
    client: &'a Client,
    number: Option<u64>,
}

impl Drop for DropCall<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let shared = self.client.shared();
        shared.in_flight().send_without_reply(&Request::DropCall(OneNumber { number }));
        shared.wake.notify_one();
    }
}

/// Calls to the addresses at which this program listens.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    calls: mpsc::Receiver<ArrivedCall>,
}

impl Listener {
    /// Returns the next call; `None` if the client was closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<IncomingCall> {
        let ArrivedCall { called, dropped } = self.calls.recv().await?;
        Some(IncomingCall {
            client: self.client.clone(),
            call: called.call,
            to: called.to,
            from: called.from,
            body: called.body,
            dropped,
            answered: false,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.calls.close();
        self.client.unlisten();
    }
}

/// A call to answer. If it is dropped without an answer, the caller receives `cancelled`.
#[derive(Debug)]
pub struct IncomingCall {
    client: Client,
    call: u64,
    /// The address that was called.
    pub to: Name,
    /// The caller's identity.
    pub from: Name,
    /// The bytes of the caller.
    pub body: Bytes,
    dropped: Arc<AtomicBool>,
    answered: bool,
}

impl IncomingCall {
    /// Whether the caller no longer waits for the answer: it has given up, or the connection of the call is lost.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Tells the caller that the answer will take a while.
    pub async fn pending(&self) -> Result<(), Error> {
        self.send_answer(CallOutcome::Pending, Bytes::new()).await
    }

    /// Answers the call with a result.
    pub async fn answer(self, body: impl Into<Bytes>) -> Result<(), Error> {
        self.send_last(CallOutcome::Result, body.into()).await
    }

    /// Answers that the call failed, and why.
    pub async fn error(self, body: impl Into<Bytes>) -> Result<(), Error> {
        self.send_last(CallOutcome::Error, body.into()).await
    }

    /// Answers that the call was given up.
    pub async fn cancelled(mut self) -> Result<(), Error> {
        self.answered = true;
        self.send_answer(CallOutcome::Cancelled, Bytes::new()).await
    }

    /// What is too large was not sent: the caller learns that there is no answer when the call is dropped.
    async fn send_last(mut self, outcome: CallOutcome, body: Bytes) -> Result<(), Error> {
        self.answered = true;
        let sent = self.send_answer(outcome, body).await;
        self.answered = !matches!(sent, Err(Error::TooLarge { .. }));
        sent
    }

    async fn send_answer(&self, outcome: CallOutcome, body: Bytes) -> Result<(), Error> {
        let answer = Answer { call: self.call, outcome, body };
        self.client.command("answer", Request::Answer(answer)).await
    }
}

impl Drop for IncomingCall {
    fn drop(&mut self) {
        let shared = self.client.shared();
        let mut in_flight = shared.in_flight();
        in_flight.listeners.answered(self.call);
        if !self.answered && !self.is_dropped() {
            let answer = Answer { call: self.call, outcome: CallOutcome::Cancelled, body: Bytes::new() };
            in_flight.send_without_reply(&Request::Answer(answer));
            drop(in_flight);
            shared.wake.notify_one();
        }
    }
}

/// Broadcasts that this program receives.
#[derive(Debug)]
pub struct BroadcastReceiver {
    client: Client,
    heard: mpsc::Receiver<Broadcast>,
    missed: Arc<AtomicU64>,
}

/// A broadcast or a gap, as a [`BroadcastReceiver`] returns it.
#[derive(Clone, Debug, PartialEq)]
pub enum ReceivedBroadcast {
    /// The next broadcast.
    Broadcast(Broadcast),
    /// This many broadcasts were dropped because the program took them too slowly.
    Missed(u64),
}

impl BroadcastReceiver {
    /// Returns the next broadcast; `None` if the client was closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<ReceivedBroadcast> {
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => self.heard.recv().await.map(ReceivedBroadcast::Broadcast),
            missed => Some(ReceivedBroadcast::Missed(missed)),
        }
    }
}

impl Drop for BroadcastReceiver {
    fn drop(&mut self) {
        self.heard.close();
        self.client.unlisten();
    }
}
