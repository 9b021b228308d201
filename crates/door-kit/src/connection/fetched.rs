//! Bytes that were fetched for some of the deliveries of a batch, each for its own.

use std::collections::VecDeque;

use bytes::Bytes;
use tenure_hub::words::Refusal;

/// What was read. A delivery may change what the next ones need, so the place of each is kept: bytes that their own
/// delivery does not want any more must not reach another.
#[derive(Debug, Default)]
pub(super) struct Fetched(VecDeque<(usize, Result<Bytes, Refusal>)>);

impl Fetched {
    /// `bytes` were read for the deliveries at these places, in the same order.
    pub(super) fn new(places: Vec<usize>, bytes: Vec<Result<Bytes, Refusal>>) -> Fetched {
        Fetched(places.into_iter().zip(bytes).collect())
    }

    /// The bytes for the delivery at this place. Places are asked for in their order.
    pub(super) fn take(&mut self, place: usize) -> Option<Result<Bytes, Refusal>> {
        self.0.pop_front_if(|(of, _)| *of == place).map(|(_, bytes)| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delivery_gets_its_own_bytes_even_if_another_does_not_take_any() {
        let mut fetched =
            Fetched::new(vec![0, 2, 3], vec![Ok("zero".into()), Ok("two".into()), Ok("three".into())]);
        let taken: Vec<Option<Bytes>> =
            (0..5).map(|place| fetched.take(place).and_then(Result::ok)).collect();
        assert_eq!(taken, [Some("zero".into()), None, Some("two".into()), Some("three".into()), None]);
    }
}
