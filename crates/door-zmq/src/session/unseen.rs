//! Whether somewhere a worker of READY / PING / PONG may compute what it was given on a connection that is gone.
//!
//! Its socket connects again by itself, and then nothing tells it from a worker that has just begun, until it says that it
//! is free or brings a result.

use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by all workers of one door. Once marked it stays so: such a worker may compute for days, or be dead.
#[derive(Debug, Default)]
pub struct Unseen(AtomicBool);

impl Unseen {
    pub fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
