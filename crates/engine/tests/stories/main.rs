//! The engine's promises, told as stories: somebody submits, somebody works, something goes wrong, and everybody hears
//! exactly what they should. One file per theme.

mod abandoning;
mod absence;
mod acceptance;
mod any_order;
mod backlogs;
mod broker;
mod cancel_timeouts;
mod checkpoints;
mod dependencies;
mod explaining;
mod families;
mod health;
mod intents;
mod leases;
mod limiting;
mod listing;
mod matching;
mod namespaces;
mod ordering;
mod pages;
mod pulling;
mod queueing;
mod recovery;
mod resources;
mod retention;
mod retrying;
mod scenarios;
mod slot_weights;
mod stalling;
mod submitting;
mod timing;
mod tracing;
mod transitions;
mod unconfirmed_starts;
