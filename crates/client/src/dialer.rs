//! Connects to the first address that answers, in the order and with the delays of the
//! [`ReconnectBackoff`](crate::reconnect_backoff::ReconnectBackoff).

use std::time::Duration;

use tenure_wire::Code;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::Error;
use crate::liveness_timeouts::is_in_group;
use crate::members::{go_elsewhere, go_to_leader};
use crate::peer::PeerOptions;
use crate::reconnect_backoff::ReconnectBackoff;
use crate::worker::{ClockTime, LeaseClock};

/// A connection that ends sooner than this counts as a failed attempt.
const LIVED: Duration = Duration::from_secs(1);
/// How long before the deadline the last attempt starts, whatever the backoff says.
const LAST_TRY: Duration = Duration::from_millis(250);
/// How long one member of a group may take to answer: a frozen one accepts connections, and others may lead.
const MEMBER_WITHIN: Duration = Duration::from_secs(2);
/// How many groups in a row may send the client elsewhere at once. Then it waits between attempts, because the groups do
/// not agree yet.
const HOPS_MAX: u32 = 3;

#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) peer: PeerOptions,
    backoff: ReconnectBackoff,
    /// When and at which address the last connection was opened.
    opened: Option<(Instant, usize)>,
    /// The last broker belongs to a group.
    is_in_group: bool,
    /// Nothing lay between the last connection and the broker.
    was_direct: bool,
    /// For a worker that dies with its lease.
    outage: Option<Outage>,
}

/// Proof that no broker runs: nothing listens at the only address, where the broker itself has listened on this machine.
/// (Where a tunnel has listened, the broker may live.) A broker that starts later gives its workers time to return, so the
/// lease cannot end soon after.
#[derive(Debug)]
struct Outage {
    seen: watch::Sender<ClockTime>,
    /// How often the dialer looks at least.
    every: Duration,
}

impl Dialer {
    pub(crate) fn new(peer: PeerOptions) -> Dialer {
        let backoff = ReconnectBackoff::new(peer.addresses.len());
        Dialer { peer, backoff, opened: None, is_in_group: false, was_direct: false, outage: None }
    }

    /// Reports each time at which no broker ran, and tries at least this often.
    pub(crate) fn report_outage(&mut self, every: Duration) -> watch::Receiver<ClockTime> {
        let (seen, receiver) = watch::channel(ClockTime::default());
        self.outage = Some(Outage { seen, every });
        receiver
    }

    /// Tries until it has a connection, the deadline has passed, or the broker refuses for a reason that waiting does
    /// not change.
    pub(crate) async fn dial(&mut self, deadline: Option<Instant>) -> Result<Connection, Error> {
        let begun = Instant::now();
        self.classify_ended_connection(begun);
        let mut last = Error::lost("not tried yet");
        let mut hops = 0;
        loop {
            let mut next = self.backoff.next(random());
            if let Some(outage) = &self.outage {
                next.after = next.after.min(outage.every);
            }
            let Some(start) = beginning(Instant::now(), next.after, deadline) else {
                // The caller set the timeout, so the error comes only when it is over.
                if let Some(deadline) = deadline {
                    tokio::time::sleep_until(deadline).await;
                }
                return Err(self.unreachable(begun, &last));
            };
            tokio::time::sleep_until(start).await;
            let address = self.peer.addresses[next.address].clone();
            // Before the attempt: the broker may start right after it.
            let before = self.outage.as_ref().map(|_| LeaseClock::Monotonic.now());
            let opening = self.open(&address);
            let opened = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, opening).await,
                None => Ok(opening.await),
            };
            match opened {
                Ok(Ok(connection)) => {
                    let (connection, place) = go_to_leader(&mut self.peer, connection, &address).await;
                    self.backoff.resize(self.peer.addresses.len());
                    self.is_in_group = is_in_group(connection.welcome());
                    self.was_direct = connection.is_direct();
                    self.opened = Some((Instant::now(), place));
                    return Ok(connection);
                }
                Ok(Err(Error::Refused(refusal)))
                    if refusal.code == Code::Elsewhere && !refusal.addresses.is_empty() =>
                {
                    let place = go_elsewhere(&mut self.peer, &address, &refusal.addresses);
                    self.backoff.resize(self.peer.addresses.len());
                    tracing::debug!(%address, %refusal, "another group serves the namespace");
                    if let Some(place) = place.filter(|_| hops < HOPS_MAX) {
                        hops += 1;
                        self.backoff.lost(place);
                    }
                    last = Error::Refused(refusal);
                }
                Ok(Err(error)) if is_temporary(&error) => {
                    if let (Error::NotListening { .. }, Some(outage), Some(before)) =
                        (&error, &self.outage, before)
                        && self.was_direct
                        && self.peer.addresses.len() == 1
                    {
                        outage.seen.send_replace(before);
                    }
                    tracing::debug!(%address, %error, "no connection yet");
                    last = error;
                }
                Ok(Err(error)) => {
                    self.backoff.rejected();
                    return Err(error);
                }
                Err(_) => return Err(self.unreachable(begun, &Error::lost("no answer in time"))),
            }
        }
    }

    async fn open(&self, address: &Address) -> Result<Connection, Error> {
        let opening = Connection::open(address, self.peer.hello());
        if !self.is_in_group || self.peer.addresses.len() == 1 {
            return opening.await;
        }
        let opened = tokio::time::timeout(MEMBER_WITHIN, opening).await;
        opened.unwrap_or_else(|_| Err(Error::lost("the member does not answer")))
    }

    /// Decides whether the connection that has just ended counts as lost or as a failed attempt.
    fn classify_ended_connection(&mut self, now: Instant) {
        match self.opened.take() {
            // The leader of a group is asked last: if it is frozen, another member leads.
            Some((since, address)) if now.duration_since(since) >= LIVED => {
                self.backoff.lost(if self.is_in_group { address + 1 } else { address });
            }
            Some(_) => self.backoff.rejected(),
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
fn round_to_tenths(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis() / 100 * 100).unwrap_or(u64::MAX))
}

/// Whether a retry can succeed without a change of the request.
pub(crate) fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Lost { .. } | Error::NotListening { .. } => true,
        Error::Refused(refusal) => {
            matches!(
                refusal.code,
                Code::Draining
                    | Code::Full
                    | Code::TooSlow
                    | Code::DiskFull
                    | Code::JournalAway
                    | Code::Deposed
                    | Code::Elsewhere
            )
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
    fn times_are_rounded_down_to_tenths() {
        assert_eq!(round_to_tenths(Duration::from_nanos(5_017_015_600)).as_secs_f64().to_string(), "5");
        assert_eq!(round_to_tenths(Duration::from_millis(299)).as_secs_f64().to_string(), "0.2");
    }
}
