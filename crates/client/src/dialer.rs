//! Connects to the first address that answers, in the order and with the delays of the
//! [`Schedule`](crate::schedule::Schedule).

use std::time::Duration;

use tenure_wire::Code;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::error::Error;
use crate::peer::PeerOptions;
use crate::schedule::Schedule;
use crate::worker::{ClockTime, LeaseClock};

/// A connection that ends sooner than this counts as a failed attempt.
const LIVED: Duration = Duration::from_secs(1);
/// How long before the deadline the last attempt starts, whatever the schedule says.
const LAST_TRY: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) peer: PeerOptions,
    schedule: Schedule,
    /// When and at which address the last connection was opened.
    opened: Option<(Instant, usize)>,
    /// For a worker that dies with its lease.
    absence: Option<Absence>,
}

/// Proof that no broker runs: nothing listens at the only address. A broker that starts later gives its workers time to
/// return, so the lease cannot end soon after.
#[derive(Debug)]
struct Absence {
    clock: LeaseClock,
    seen: watch::Sender<ClockTime>,
    /// How often the dialer looks at least.
    every: Duration,
}

impl Dialer {
    pub(crate) fn new(peer: PeerOptions) -> Dialer {
        let schedule = Schedule::new(peer.addresses.len());
        Dialer { peer, schedule, opened: None, absence: None }
    }

    /// Reports each time at which no broker ran, and tries at least this often.
    pub(crate) fn report_absence(
        &mut self,
        clock: LeaseClock,
        every: Duration,
    ) -> watch::Receiver<ClockTime> {
        let (seen, receiver) = watch::channel(ClockTime::default());
        self.absence = Some(Absence { clock, seen, every });
        receiver
    }

    /// Tries until it has a connection, the deadline has passed, or the broker refuses for a reason that waiting does
    /// not change.
    pub(crate) async fn dial(&mut self, deadline: Option<Instant>) -> Result<Connection, Error> {
        let begun = Instant::now();
        self.classify_ended_connection(begun);
        let mut last = Error::lost("not tried yet");
        loop {
            let mut next = self.schedule.next(random());
            if let Some(absence) = &self.absence {
                next.after = next.after.min(absence.every);
            }
            let Some(start) = beginning(Instant::now(), next.after, deadline) else {
                // The caller set the timeout, so the error comes only when it is over.
                if let Some(deadline) = deadline {
                    tokio::time::sleep_until(deadline).await;
                }
                return Err(self.unreachable(begun, &last));
            };
            tokio::time::sleep_until(start).await;
            let address = &self.peer.addresses[next.address];
            // Before the attempt: the broker may start right after it.
            let before = self.absence.as_ref().map(|absence| absence.clock.now());
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
                Ok(Err(error)) if is_temporary(&error) => {
                    if let (Error::NotListening { .. }, Some(absence), Some(before)) =
                        (&error, &self.absence, before)
                        && self.peer.addresses.len() == 1
                    {
                        absence.seen.send_replace(before);
                    }
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

    /// Decides whether the connection that has just ended counts as lost or as a failed attempt.
    fn classify_ended_connection(&mut self, now: Instant) {
        match self.opened.take() {
            Some((since, address)) if now.duration_since(since) >= LIVED => self.schedule.lost(address),
            Some(_) => self.schedule.rejected(),
            None => {}
        }
    }

    fn unreachable(&self, begun: Instant, last: &Error) -> Error {
        Error::Unreachable {
            addresses: self.peer.names().into(),
            waited: round_to_tenths(begun.elapsed()),
            last: last.to_string().into(),
        }
    }
}

/// Returns when the next attempt starts: as scheduled, or just before the deadline if that would be too late. `None`
/// after the last attempt.
fn beginning(now: Instant, after: Duration, deadline: Option<Instant>) -> Option<Instant> {
    let start = now + after;
    let Some(deadline) = deadline else { return Some(start) };
    if start + LAST_TRY <= deadline || (after.is_zero() && now < deadline) {
        return Some(start);
    }
    deadline.checked_sub(LAST_TRY).filter(|last| *last > now)
}

/// Rounds to tenths of a second, for messages.
fn round_to_tenths(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis() / 100 * 100).unwrap_or(u64::MAX))
}

/// Whether a retry can succeed without a change of the request.
pub(crate) fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Lost { .. } | Error::NotListening { .. } => true,
        Error::Refused(refusal) => {
            matches!(refusal.code, Code::Draining | Code::Full | Code::TooSlow | Code::DiskFull)
        }
        _ => false,
    }
}

/// An unpredictable number, for jitter and instance numbers.
pub(crate) fn random() -> u64 {
    // The version and variant bits of the id are fixed; folding the halves onto each other leaves no fixed bit.
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high.rotate_left(32) ^ low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_try_is_made_just_before_the_timeout_and_not_twice() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let deadline = Some(now + second * 5);
        assert_eq!(beginning(now, second, None), Some(now + second));
        assert_eq!(beginning(now, second, deadline), Some(now + second));
        let last = now + second * 5 - LAST_TRY;
        assert_eq!(beginning(now, second * 10, deadline), Some(last));
        assert_eq!(beginning(last, second * 10, deadline), None);
        // A shorter timeout allows one attempt at each address.
        assert_eq!(beginning(now, Duration::ZERO, Some(now + LAST_TRY / 2)), Some(now));
        assert_eq!(beginning(now, second, Some(now + LAST_TRY / 2)), None);
    }

    #[test]
    fn spans_are_told_as_people_do() {
        assert_eq!(round_to_tenths(Duration::from_nanos(5_017_015_600)).as_secs_f64().to_string(), "5");
        assert_eq!(round_to_tenths(Duration::from_millis(299)).as_secs_f64().to_string(), "0.2");
    }
}
