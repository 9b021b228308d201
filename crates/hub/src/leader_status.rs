//! The status of the leader of a group and of the other members, for people and monitoring systems. The program
//! around the hub sets it about once a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::MetricText;

/// The leader of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderStatus {
    /// The group.
    pub group: String,
    /// This member.
    pub name: String,
    /// The number of its leadership.
    pub epoch: u64,
    /// For how long it has led.
    pub led_for: Duration,
    /// Why it took over.
    pub led_why: String,
    /// How many appends there were, and how long the last ones took.
    pub appends: u64,
    /// The median.
    pub append_p50: Duration,
    /// The slowest hundredth.
    pub append_p99: Duration,
    /// The other members that were heard lately.
    pub standbys: Vec<StandbyLag>,
}

/// How far a standby is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandbyLag {
    /// Its name.
    pub name: String,
    /// How many bytes of the journal of tasks its copy lacks.
    pub lag_bytes: u64,
}

/// The status that is known without the hub, which waits while the replicated journal is away.
#[derive(Debug, Default)]
pub(crate) struct LeaderStatusCell {
    status: Mutex<Option<LeaderStatus>>,
    journal_away: AtomicBool,
}

impl LeaderStatusCell {
    pub(crate) fn set(&self, status: LeaderStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    pub(crate) fn get(&self) -> Option<LeaderStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_journal_away(&self, is_away: bool) {
        self.journal_away.store(is_away, Ordering::Release);
    }

    pub(crate) fn is_journal_away(&self) -> bool {
        self.journal_away.load(Ordering::Acquire)
    }
}

impl LeaderStatus {
    /// The figures of a leader whose journal is away: its hub gives no others.
    pub fn metrics(&self, is_journal_away: bool) -> String {
        let mut out = MetricText::default();
        self.write(is_journal_away, &mut out);
        out.text
    }

    pub(crate) fn write(&self, is_journal_away: bool, out: &mut MetricText) {
        for (name, kind, help, value) in [
            ("group_leading", "gauge", "Whether the broker leads its group.", 1.0),
            ("group_epoch", "gauge", "The number of the last leadership of the group.", self.epoch as f64),
            ("group_led_seconds", "gauge", "For how long the broker has led.", self.led_for.as_secs_f64()),
            (
                "group_journal_away",
                "gauge",
                "1 if the group's journal does not answer and nothing is acknowledged.",
                f64::from(u8::from(is_journal_away)),
            ),
            ("group_appends_total", "counter", "Appends to the group's journal.", self.appends as f64),
        ] {
            out.family(name, kind, help);
            out.sample(name, &[], value);
        }
        out.family("group_takeover", "gauge", "The last takeover, and why the broker leads.");
        let labels = [("group", &*self.group), ("member", &*self.name), ("why", &*self.led_why)];
        out.sample("group_takeover", &labels, 1.0);
        out.family("group_append_seconds", "gauge", "How long the last appends took, by quantile.");
        for (quantile, span) in [("0.5", self.append_p50), ("0.99", self.append_p99)] {
            out.sample("group_append_seconds", &[("quantile", quantile)], span.as_secs_f64());
        }
        out.family("group_standby_lag_bytes", "gauge", "Bytes of the journal that a standby has not copied.");
        for standby in &self.standbys {
            out.sample("group_standby_lag_bytes", &[("member", &standby.name)], standby.lag_bytes as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_shows_who_it_is_why_it_leads_and_how_far_the_others_are() {
        let status = LeaderStatus {
            group: "g1".to_owned(),
            name: "b1".to_owned(),
            epoch: 7,
            led_why: "the lease had ended".to_owned(),
            append_p99: Duration::from_millis(2),
            standbys: vec![StandbyLag { name: "b2".to_owned(), lag_bytes: 12 }],
            ..LeaderStatus::default()
        };
        let text = status.metrics(true);
        for line in [
            "tenure_group_leading 1",
            "tenure_group_epoch 7",
            "tenure_group_journal_away 1",
            "tenure_group_takeover{group=\"g1\",member=\"b1\",why=\"the lease had ended\"} 1",
            "tenure_group_append_seconds{quantile=\"0.99\"} 0.002",
            "tenure_group_standby_lag_bytes{member=\"b2\"} 12",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
    }
}
