//! The statistics in Prometheus' text format, with help texts.
//!
//! [`Stats::render`] has the figures of the whole broker; [`Stats::metrics`] adds those of each queue, and histograms.
//! Queues are bounded: the statistics hold the largest ones, and the sum of the others.

use std::fmt::Write as _;

use tenure_engine::command::LimitInfo;
use tenure_engine::event::LostReason;
use tenure_engine::{Name, StateName};

use crate::counters::DoorCount;
use crate::histogram::Histogram;
use crate::queue_flow::QueueFlow;
use crate::stats::{AttemptOutcome, QueueFigures, Stats};

/// The waits for which the slots of a queue are shown, in seconds.
const WAITS: [u64; 3] = [10, 60, 600];
/// How many tags with a limit are shown.
const TAGS_SHOWN_MAX: usize = 500;

impl Stats {
    /// The figures of the broker as a whole.
    pub fn render(&self) -> String {
        let mut out = MetricText::default();
        self.counters(&mut out);
        self.gauges(&mut out);
        self.group(&mut out);
        out.text
    }

    /// All figures, for monitoring systems.
    pub fn metrics(&self) -> String {
        let mut out = MetricText { text: self.render() };
        self.histograms(&mut out);
        self.queues(&mut out);
        out.text
    }

    fn counters(&self, out: &mut MetricText) {
        for (name, help, value) in [
            ("requests_total", "Requests of all sessions.", self.requests_total),
            ("refusals_total", "Requests that the broker refused.", self.refusals_total),
            ("stale_refusals_total", "Reports about attempts that were over.", self.stale_refusals_total),
            ("tasks_submitted_total", "Tasks submitted.", self.submitted_total),
            ("tasks_assigned_total", "Assignments of tasks to workers.", self.assigned_total),
            ("tasks_started_total", "Attempts that a worker started.", self.started_total),
            ("tasks_completed_total", "Tasks that completed.", self.completed_total),
            ("tasks_failed_total", "Tasks that ended as failed.", self.failed_total),
            ("tasks_cancelled_total", "Tasks that ended as cancelled.", self.cancelled_total),
            ("leases_expired_total", "Attempts whose worker was lost.", self.leases_expired_total),
            (
                "tasks_taken_back_total",
                "Assigned tasks that were taken back unstarted.",
                self.taken_back_total,
            ),
            ("worker_quarantines_total", "Quarantines of workers.", self.quarantines_total),
            ("queue_backlogs_total", "Backlogs that queues reported.", self.backlogs_total),
            ("journal_batches_total", "Batches written to the journal.", self.batches_total),
            (
                "journal_synced_bytes_total",
                "Bytes written to the journal and synced.",
                self.synced_bytes_total,
            ),
            ("watches_lagged_total", "Watches that fell behind and read the log.", self.watches_lagged_total),
            ("calls_total", "Calls between peers.", self.calls_total),
            ("broadcasts_total", "Broadcasts between peers.", self.broadcasts_total),
            ("topic_messages_published_total", "Messages published to topics.", self.topics.published),
            ("topic_messages_queued_total", "Messages put into queues of subscribers.", self.topics.enqueued),
            ("topic_messages_delivered_total", "Messages delivered to subscribers.", self.topics.delivered),
        ] {
            out.family(name, "counter", help);
            out.sample(name, &[], value as f64);
        }
        out.family("attempts_total", "counter", "Attempts that are over, by how they ended.");
        for (outcome, count) in AttemptOutcome::ALL.iter().zip(self.attempts_total) {
            out.sample("attempts_total", &[("outcome", outcome.as_str())], count as f64);
        }
        out.family("attempt_crashes_total", "counter", "Attempts that crashed, by reason.");
        for (reason, count) in LostReason::ALL.iter().zip(self.crashes_total) {
            out.sample("attempt_crashes_total", &[("reason", reason.as_str())], count as f64);
        }
        out.family("workers_lost_total", "counter", "Workers that were lost, by reason, whatever they held.");
        for (reason, count) in LostReason::ALL.iter().zip(self.workers_lost_total) {
            out.sample("workers_lost_total", &[("reason", reason.as_str())], count as f64);
        }
        out.family("door_total", "counter", "What doors count: refusals, dropped peers, lost messages.");
        for DoorCount { door, what, count } in &self.doors {
            out.sample("door_total", &[("door", door), ("what", what)], *count as f64);
        }
        out.family("door_connections_total", "counter", "Connections that a door accepted.");
        for door in &self.connections {
            out.sample("door_connections_total", &[("door", door.door)], door.accepted as f64);
        }
        self.hooks(out);
        out.family("topic_messages_dropped_total", "counter", "Messages that subscribers missed, by reason.");
        let dropped = &self.topics.dropped;
        for (reason, count) in [
            ("oldest", dropped.oldest),
            ("newest", dropped.newest),
            ("ttl", dropped.ttl),
            ("disconnect", dropped.disconnect),
        ] {
            out.sample("topic_messages_dropped_total", &[("reason", reason)], count as f64);
        }
        out.family("journal_sync_seconds_total", "counter", "Time spent writing and syncing the journal.");
        out.sample("journal_sync_seconds_total", &[], self.sync_seconds_total);
    }

