//! The state of a client behind its lock: requests on the wire, requests that wait for a connection, and listeners.
//! Pure except for the reply channels; time is an argument.
//!
//! This file decides which requests are repeated. When the connection breaks, a request that is safe to repeat
//! waits for the next connection; any other fails with [`Error::UnknownOutcome`], because the broker may have
//! executed it.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tenure_wire::frame::LENGTH_BYTES;
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::words::CallOutcome;
use tenure_wire::{Reply, Request, decode_to_broker, encode_request, split_frames};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::error::Error;
use crate::listeners::Listeners;
use crate::table::Table;

/// Receives the reply.
pub(crate) type ReplySender = oneshot::Sender<Result<Reply, Error>>;

/// Whether a request may be sent again when it is unknown whether the broker executed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Safe,
    Unsafe,
}

/// A request, with the name that errors use for it.
#[derive(Debug)]
pub(crate) struct OutgoingRequest {
    pub(crate) verb: &'static str,
    pub(crate) request: Request,
    pub(crate) repeat: Repeat,
}

#[derive(Debug, Default)]
pub(crate) struct InFlightTable {
    /// Frames that the connection has not accepted yet.
    pub(crate) out: BytesMut,
    pub(crate) listeners: Listeners,
    connected: bool,
    open: Table<Open>,
    /// Not sent, in order.
    waiting: VecDeque<WaitingRequest>,
    /// Set once, never cleared.
    closed: bool,
}

/// A request on the wire.
#[derive(Debug)]
struct Open {
    verb: &'static str,
    /// Kept if it may be sent again.
    again: Option<Request>,
    answer: ReplySender,
    permit: Option<OwnedSemaphorePermit>,
}

/// A request that waits for a connection.
#[derive(Debug)]
struct WaitingRequest {
    question: OutgoingRequest,
    answer: ReplySender,
    permit: Option<OwnedSemaphorePermit>,
    since: Instant,
}

impl InFlightTable {
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Accepts a request. Returns its number if it is already on the wire.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        question: OutgoingRequest,
        answer: ReplySender,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<u64> {
        if self.closed {
            // A caller that has dropped its receiver does not need the error.
            let _ = answer.send(Err(Error::Closed));
            return None;
        }
        let waiting = WaitingRequest { question, answer, permit, since: now };
        if self.connected {
            return self.send(waiting);
        }
        self.waiting.push_back(waiting);
        None
    }

    /// Sends a request that needs no reply. Does nothing without a connection.
    pub(crate) fn send_without_reply(&mut self, request: &Request) {
        if self.connected {
            encode_request(&mut self.out, 0, request);
        }
    }

    /// A connection is up: registers the listeners again, then sends the waiting requests.
    pub(crate) fn connected(&mut self) {
        self.connected = true;
        self.out.clear();
        for request in self.listeners.restore_requests() {
            self.send_without_reply(&request);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.send(waiting);
        }
    }

    /// The connection is gone.
    pub(crate) fn disconnected(&mut self, now: Instant, why: &str) {
        self.connected = false;
        let mut unsent = self.take_unsent();
        self.listeners.disconnected();
        for (number, open) in self.open.drain().into_iter().rev() {
            let Open { verb, again, answer, permit } = open;
            let repeat = if again.is_some() { Repeat::Safe } else { Repeat::Unsafe };
            match again.or_else(|| unsent.remove(&number)) {
                Some(request) => {
                    let question = OutgoingRequest { verb, request, repeat };
                    self.waiting.push_front(WaitingRequest { question, answer, permit, since: now });
                }
                None => drop(answer.send(Err(Error::UnknownOutcome { verb, why: why.into() }))),
            }
        }
    }

    /// Requests that the connection never accepted. The broker cannot have executed them, so the next connection may
    /// send them.
    fn take_unsent(&mut self) -> HashMap<u64, Request> {
        let mut out = std::mem::take(&mut self.out);
        let frames = split_frames(&mut out, usize::MAX).expect("what was encoded here has a length");
        frames
            .map(|frame| decode_to_broker(&frame).expect("what was encoded here is understood"))
            .map(|unsent| (unsent.number, unsent.request))
            .collect()
    }

