//! How long the last appends took, for the status.

use std::sync::Mutex;
use std::time::Duration;

const KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Latencies {
    inner: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    micros: Vec<u32>,
    next: usize,
    total: u64,
}

/// A summary of the last appends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendLatency {
    /// How many appends there were since the start of the process.
    pub appends: u64,
    /// The median.
    pub p50: Duration,
    /// The time that one append in a hundred exceeds.
    pub p99: Duration,
}

impl Latencies {
    pub(crate) fn add(&self, took: Duration) {
        let mut ring = self.inner.lock().expect("no holder of the lock panics");
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if ring.micros.len() < KEPT {
            ring.micros.push(micros);
        } else {
            let next = ring.next;
            ring.micros[next] = micros;
        }
        ring.next = (ring.next + 1) % KEPT;
        ring.total += 1;
    }

    pub(crate) fn summary(&self) -> AppendLatency {
        let (mut micros, appends) = {
            let ring = self.inner.lock().expect("no holder of the lock panics");
            (ring.micros.clone(), ring.total)
        };
        if micros.is_empty() {
            return AppendLatency::default();
        }
        micros.sort_unstable();
        let at = |percent: usize| Duration::from_micros(micros[(micros.len() - 1) * percent / 100].into());
        AppendLatency { appends, p50: at(50), p99: at(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_of_the_last_appends() {
        let latencies = Latencies::default();
        assert_eq!(latencies.summary(), AppendLatency::default());
        for millis in 0..2_000 {
            latencies.add(Duration::from_millis(millis));
        }
        let AppendLatency { appends, p50, p99 } = latencies.summary();
        assert_eq!(appends, 2_000);
        assert!((1_480..1_495).contains(&p50.as_millis()), "{p50:?}");
        assert!((1_980..2_000).contains(&p99.as_millis()), "{p99:?}");
    }
}
