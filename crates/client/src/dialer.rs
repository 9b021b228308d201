//! Connecting until somebody answers: walks the addresses by the [`Schedule`](crate::schedule::Schedule).

use std::time::Duration;

use tenure_wire::Code;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::error::Error;
use crate::peer::Peer;
use crate::schedule::Schedule;

/// A connection that did not even live so long counts as a try that failed.
const LIVED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) peer: Peer,
    schedule: Schedule,
    /// When and at which address the last connection was opened.
    opened: Option<(Instant, usize)>,
}

impl Dialer {
    pub(crate) fn new(peer: Peer) -> Dialer {
        let schedule = Schedule::new(peer.addresses.len());
        Dialer { peer, schedule, opened: None }
    }

    /// Tries until a connection stands, the deadline has passed, or the broker says a no that waiting does not change.
    pub(crate) async fn dial(&mut self, deadline: Option<Instant>) -> Result<Connection, Error> {
        let begun = Instant::now();
        self.look_back(begun);
        let mut last = Error::lost("not tried yet");
        loop {
            let next = self.schedule.next(random());
            let start = Instant::now() + next.after;
            if deadline.is_some_and(|deadline| start >= deadline) {
                return Err(self.unreachable(begun, &last));
            }
            tokio::time::sleep_until(start).await;
            let address = &self.peer.addresses[next.address];
            let opening = Connection::open(address, self.peer.hello());
            let opened = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, opening).await,
                None => Ok(opening.await),
            };
            match opened {
                Ok(Ok(connection)) => {
                    self.opened = Some((Instant::now(), next.address));
                    return Ok(connection);
                }
                Ok(Err(error)) if is_passing(&error) => {
                    tracing::debug!(%address, %error, "no connection yet");
                    last = error;
                }
                Ok(Err(error)) => {
                    self.schedule.rejected();
                    return Err(error);
                }
                Err(_) => return Err(self.unreachable(begun, &Error::lost("no answer in time"))),
            }
        }
    }

    /// Decides whether the connection that has just ended was one.
    fn look_back(&mut self, now: Instant) {
        match self.opened.take() {
            Some((since, address)) if now.duration_since(since) >= LIVED => self.schedule.lost(address),
            Some(_) => self.schedule.rejected(),
            None => {}
        }
    }

    fn unreachable(&self, begun: Instant, last: &Error) -> Error {
        Error::Unreachable {
            addresses: self.peer.names().into(),
            waited: begun.elapsed(),
            last: last.to_string().into(),
        }
    }
}

/// Whether it is worth trying again without changing anything.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Lost { .. } => true,
        Error::Refused(refusal) => {
            matches!(refusal.code, Code::Draining | Code::Full | Code::TooSlow | Code::DiskFull)
        }
        _ => false,
    }
}

/// A number nobody can guess, for jitter and instances.
pub(crate) fn random() -> u64 {
    // The version and variant bits of the id are fixed; folding the halves onto each other leaves no fixed bit.
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high.rotate_left(32) ^ low
}
