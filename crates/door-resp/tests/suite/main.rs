//! The door as its peers see it: stories, transcripts and limits, without sockets where possible.
//!
//! One program for all files: each further one would compile the shared parts and be linked again.

mod anything;
mod backlogs;
mod channels;
mod coming_back;
mod former_broker;
mod generations;
mod impersonation;
mod lives;
mod metadata;
mod names;
mod plans;
mod results;
mod rights;
mod scripts;
mod signs;
mod stories;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod transactions;
mod transcripts_parse;
mod transcripts_pure;
mod verifying;
mod views;
