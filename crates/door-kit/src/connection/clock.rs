//! The deadlines of one connection.

use std::time::Duration;

use tenure_hub::words::Timestamp;

use crate::settings::DoorSettings;

/// How long a connection stays open after the broker has said goodbye, to send what is left.
pub(super) const GOODBYE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct ConnectionClock {
    /// How long a peer may leave sent data unread.
    read_within: Duration,
    /// How long an unfinished frame may wait for its next byte.
    frame_within: Duration,
    /// Deadline for the login.
    login_by: Timestamp,
    /// Nothing is sent or read before this.
    hold_until: Option<Timestamp>,
    /// When the connection ends in any case: the broker has said goodbye.
    ends_at: Option<Timestamp>,
    /// Since when the peer has read nothing of the unsent data.
    unread_since: Option<Timestamp>,
    /// Since when an unfinished frame has received no byte, while the loop was reading.
    unfinished_since: Option<Timestamp>,
    /// The peer has logged in.
    is_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The connection has to end.
    End,
    /// The peer has not logged in in time.
    Login,
}

impl ConnectionClock {
    pub(super) fn new(settings: &DoorSettings, now: Timestamp) -> ConnectionClock {
        ConnectionClock {
            read_within: settings.read_within,
            frame_within: settings.frame_within,
            login_by: now + settings.login_within,
            hold_until: None,
            ends_at: None,
            unread_since: None,
            unfinished_since: None,
            is_known: false,
        }
    }

    pub(super) fn set_login_by(&mut self, login_by: Timestamp) {
        self.login_by = login_by;
    }

    /// The peer has sent something.
    pub(super) fn bytes_arrived(&mut self) {
        self.unfinished_since = None;
    }

    /// Records whether the peer is in the middle of a frame that the loop reads, and whether it has logged in.
    pub(super) fn note_expectations(
        &mut self,
        is_halfway: bool,
        is_known: bool,
        now: impl FnOnce() -> Timestamp,
    ) {
        self.is_known = is_known;
        if is_halfway {
            self.unfinished_since.get_or_insert_with(now);
        } else {
            self.unfinished_since = None;
        }
    }

    /// The peer has read a part of the unsent data.
    pub(super) fn has_read_some(&mut self, now: Timestamp) {
        self.unread_since = Some(now);
    }

    pub(super) fn has_read_all(&mut self) {
        self.unread_since = None;
    }

    /// Data waits for the peer to read it.
    pub(super) fn has_unsent(&mut self, now: impl FnOnce() -> Timestamp) {
        self.unread_since.get_or_insert_with(now);
    }

    pub(super) fn hold(&mut self, now: Timestamp, wait: Duration) {
        self.hold_until = Some(now + wait);
    }

    pub(super) fn is_held(&self) -> bool {
        self.hold_until.is_some()
    }

    pub(super) fn start_closing(&mut self, now: Timestamp) {
        self.ends_at.get_or_insert(now + GOODBYE);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.ends_at.is_some()
    }

    pub(super) fn next_deadline(&self, of_protocol: Option<Timestamp>) -> Option<Timestamp> {
        let slow = self.unread_since.map(|since| since + self.read_within);
        let unfinished = self.unfinished_since.map(|since| since + self.frame_within);
        let login = (!self.is_known).then_some(self.login_by);
        [slow, unfinished, login, self.hold_until, self.ends_at, of_protocol].into_iter().flatten().min()
    }

    /// Returns the deadline that has passed.
    pub(super) fn ring(&mut self, now: Timestamp) -> Option<Due> {
        if self.hold_until.is_some_and(|until| until <= now) {
            self.hold_until = None;
            // The peer could not read what was held back.
            self.unread_since = self.unread_since.map(|_| now);
        }
        let is_slow = self.unread_since.is_some_and(|since| since + self.read_within <= now);
        let is_unfinished = self.unfinished_since.is_some_and(|since| since + self.frame_within <= now);
        if is_slow || is_unfinished || self.ends_at.is_some_and(|at| at <= now) {
            return Some(Due::End);
        }
        (!self.is_known && self.login_by <= now).then_some(Due::Login)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    /// The clock of a peer that has logged in.
    fn clock() -> ConnectionClock {
        let settings = DoorSettings {
            login_within: Duration::from_secs(10),
            frame_within: Duration::from_secs(30),
            read_within: Duration::from_secs(60),
            ..DoorSettings::default()
        };
        let mut clock = ConnectionClock::new(&settings, NOW);
        clock.note_expectations(false, true, || NOW);
        clock
    }

    fn after(seconds: u64) -> Timestamp {
        NOW + Duration::from_secs(seconds)
    }

    #[test]
    fn a_peer_that_has_nothing_to_do_has_no_deadline() {
        assert_eq!(clock().next_deadline(None), None);
        assert_eq!(clock().ring(after(3600)), None);
    }

    #[test]
    fn a_slow_reader_has_sixty_seconds_from_when_it_last_took_something() {
        let mut clock = clock();
        clock.has_unsent(|| after(100));
        clock.has_unsent(|| after(120));
        assert_eq!(clock.next_deadline(None), Some(after(160)));
        clock.has_read_some(after(150));
        assert_eq!(clock.ring(after(209)), None);
        assert_eq!(clock.ring(after(210)), Some(Due::End));
        clock.has_read_all();
        assert_eq!(clock.ring(after(3600)), None);
    }

    #[test]
    fn a_peer_has_ten_seconds_to_log_in() {
        let mut clock = clock();
        clock.note_expectations(false, false, || NOW);
        assert_eq!(clock.next_deadline(Some(after(20))), Some(after(10)));
        assert_eq!((clock.ring(after(9)), clock.ring(after(10))), (None, Some(Due::Login)));
    }

    #[test]
    fn an_unfinished_frame_has_thirty_seconds_while_the_peer_is_listened_to() {
        let mut clock = clock();
        clock.note_expectations(true, true, || after(5));
        clock.note_expectations(true, true, || after(20));
        assert_eq!((clock.ring(after(34)), clock.ring(after(35))), (None, Some(Due::End)));
        clock.bytes_arrived();
        clock.note_expectations(true, true, || after(30));
        assert_eq!(clock.ring(after(59)), None, "a byte came");
        // It waits for the answer to a command before this one.
        clock.note_expectations(false, true, || after(59));
        clock.note_expectations(true, true, || after(100));
        assert_eq!((clock.ring(after(129)), clock.ring(after(130))), (None, Some(Due::End)));
    }

    #[test]
    fn what_is_held_back_is_not_unread() {
        let mut clock = clock();
        clock.has_unsent(|| NOW);
        clock.hold(NOW, Duration::from_secs(60));
        assert_eq!(clock.ring(after(60)), None);
        assert!(!clock.is_held());
        assert_eq!(clock.ring(after(120)), Some(Due::End));
    }

    #[test]
    fn a_goodbye_ends_the_connection_soon() {
        let mut clock = clock();
        clock.start_closing(NOW);
        clock.start_closing(after(1));
        assert_eq!(clock.next_deadline(None), Some(NOW + GOODBYE));
        assert_eq!(clock.ring(NOW + GOODBYE), Some(Due::End));
    }
}
