//! The program as people use it: the real binary, a broker on a free port, a directory of its own.

mod arrays;
mod bulk;
mod config;
mod crowd;
mod descriptors;
mod examples;
mod exits;
mod files;
mod hooks;
mod keys;
mod looking;
mod pages;
mod people;
mod python;
mod reconciling;
mod resources;
mod scheduling;
mod serving;
mod steering;
mod submitting;
mod support;
mod terminal;
mod topics;
mod zero_or_once;