    /// There are as many hooks as the configuration names.
    fn hooks(&self, out: &mut MetricText) {
        out.family("hook_events_total", "counter", "Events of a hook, by what became of them.");
        for hook in &self.hooks {
            for (outcome, count) in [
                ("delivered", hook.counts.delivered),
                ("given-up", hook.counts.given_up),
                ("missed", hook.counts.missed),
                ("discarded", hook.counts.discarded),
            ] {
                let labels = [("hook", &*hook.about.name), ("outcome", outcome)];
                out.sample("hook_events_total", &labels, count as f64);
            }
        }
        out.family("hook_failed_attempts_total", "counter", "Attempts to deliver an event that failed.");
        for hook in &self.hooks {
            let count = hook.counts.failed_attempts as f64;
            out.sample("hook_failed_attempts_total", &[("hook", &hook.about.name)], count);
        }
        out.family("hook_undelivered", "gauge", "Events that a hook has given up and keeps.");
        for hook in &self.hooks {
            out.sample("hook_undelivered", &[("hook", &hook.about.name)], hook.undelivered as f64);
        }
    }

    fn gauges(&self, out: &mut MetricText) {
        out.family("tasks_by_state", "gauge", "Tasks by state.");
        for (state, count) in StateName::ALL.iter().zip(self.gauges.by_state) {
            out.sample("tasks_by_state", &[("state", state.as_str())], count as f64);
        }
        let tags = self.most_used_tags();
        out.family("tag_in_use", "gauge", "Tasks that count against the limit of a tag now.");
        for (namespace, limit) in &tags {
            out.sample(
                "tag_in_use",
                &[("namespace", namespace), ("tag", &limit.tag)],
                f64::from(limit.in_use),
            );
        }
        out.family("tag_limit", "gauge", "The limit of a tag.");
        for (namespace, limit) in &tags {
            // A tag may have a rate only.
            let Some(value) = limit.limit else { continue };
            out.sample("tag_limit", &[("namespace", namespace), ("tag", &limit.tag)], f64::from(value));
        }
        out.family("door_connections", "gauge", "Open connections of a door.");
        for door in &self.connections {
            out.sample("door_connections", &[("door", door.door)], door.open as f64);
        }
        for (name, help, value) in [
            (
                "oldest_ready_seconds",
                "How long the oldest ready task has been waiting.",
                self.oldest_ready_seconds,
            ),
            ("journal_sync_seconds_max", "The slowest sync since the start.", self.sync_seconds_max),
            ("recovery_seconds", "How long the last recovery took.", self.recovery_seconds),
            ("sessions", "Sessions of peers.", self.sessions as f64),
            ("tasks", "Tasks that the broker keeps, ended ones included.", self.tasks as f64),
            (
                "queues_with_backlog",
                "Queues that have passed a threshold.",
                self.gauges.backlogged_queues as f64,
            ),
            ("last_event", "The number of the last event.", self.last_event as f64),
            ("journal_bytes", "Bytes of the journal on disk.", self.journal_bytes as f64),
            ("topics", "Topics.", self.topics.topics as f64),
            ("topic_subscriptions", "Subscriptions, paused ones included.", self.topics.subscriptions as f64),
            ("topic_subscriptions_paused", "Subscriptions without a stream.", self.topics.paused as f64),
            ("topic_kept_messages", "Messages kept for replay.", self.topics.kept_messages as f64),
            ("topic_kept_bytes", "Bytes of messages kept for replay.", self.topics.kept_bytes as f64),
            ("topic_retained_bytes", "Bytes of retained values.", self.topics.retained_bytes as f64),
            (
                "disk_full",
                "1 if the disk is full and the broker refuses new tasks.",
                f64::from(u8::from(self.disk_full)),
            ),
        ] {
            out.family(name, "gauge", help);
            out.sample(name, &[], value);
        }
        if let Some(free) = self.disk_free_bytes {
            let help = "Free bytes of the disk that holds the data directory.";
            out.family("disk_free_bytes", "gauge", help);
            out.sample("disk_free_bytes", &[], free as f64);
        }
    }

    /// The tags with a limit, those with the most tasks first: at most as many as there are series for.
    fn most_used_tags(&self) -> Vec<&(Name, LimitInfo)> {
        let mut tags: Vec<&(Name, LimitInfo)> = self.gauges.limits.iter().collect();
        tags.sort_by(|(namespace, one), (of_other, other)| {
            other.in_use.cmp(&one.in_use).then_with(|| (namespace, &one.tag).cmp(&(of_other, &other.tag)))
        });
        tags.truncate(TAGS_SHOWN_MAX);
        tags
    }

    /// Nothing for a broker without a group.
    fn group(&self, out: &mut MetricText) {
        let Some(leader) = &self.leader else { return };
        leader.write(self.journal_away, out);
        let name = "group_refilled_bytes_total";
        out.family(name, "counter", "Acknowledged bytes that the group's journal had lost and got back.");
        out.sample(name, &[], self.refilled_bytes_total as f64);
    }

