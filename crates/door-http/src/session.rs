//! Sessions with the hub: single requests over pooled sessions, and longer conversations with one of their own.

mod access;
mod pool;
mod waiting;
mod watching;
mod worker;
mod worker_table;

pub(crate) use access::HubAccess;
pub(crate) use pool::SessionPool;
pub(crate) use waiting::wait;
pub(crate) use watching::{EventWatch, WatchItem};
pub(crate) use worker::{AbandonedFetch, HttpWorker, WorkerNews};
pub(crate) use worker_table::WorkerTable;
