//! The flow through each queue: arrivals, starts, ends, and how long attempts run. From these follows how many slots
//! a queue needs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use tenure_engine::event::{EventData, EventSubject};
use tenure_engine::record::StateChange;
use tenure_engine::{Event, Name, StateName, TaskState, Timestamp};

use crate::stats::{Stats, index_of};

/// Arrivals are averaged over about this long.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// The weight of the latest run in the average run time.
const RUN_WEIGHT: f64 = 0.1;

/// How many queues are counted. When a broker has seen more, all begin at zero again, as after a restart.
const FLOWS_MAX: usize = 200_000;

/// The flows of all queues.
#[derive(Debug, Default)]
pub(crate) struct QueueFlows {
    /// By namespace and queue: positions in `flows`.
    places: HashMap<(Name, Name), usize, FixedState>,
    flows: Vec<QueueFlow>,
    /// The queue that was counted last. Most events follow another one of the same queue, and the names of
    /// both are the same allocation.
    latest: Option<(Name, Name, usize)>,
}

/// The flow through one queue since the broker started.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueFlow {
    pub submitted_total: u64,
    pub started_total: u64,
    pub completed_total: u64,
    pub failed_total: u64,
    pub cancelled_total: u64,
    /// Attempts that crashed, by the index of their reason.
    pub crashes_total: [u64; 6],
    /// The average time of the latest attempts, if any has ended.
    pub run_seconds: Option<f64>,
    /// Decays with time; divided by the window it is the rate.
    arrivals: f64,
    arrivals_at: Timestamp,
}

impl QueueFlows {
    /// Counts what an event says about the flow of its queue.
    pub(crate) fn count(&mut self, event: &Event) {
        let EventSubject::Task { terms, .. } = &event.about else { return };
        match event.kind {
            EventData::Submitted { .. } => self.submitted(event.at, &terms.namespace, &terms.queue),
            EventData::Started { .. } => self.started(&terms.namespace, &terms.queue),
            EventData::Crashed { reason, .. } => {
                self.flow(&terms.namespace, &terms.queue).crashes_total[index_of(reason)] += 1;
            }
            _ => {}
        }
    }

    fn submitted(&mut self, now: Timestamp, namespace: &Name, queue: &Name) {
        let flow = self.flow(namespace, queue);
        flow.submitted_total += 1;
        flow.arrivals = flow.decayed(now) + 1.0;
        flow.arrivals_at = now;
    }

    pub(crate) fn changed(&mut self, change: &StateChange<'_>) {
        let next = change.next.name();
        let ran = match change.before {
            // An attempt that is suspended has not run its course.
            TaskState::Running(holding) if next != StateName::Suspended => holding.started_at,
            _ => None,
        };
        if ran.is_none() && !next.has_ended() {
            return;
        }
        let flow = self.flow(&change.terms.namespace, &change.terms.queue);
        if let Some(started_at) = ran {
            let seconds = change.now.since(started_at).as_secs_f64();
            let average =
                flow.run_seconds.map_or(seconds, |average| average + RUN_WEIGHT * (seconds - average));
            flow.run_seconds = Some(average);
        }
        match next {
            StateName::Completed => flow.completed_total += 1,
            StateName::Failed => flow.failed_total += 1,
            StateName::Cancelled => flow.cancelled_total += 1,
            StateName::Created
            | StateName::Waiting
            | StateName::Delayed
            | StateName::Ready
            | StateName::Assigned
            | StateName::Running
            | StateName::Suspended
            | StateName::Paused => {}
        }
    }

    fn started(&mut self, namespace: &Name, queue: &Name) {
        self.flow(namespace, queue).started_total += 1;
    }

    pub(crate) fn of(&self, namespace: &Name, queue: &Name) -> QueueFlow {
        let place = self.places.get(&(namespace.clone(), queue.clone()));
        place.and_then(|place| self.flows.get(*place)).cloned().unwrap_or_default()
    }

    /// The counters of all queues together.
    pub(crate) fn total(&self) -> QueueFlow {
        self.total_where(|_| true)
    }

    /// The counters of all queues of a namespace together.
    pub(crate) fn total_of(&self, namespace: &Name) -> QueueFlow {
        self.total_where(|other| other == namespace)
    }

    fn total_where(&self, is_meant: impl Fn(&Name) -> bool) -> QueueFlow {
        let mut total = QueueFlow::default();
        for (_, place) in self.places.iter().filter(|((namespace, _), _)| is_meant(namespace)) {
            let flow = &self.flows[*place];
            total.submitted_total += flow.submitted_total;
            total.started_total += flow.started_total;
            total.completed_total += flow.completed_total;
            total.failed_total += flow.failed_total;
            total.cancelled_total += flow.cancelled_total;
            for (sum, crashes) in total.crashes_total.iter_mut().zip(flow.crashes_total) {
                *sum += crashes;
            }
        }
        total
    }

