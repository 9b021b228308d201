//! Bytes fetched for a batch of deliveries, each assigned to its own delivery.

use std::collections::VecDeque;

use bytes::Bytes;
use tenure_hub::HubRefusal;

/// A delivery may change what later ones need, so each entry has an index: bytes that their delivery no longer needs
/// must not reach another one.
#[derive(Debug, Default)]
pub(super) struct Fetched(VecDeque<(usize, Result<Bytes, HubRefusal>)>);

impl Fetched {
    /// `bytes` belong to the deliveries at these indexes, in the same order.
    pub(super) fn new(places: Vec<usize>, bytes: Vec<Result<Bytes, HubRefusal>>) -> Fetched {
        Fetched(places.into_iter().zip(bytes).collect())
    }

    /// Returns the bytes for the delivery at this index. Callers ask in ascending order.
    pub(super) fn take(&mut self, place: usize) -> Option<Result<Bytes, HubRefusal>> {
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
