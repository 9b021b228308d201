//! Evidence: what a door knows about whether its worker has a task that was sent to it.
//!
//! Protocols with pulling workers often have no message for "I have it". The door concludes it from what the worker
//! sends, and from how long it is silent.

use std::time::Duration;

use tenure_hub::words::Timestamp;

/// A worker that received a whole task and is silent for this long is working on it.
pub const UNREAD_FOR: Duration = Duration::from_secs(2);
/// A worker that behaves as if it did not have a task has this long to mention it.
pub const MENTION_WITHIN: Duration = Duration::from_secs(5);

/// What is known about one attempt that a worker may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// When the task was sent to the worker.
    pub since: Timestamp,
    /// It was sent whole: the worker has nothing to fetch.
    pub whole: bool,
    /// The hub has recorded the start. A task that must not run twice starts with its assignment.
    pub started: bool,
    /// The worker has shown that it has the task, or has had enough time to read it.
    pub known: bool,
    /// It dates from before the worker or the broker was away.
    pub recovered: bool,
    /// It must not run twice, so the hub recorded the start with the assignment.
    once: bool,
    /// What a worker that reports nothing yet has sent since it received the task.
    fetching: Fetching,
    /// When the worker first behaved as if it did not have it.
    doubted_since: Option<Timestamp>,
}

/// How far a worker has come with fetching a task. A worker that drops what it fetches when its heartbeat is due sends
/// a heartbeat right after fetching, and then pulls again as if it had nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetching {
    /// It fetched nothing yet, or sent something else since.
    No,
    /// It fetched the task and sent nothing else.
    Fetched,
    /// It fetched the task, and then sent a heartbeat.
    Interrupted,
}

impl Evidence {
    /// The task is sent to the worker now.
    pub fn handed_out(now: Timestamp, whole: bool, started: bool) -> Evidence {
        Evidence {
            since: now,
            whole,
            started,
            known: false,
            recovered: false,
            once: started,
            fetching: Fetching::No,
            doubted_since: None,
        }
    }

    /// The worker had it before it was away. It is unknown whether it still has it.
    pub fn recovered(since: Timestamp, started: bool) -> Evidence {
        Evidence { whole: false, recovered: true, ..Evidence::handed_out(since, false, started) }
    }

    /// The worker cannot have done anything with it that the hub must know.
    pub fn is_unread(&self) -> bool {
        !self.started
    }

    /// It was sent after the last interruption, and the worker has not mentioned it.
    pub fn is_new(&self) -> bool {
        !self.known && !self.recovered
    }

    /// When silence about it means that the worker is working on it.
    pub fn silent_until(&self) -> Option<Timestamp> {
        (self.whole && !self.known && self.doubted_since.is_none()).then(|| self.since + UNREAD_FOR)
    }

    /// When silence about it means that the worker does not have it.
    pub fn unmentioned_until(&self) -> Option<Timestamp> {
        self.doubted_since.filter(|_| !self.known).map(|since| since + MENTION_WITHIN)
    }

    /// Whether it was sent so long ago that the worker must have read it if it reads at all.
    pub fn is_old(&self, now: Timestamp) -> bool {
        self.since + UNREAD_FOR <= now
    }

    /// The worker behaves as if it did not have it.
    pub fn doubt(&mut self, now: Timestamp) {
        if self.started && !self.known {
            self.doubted_since.get_or_insert(now);
        }
    }

    /// The worker fetches the task on the connection over which it received it.
    pub fn fetched(&mut self) {
        self.fetching = Fetching::Fetched;
    }

    /// The worker sends a heartbeat on that connection.
    pub fn heartbeat(&mut self) {
        if self.fetching == Fetching::Fetched {
            self.fetching = Fetching::Interrupted;
        }
    }

    /// The worker reports on the task: it has all of it.
    pub fn reported(&mut self) {
        self.fetching = Fetching::No;
    }

    /// The worker pulls again on that connection. Returns whether its heartbeat has interrupted its fetching, so that
    /// it does not have the task.
    pub fn pulled_again(&mut self, now: Timestamp) -> bool {
        let before = std::mem::replace(&mut self.fetching, Fetching::No);
        before == Fetching::Interrupted && now < self.since + MENTION_WITHIN
    }

    /// The worker did not get hold of what it fetched. A task that must not run twice is doubted, because it might
    /// have started all the same; returns whether the task can be given back.
    pub fn lost(&mut self, now: Timestamp) -> bool {
        if self.once {
            self.known = false;
            self.doubt(now);
        }
        !self.once
    }

    /// The worker has shown that it has the task. Returns whether the worker has returned to a recovered task.
    pub fn confirm_held(&mut self) -> bool {
        !std::mem::replace(&mut self.known, true) && self.recovered && self.started
    }

    /// Marks the task as started. Returns whether that is new to the hub.
    pub fn starts(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn silence_after_a_whole_task_means_work() {
        let mut evidence = Evidence::handed_out(NOW, true, false);
        assert_eq!(evidence.silent_until(), Some(NOW + UNREAD_FOR));
        assert!(evidence.starts() && !evidence.confirm_held());
        assert_eq!((evidence.silent_until(), evidence.unmentioned_until()), (None, None));
        assert_eq!(
            Evidence::handed_out(NOW, false, false).silent_until(),
            None,
            "it has to be fetched first"
        );
    }

    #[test]
    fn silence_after_a_doubt_means_that_the_worker_does_not_have_it() {
        for mut evidence in [Evidence::recovered(NOW, true), Evidence::handed_out(NOW, true, true)] {
            evidence.doubt(NOW + Duration::from_secs(1));
            evidence.doubt(NOW + Duration::from_secs(3));
            assert_eq!(evidence.silent_until(), None);
            assert_eq!(evidence.unmentioned_until(), Some(NOW + Duration::from_secs(1) + MENTION_WITHIN));
            assert_eq!(evidence.confirm_held(), evidence.recovered, "only one from before is a return");
            assert_eq!(evidence.unmentioned_until(), None, "it was mentioned in time");
        }
    }

    #[test]
    fn a_heartbeat_between_fetching_and_pulling_means_that_the_worker_has_nothing() {
        let soon = NOW + Duration::from_secs(1);
        let mut evidence = Evidence::handed_out(NOW, false, false);
        evidence.heartbeat();
        assert!(!evidence.pulled_again(soon), "it fetched nothing");
        evidence.fetched();
        assert!(!evidence.pulled_again(soon), "it pulls ahead");
        evidence.fetched();
        evidence.heartbeat();
        assert!(evidence.clone().pulled_again(soon));
        assert!(!evidence.clone().pulled_again(NOW + MENTION_WITHIN), "it has worked since");
        evidence.reported();
        assert!(!evidence.pulled_again(soon), "it reported");
    }

    #[test]
    fn a_task_that_must_not_run_twice_is_doubted_when_its_fetching_was_interrupted() {
        let mut evidence = Evidence::handed_out(NOW, false, true);
        evidence.confirm_held();
        assert!(!evidence.lost(NOW));
        assert_eq!(evidence.unmentioned_until(), Some(NOW + MENTION_WITHIN));
        assert!(Evidence::handed_out(NOW, false, false).lost(NOW), "any other one goes back");
    }

    #[test]
    fn an_unstarted_task_is_given_back_and_not_doubted() {
        let mut evidence = Evidence::recovered(NOW, false);
        evidence.doubt(NOW);
        assert!(evidence.is_unread() && !evidence.is_new());
        assert_eq!(evidence.unmentioned_until(), None);
        assert!(!evidence.is_old(NOW) && evidence.is_old(NOW + UNREAD_FOR));
    }
}
