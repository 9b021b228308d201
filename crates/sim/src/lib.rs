//! The simulator: the real engine, the real hub logic and the real store, in a world where time, disk and network are
//! made up and everything follows from one seed.
//!
//! A world (`world.rs`) is an agenda of things that happen. Clients and workers talk to the broker over links that
//! delay and break; the broker's process and power fail at any write; the promise checker (`promises.rs`) remembers
//! what was promised and looks into the broker again and again. A seed that breaks a promise replays to the letter.
//! Topics (`topics/`) have a world of their own with the same seed.

mod begun;
mod broker;
mod client;
mod keys;
mod plan;
mod promises;
mod random;
pub mod topics;
mod worker;
mod world;

pub use plan::{Mutation, Plan};
pub use world::{Outcome, live};

/// Lives through the world of one seed, and through its topics, which share nothing with the tasks but the store.
pub fn run(seed: u64, mutation: Mutation) -> Outcome {
    let mut outcome = live(Plan::from_seed(seed, mutation));
    let topics = run_topics(seed, mutation);
    outcome.broken.extend(topics.broken);
    outcome.restarts += topics.restarts;
    outcome.messages = topics.messages;
    outcome.deliveries = topics.deliveries;
    outcome
}

/// Lives through the topics of one seed alone.
pub fn run_topics(seed: u64, mutation: Mutation) -> Outcome {
    let topics::TopicsOutcome { broken, messages, restarts, deliveries } = topics::live(seed, mutation);
    Outcome { broken, messages, restarts, deliveries, ..Outcome::default() }
}
