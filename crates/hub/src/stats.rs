//! Statistics of the broker for people and monitoring systems. The hub is the only writer, so they are plain
//! numbers.

use std::fmt::Write as _;

use tenure_engine::StateName;
use tenure_engine::command::Gauges;
use tenure_engine::event::{EventData, LostReason, Next};
use tenure_topics::ShardStats;

use crate::counters::DoorCount;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub started_at_millis: u64,
    pub sessions: u64,
    pub requests_total: u64,
    pub refusals_total: u64,
    pub stale_refusals_total: u64,
    pub submitted_total: u64,
    pub assigned_total: u64,
    pub started_total: u64,
    pub completed_total: u64,
    pub failed_total: u64,
    pub cancelled_total: u64,
    pub leases_expired_total: u64,
    /// Indexed by [`LostReason::ALL`].
    pub crashes_total: [u64; 6],
    pub taken_back_total: u64,
    pub quarantines_total: u64,
    pub backlogs_total: u64,
    pub batches_total: u64,
    pub synced_bytes_total: u64,
    pub sync_seconds_total: f64,
    pub sync_seconds_max: f64,
    pub watches_lagged_total: u64,
    pub calls_total: u64,
    pub broadcasts_total: u64,
    pub turns_total: u64,
    pub journal_bytes: u64,
    pub disk_free_bytes: u64,
    pub disk_full: bool,
    pub recovery_seconds: f64,
    pub tasks: u64,
    /// Tasks by state, the oldest waiting task, limits in use.
    pub gauges: Gauges,
    pub oldest_ready_seconds: f64,
    pub last_event: u64,
    /// The counters of the doors.
    pub doors: Vec<DoorCount>,
    /// Pub/sub, as of the reaper's last round.
    pub topics: ShardStats,
    /// `always`, `interval` or `os`: how durable an acknowledgement is.
    pub sync: &'static str,
}

impl Stats {
    /// Counts an event when it is decided.
    pub(crate) fn count(&mut self, kind: &EventData) {
        match kind {
            EventData::Submitted { .. } => self.submitted_total += 1,
            EventData::Assigned { .. } => self.assigned_total += 1,
            EventData::Started { .. } => self.started_total += 1,
            EventData::Completed { .. } => self.completed_total += 1,
            EventData::Failed { next: Next::Failed, .. } | EventData::Expired => self.failed_total += 1,
            EventData::Cancelled { .. } => self.cancelled_total += 1,
            EventData::TakenBack { .. } => self.taken_back_total += 1,
            EventData::WorkerQuarantined { .. } => self.quarantines_total += 1,
            EventData::QueueBacklog { .. } => self.backlogs_total += 1,
            EventData::Crashed { reason, next, .. } => {
                self.leases_expired_total += u64::from(*reason != LostReason::WorkerSaidSo);
                let index =
                    LostReason::ALL.iter().position(|known| known == reason).expect("every reason is listed");
                self.crashes_total[index] += 1;
                self.failed_total += u64::from(*next == Next::Failed);
                self.cancelled_total += u64::from(*next == Next::Cancelled);
            }
            _ => {}
        }
    }

    /// In Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, labels: &str, value: f64| {
            if !text.contains(&format!("# TYPE tenure_{name} ")) {
                let _ = writeln!(text, "# TYPE tenure_{name} {kind}");
            }
            let _ = writeln!(text, "tenure_{name}{labels} {value}");
        };
        for (name, value) in [
            ("requests_total", self.requests_total),
            ("refusals_total", self.refusals_total),
            ("stale_refusals_total", self.stale_refusals_total),
            ("tasks_submitted_total", self.submitted_total),
            ("tasks_assigned_total", self.assigned_total),
            ("tasks_started_total", self.started_total),
            ("tasks_completed_total", self.completed_total),
            ("tasks_failed_total", self.failed_total),
            ("tasks_cancelled_total", self.cancelled_total),
            ("leases_expired_total", self.leases_expired_total),
            ("tasks_taken_back_total", self.taken_back_total),
            ("worker_quarantines_total", self.quarantines_total),
            ("queue_backlogs_total", self.backlogs_total),
            ("journal_batches_total", self.batches_total),
            ("journal_synced_bytes_total", self.synced_bytes_total),
            ("watches_lagged_total", self.watches_lagged_total),
            ("calls_total", self.calls_total),
            ("broadcasts_total", self.broadcasts_total),
            ("topic_messages_published_total", self.topics.published),
            ("topic_messages_queued_total", self.topics.enqueued),
            ("topic_messages_delivered_total", self.topics.delivered),
        ] {
            line(name, "counter", "", value as f64);
        }
        for (reason, count) in LostReason::ALL.iter().zip(self.crashes_total) {
            line(
                "worker_crashes_total",
                "counter",
                &format!("{{reason=\"{}\"}}", reason.as_str()),
                count as f64,
            );
        }
        for DoorCount { door, what, count } in &self.doors {
            line("door_total", "counter", &format!("{{door={door:?},what={what:?}}}"), *count as f64);
        }
        let dropped = &self.topics.dropped;
        for (reason, count) in [
            ("oldest", dropped.oldest),
            ("newest", dropped.newest),
            ("ttl", dropped.ttl),
            ("disconnect", dropped.disconnect),
        ] {
            line(
                "topic_messages_dropped_total",
                "counter",
                &format!("{{reason=\"{reason}\"}}"),
                count as f64,
            );
        }
        line("journal_sync_seconds_total", "counter", "", self.sync_seconds_total);
        for (state, count) in StateName::ALL.iter().zip(self.gauges.by_state) {
            line("tasks_by_state", "gauge", &format!("{{state=\"{state}\"}}"), count as f64);
        }
        for (namespace, limit) in &self.gauges.limits {
            let labels = format!("{{namespace={namespace:?},tag={:?}}}", limit.tag);
            line("tag_in_use", "gauge", &labels, f64::from(limit.in_use));
        }
        for (namespace, limit) in &self.gauges.limits {
            let labels = format!("{{namespace={namespace:?},tag={:?}}}", limit.tag);
            line("tag_limit", "gauge", &labels, f64::from(limit.limit.unwrap_or(u32::MAX)));
        }
        line("oldest_ready_seconds", "gauge", "", self.oldest_ready_seconds);
        for (name, value) in [
            ("journal_sync_seconds_max", self.sync_seconds_max),
            ("recovery_seconds", self.recovery_seconds),
            ("sessions", self.sessions as f64),
            ("tasks", self.tasks as f64),
            ("queues_with_backlog", self.gauges.backlogged_queues as f64),
            ("last_event", self.last_event as f64),
            ("journal_bytes", self.journal_bytes as f64),
            ("disk_free_bytes", self.disk_free_bytes as f64),
            ("topics", self.topics.topics as f64),
            ("topic_subscriptions", self.topics.subscriptions as f64),
            ("topic_subscriptions_paused", self.topics.paused as f64),
            ("topic_kept_messages", self.topics.kept_messages as f64),
            ("topic_kept_bytes", self.topics.kept_bytes as f64),
            ("topic_retained_bytes", self.topics.retained_bytes as f64),
            ("disk_full", f64::from(u8::from(self.disk_full))),
        ] {
            line(name, "gauge", "", value);
        }
        text
    }
}
