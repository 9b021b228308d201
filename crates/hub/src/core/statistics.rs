//! The figures of the hub, for all sessions and for one.

use tenure_engine::{SessionId, Timestamp};

use super::Core;
use crate::stats::{QueueFigures, Stats};

impl Core {
    /// The statistics for one session. A session whose key has a namespace sees only that namespace's.
    pub(crate) fn stats_for(&self, now: Timestamp, session: SessionId) -> Stats {
        let grant = self.sessions.get(&session).map(|entry| &entry.principal.grant);
        let Some(namespace) = grant.and_then(|grant| grant.namespace.as_ref()) else {
            return self.stats(now);
        };
        let gauges = self.engine.gauges_of(namespace);
        Stats {
            started_at_millis: self.stats.started_at_millis,
            sync: self.stats.sync,
            disk_full: self.stats.disk_full,
            tasks: gauges.by_state.iter().sum(),
            queues: QueueFigures::all(now, &gauges, &self.flows),
            oldest_ready_seconds: gauges.oldest_ready.map_or(0.0, |oldest| now.since(oldest).as_secs_f64()),
            gauges,
            ..self.flows.total_of(namespace).stats()
        }
    }

    /// The figures now.
    pub fn stats(&self, now: Timestamp) -> Stats {
        let gauges = self.engine.gauges();
        Stats {
            tasks: self.engine.task_count() as u64,
            last_event: self.engine.last_event(),
            queues: QueueFigures::all(now, &gauges, &self.flows),
            connections: self.counters.iter().map(|door| door.connections()).collect(),
            hooks: self.hooks.figures(),
            oldest_ready_seconds: gauges.oldest_ready.map_or(0.0, |oldest| now.since(oldest).as_secs_f64()),
            gauges,
            doors: self.counters.iter().flat_map(|door| door.all()).collect(),
            ..self.stats.clone()
        }
    }
}
