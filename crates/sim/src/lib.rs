//! The simulator: the real engine, the real hub logic and the real store, in a world where time, disk and network are
//! made up and everything follows from one seed.
//!
//! A world (`world.rs`) is an agenda of things that happen. Clients and workers talk to the broker over links that delay
//! and break; the broker's process and power fail at any write; the ledger (`ledger.rs`) remembers what was promised and
//! looks into the broker again and again. A seed that breaks a promise replays to the letter.

mod begun;
mod broker;
mod client;
mod keys;
mod ledger;
mod plan;
mod random;
mod worker;
mod world;

pub use plan::{Mutation, Plan};
pub use world::{Outcome, live};

/// Lives through the world of one seed.
pub fn run(seed: u64, mutation: Mutation) -> Outcome {
    live(Plan::from_seed(seed, mutation))
}
