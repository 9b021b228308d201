//! A group of three brokers that share a replicated journal. They die, lose power or their disks, and stop for
//! longer than their lease; the journal is cut off, answers late or not at all, and fails over. Clients and
//! workers are those of the other worlds, and the promises are the same.

mod events;
mod leader;
mod links;
mod member;
mod peers;
mod plan;
mod world;

use tenure_store::ReplicationMutation;

pub use plan::ClusterPlan;

/// The outcome of a world with three brokers.
#[derive(Debug, Default)]
pub struct ClusterOutcome {
    pub broken: Vec<String>,
    pub tasks: usize,
    pub happenings: u64,
    /// How often a broker has taken over.
    pub takeovers: u64,
    /// How often a leader has noticed that it leads no longer.
    pub deposed: u64,
    /// How many acknowledged bytes the journal has lost and got back.
    pub refilled_bytes: u64,
    pub answers: u64,
    /// How many submissions were refused because the journal was away.
    pub refused: usize,
}

/// Simulates one world.
pub fn live(seed: u64, mutation: Option<ReplicationMutation>) -> ClusterOutcome {
    live_with(ClusterPlan::from_seed(seed, mutation))
}

pub fn live_with(plan: ClusterPlan) -> ClusterOutcome {
    world::live(plan)
}
