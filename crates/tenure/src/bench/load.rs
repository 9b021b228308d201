//! The load, the same for every measured broker.

/// How many submit at the same time.
pub(crate) const PRODUCERS: usize = 4;
/// How many submissions each has unanswered.
pub(crate) const WINDOW: usize = 128;
/// How many tasks travel in one frame, where the protocol has frames of many: four of them fill the window.
pub(crate) const FRAME_TASKS: usize = 32;
/// How many workers there are in a full cycle.
pub(crate) const WORKERS: usize = 8;
/// How many tasks each worker holds.
pub(crate) const HELD: usize = 32;
pub(crate) const BODY_BYTES: usize = 256;
/// The result that a worker reports.
pub(crate) const RESULT: &[u8] = b"done";
/// The name of the queue.
pub(crate) const QUEUE: &str = "bench";

/// A body of the right size that starts with its number, so that every one is different.
pub(crate) fn body(number: u64) -> Vec<u8> {
    let mut body = format!("{number:020} ").into_bytes();
    body.resize(BODY_BYTES, b'x');
    body
}

/// How many of `count` the producer at `index` submits.
pub(crate) fn share(count: usize, index: usize, of: usize) -> usize {
    count / of + usize::from(index < count % of)
}

/// The value below which `percent` of all lie. The values are sorted.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * percent / 100.0).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!((0..4).map(|index| share(10, index, 4)).collect::<Vec<_>>(), [3, 3, 2, 2]);
    }

    #[test]
    fn bodies_differ_and_have_their_size() {
        assert_eq!(body(7).len(), BODY_BYTES);
        assert_ne!(body(7), body(8));
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values = [1.0, 2.0, 3.0, 4.0, 100.0];
        assert_eq!((percentile(&values, 50.0), percentile(&values, 99.0)), (3.0, 100.0));
        assert!(percentile(&[], 50.0).is_nan());
    }
}
