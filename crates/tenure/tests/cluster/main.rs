//! A group of brokers, the real binary, on a real PostgreSQL: who leads, what is kept, and what each fault does to it.
//! The servers are started by the tests themselves; without PostgreSQL the tests say so and skip.
//!
//! `long.rs` and `figures.rs` run with `cargo xtask test cluster`, `patroni.rs` with `cargo xtask test patroni`; the others
//! are part of every run.

mod backup;
mod figures;
mod groups;
mod letting_go;
mod load;
mod long;
mod moving_logs;
mod outage;
mod patroni;
mod redis;
mod reloading;
mod short;
mod stage;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "shared with the stories of the command line")]
mod support;
mod upgrade;
