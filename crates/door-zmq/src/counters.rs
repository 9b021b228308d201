//! What the door drops, by reason. A peer that speaks nonsense gets no answer, but it is counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Counts of one door. Reasons are constant words, so the table stays small.
#[derive(Debug, Default)]
pub struct Counters {
    dropped: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    /// Something was dropped.
    pub fn count(&self, reason: &'static str) {
        tracing::debug!(reason, "zmq message dropped");
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += 1;
    }

    /// How often this was dropped.
    pub fn dropped(&self, reason: &str) -> u64 {
        let dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.get(reason).copied().unwrap_or_default()
    }

    /// In Prometheus' text format, with the name of the door.
    pub fn render(&self, door: &str) -> String {
        let mut text = String::new();
        for (reason, count) in self.dropped.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "tenure_zmq_dropped_total{{door=\"{door}\",reason=\"{reason}\"}} {count}");
        }
        text
    }
}
