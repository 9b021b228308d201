//! A byte budget that all connections share, for memory that untrusted peers can make the broker hold: unfinished
//! frames, and replies that the peer does not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that a connection may hold before they count against the budget.
pub const FREE_BYTES: usize = 64 << 10;

/// The bytes that all connections together may hold in their buffers.
#[derive(Debug)]
pub struct ByteBudget {
    limit: usize,
    used: AtomicUsize,
}

/// The budget has no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the buffers of all connections have reached their limit of {limit} bytes")]
pub struct Exhausted {
    /// The whole budget.
    pub limit: usize,
}

impl ByteBudget {
    /// A budget of this many bytes.
    pub fn new(limit: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { limit, used: AtomicUsize::new(0) })
    }

    /// The whole budget.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How much of it is in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether most of it is in use.
    pub fn is_short(&self) -> bool {
        self.used() > self.limit - self.limit / 4
    }

    /// Creates the account of one connection.
    pub fn charge(self: &Arc<Self>) -> Charge {
        Charge { budget: Arc::clone(self), held: 0 }
    }
}

/// The share of the budget that one connection holds. Dropping it returns everything.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<ByteBudget>,
    held: usize,
}

impl Charge {
    /// Sets how many bytes the connection holds now. The first [`FREE_BYTES`] are free, so that quiet connections
    /// never touch the budget.
    pub fn set(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        if wanted <= self.held {
            self.budget.used.fetch_sub(self.held - wanted, Ordering::Relaxed);
            self.held = wanted;
            return Ok(());
        }
        let more = wanted - self.held;
        let limit = self.budget.limit;
        let add = |used: usize| used.checked_add(more).filter(|sum| *sum <= limit);
        match self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => {
                self.held = wanted;
                Ok(())
            }
            Err(_) => Err(Exhausted { limit }),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_what_there_is_and_give_it_back() {
        let budget = ByteBudget::new(1000);
        let (mut one, mut other) = (budget.charge(), budget.charge());
        assert_eq!(one.set(FREE_BYTES), Ok(()));
        assert_eq!(budget.used(), 0, "quiet connections are free");
        assert_eq!(one.set(FREE_BYTES + 700), Ok(()));
        assert!(!budget.is_short());
        assert_eq!(other.set(FREE_BYTES + 301), Err(Exhausted { limit: 1000 }));
        assert_eq!(other.set(FREE_BYTES + 300), Ok(()));
        assert!(budget.is_short());
        assert_eq!(one.set(FREE_BYTES + 100), Ok(()));
        assert_eq!(budget.used(), 400);
        drop((one, other));
        assert_eq!(budget.used(), 0);
    }
}
