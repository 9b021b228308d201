//! Stories of `tenure work`, `tenure demo` and `tenure bench`, each with the real program and real processes.

mod bench;
mod crashing;
mod demo;
mod leaving;
mod placing;
mod plans;
mod printing;
mod running;
mod stage;
mod stopping;
mod supervising;
#[path = "../cli/support.rs"]
#[allow(dead_code, reason = "shared with the stories of the other verbs")]
mod support;
mod taking_over;
mod waiting;