    fn flow(&mut self, namespace: &Name, queue: &Name) -> &mut QueueFlow {
        let place = match &self.latest {
            Some((latest_namespace, latest_queue, place))
                if Arc::ptr_eq(latest_namespace, namespace) && Arc::ptr_eq(latest_queue, queue) =>
            {
                *place
            }
            _ => self.find_or_add(namespace, queue),
        };
        &mut self.flows[place]
    }

    fn find_or_add(&mut self, namespace: &Name, queue: &Name) -> usize {
        if self.flows.len() >= FLOWS_MAX {
            *self = QueueFlows::default();
        }
        let next = self.flows.len();
        let place = *self.places.entry((namespace.clone(), queue.clone())).or_insert(next);
        if place == next {
            self.flows.push(QueueFlow::default());
        }
        self.latest = Some((namespace.clone(), queue.clone(), place));
        place
    }
}

impl QueueFlow {
    /// The counters as statistics, for peers that see these queues only.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            submitted_total: self.submitted_total,
            started_total: self.started_total,
            completed_total: self.completed_total,
            failed_total: self.failed_total,
            cancelled_total: self.cancelled_total,
            crashes_total: self.crashes_total,
            ..Stats::default()
        }
    }

    /// Takes the counters of a queue out of a sum.
    pub(crate) fn subtract(&mut self, part: &QueueFlow) {
        self.submitted_total = self.submitted_total.saturating_sub(part.submitted_total);
        self.started_total = self.started_total.saturating_sub(part.started_total);
        self.completed_total = self.completed_total.saturating_sub(part.completed_total);
        for (sum, crashes) in self.crashes_total.iter_mut().zip(part.crashes_total) {
            *sum = sum.saturating_sub(crashes);
        }
        self.failed_total = self.failed_total.saturating_sub(part.failed_total);
        self.cancelled_total = self.cancelled_total.saturating_sub(part.cancelled_total);
    }

    fn decayed(&self, now: Timestamp) -> f64 {
        let age = now.since(self.arrivals_at).as_secs_f64() / RATE_WINDOW.as_secs_f64();
        self.arrivals * (-age).exp()
    }

    /// Tasks that arrive per second, averaged over about a minute.
    pub fn arrival_rate(&self, now: Timestamp) -> f64 {
        self.decayed(now) / RATE_WINDOW.as_secs_f64()
    }

    /// How many slots hold the wait of a task below `wait`: those that keep up with the arrivals, and those that work
    /// off what waits within that time. Never more than there are tasks; one for each task while no run time is known.
    pub fn slots_needed(&self, now: Timestamp, ready: u64, held: u64, wait: Duration) -> u64 {
        let tasks = ready + held;
        let Some(run) = self.run_seconds else { return tasks };
        let wait = wait.as_secs_f64().max(0.001);
        let steady = self.arrival_rate(now) * run;
        let backlog = ready as f64 * run / wait;
        // What runs now keeps its slot, whatever the average says.
        let needed = (steady + backlog).ceil().max(held as f64);
        (needed as u64).clamp(u64::from(tasks > 0), tasks.max(steady.ceil() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    #[test]
    fn the_rate_of_arrivals_fades() {
        let mut flows = QueueFlows::default();
        let (namespace, queue): (Name, Name) = ("default".into(), "q".into());
        for _ in 0..60 {
            flows.submitted(NOW, &namespace, &queue);
        }
        let flow = flows.of(&namespace, &queue);
        assert!((flow.arrival_rate(NOW) - 1.0).abs() < 1e-9);
        assert!(flow.arrival_rate(NOW + RATE_WINDOW) < 0.37);
        assert_eq!(flow.submitted_total, 60);
    }

    #[test]
    fn slots_follow_the_backlog_the_run_time_and_the_wait() {
        let flow = QueueFlow { run_seconds: Some(10.0), ..QueueFlow::default() };
        let minute = Duration::from_secs(60);
        assert_eq!(flow.slots_needed(NOW, 0, 0, minute), 0);
        assert_eq!(flow.slots_needed(NOW, 60, 0, minute), 10, "60 tasks of 10 s in 60 s");
        assert_eq!(flow.slots_needed(NOW, 60, 25, minute), 25, "what runs keeps its slot");
        assert_eq!(flow.slots_needed(NOW, 3, 0, Duration::from_secs(1)), 3, "one for each task at most");
        assert_eq!(flow.slots_needed(NOW, 1, 0, Duration::from_secs(3_600)), 1);
        let unknown = QueueFlow::default();
        assert_eq!(unknown.slots_needed(NOW, 7, 2, minute), 9);
    }
}
