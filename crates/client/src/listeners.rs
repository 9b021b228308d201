//! Listeners for calls and broadcasts in this program. The broker knows them per connection only, so the client
//! registers them again after a reconnect.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure_wire::address::{Broadcast, Called, Hear, Listen};
use tenure_wire::{Name, Request};
use tokio::sync::mpsc;

/// Maximum number of calls that wait for a listener; the client answers further calls with an error at once.
pub const CALLS_WAITING_MAX: usize = 1_024;
/// Maximum number of broadcasts that wait to be taken; further ones are counted as missed.
pub const BROADCASTS_WAITING_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Listeners {
    listeners: Vec<ListenerEntry>,
    receivers: Vec<BroadcastEntry>,
    /// Calls without an answer yet.
    calls: HashMap<u64, Arc<AtomicBool>>,
}

#[derive(Debug)]
struct ListenerEntry {
    addresses: Vec<Name>,
    calls: mpsc::Sender<ArrivedCall>,
}

#[derive(Debug)]
struct BroadcastEntry {
    hear: Hear,
    heard: mpsc::Sender<Broadcast>,
    missed: Arc<AtomicU64>,
}

/// An incoming call, and whether its caller has gone or no longer waits.
#[derive(Debug)]
pub(crate) struct ArrivedCall {
    pub(crate) called: Called,
    pub(crate) dropped: Arc<AtomicBool>,
}

impl Listeners {
    pub(crate) fn listen(&mut self, addresses: Vec<Name>) -> mpsc::Receiver<ArrivedCall> {
        let (calls, arrived) = mpsc::channel(CALLS_WAITING_MAX);
        self.listeners.push(ListenerEntry { addresses, calls });
        arrived
    }

    pub(crate) fn add_receiver(&mut self, hear: Hear) -> (mpsc::Receiver<Broadcast>, Arc<AtomicU64>) {
        let (heard, hearing) = mpsc::channel(BROADCASTS_WAITING_MAX);
        let missed = Arc::new(AtomicU64::new(0));
        self.receivers.push(BroadcastEntry { hear, heard, missed: Arc::clone(&missed) });
        (hearing, missed)
    }

    /// Removes dropped listeners. Returns the requests that unregister them at the broker.
    pub(crate) fn unlisten(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        self.listeners.retain(|entry| {
            let gone = entry.calls.is_closed();
            if gone {
                requests.push(Request::Unlisten(Listen { addresses: entry.addresses.clone() }));
            }
            !gone
        });
        let receivers = self.receivers.len();
        self.receivers.retain(|entry| !entry.heard.is_closed());
        if self.receivers.len() < receivers {
            // `Unhear` ends all subjects, so the remaining ones are registered again.
            requests.push(Request::Unhear);
            requests.extend(self.receivers.iter().map(|entry| Request::Hear(entry.hear.clone())));
        }
        requests
    }

    /// The requests that register all listeners on a new connection.
    pub(crate) fn restore_requests(&mut self) -> Vec<Request> {
        self.unlisten();
        let listens =
            self.listeners.iter().map(|entry| Request::Listen(Listen { addresses: entry.addresses.clone() }));
        let hears = self.receivers.iter().map(|entry| Request::Hear(entry.hear.clone()));
        listens.chain(hears).collect()
    }

    /// A call has arrived. Returns it if no listener can take it.
    pub(crate) fn called(&mut self, called: Called) -> Result<(), Called> {
        let Some(entry) = self.listeners.iter().find(|entry| entry.addresses.contains(&called.to)) else {
            return Err(called);
        };
        let (call, dropped) = (called.call, Arc::new(AtomicBool::new(false)));
        match entry.calls.try_send(ArrivedCall { called, dropped: Arc::clone(&dropped) }) {
            Ok(()) => {
                self.calls.insert(call, dropped);
                Ok(())
            }
            Err(error) => Err(error.into_inner().called),
        }
    }

