//! A byte budget that the connections of a door share: what one holds, others cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What every connection may hold without asking. It is little, so that small messages always get through.
pub(super) const FREE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// How many connections wait for others to give something back.
    waiting: AtomicUsize,
}

/// What one connection holds of a budget. Dropping it gives everything back.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    charged: usize,
    is_waiting: bool,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0), waiting: AtomicUsize::new(0) })
    }

    pub(super) fn share(self: &Arc<Budget>) -> Share {
        Share { budget: Arc::clone(self), charged: 0, is_waiting: false }
    }

    /// Whether connections wait because others hold too much.
    pub(super) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Share {
    /// Makes the share large enough for so many bytes if the budget has room for them; if not, it waits for room.
    pub(super) fn try_grow(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE_BYTES).max(self.charged);
        let more = wanted - self.charged;
        let fits = |used: usize| Some(used + more).filter(|used| more == 0 || *used <= self.budget.limit);
        let grown = self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if grown {
            self.charged = wanted;
        }
        self.wait(!grown);
        grown
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn wait(&mut self, wait: bool) {
        match (std::mem::replace(&mut self.is_waiting, wait), wait) {
            (false, true) => self.budget.waiting.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.budget.waiting.fetch_sub(1, Ordering::Relaxed),
            (false, false) | (true, true) => 0,
        };
    }

    /// So many bytes are held, whether there is room for them or not.
    pub(super) fn set(&mut self, bytes: usize) {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        if wanted > self.charged {
            self.budget.used.fetch_add(wanted - self.charged, Ordering::Relaxed);
        } else {
            self.budget.used.fetch_sub(self.charged - wanted, Ordering::Relaxed);
        }
        self.charged = wanted;
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        self.wait(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_connection_holds_others_cannot_until_it_goes() {
        let budget = Budget::new(1_000);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.try_grow(FREE_BYTES + 800));
        assert!(other.try_grow(FREE_BYTES), "a little is free");
        assert!(!other.try_grow(FREE_BYTES + 201));
        assert!(other.is_waiting() && budget.is_short());
        assert!(other.try_grow(FREE_BYTES + 200));
        assert!(!budget.is_short());
        one.set(FREE_BYTES + 100);
        assert!(other.try_grow(FREE_BYTES + 900));
        drop(other);
        one.set(FREE_BYTES + 5_000);
        assert!(!budget.share().try_grow(FREE_BYTES + 1), "what is there counts, even over the limit");
        drop(one);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
