//! The simulator: the real engine, the real hub logic and the real store, in a world where time, disk and network are
//! simulated and everything follows from one seed.
//!
//! A world (`world.rs`) is a queue of scheduled events. Clients and workers talk to the broker over links that
//! delay and break; the broker's process and power fail at any write; the promise checker (`promises.rs`) records
//! what was promised and inspects the broker again and again. A seed that breaks a promise replays exactly. Topics
//! (`topics/`), stored keys (`keys.rs`), schedules (`schedules.rs`), reconciliation (`reconciling.rs`), hooks (`hooks.rs`) and a group of brokers that share a replicated journal (`cluster/`) have
//! their own worlds with the same seed.

#![warn(clippy::too_many_lines)]

mod arrays;
mod broker;
mod client;
pub mod cluster;
mod hooks;
mod keys;
mod order;
mod plan;
mod promises;
mod random;
mod rates;
mod reconciling;
mod restarting;
mod running_attempts;
mod schedules;
pub mod topics;
mod traces;
mod worker;
mod world;

pub use plan::{Mutation, Plan};
pub use world::{Outcome, live};

/// Simulates the world of one seed, and its topics, which share nothing with the tasks but the store.
pub fn run(seed: u64, mutation: Mutation) -> Outcome {
    let mut outcome = live(Plan::from_seed(seed, mutation));
    let topics = run_topics(seed, mutation);
    outcome.broken.extend(topics.broken);
    outcome.restarts += topics.restarts;
    outcome.messages = topics.messages;
    outcome.deliveries = topics.deliveries;
    outcome
}

/// Simulates a group of three brokers on a replicated journal. A restart is a takeover.
pub fn run_cluster(seed: u64, _: Mutation) -> Outcome {
    let cluster::ClusterOutcome { broken, tasks, happenings, takeovers, .. } = cluster::live(seed, None);
    Outcome { broken, tasks, happenings, restarts: takeovers, ..Outcome::default() }
}

/// Simulates the topics of one seed alone.
pub fn run_topics(seed: u64, mutation: Mutation) -> Outcome {
    let topics::TopicsOutcome { broken, messages, restarts, deliveries } = topics::live(seed, mutation);
    Outcome { broken, messages, restarts, deliveries, ..Outcome::default() }
}