    fn histograms(&self, out: &mut MetricText) {
        out.histogram("task_wait_seconds", "How long tasks were ready before a worker got them.", &self.wait);
        out.histogram("attempt_run_seconds", "How long attempts ran, however they ended.", &self.run);
        let help = "From the submission of a task to its end.";
        out.histogram("task_end_to_end_seconds", help, &self.end_to_end);
        let help = "How long one write and sync of the journal took.";
        out.histogram("journal_sync_seconds", help, &self.sync_seconds);
        out.histogram("journal_batch_bytes", "Bytes that went to disk with one sync.", &self.batch_bytes);
    }

    fn queues(&self, out: &mut MetricText) {
        let gauge =
            |out: &mut MetricText, name: &str, help: &str, value: &dyn Fn(&QueueFigures) -> Option<f64>| {
                out.family(name, "gauge", help);
                for queue in &self.queues {
                    if let Some(value) = value(queue) {
                        out.sample(name, &queue.labels(), value);
                    }
                }
            };
        out.family("queue_tasks", "gauge", "Tasks of a queue by state.");
        for queue in &self.queues {
            for (state, count) in StateName::ALL.iter().zip(queue.by_state) {
                let [namespace, name] = queue.labels();
                out.sample("queue_tasks", &[namespace, name, ("state", state.as_str())], count as f64);
            }
        }
        let help = "Tasks of a queue that are ready: what workers could do now.";
        gauge(out, "queue_backlog", help, &|queue| Some(queue.ready() as f64));
        gauge(
            out,
            "queue_oldest_ready_seconds",
            "How long the oldest ready task of a queue waits.",
            &|queue| Some(queue.oldest_ready_seconds),
        );
        gauge(out, "queue_live_workers", "Live workers that serve a queue.", &|queue| {
            queue.live_workers.map(f64::from)
        });
        gauge(out, "queue_paused", "1 if a queue is paused.", &|queue| {
            queue.paused.map(|paused| f64::from(u8::from(paused)))
        });
        let help = "Tasks that arrive per second, averaged over a minute.";
        gauge(out, "queue_arrival_rate", help, &|queue| queue.arrival_rate);
        gauge(out, "queue_run_seconds", "The average time of the latest attempts of a queue.", &|queue| {
            queue.flow.run_seconds
        });
        out.family(
            "queue_slots_needed",
            "gauge",
            "Slots that would hold the wait of a queue below `wait` seconds.",
        );
        for queue in &self.queues {
            for (wait, needed) in WAITS.iter().zip(queue.slots_needed) {
                let [namespace, name] = queue.labels();
                let wait = wait.to_string();
                out.sample("queue_slots_needed", &[namespace, name, ("wait", &wait)], needed as f64);
            }
        }
        for (name, help, value) in [
            (
                "queue_submitted_total",
                "Tasks submitted to a queue.",
                (|flow| flow.submitted_total) as fn(&QueueFlow) -> u64,
            ),
            ("queue_started_total", "Attempts of a queue that were started.", |flow| flow.started_total),
            ("queue_completed_total", "Tasks of a queue that completed.", |flow| flow.completed_total),
            ("queue_failed_total", "Tasks of a queue that failed.", |flow| flow.failed_total),
            ("queue_cancelled_total", "Tasks of a queue that were cancelled.", |flow| flow.cancelled_total),
        ] {
            out.family(name, "counter", help);
            for queue in &self.queues {
                out.sample(name, &queue.labels(), value(&queue.flow) as f64);
            }
        }
    }
}

/// The waits for which [`QueueFigures::slots_needed`] has a figure.
pub(crate) fn waits() -> [std::time::Duration; WAITS.len()] {
    WAITS.map(std::time::Duration::from_secs)
}

/// Text in Prometheus' format.
#[derive(Default)]
pub(crate) struct MetricText {
    pub(crate) text: String,
}

impl MetricText {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP tenure_{name} {help}\n# TYPE tenure_{name} {kind}\n");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "tenure_{name}");
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        for (bound, count) in histogram.cumulative() {
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            self.sample(&format!("{name}_bucket"), &[("le", &bound)], count as f64);
        }
        self.sample(&format!("{name}_sum"), &[], histogram.sum());
        self.sample(&format!("{name}_count"), &[], histogram.count() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_help_text_and_one_type() {
        let text = Stats::default().metrics();
        let of = |word: &str| {
            let prefix = format!("# {word} ");
            let lines = text.lines().filter_map(move |line| line.strip_prefix(&prefix).map(str::to_owned));
            lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let (help, types) = (of("HELP"), of("TYPE"));
        assert_eq!(help, types);
        let mut once = types.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), types.len(), "a family stands in one place");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            assert!(
                types.iter().any(|family| family == name || Some(&**family) == base),
                "{name} belongs to no family"
            );
        }
    }

    #[test]
    fn a_label_with_quotes_and_line_breaks_stays_one_label() {
        let mut out = MetricText::default();
        out.sample("x", &[("queue", "a\"b\\c\nd")], 1.0);
        assert_eq!(out.text, "tenure_x{queue=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
