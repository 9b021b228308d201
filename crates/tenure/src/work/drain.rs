//! How long a draining worker waits, and what for. Running tasks have no time limit; a broker that does not accept
//! the last results has one.

use std::time::{Duration, Instant};

use tenure_client::WorkerStats;

/// How long results may take before it is worth a word.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// How often the message is repeated.
const TOLD_EVERY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Drain {
    timeout: Duration,
    /// Since when nothing runs and results are left.
    since: Option<Instant>,
    told_at: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    /// Report that this many results wait, and for how much longer.
    Tell {
        results: u64,
        left: Duration,
    },
    GiveUp,
}

impl Drain {
    pub(crate) fn new(timeout: Duration) -> Drain {
        Drain { timeout, since: None, told_at: None }
    }

    pub(crate) fn step(&mut self, now: Instant, stats: &WorkerStats) -> Step {
        if stats.running > 0 || stats.unreported == 0 {
            self.since = None;
            self.told_at = None;
            return Step::Wait;
        }
        let waited = now.duration_since(*self.since.get_or_insert(now));
        if waited >= self.timeout {
            return Step::GiveUp;
        }
        let is_due = match self.told_at {
            None => waited >= TOLD_AFTER,
            Some(told_at) => now.duration_since(told_at) >= TOLD_EVERY,
        };
        if !is_due {
            return Step::Wait;
        }
        self.told_at = Some(now);
        Step::Tell { results: stats.unreported, left: self.timeout - waited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_that_the_broker_does_not_take_run_out_of_time() {
        let (mut drain, begun) = (Drain::new(Duration::from_secs(60)), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut running = WorkerStats::default();
        (running.running, running.unreported) = (1, 1);
        let mut waiting = WorkerStats::default();
        waiting.unreported = 2;
        assert_eq!(drain.step(at(0), &running), Step::Wait);
        assert_eq!(drain.step(at(1_000), &running), Step::Wait, "a task may take days");
        assert_eq!(drain.step(at(1_000), &waiting), Step::Wait);
        let left = Duration::from_secs(58);
        assert_eq!(drain.step(at(1_002), &waiting), Step::Tell { results: 2, left });
        assert_eq!(drain.step(at(1_031), &waiting), Step::Wait);
        let left = Duration::from_secs(28);
        assert_eq!(drain.step(at(1_032), &waiting), Step::Tell { results: 2, left });
        assert_eq!(drain.step(at(1_060), &waiting), Step::GiveUp);
        assert_eq!(drain.step(at(1_061), &WorkerStats::default()), Step::Wait, "the broker has taken them");
        assert_eq!(drain.step(at(2_000), &waiting), Step::Wait, "the time begins again");
    }
}
