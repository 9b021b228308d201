//! Calls between peers by address, and broadcasts to everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure_wire::address::{Answer, Answered, Broadcast, Call, Hear, Listen};
use tenure_wire::request::OneNumber;
use tenure_wire::time::millis;
use tenure_wire::words::Outcome;
use tenure_wire::{Name, Reply, Request};
use tokio::sync::mpsc;

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;
use crate::listeners::ArrivedCall;

impl Client {
    /// Asks whoever listens at an address, and waits for the final answer. If nobody listens there, the refusal
    /// `nobody-there` comes at once. Dropping the future tells the receiver that nobody waits any more.
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

    /// Answers calls to these addresses from now on, through reconnects, until the listener is dropped.
    pub async fn listen<N: Into<Name>>(
        &self,
        addresses: impl IntoIterator<Item = N>,
    ) -> Result<Listener, Error> {
        let addresses: Vec<Name> = addresses.into_iter().map(Into::into).collect();
        // Registered here first: a call may come together with the answer.
        let calls = self.shared().in_flight().listeners.listen(addresses.clone());
        let listener = Listener { client: self.clone(), calls };
        match self.ask("listen", Request::Listen(Listen { addresses }), Repeat::Safe).await? {
            Reply::Done => Ok(listener),
            other => Err(unexpected("listen", &other)),
        }
    }

    /// Tells everybody in the namespace who hears this subject. Answers how many that were.
    pub async fn broadcast(&self, subject: impl Into<Name>, body: impl Into<Bytes>) -> Result<u64, Error> {
        let (subject, body) = (Some(subject.into()), body.into());
        self.broadcast_all(Broadcast { subject, body, sender: None, correlation: None }).await
    }

    /// Hears broadcasts from now on, through reconnects, until the ear is dropped. What was said while there was no
    /// connection is not heard.
    pub async fn hear(&self, hear: Hear) -> Result<BroadcastReceiver, Error> {
        let (heard, missed) = self.shared().in_flight().listeners.hear(hear.clone());
        let receiver = BroadcastReceiver { client: self.clone(), heard, missed };
        match self.ask("hear", Request::Hear(hear), Repeat::Safe).await? {
            Reply::Done => Ok(receiver),
            other => Err(unexpected("hear", &other)),
        }
    }

    /// The same with everything that can be said: in whose name, and what the sender wants to find again.
    pub async fn broadcast_all(&self, broadcast: Broadcast) -> Result<u64, Error> {
        match self.ask("broadcast", Request::Broadcast(broadcast), Repeat::Unsafe).await? {
            Reply::Sent(sent) => Ok(sent.receivers),
            other => Err(unexpected("broadcast", &other)),
        }
    }

    /// Takes back at the broker what nobody here listens for any more.
    fn unlisten(&self) {
        let shared = self.shared();
        let mut in_flight = shared.in_flight();
        for request in in_flight.listeners.unlisten() {
            in_flight.tell(&request);
        }
        drop(in_flight);
        shared.wake.notify_one();
    }
}

/// Tells the broker if the caller does not wait any longer.
struct DropCall<'a> {
    client: &'a Client,
    number: Option<u64>,
}

impl Drop for DropCall<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let shared = self.client.shared();
        shared.in_flight().tell(&Request::DropCall(OneNumber { number }));
        shared.wake.notify_one();
    }
}

/// Calls to the addresses that this program listens at.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    calls: mpsc::Receiver<ArrivedCall>,
}

impl Listener {
    /// The next call; nothing if the client was closed. Cancel-safe.
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

/// A call to answer. If it is dropped unanswered, the caller hears that it was given up.
#[derive(Debug)]
pub struct IncomingCall {
    client: Client,
    call: u64,
    pub to: Name,
    /// The caller's identity.
    pub from: Name,
    pub body: Bytes,
    dropped: Arc<AtomicBool>,
    answered: bool,
}

impl IncomingCall {
    /// Whether nobody waits for the answer any more: the caller has given up, or the connection that the call came over
    /// is gone.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Tells the caller that the answer will take a while.
    pub async fn pending(&self) -> Result<(), Error> {
        self.say(Outcome::Pending, Bytes::new()).await
    }

    pub async fn answer(mut self, body: impl Into<Bytes>) -> Result<(), Error> {
        self.answered = true;
        self.say(Outcome::Result, body.into()).await
    }

    /// It could not be done, and why.
    pub async fn error(mut self, body: impl Into<Bytes>) -> Result<(), Error> {
        self.answered = true;
        self.say(Outcome::Error, body.into()).await
    }

    /// It was given up.
    pub async fn cancelled(mut self) -> Result<(), Error> {
        self.answered = true;
        self.say(Outcome::Cancelled, Bytes::new()).await
    }

    async fn say(&self, outcome: Outcome, body: Bytes) -> Result<(), Error> {
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
            let answer = Answer { call: self.call, outcome: Outcome::Cancelled, body: Bytes::new() };
            in_flight.tell(&Request::Answer(answer));
            drop(in_flight);
            shared.wake.notify_one();
        }
    }
}

/// Broadcasts that this program hears.
#[derive(Debug)]
pub struct BroadcastReceiver {
    client: Client,
    heard: mpsc::Receiver<Broadcast>,
    missed: Arc<AtomicU64>,
}

/// What an ear hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Broadcast(Broadcast),
    /// So many broadcasts came faster than they were taken, and are gone.
    Missed(u64),
}

impl BroadcastReceiver {
    /// The next broadcast; nothing if the client was closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => self.heard.recv().await.map(Heard::Broadcast),
            missed => Some(Heard::Missed(missed)),
        }
    }
}

impl Drop for BroadcastReceiver {
    fn drop(&mut self) {
        self.heard.close();
        self.client.unlisten();
    }
}
