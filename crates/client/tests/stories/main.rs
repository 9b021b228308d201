//! Stories of clients and workers with a real broker: hub, store and door, over real sockets on loopback.

mod broker;
mod checkpoints;
mod examples;
mod fake;
mod proxy;
mod reconnecting;
mod talking;
mod topics;
mod verbs;
mod waiting;
mod watching;
mod working;
