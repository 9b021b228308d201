//! Sessions with the hub: single requests over pooled sessions, and longer conversations with one of their own.

mod access;
mod feed;
mod listening;
mod pool;
mod stats;
mod waiting;
mod watching;
mod worker;
mod worker_table;

pub(crate) use access::HubAccess;
pub(crate) use feed::FeedTable;
pub(crate) use listening::EventListener;
pub(crate) use pool::SessionPool;
pub(crate) use stats::ask_stats;
pub(crate) use waiting::wait;
pub(crate) use watching::{EventWatch, WatchItem};
pub(crate) use worker::{AbandonedFetch, Delivered, HttpWorker, WorkerUpdate};
pub(crate) use worker_table::WorkerTable;