    /// The caller no longer waits for the answer.
    pub(crate) fn given_up(&mut self, call: u64) {
        if let Some(dropped) = self.calls.remove(&call) {
            dropped.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn answered(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    pub(crate) fn broadcast(&mut self, broadcast: &Broadcast) {
        for entry in &self.receivers {
            let subject = entry.hear.subject.is_none() || entry.hear.subject == broadcast.subject;
            let sender = entry.hear.sender.is_none() || entry.hear.sender == broadcast.sender;
            if subject && sender && entry.heard.try_send(broadcast.clone()).is_err() {
                entry.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Calls end with the connection they came over.
    pub(crate) fn disconnected(&mut self) {
        for (_, dropped) in self.calls.drain() {
            dropped.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn close(&mut self) {
        self.disconnected();
        self.listeners.clear();
        self.receivers.clear();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn call(number: u64, to: &str) -> Called {
        Called { call: number, to: to.into(), from: "ada".into(), body: Bytes::new() }
    }

    #[test]
    fn a_call_reaches_the_listener_of_its_address_and_no_other() {
        let mut listeners = Listeners::default();
        let mut one = listeners.listen(vec!["one".into()]);
        let mut two = listeners.listen(vec!["two".into(), "three".into()]);
        listeners.called(call(1, "three")).unwrap();
        assert!(one.try_recv().is_err());
        assert_eq!(&*two.try_recv().unwrap().called.to, "three");
        assert_eq!(listeners.called(call(2, "four")).unwrap_err().call, 2);
    }

    #[test]
    fn calls_beyond_the_limit_are_given_back() {
        let mut listeners = Listeners::default();
        let _listener = listeners.listen(vec!["one".into()]);
        for number in 0..CALLS_WAITING_MAX as u64 {
            listeners.called(call(number, "one")).unwrap();
        }
        assert!(listeners.called(call(9_999, "one")).is_err());
    }

    #[test]
    fn the_receiver_of_a_call_learns_of_a_lost_connection() {
        let mut listeners = Listeners::default();
        let mut listener = listeners.listen(vec!["one".into()]);
        listeners.called(call(1, "one")).unwrap();
        listeners.called(call(2, "one")).unwrap();
        let (first, second) = (listener.try_recv().unwrap(), listener.try_recv().unwrap());
        listeners.answered(1);
        listeners.disconnected();
        assert!(!first.dropped.load(Ordering::Relaxed) && second.dropped.load(Ordering::Relaxed));
    }

    #[test]
    fn a_new_connection_learns_who_still_listens() {
        let mut listeners = Listeners::default();
        let gone = listeners.listen(vec!["gone".into()]);
        let _here = listeners.listen(vec!["here".into()]);
        let (_receiver, _) = listeners.add_receiver(Hear::default());
        drop(gone);
        let again = listeners.restore_requests();
        assert_eq!(
            again,
            [Request::Listen(Listen { addresses: vec!["here".into()] }), Request::Hear(Hear::default())]
        );
    }

    #[test]
    fn when_one_receiver_is_dropped_the_others_still_receive() {
        let mut listeners = Listeners::default();
        let weather = Hear { subject: Some("weather".into()), sender: None };
        let (gone, _) = listeners.add_receiver(Hear::default());
        let (_receiver, _) = listeners.add_receiver(weather.clone());
        drop(gone);
        assert_eq!(listeners.unlisten(), [Request::Unhear, Request::Hear(weather)]);
        assert_eq!(listeners.unlisten(), []);
    }

    #[test]
    fn a_slow_receiver_knows_how_much_it_missed() {
        let mut listeners = Listeners::default();
        let (mut receiver, missed) =
            listeners.add_receiver(Hear { subject: Some("weather".into()), sender: None });
        let said = |subject: &str| Broadcast {
            subject: Some(subject.into()),
            body: Bytes::new(),
            sender: None,
            correlation: None,
        };
        listeners.broadcast(&said("news"));
        for _ in 0..BROADCASTS_WAITING_MAX + 3 {
            listeners.broadcast(&said("weather"));
        }
        assert_eq!(missed.load(Ordering::Relaxed), 3);
        assert_eq!(receiver.try_recv().unwrap().subject.as_deref(), Some("weather"));
    }
}
