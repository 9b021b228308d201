//! Histograms: counts of observations by upper bound, as monitoring systems read them.

/// Bounds for the times of tasks, in seconds: from a moment to a week.
pub(crate) const TASK_SECONDS: &[f64] =
    &[0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];
/// Bounds for one sync of the disk, in seconds.
pub(crate) const SYNC_SECONDS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
/// Bounds for the bytes of one sync.
pub(crate) const BATCH_BYTES: &[f64] =
    &[256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// Counts of values by size, for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.counts[index] += 1;
        self.sum += value;
    }

    /// Each bound with the number of observations up to it; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let mut total = 0;
        bounds.zip(&self.counts).map(move |(bound, count)| {
            total += count;
            (bound, total)
        })
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new(TASK_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_counts_for_every_bound_that_it_does_not_exceed() {
        let mut histogram = Histogram::new(&[1.0, 5.0]);
        for value in [0.5, 1.0, 3.0, 7.0] {
            histogram.observe(value);
        }
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative, [(1.0, 2), (5.0, 3), (f64::INFINITY, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 11.5));
    }
}