    pub(crate) fn reply(&mut self, number: u64, reply: Reply) {
        // The receiver has accepted the call and answers later: the number stays open.
        if let Reply::Answered(answered) = &reply
            && answered.outcome == CallOutcome::Pending
        {
            return;
        }
        let Some(open) = self.open.remove(number) else {
            if let Reply::Refused(refusal) = reply {
                tracing::warn!(%refusal, "the broker refused a request that expects no reply");
            }
            return;
        };
        drop(open.permit);
        let answer = match reply {
            Reply::Refused(refusal) => Err(Error::Refused(refusal)),
            reply => Ok(reply),
        };
        let _ = open.answer.send(answer);
    }

    /// When the first waiting request reaches its connect timeout.
    pub(crate) fn next_expiry(&self, connect_timeout: Duration) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.since + connect_timeout)
    }

    /// Fails requests that have waited for a connection for too long.
    pub(crate) fn expire(&mut self, now: Instant, connect_timeout: Duration, error: &Error) {
        let waiting = std::mem::take(&mut self.waiting);
        for waiting in waiting {
            if waiting.since + connect_timeout <= now {
                let _ = waiting.answer.send(Err(error.clone()));
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    /// Fails all requests that wait for a connection.
    pub(crate) fn fail_waiting(&mut self, error: &Error) {
        for waiting in self.waiting.drain(..) {
            let _ = waiting.answer.send(Err(error.clone()));
        }
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.connected = false;
        self.fail_waiting(&Error::Closed);
        for (_, open) in self.open.drain() {
            let _ = open.answer.send(Err(Error::Closed));
        }
        self.listeners.close();
    }

    fn send(&mut self, waiting: WaitingRequest) -> Option<u64> {
        let WaitingRequest { question: OutgoingRequest { verb, request, repeat }, answer, permit, since: _ } =
            waiting;
        // The request is encoded first and then stored, so it is never copied.
        match self.open.insert(Open { verb, again: None, answer, permit }) {
            Ok(number) => {
                if let Err(error) = self.encode(number, &request) {
                    if let Some(open) = self.open.remove(number) {
                        let _ = open.answer.send(Err(error));
                    }
                    return None;
                }
                if repeat == Repeat::Safe
                    && let Some(open) = self.open.get_mut(number)
                {
                    open.again = Some(request);
                }
                Some(number)
            }
            Err(open) => {
                let _ = open.answer.send(Err(Error::BadSetting {
                    what: "requests in flight",
                    why: "are too many: wait for replies".into(),
                }));
                None
            }
        }
    }

    /// Adds a request to what goes out. The broker closes the connection on one that is too large, and every other
    /// request of this client would suffer.
    fn encode(&mut self, number: u64, request: &Request) -> Result<(), Error> {
        let before = self.out.len();
        encode_request(&mut self.out, number, request);
        let bytes = self.out.len() - before - LENGTH_BYTES;
        if bytes > FRAME_BYTES_MAX {
            self.out.truncate(before);
            return Err(Error::TooLarge { what: "the request", bytes, limit: FRAME_BYTES_MAX });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenure_wire::request::OneTask;
    use tenure_wire::{Code, Refusal, TaskId};
    use tokio::sync::oneshot::Receiver;

    use super::*;

    const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

    fn asked(
        in_flight: &mut InFlightTable,
        now: Instant,
        request: Request,
        repeat: Repeat,
    ) -> (Option<u64>, Receiver<Result<Reply, Error>>) {
        let (answer, answered) = oneshot::channel();
        (in_flight.ask(now, OutgoingRequest { verb: "release", request, repeat }, answer, None), answered)
    }

    fn release() -> Request {
        Request::Release(OneTask { task: TaskId::default() })
    }

    #[test]
    fn a_request_waits_for_a_connection_and_then_goes_out() {
        let mut in_flight = InFlightTable::default();
        let (number, mut answered) = asked(&mut in_flight, Instant::now(), release(), Repeat::Unsafe);
        assert_eq!(number, None);
        assert!(in_flight.out.is_empty());
        in_flight.connected();
        assert!(!in_flight.out.is_empty());
        assert!(answered.try_recv().is_err());
    }

    #[test]
    fn a_lost_connection_repeats_what_is_safe_and_admits_what_it_does_not_know() {
        let now = Instant::now();
        let mut in_flight = InFlightTable::default();
        in_flight.connected();
        let (_, mut query) = asked(&mut in_flight, now, Request::Queues, Repeat::Safe);
        let (_, mut command) = asked(&mut in_flight, now, release(), Repeat::Unsafe);
        let first = in_flight.out.split();
        let (_, mut unsent) = asked(&mut in_flight, now, release(), Repeat::Unsafe);
        in_flight.disconnected(now, "connection reset");
        assert!(matches!(command.try_recv().unwrap(), Err(Error::UnknownOutcome { verb: "release", .. })));
        assert!(query.try_recv().is_err(), "the query still waits");
        assert!(unsent.try_recv().is_err(), "what the connection never took still waits");
        in_flight.connected();
        assert_eq!(in_flight.out.len(), first.len(), "the query is sent again, and what was not sent before");
    }

    #[test]
    fn a_request_that_is_too_large_is_refused_here_and_leaves_the_others_alone() {
        let now = Instant::now();
        let mut in_flight = InFlightTable::default();
        let body = vec![0; FRAME_BYTES_MAX].into();
        let call = tenure_wire::address::Call { to: "calculator".into(), body, timeout_ms: None };
        in_flight.connected();
        let (_, mut query) = asked(&mut in_flight, now, Request::Queues, Repeat::Safe);
        let sent = in_flight.out.clone();
        let (number, mut large) = asked(&mut in_flight, now, Request::Call(call), Repeat::Unsafe);
        assert_eq!(number, None);
        assert!(matches!(large.try_recv().unwrap(), Err(Error::TooLarge { limit: FRAME_BYTES_MAX, .. })));
        assert_eq!(in_flight.out, sent);
        assert!(query.try_recv().is_err(), "the query still waits for its reply");
    }

    #[test]
    fn repeated_requests_keep_their_order() {
        let now = Instant::now();
        let mut in_flight = InFlightTable::default();
        in_flight.connected();
        let (_, _a) = asked(&mut in_flight, now, Request::Queues, Repeat::Safe);
        let (_, _b) = asked(&mut in_flight, now, Request::Workers, Repeat::Safe);
        in_flight.disconnected(now, "gone");
        let (_, _c) = asked(&mut in_flight, now, Request::Limits, Repeat::Safe);
        in_flight.connected();
        let frames = split_frames(&mut in_flight.out, 1 << 20).unwrap();
        let kinds: Vec<Request> = frames.map(|frame| decode_to_broker(&frame).unwrap().request).collect();
        assert_eq!(kinds, [Request::Queues, Request::Workers, Request::Limits]);
    }

    #[test]
    fn each_request_times_out_on_its_own() {
        let start = Instant::now();
        let mut in_flight = InFlightTable::default();
        let (_, mut early) = asked(&mut in_flight, start, Request::Queues, Repeat::Safe);
        let (_, mut late) =
            asked(&mut in_flight, start + Duration::from_secs(10), Request::Queues, Repeat::Safe);
        assert_eq!(in_flight.next_expiry(CONNECT_TIMEOUT), Some(start + CONNECT_TIMEOUT));
        in_flight.expire(start + CONNECT_TIMEOUT, CONNECT_TIMEOUT, &Error::Closed);
        assert!(early.try_recv().unwrap().is_err());
        assert!(late.try_recv().is_err());
        assert_eq!(
            in_flight.next_expiry(CONNECT_TIMEOUT),
            Some(start + Duration::from_secs(10) + CONNECT_TIMEOUT)
        );
    }

    #[test]
    fn a_pending_call_keeps_its_number_until_the_answer() {
        let mut in_flight = InFlightTable::default();
        in_flight.connected();
        let (number, mut answered) = asked(&mut in_flight, Instant::now(), Request::Ping, Repeat::Unsafe);
        let number = number.unwrap();
        let reply =
            |outcome| Reply::Answered(tenure_wire::address::Answered { outcome, body: bytes::Bytes::new() });
        in_flight.reply(number, reply(CallOutcome::Pending));
        assert!(answered.try_recv().is_err());
        in_flight.reply(number, reply(CallOutcome::Result));
        assert!(answered.try_recv().unwrap().is_ok());
        assert!(!in_flight.has_open());
    }

    #[test]
    fn a_closed_in_flight_table_answers_all_requests_and_takes_no_more() {
        let now = Instant::now();
        let mut in_flight = InFlightTable::default();
        in_flight.connected();
        let (_, mut open) = asked(&mut in_flight, now, Request::Queues, Repeat::Safe);
        in_flight.close();
        assert!(matches!(open.try_recv().unwrap(), Err(Error::Closed)));
        let (_, mut late) = asked(&mut in_flight, now, Request::Queues, Repeat::Safe);
        assert!(matches!(late.try_recv().unwrap(), Err(Error::Closed)));
        in_flight.reply(0, Reply::Refused(Box::new(Refusal::new(Code::Full, "full"))));
    }
}
