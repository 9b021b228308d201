//! The task behind a client: moves frames between the connection and the table of requests in flight, and reconnects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_wire::address::{Answer, CallGivenUp, Called};
use tenure_wire::words::CallOutcome;
use tenure_wire::{FromBroker, Notice, Request};

use crate::client::{ClientShared, UNSENT_BYTES_MAX};
use crate::connection::Connection;
use crate::dialer::Dialer;
use crate::error::Error;
use crate::in_flight::InFlightTable;
use crate::liveness_timeouts::LivenessTimeouts;

/// How often the driver looks whether the broker still answers.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Runs until the client is closed.
pub(crate) async fn drive(shared: Arc<ClientShared>, mut dialer: Dialer, mut connection: Connection) {
    loop {
        shared.set_welcome(Arc::clone(connection.welcome()));
        shared.in_flight().connected();
        // Writes the waiting requests at once.
        shared.wake.notify_one();
        let why = match run_connection(&shared, &mut connection).await {
            Ok(()) => return,
            Err(error) => error,
        };
        tracing::debug!(%why, "the connection to the broker was lost");
        shared.in_flight().disconnected(Instant::now(), &why.to_string());
        drop(connection);
        connection = match connect_again(&shared, &mut dialer).await {
            Some(connection) => connection,
            None => return,
        };
    }
}

/// Runs until the connection breaks or the client is closed.
async fn run_connection(shared: &ClientShared, connection: &mut Connection) -> Result<(), Error> {
    let mut arrived = Vec::new();
    let mut alive = Liveness::new(Instant::now(), LivenessTimeouts::of(connection.welcome()));
    let mut beat = tokio::time::interval(LOOK_EVERY);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut goodbye = None;
    loop {
        tokio::select! {
            biased;
            turned = connection.turn(&mut arrived) => {
                // The broker's goodbye explains the end better than the I/O error after it.
                turned.map_err(|error| goodbye.take().unwrap_or(error))?;
                alive.bytes_arrived(Instant::now());
            }
            () = shared.wake.notified() => {}
            _ = beat.tick() => alive.check(Instant::now(), connection, shared.in_flight().has_open())?,
        }
        let mut in_flight = shared.in_flight();
        if in_flight.is_closed() {
            return Ok(());
        }
        for message in arrived.drain(..) {
            match message {
                FromBroker::Reply { number, reply } => in_flight.reply(number, reply),
                FromBroker::Notice(Notice::Bye(refusal)) => goodbye = Some(Error::Refused(refusal)),
                FromBroker::Notice(notice) => notified(&mut in_flight, notice),
            }
        }
        // After its goodbye the broker accepts nothing more: unsent requests wait for the next connection.
        if connection.unsent() < UNSENT_BYTES_MAX && !in_flight.out.is_empty() && goodbye.is_none() {
            connection.queue(&mut in_flight.out);
            shared.room.notify_waiters();
        }
    }
}

fn notified(in_flight: &mut InFlightTable, notice: Notice) {
    match notice {
        Notice::Call(called) => {
            if let Err(Called { call, .. }) = in_flight.listeners.called(called) {
                let body =
                    Bytes::from_static(b"the listener has too many waiting calls, or has just stopped");
                let answer = Answer { call, outcome: CallOutcome::Error, body };
                in_flight.send_without_reply(&Request::Answer(answer));
            }
        }
        Notice::CallGivenUp(CallGivenUp { call }) => in_flight.listeners.given_up(call),
        Notice::Broadcast(broadcast) => in_flight.listeners.broadcast(&broadcast),
        // A client is not a worker, and its watches have their own connections.
        other => tracing::debug!(kind = other.kind(), "notice ignored: this client has no use for its kind"),
    }
}

/// Waits for a new connection; `None` if the client was closed meanwhile.
async fn connect_again(shared: &ClientShared, dialer: &mut Dialer) -> Option<Connection> {
    let mut last = Error::lost("the connection was lost");
    loop {
        let dialing = dialer.dial(None);
        tokio::pin!(dialing);
        let refused = loop {
            let expiry = shared.in_flight().next_expiry(shared.connect_timeout);
            let expiry = expiry.unwrap_or_else(|| Instant::now() + shared.connect_timeout);
            tokio::select! {
                biased;
                dialed = &mut dialing => match dialed {
                    Ok(connection) => return Some(connection),
                    Err(error) => break error,
                },
                () = shared.wake.notified() => {
                    if shared.in_flight().is_closed() {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(expiry.into()) => {
                    let gone = Error::Unreachable {
                        addresses: shared.peer.names().into(),
                        waited: shared.connect_timeout,
                        last: last.to_string().into(),
                    };
                    shared.in_flight().expire(Instant::now(), shared.connect_timeout, &gone);
                }
            }
        };
        tracing::warn!(error = %refused, "the broker refused this client's reconnection");
        shared.in_flight().fail_waiting(&refused);
        last = refused;
    }
}

/// Whether the broker still answers. Pure: time is an argument.
#[derive(Debug)]
struct Liveness {
    timeouts: LivenessTimeouts,
    heard: Instant,
    /// When the driver sent a ping that is not answered yet.
    pinged: Option<Instant>,
}

impl Liveness {
    fn new(now: Instant, timeouts: LivenessTimeouts) -> Liveness {
        Liveness { timeouts, heard: now, pinged: None }
    }

    fn bytes_arrived(&mut self, now: Instant) {
        *self = Liveness::new(now, self.timeouts);
    }

    fn check(&mut self, now: Instant, connection: &mut Connection, waiting: bool) -> Result<(), Error> {
        match self.verdict(now, waiting) {
            Verdict::Fine => Ok(()),
            Verdict::Ping => {
                self.pinged = Some(now);
                // No request has this number, so the reply is only a sign of life.
                connection.ask_as(u64::MAX, &Request::Ping);
                Ok(())
            }
            Verdict::Dead => {
                let seconds = self.timeouts.dead_after.as_secs();
                Err(Error::lost(&format!("the broker has not answered a ping for {seconds} s")))
            }
        }
    }

    fn verdict(&self, now: Instant, waiting: bool) -> Verdict {
        match self.pinged {
            Some(pinged) if now.duration_since(pinged) >= self.timeouts.dead_after => Verdict::Dead,
            None if waiting && now.duration_since(self.heard) >= self.timeouts.ping_after => Verdict::Ping,
            _ => Verdict::Fine,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Ping,
    Dead,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_answered_with_a_ping_and_then_with_the_end() {
        let start = Instant::now();
        let hour = Duration::from_secs(3600);
        for timeouts in [LivenessTimeouts::ALONE, LivenessTimeouts::IN_GROUP] {
            let mut alive = Liveness::new(start, timeouts);
            assert_eq!(alive.verdict(start + hour, false), Verdict::Fine, "no request waits");
            assert_eq!(alive.verdict(start + timeouts.ping_after, true), Verdict::Ping);
            alive.pinged = Some(start + hour);
            let soon = start + hour + timeouts.ping_after;
            assert_eq!(alive.verdict(soon, true), Verdict::Fine, "it has time to answer");
            assert_eq!(alive.verdict(start + hour + timeouts.dead_after, true), Verdict::Dead);
            alive.bytes_arrived(start + hour);
            assert_eq!(alive.verdict(start + hour, true), Verdict::Fine);
        }
    }
}
